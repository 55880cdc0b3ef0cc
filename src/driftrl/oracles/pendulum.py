"""J*(θ) of the pendulum from the hanging start without noise, and its error.

An episode is then one deterministic optimisation.  Dynamic programming gives a value V
near the optimum, from either side, and a policy, whose episodes are refined to local
optima.  ``value`` is the best return *achieved*, a lower bound of the optimum, and::

    error = |V − value| + |V − V_coarse|

``refine`` climbs by L-BFGS-B to a local optimum of max_{a_0, …} Σ_t r(s_t, a_t, θ).
Near upright the pendulum is unstable and the gradient explodes, so from when it stays
there on, the search moves the offsets u_t of a stabilising feedback, with k the gain of
the linear-quadratic regulator::

    a_t = clip(u_t − k·(wrap(φ_t), ω_t), ±1)
"""

from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import scipy.linalg
import scipy.optimize
from jaxtyping import Array, Bool, Float

from driftrl.config.run import EnvironmentConfig
from driftrl.envs.pendulum import HANGING, PendulumState, Scalar, repeated_step, wrap
from driftrl.errors import at_least
from driftrl.oracles.dynamic_programming import (
    Grid,
    Trajectory,
    greedy_rollouts,
    interpolate,
    pad,
    value_tables,
)
from driftrl.oracles.table import Optimum

PUSHES = range(0, 31, 2)  # simulator steps of full torque, to break the symmetry
VARIED_ROUNDS = 2  # of disturbing the best actions, in search of a better optimum
LEAST_ERROR = 1e-4  # relative: refinement and single precision promise no more

CAUGHT_ANGLE = 0.6  # rad
CAUGHT_SPEED = 3.0  # rad/s
ROUNDS = 4  # each determines anew from when on the pendulum is caught
ITERATIONS = 300  # of L-BFGS-B in a round
MIN_GAIN = 1e-4  # a round that gains less is the last


def default_grid(repeat: int) -> Grid:
    """Return the grid with which J*(θ) is computed in seconds.

    Without repetition most steps move the pendulum by less than a cell, which blurs V
    most: that takes more angles, but half the actions are enough.
    """
    return Grid(720, 481, 11) if repeat == 1 else Grid(360, 481, 21)


def optimal_return(
    theta: float | Float[np.ndarray, " D"],
    environment: EnvironmentConfig,
    grid: Grid | None = None,
) -> Optimum:
    """Compute J*(θ) of the pendulum, by default on the ``default_grid``.

    θ is that of the whole episode, or of each of its D steps.
    """
    at_least("The pendulum's torque θ", float(np.min(theta)), 0)
    repeat, steps = environment.action_repeat, environment.steps
    grid = grid or default_grid(repeat)
    # Single precision: its rounding is far below the error of any grid.
    solve = partial(value_tables, jnp.float32(theta), repeat=repeat, steps=steps)
    coarse = _at_start(solve(grid=grid.coarsened()).whole)
    tables = solve(grid=grid)
    fine = _at_start(tables.whole)

    def refined(episodes: list[Trajectory]) -> Trajectory:
        return _best([refine(episode, theta, repeat) for episode in episodes])

    pushes = _pushes(environment)
    followed = _follow(tables.rest, pushes, theta, repeat)
    best = refined(followed)
    episodes = {"greedy policy": _best(followed), "greedy policy, refined": best}
    for seed in range(VARIED_ROUNDS):
        forced = _variations(np.asarray(best.actions), len(pushes), seed)
        best = _best([best, refined(_follow(tables.rest, forced, theta, repeat))])
    episodes["variations, refined"] = best
    achieved = {name: float(episode.value) for name, episode in episodes.items()}
    method = max(achieved, key=lambda name: achieved[name])
    value = achieved[method]
    error = abs(fine - value) + abs(fine - coarse)
    return Optimum(
        theta=float(np.mean(theta)),
        value=value,
        error=max(error, LEAST_ERROR * abs(value)),
        method=method,
        effort=str(grid),
        candidates={"value, fine grid": fine, "value, coarse grid": coarse, **achieved},
    )


def _best(episodes: list[Trajectory]) -> Trajectory:
    return max(episodes, key=lambda episode: float(episode.value))


def _at_start(table: Float[Array, "P W"]) -> float:
    hanging = PendulumState(*jnp.asarray(HANGING, table.dtype))
    return float(jax.jit(interpolate)(pad(table), hanging))


def _follow(
    tables: Float[Array, "D P W"],
    forced: Float[np.ndarray, "B D"],
    theta: float | Float[np.ndarray, " D"],
    repeat: int,
) -> list[Trajectory]:
    """Return the greedy policy's episodes, each once, in double precision."""
    with jax.enable_x64(True):
        starts = PendulumState(*jnp.full((len(forced), 2), jnp.asarray(HANGING)).T)
        rolled = greedy_rollouts(
            tables, starts, jnp.asarray(forced), jnp.float64(theta), repeat=repeat
        )
        episodes = jax.device_get(rolled)
    _, distinct = np.unique(episodes.actions, axis=0, return_index=True)
    return [jax.tree.map(lambda leaf, i=i: leaf[i], episodes) for i in distinct]


