"""Episodes of the pendulum without dynamic programming: iCEM, and L-BFGS-B from there.

``plan_episodes`` runs the agents' planner on the true dynamics, with a receding horizon
that ends with the episode.  ``refine`` climbs from any noise-free episode to a local
optimum of max_{a_0, …} Σ_t r(s_t, a_t, θ).  Near upright the pendulum is unstable and
the gradient explodes, so from when it stays there on, the search moves the offsets u_t
of a stabilising feedback, with k the gain of the linear-quadratic regulator::

    a_t = clip(u_t − k·(wrap(φ_t), ω_t), ±1)

Every return is achieved on the true dynamics, so it bounds the optimum from below.
"""

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.optimize
from jaxtyping import Array, Bool, Float, Int, Key

from driftrl.agents import icem
from driftrl.config.gp import ICEMConfig
from driftrl.envs.pendulum import PendulumState, Scalar, repeated_step, wrap
from driftrl.oracles.dynamic_programming import Trajectory

# Simulator steps.  With much torque a short plan is best: a long one is as unstable as
# the upright pendulum.  With little torque it must see beyond the next swing.
LOOKAHEADS = (25, 50)
CAUGHT_ANGLE = 0.6  # rad
CAUGHT_SPEED = 3.0  # rad/s
ROUNDS = 4  # each determines anew from when on the pendulum is caught
ITERATIONS = 300  # of L-BFGS-B in a round
MIN_GAIN = 1e-4  # a round that gains less is the last


@partial(jax.jit, static_argnames=("repeat", "steps"))
def planned_episode(
    start: PendulumState,
    theta: Scalar,
    lookahead: Int[Array, ""],
    *,
    repeat: int,
    steps: int,
    key: Key[Array, ""],
) -> Trajectory:
    """Return the episode that iCEM plans from ``start``, step by step.

    Only the rewards of the first ``lookahead`` steps of a plan count.
    """
    config = ICEMConfig(
        horizon=max(1, max(LOOKAHEADS) // repeat),
        samples=256,
        elites=25,
        iterations=6,
        noise_exponent=2.0,
        initial_std=1.0,
    )
    advance = partial(repeated_step, theta=theta, repeat=repeat)

    def planned_return(
        actions: Float[Array, "H 1"], state: PendulumState, counted: Int[Array, ""]
    ) -> Scalar:
        _, rewards = jax.lax.scan(lambda s, a: advance(s, a[0]), state, actions)
        ahead = jnp.arange(config.horizon)
        return jnp.where(ahead < counted, rewards, 0.0).sum()

    def decide(
        carried: tuple[PendulumState, icem.Plan], inputs: tuple[Array, Array]
    ) -> tuple[tuple[PendulumState, icem.Plan], tuple[Scalar, PendulumState, Scalar]]:
        state, plan = carried
        left, key = inputs
        counted = jnp.minimum(left, lookahead)
        objective = partial(planned_return, state=state, counted=counted)
        plan = icem.plan(objective, plan, config, key=key)
        action = plan.mean[0, 0]
        after, reward = advance(state, action)
        return (after, icem.shift(plan)), (action, state, reward)

    left = jnp.arange(steps, 0, -1, dtype=lookahead.dtype)
    inputs = (left, jax.random.split(key, steps))
    first = (start, icem.initial_plan(config, 1))
    _, (actions, states, rewards) = jax.lax.scan(decide, first, inputs)
    return Trajectory(actions, states, rewards.sum())


def plan_episodes(
    start: tuple[float, float], theta: float, *, repeat: int, steps: int
) -> list[Trajectory]:
    """Return the episode that iCEM plans for each of LOOKAHEADS."""
    with jax.enable_x64(True):
        state = PendulumState(jnp.float64(start[0]), jnp.float64(start[1]))
        keys = jax.random.split(jax.random.key(0), len(LOOKAHEADS))
        return [
            jax.device_get(
                planned_episode(
                    state,
                    jnp.float64(theta),
                    jnp.asarray(max(1, lookahead // repeat)),
                    repeat=repeat,
                    steps=steps,
                    key=key,
                )
            )
            for lookahead, key in zip(LOOKAHEADS, keys, strict=True)
        ]


@cache
def upright_gain(repeat: int) -> tuple[float, float]:
    """Return the regulator's gain k at upright, in N·m for an angle and for a speed.

    Dynamics and cost of a torque held for ``repeat`` steps are linearised at rest; in
    terms of torque they do not depend on θ.
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
    cost_to_go = scipy.linalg.solve_discrete_are(
        dynamics, drive, cost[:2, :2], cost[2:, 2:], s=cost[:2, 2:]
    )
    gain = np.linalg.solve(
        cost[2:, 2:] + drive.T @ cost_to_go @ drive,
        drive.T @ cost_to_go @ dynamics + cost[2:, :2],
    )
    return float(gain[0, 0]), float(gain[0, 1])


class _Problem(NamedTuple):
    """What stays the same while one episode is refined."""

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
    """Return the return of the offsets u_t, and the episode."""

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


_value_and_grad = jax.jit(
    jax.value_and_grad(_episode, has_aux=True), static_argnames="repeat"
)


def _near_upright(state: PendulumState) -> Bool[Array, ""]:
    slow = jnp.abs(state.speed) < CAUGHT_SPEED
    return slow & (jnp.abs(wrap(state.angle)) < CAUGHT_ANGLE)


def _climb(trajectory: Trajectory, problem: _Problem, repeat: int) -> Trajectory:
    """Run L-BFGS-B once, with feedback from when the pendulum stays near upright."""
    near = np.asarray(jax.vmap(_near_upright)(trajectory.states))
    caught = np.logical_and.accumulate(near[::-1])[::-1]
    feedback = jax.vmap(_feedback, (0, None))(trajectory.states, problem.gain)
    offsets = np.asarray(trajectory.actions) - np.where(caught, feedback, 0.0)

    def run(offsets: np.ndarray) -> tuple[Trajectory, Array]:
        (_, trajectory), slope = _value_and_grad(
            jnp.asarray(offsets), jnp.asarray(caught), problem, repeat
        )
        return trajectory, slope

    def loss(offsets: np.ndarray) -> tuple[float, np.ndarray]:
        trajectory, slope = run(offsets)
        return -float(trajectory.value), -np.asarray(slope)

    solution = scipy.optimize.minimize(
        loss,
        offsets,
        jac=True,
        method="L-BFGS-B",
        bounds=[(None, None) if held else (-1.0, 1.0) for held in caught],
        options={"maxiter": ITERATIONS},
    )
    return run(solution.x)[0]


def refine(trajectory: Trajectory, theta: float, repeat: int) -> Trajectory:
    """Climb from one noise-free episode to a local optimum of the return."""
    with jax.enable_x64(True):
        trajectory = jax.tree.map(jnp.asarray, trajectory)
        # Without torque there is no regulator: any finite gain will do.
        gain = jnp.asarray(upright_gain(repeat)) / max(theta, 1e-6)
        start = PendulumState(*(series[0] for series in trajectory.states))
        problem = _Problem(start, jnp.float64(theta), gain)
        best = trajectory
        for _ in range(ROUNDS):
            trajectory = _climb(trajectory, problem, repeat)
            gained = float(trajectory.value - best.value)
            best = trajectory if gained > 0 else best
            if gained < MIN_GAIN:
                break
        return jax.device_get(best)
