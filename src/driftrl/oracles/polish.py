"""Polishing: from a good sequence of actions to the best one near it.

A noise-free episode from a known start is an optimisation over its actions,
max_{a_0, …} Σ_t r(s_t, a_t, θ), which L-BFGS-B climbs with the gradient of the true
return.  Near upright the pendulum is unstable and that gradient explodes, so once the
pendulum is caught the search moves the offsets u_t of a stabilising feedback::

    a_t = clip(u_t − k·(wrap(φ_t), ω_t), ±1)

with k the gain of the linear-quadratic regulator at upright.  A return that is found is
one that is achieved: it bounds the optimum from below.
"""

from functools import cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.optimize
from jaxtyping import Array, Bool, Float

from driftrl.envs.pendulum import PendulumState, Scalar, repeated_step, wrap
from driftrl.oracles.trajectory import Trajectory

CAUGHT_ANGLE = 0.6  # rad
CAUGHT_SPEED = 3.0  # rad/s
ROUNDS = 4  # each decides anew from when on the pendulum is caught
ITERATIONS = 300  # of L-BFGS-B in a round
ENOUGH = 1e-4  # a round that gains less is the last


@cache
def upright_gain(repeat: int) -> tuple[float, float]:
    """Return the regulator's gain k at upright, in N·m for an angle and for a speed.

    The dynamics and the cost of a torque held for ``repeat`` steps are linearised at
    rest, upright; in terms of torque they do not depend on θ.
    """

    def held(point: Float[Array, " 3"]) -> tuple[PendulumState, Scalar]:
        state = PendulumState(point[0], point[1])
        return repeated_step(state, point[2], jnp.ones(()), repeat)

    with jax.enable_x64(True):
        upright = jnp.zeros(3)
        slopes = jax.jit(jax.jacobian(lambda point: held(point)[0]))(upright)
        slope = np.stack([np.asarray(row) for row in slopes])
        cost = -np.asarray(jax.jit(jax.hessian(lambda point: held(point)[1]))(upright))
    dynamics, drive = slope[:, :2], slope[:, 2:]
    ahead = scipy.linalg.solve_discrete_are(
        dynamics, drive, cost[:2, :2], cost[2:, 2:], s=cost[:2, 2:]
    )
    gain = np.linalg.solve(
        cost[2:, 2:] + drive.T @ ahead @ drive,
        drive.T @ ahead @ dynamics + cost[2:, :2],
    )
    return float(gain[0, 0]), float(gain[0, 1])


class _Problem(NamedTuple):
    """What stays the same while one episode is polished."""

    start: PendulumState
    theta: Scalar
    gain: Float[Array, " 2"]
    """k in units of the action."""


def _feedback(state: PendulumState, gain: Float[Array, " 2"]) -> Scalar:
    return -(gain[0] * wrap(state.angle) + gain[1] * state.speed)


def _episode(
    offsets: Float[Array, " D"],
    caught: Bool[Array, " D"],
    problem: _Problem,
    repeat: int,
) -> tuple[Scalar, Trajectory]:
    """Return the return of the offsets u_t, and what happened."""

    def decide(
        state: PendulumState, inputs: tuple[Array, Array]
    ) -> tuple[PendulumState, tuple[Scalar, PendulumState, Scalar]]:
        offset, caught = inputs
        feedback = jnp.where(caught, _feedback(state, problem.gain), 0.0)
        action = jnp.clip(offset + feedback, -1.0, 1.0)
        after, reward = repeated_step(state, action, problem.theta, repeat)
        return after, (action, state, reward)

    inputs = (offsets, caught)
    _, (actions, states, rewards) = jax.lax.scan(decide, problem.start, inputs)
    value = rewards.sum()
    return value, Trajectory(actions, states, value)


_with_slope = jax.jit(
    jax.value_and_grad(_episode, has_aux=True), static_argnames="repeat"
)


def _near_upright(state: PendulumState) -> Bool[Array, ""]:
    slow = jnp.abs(state.speed) < CAUGHT_SPEED
    return slow & (jnp.abs(wrap(state.angle)) < CAUGHT_ANGLE)


def _climb(trajectory: Trajectory, problem: _Problem, repeat: int) -> Trajectory:
    """Run L-BFGS-B from a trajectory once, with the pendulum caught when it was."""
    near = np.asarray(jax.vmap(_near_upright)(trajectory.states))
    # Caught is from when on it stays near.
    caught = np.logical_and.accumulate(near[::-1])[::-1]
    feedback = jax.vmap(_feedback, (0, None))(trajectory.states, problem.gain)
    offsets = np.asarray(trajectory.actions) - np.where(caught, feedback, 0.0)

    def observe(offsets: np.ndarray) -> tuple[Trajectory, Array]:
        (_, trajectory), slope = _with_slope(
            jnp.asarray(offsets), jnp.asarray(caught), problem, repeat
        )
        return trajectory, slope

    def loss(offsets: np.ndarray) -> tuple[float, np.ndarray]:
        trajectory, slope = observe(offsets)
        return -float(trajectory.value), -np.asarray(slope)

    found = scipy.optimize.minimize(
        loss,
        offsets,
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None) if held else (-1.0, 1.0) for held in caught],
        options={"maxiter": ITERATIONS},
    )
    return observe(found.x)[0]


def polish(trajectory: Trajectory, theta: float, repeat: int) -> Trajectory:
    """Climb from one noise-free episode to a local optimum of the return."""
    with jax.enable_x64(True):
        trajectory = jax.tree.map(jnp.asarray, trajectory)
        # A motor without torque has no regulator: any finite gain will do.
        gain = jnp.asarray(upright_gain(repeat)) / max(theta, 1e-6)
        start = PendulumState(*(series[0] for series in trajectory.states))
        problem = _Problem(start, jnp.float64(theta), gain)
        best = trajectory
        for _ in range(ROUNDS):
            trajectory = _climb(trajectory, problem, repeat)
            gained = float(trajectory.value - best.value)
            best = trajectory if gained > 0 else best
            if gained < ENOUGH:
                break
        return jax.device_get(best)