def _pushes(environment: EnvironmentConfig) -> Float[np.ndarray, "B D"]:
    """Return forced actions: full torque for some time, then the policy's choice.

    Both directions are equally good at the hanging start, where V has a crease, and a
    policy that follows an interpolated V hesitates there.
    """
    lengths = sorted({steps // environment.action_repeat for steps in PUSHES})
    later = np.arange(environment.steps)[None, :] >= np.array(lengths)[:, None]
    return np.where(later, np.nan, 1.0)


def _variations(
    actions: Float[np.ndarray, " D"], count: int, seed: int
) -> Float[np.ndarray, "B D"]:
    """Return forced actions: beginnings of ``actions``, most of them disturbed."""
    stream = np.random.default_rng(seed)
    steps = len(actions)
    forced = np.full((count, steps), np.nan)
    for index, row in enumerate(forced):
        length = int(stream.integers(1, steps // 2 + 2))
        held = int(stream.integers(1, 6))
        noise = np.repeat(stream.normal(size=steps), held)[:length]
        strength = (0.0, 0.1, 0.3, 1.0)[index % 4]
        row[:length] = np.clip(actions[:length] + strength * noise, -1.0, 1.0)
    return forced


# Refinement.


def refine(
    trajectory: Trajectory, theta: float | Float[np.ndarray, " D"], repeat: int
) -> Trajectory:
    """Climb from one noise-free episode to a local optimum of the return."""
    with jax.enable_x64(True):
        trajectory = jax.tree.map(jnp.asarray, trajectory)
        thetas = jnp.broadcast_to(jnp.float64(theta), trajectory.actions.shape)
        # Without torque there is no regulator: any finite gain will do.
        gain = jnp.asarray([upright_gain(repeat)]) / jnp.maximum(thetas, 1e-6)[:, None]
        best = trajectory
        for _ in range(ROUNDS):
            trajectory = _climb(trajectory, thetas, gain, repeat)
            gained = float(trajectory.value - best.value)
            best = trajectory if gained > 0 else best
            if gained < MIN_GAIN:
                break
        return jax.device_get(best)


def _climb(
    trajectory: Trajectory,
    theta: Float[Array, " D"],
    gain: Float[Array, "D 2"],
    repeat: int,
) -> Trajectory:
    """Run L-BFGS-B once, with feedback from when the pendulum stays near upright."""
    start = PendulumState(*(series[0] for series in trajectory.states))
    near = np.asarray(jax.vmap(_near_upright)(trajectory.states))
    caught = np.logical_and.accumulate(near[::-1])[::-1]
    feedback = jax.vmap(_feedback)(trajectory.states, gain)
    offsets = np.asarray(trajectory.actions) - np.where(caught, feedback, 0.0)

    def run(offsets: np.ndarray) -> tuple[Trajectory, Array]:
        (_, trajectory), slope = _value_and_grad(
            jnp.asarray(offsets), jnp.asarray(caught), start, theta, gain, repeat
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


def _episode(
    offsets: Float[Array, " D"],
    caught: Bool[Array, " D"],
    start: PendulumState,
    theta: Float[Array, " D"],
    gain: Float[Array, "D 2"],
    repeat: int,
) -> tuple[Scalar, Trajectory]:
    """Return the return of the offsets u_t, and the episode."""

    def decide(
        state: PendulumState, inputs: tuple[Array, Array, Array, Array]
    ) -> tuple[PendulumState, tuple[Scalar, PendulumState, Scalar]]:
        offset, caught, theta, gain = inputs
        feedback = jnp.where(caught, _feedback(state, gain), 0.0)
        action = jnp.clip(offset + feedback, -1.0, 1.0)
        after, reward = repeated_step(state, action, theta, repeat)
        return after, (action, state, reward)

    by_step = (offsets, caught, theta, gain)
    _, (actions, states, rewards) = jax.lax.scan(decide, start, by_step)
    value = rewards.sum()
    return value, Trajectory(actions, states, value)


_value_and_grad = jax.jit(
    jax.value_and_grad(_episode, has_aux=True), static_argnames="repeat"
)


def _feedback(state: PendulumState, gain: Float[Array, " 2"]) -> Scalar:
    return -(gain[0] * wrap(state.angle) + gain[1] * state.speed)


def _near_upright(state: PendulumState) -> Bool[Array, ""]:
    slow = jnp.abs(state.speed) < CAUGHT_SPEED
    return slow & (jnp.abs(wrap(state.angle)) < CAUGHT_ANGLE)


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
