"""When the MuJoCo tasks end: Gymnasium's healthy ranges, read from the observation.

Each function takes (obs, action, next_obs) of one example and says whether the task
ended in ``next_obs``, so that imagination can end where the machine would.  Layouts are
those of Gymnasium's v5 tasks without absolute positions; only the leading entries are
read, so variants without contact forces or inertias serve as well.  HalfCheetah and
HumanoidStandup never end, and have no row.

An observation says less than the state in two places:

- Hopper also ends when a velocity reaches 100, and Ant when anything is not finite.
  Hopper's observed velocities are clipped at ±10, and neither shows how far it has
  come along x (Ant: and y), so these ends can't be seen there.
- InvertedDoublePendulum compares the height of the tip at the last stage of MuJoCo's
  Runge-Kutta step, not at its end.  The two differ by about 1e-4 m as the pendulum
  falls, and by up to 1e-2 m in a step in which the cart hits the end of the rail.
"""

from collections.abc import Callable

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

Termination = Callable[[Array, Array, Array], Array]

HOPPER_HEIGHT = 0.7  # m
HOPPER_ANGLE = 0.2  # rad
HOPPER_STATE = 100.0  # the largest angle or velocity, rad, m/s, rad/s
WALKER_HEIGHT = (0.8, 2.0)  # m
WALKER_ANGLE = 1.0  # rad
ANT_HEIGHT = (0.2, 1.0)  # m
ANT_STATE_SIZE = 27  # 13 positions and 14 velocities; contact forces follow
HUMANOID_HEIGHT = (1.0, 2.0)  # m
POLE_LENGTH = 0.6  # m, of each of the two poles
TIP_HEIGHT = 1.0  # m


def _hopper(
    obs: Float[Array, " S"], action: Float[Array, " A"], next_obs: Float[Array, " S"]
) -> Bool[Array, ""]:
    """End unless z > 0.7, |φ| < 0.2 and all else but z within ±100."""
    del obs, action
    upright = (next_obs[0] > HOPPER_HEIGHT) & (jnp.abs(next_obs[1]) < HOPPER_ANGLE)
    # The task asks for z < ∞ as well.
    bounded = (next_obs[0] < jnp.inf) & jnp.all(jnp.abs(next_obs[1:]) < HOPPER_STATE)
    return ~(upright & bounded)


def _walker(
    obs: Float[Array, " S"], action: Float[Array, " A"], next_obs: Float[Array, " S"]
) -> Bool[Array, ""]:
    """End unless 0.8 < z < 2 and |φ| < 1."""
    del obs, action
    low, high = WALKER_HEIGHT
    standing = (low < next_obs[0]) & (next_obs[0] < high)
    return ~(standing & (jnp.abs(next_obs[1]) < WALKER_ANGLE))


def _ant(
    obs: Float[Array, " S"], action: Float[Array, " A"], next_obs: Float[Array, " S"]
) -> Bool[Array, ""]:
    """End unless 0.2 ≤ z ≤ 1, both ends included, and the state is finite."""
    del obs, action
    low, high = ANT_HEIGHT
    standing = (low <= next_obs[0]) & (next_obs[0] <= high)
    return ~(standing & jnp.all(jnp.isfinite(next_obs[:ANT_STATE_SIZE])))


def _humanoid(
    obs: Float[Array, " S"], action: Float[Array, " A"], next_obs: Float[Array, " S"]
) -> Bool[Array, ""]:
    """End unless 1 < z < 2."""
    del obs, action
    low, high = HUMANOID_HEIGHT
    return ~((low < next_obs[0]) & (next_obs[0] < high))


def _double_pendulum(
    obs: Float[Array, " S"], action: Float[Array, " A"], next_obs: Float[Array, " S"]
) -> Bool[Array, ""]:
    """End if the tip is at 1 m or below: l·cos φ₁ + l·cos(φ₁ + φ₂) ≤ 1.

    The observation holds x, sin φ₁, sin φ₂, cos φ₁, cos φ₂, …; φ₂ is the angle between
    the poles.
    """
    del obs, action
    sin_1, sin_2, cos_1, cos_2 = (next_obs[i] for i in range(1, 5))
    height = POLE_LENGTH * (cos_1 + cos_1 * cos_2 - sin_1 * sin_2)
    return height <= TIP_HEIGHT


ENDS: dict[str, Termination] = {
    "Hopper": _hopper,
    "Walker2d": _walker,
    "Ant": _ant,
    "Humanoid": _humanoid,
    "InvertedDoublePendulum": _double_pendulum,
}
