"""When the MuJoCo tasks end: Gymnasium's healthy ranges, read from the observation.

Imagination can thus end where the machine would.  Layouts are those of Gymnasium's v5
tasks without absolute positions; only the leading entries are read.  HalfCheetah and
HumanoidStandup never end, and have no row.

An observation says less than the state in two places.  Hopper also ends when a velocity
reaches 100 (observed ones are clipped at ±10), and Ant when anything is not finite.
InvertedDoublePendulum compares the height of its tip at the last stage of MuJoCo's
Runge-Kutta step: about 1e-4 m from where it ends, and up to 1e-2 m where the cart hits
the end of the rail.
"""

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

NextObs = Float[Array, " S"]
Ended = Bool[Array, ""]

ANT_STATE_SIZE = 27  # 13 positions and 14 velocities; contact forces follow
POLE_LENGTH = 0.6  # m, of each of the two poles


def _hopper(next_obs: NextObs) -> Ended:
    """End unless z > 0.7 m, |φ| < 0.2 rad and all else but z within ±100."""
    upright = (next_obs[0] > 0.7) & (jnp.abs(next_obs[1]) < 0.2)
    # The task asks for z < ∞ as well.
    bounded = (next_obs[0] < jnp.inf) & jnp.all(jnp.abs(next_obs[1:]) < 100.0)
    return ~(upright & bounded)


def _walker(next_obs: NextObs) -> Ended:
    """End unless 0.8 m < z < 2 m and |φ| < 1 rad."""
    standing = (next_obs[0] > 0.8) & (next_obs[0] < 2.0)
    return ~(standing & (jnp.abs(next_obs[1]) < 1.0))


def _ant(next_obs: NextObs) -> Ended:
    """End unless 0.2 m ≤ z ≤ 1 m, both ends included, and the state is finite."""
    standing = (next_obs[0] >= 0.2) & (next_obs[0] <= 1.0)
    return ~(standing & jnp.all(jnp.isfinite(next_obs[:ANT_STATE_SIZE])))


def _humanoid(next_obs: NextObs) -> Ended:
    """End unless 1 m < z < 2 m."""
    return ~((next_obs[0] > 1.0) & (next_obs[0] < 2.0))


def _double_pendulum(next_obs: NextObs) -> Ended:
    """End if the tip is at 1 m or below: l·cos φ₁ + l·cos(φ₁ + φ₂) ≤ 1.

    The observation holds x, sin φ₁, sin φ₂, cos φ₁, cos φ₂, …; φ₂ is the angle between
    the poles.
    """
    sin_1, sin_2, cos_1, cos_2 = (next_obs[i] for i in range(1, 5))
    return POLE_LENGTH * (cos_1 + cos_1 * cos_2 - sin_1 * sin_2) <= 1.0


ENDS = {
    "Hopper": _hopper,
    "Walker2d": _walker,
    "Ant": _ant,
    "Humanoid": _humanoid,
    "InvertedDoublePendulum": _double_pendulum,
}
"""Whether the task ends in ``next_obs``, by machine."""
