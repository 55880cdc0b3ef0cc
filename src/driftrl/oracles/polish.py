"""Polishing: from a good sequence of actions to the best one near it.

A noise-free episode from a known start is an optimisation over its actions,
max_{a_0, …} Σ_t r(s_t, a_t, θ), which L-BFGS-B climbs with the gradient of the true
return.  Near upright the pendulum is unstable and that gradient explodes, so once the
pendulum is caught the search moves the offsets u_t of a stabilising feedback::

    a_t = clip(u_t − k·(wrap(φ_t), ω_t), ±1)

with k the gain of the linear-quadratic regulator at upright.  A return that is found is
one that is achieved: it bounds the optimum from below.
"""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.optimize
from jaxtyping import Array, Bool, Float

from driftrl.envs.pendulum import PendulumState, Scalar, repeated_step, reward, wrap

CAUGHT_ANGLE = 0.6  # rad
CAUGHT_SPEED = 3.0  # rad/s
ROUNDS = 4  # each decides anew from when on the pendulum is caught
ITERATIONS = 300  # of L-BFGS-B in a round
ENOUGH = 1e-4  # a round that gains less is the last


class Trajectory(NamedTuple):
    """What happened in one episode under the feedback."""

    actions: Float[Array, " D"]
    angles: Float[Array, " D"]
    speeds: Float[Array, " D"]


class Polished(NamedTuple):
    """The best that was found near a sequence of actions."""

    actions: Float[np.ndarray, " D"]
    value: float
    """The return that these actions achieve."""


@cache
def upright_gain(repeat: int) -> tuple[float, float]:
    """Return the regulator's gain at upright, in N·m for an angle and a speed.

    The dynamics and the cost of a held torque are linearised at rest, upright, where
    the problem in terms of torque does not depend on θ.
    """

    def advance(point: Float[Array, " 3"]) -> Float[Array, " 2"]:
        held = repeated_step(PendulumState(*point[:2]), point[2], jnp.ones(()), repeat)
        return jnp.stack(held[0])

    def cost(point: Float[Array, " 3"]) -> Scalar:
        held = repeated_step(PendulumState(*point[:2]), point[2], jnp.ones(()), repeat)
        return -held[1]

    with jax.enable_x64(True):
        upright = jnp.zeros(3)
        slope = np.asarray(jax.jit(jax.jacobian(advance))(upright))
        curvature = np.asarray(jax.jit(jax.hessian(cost))(upright))
    dynamics, drive = slope[:, :2], slope[:, 2:]
    state_cost, cross, torque_cost = (
        curvature[:2, :2],
        curvature[:2, 2:],
        curvature[2:, 2:],
    )
    ahead = scipy.linalg.solve_discrete_are(
        dynamics, drive, state_cost, torque_cost, s=cross
    )
    gain = np.linalg.solve(
        torque_cost + drive.T @ ahead @ drive, drive.T @ ahead @ dynamics + cross.T
    )
    return float(gain[0, 0]), float(gain[0, 1])


def _feedback(state: PendulumState, theta: Scalar, repeat: int) -> Scalar:
    """Return the regulator's answer −k·s in units of the action."""
    angle_gain, speed_gain = upright_gain(repeat)
    torque = angle_gain * wrap(state.angle) + speed_gain * state.speed
    return -torque / jnp.maximum(theta, 1e-6)


def _episode(
    offsets: Float[Array, " D"],
    caught: Bool[Array, " D"],
    start: PendulumState,
    theta: Scalar,
    repeat: int,
) -> tuple[Scalar, Trajectory]:
    """Return the return of the offsets u_t, and what happened."""

    def decide(
        state: PendulumState, inputs: tuple[Array, Array]
    ) -> tuple[PendulumState, tuple[Scalar, Trajectory]]:
        offset, caught = inputs
        answer = jnp.where(caught, _feedback(state, theta, repeat), 0.0)
        action = jnp.clip(offset + answer, -1.0, 1.0)
        after, reward = repeated_step(state, action, theta, repeat)
        return after, (reward, Trajectory(action, state.angle, state.speed))

    _, (rewards, trajectory) = jax.lax.scan(decide, start, (offsets, caught))
    return rewards.sum(), trajectory


_ascend = jax.jit(
    jax.value_and_grad(_episode, has_aux=True), static_argnames="repeat"
)
