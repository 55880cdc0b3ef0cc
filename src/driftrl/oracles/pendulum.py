"""J*(θ) of the pendulum: the best expected return of an episode, and its error.

From the hanging start, without noise, an episode is one deterministic optimisation.
Dynamic programming gives a value V near the optimum, from either side, and a policy;
iCEM plans without it; episodes of both are refined to local optima.  ``value`` is the
best return *achieved*, a lower bound of the optimum, and::

    error = |V − value| + |V − V_coarse|

With random starts or process noise, returns are means over episodes, and ``error``
includes twice their standard error.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from driftrl.config.run import EnvironmentConfig
from driftrl.envs.pendulum import HANGING, PendulumState
from driftrl.errors import require
from driftrl.oracles.dynamic_programming import (
    Grid,
    Trajectory,
    Values,
    greedy_rollouts,
    interpolate,
    pad,
    value_tables,
)
from driftrl.oracles.table import Optimum
from driftrl.oracles.trajectory_optimization import plan_episodes, refine

START_RANGE = (np.pi, 1.0)  # random: uniform in ± this angle and speed (Pendulum-v1)
PUSHES = range(0, 31, 2)  # simulator steps of full torque, to break the symmetry
VARIED_ROUNDS = 2  # of disturbing the best actions, in search of a better optimum
EPISODES = 512  # over which a mean return is taken; four times as many if noisy
LEAST_ERROR = 1e-4  # relative: refinement and single precision promise no more


class _Solution(NamedTuple):
    """The problem at one θ and its value by dynamic programming."""

    theta: float
    environment: EnvironmentConfig
    grid: Grid
    fine: Values
    coarse: Float[Array, "P W"]
    """V_D on a grid with twice the spacing."""


def default_grid(repeat: int) -> Grid:
    """Return the grid with which J*(θ) is computed in seconds.

    Without repetition most steps move the pendulum by less than a cell, which blurs V
    most: that takes more angles, but half the actions are enough.
    """
    return Grid(720, 481, 11) if repeat == 1 else Grid(360, 481, 21)


def optimal_return(
    theta: float, environment: EnvironmentConfig, grid: Grid | None = None
) -> Optimum:
    """Compute J*(θ) of the pendulum, by default on the ``default_grid``."""
    require(
        bool(np.isfinite(theta)) and theta >= 0,
        f"The pendulum's torque θ must be a number of at least 0, received {theta!r}.",
    )
    solution = _solve(
        theta, environment, grid or default_grid(environment.action_repeat)
    )
    if environment.start == "hanging" and environment.noise_std == 0:
        return _best_episode(solution)
    return _mean_episode(solution)


def _solve(theta: float, environment: EnvironmentConfig, grid: Grid) -> _Solution:
    noise_std = environment.noise_std

    def tables(grid: Grid) -> Values:
        # Single precision: its rounding is far below the error of any grid.
        return value_tables(
            jnp.float32(theta),
            jnp.float32(noise_std) if noise_std > 0 else None,
            grid=grid,
            repeat=environment.action_repeat,
            steps=environment.steps,
        )

    coarse = tables(grid.coarsened()).whole
    return _Solution(theta, environment, grid, tables(grid), coarse)


def _values_at(
    table: Float[Array, "P W"], states: Float[np.ndarray, "N 2"]
) -> Float[np.ndarray, " N"]:
    points = PendulumState(*jnp.asarray(states.T, table.dtype))
    return np.asarray(_interpolate_all(table, points), np.float64)


@jax.jit
def _interpolate_all(
    table: Float[Array, "P W"], states: PendulumState
) -> Float[Array, " N"]:
    padded = pad(table)
    return jax.vmap(lambda state: interpolate(padded, state))(states)


def _follow(
    solution: _Solution,
    starts: Float[np.ndarray, "B 2"],
    forced: Float[np.ndarray, "B D"],
    noise: Float[np.ndarray, "B D 2"] | None = None,
) -> Trajectory:
    """Return B episodes of the greedy policy, in double precision, on the host."""
    with jax.enable_x64(True):
        episodes = greedy_rollouts(
            solution.fine.rest,
            PendulumState(*jnp.asarray(starts.T)),
            jnp.asarray(forced),
            jnp.asarray(np.zeros((*forced.shape, 2)) if noise is None else noise),
            jnp.float64(solution.theta),
            repeat=solution.environment.action_repeat,
        )
        return jax.device_get(episodes)


def _from_hanging(
    solution: _Solution, forced: Float[np.ndarray, "B D"]
) -> list[Trajectory]:
    """Return the greedy policy's episodes from the hanging start, each once."""
    episodes = _follow(solution, np.repeat([HANGING], len(forced), axis=0), forced)
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
    actions: Float[np.ndarray, " D"], like: Float[np.ndarray, "B D"], seed: int
) -> Float[np.ndarray, "B D"]:
    """Return forced actions: beginnings of ``actions``, most of them disturbed."""
    stream = np.random.default_rng(seed)
    steps = len(actions)
    forced = np.full_like(like, np.nan)
    for index, row in enumerate(forced):
        length = int(stream.integers(1, steps // 2 + 2))
        held = int(stream.integers(1, 6))
        noise = np.repeat(stream.normal(size=steps), held)[:length]
        strength = (0.0, 0.1, 0.3, 1.0)[index % 4]
        row[:length] = np.clip(actions[:length] + strength * noise, -1.0, 1.0)
    return forced


def _best(episodes: list[Trajectory]) -> Trajectory:
    return max(episodes, key=lambda episode: float(episode.value))


def _best_episode(solution: _Solution) -> Optimum:
    """Find the best noise-free episode from the hanging start."""
    theta, environment = solution.theta, solution.environment
    repeat = environment.action_repeat

    def refined(episodes: list[Trajectory]) -> Trajectory:
        return _best([refine(episode, theta, repeat) for episode in episodes])

    pushes = _pushes(environment)
    followed = _from_hanging(solution, pushes)
    planned = plan_episodes(HANGING, theta, repeat=repeat, steps=environment.steps)
    episodes = {
        "greedy policy": _best(followed),
        "iCEM": _best(planned),
        "greedy policy, refined": refined(followed),
        "iCEM, refined": refined(planned),
    }
    best = _best([*episodes.values()])
    for seed in range(VARIED_ROUNDS):
        forced = _variations(np.asarray(best.actions), pushes, seed)
        best = _best([best, refined(_from_hanging(solution, forced))])
    episodes["variations, refined"] = best
    achieved = {name: float(episode.value) for name, episode in episodes.items()}
    return _conclude(solution, np.array([HANGING]), achieved)


def _conclude(
    solution: _Solution,
    starts: Float[np.ndarray, "N 2"],
    achieved: dict[str, float],
    std: float = 0.0,
    statistical_error: float = 0.0,
) -> Optimum:
    """Take the best of what was achieved and compare it with V."""
    method = max(achieved, key=lambda name: achieved[name])
    value = achieved[method]
    fine = float(_values_at(solution.fine.whole, starts).mean())
    coarse = float(_values_at(solution.coarse, starts).mean())
    error = abs(fine - value) + abs(fine - coarse) + statistical_error
    return Optimum(
        theta=solution.theta,
        value=value,
        error=max(error, LEAST_ERROR * abs(value)),
        std=std,
        method=method,
        effort=str(solution.grid),
        candidates={"value, fine grid": fine, "value, coarse grid": coarse, **achieved},
    )


def _starts(start: str, count: int) -> Float[np.ndarray, "N 2"]:
    """Return starts that cover their distribution evenly."""
    if start == "hanging":
        return np.repeat([HANGING], count, axis=0)
    # The additive recurrence of the plastic number fills the square evenly.
    plastic = 1.32471795724474602596
    multiples = np.arange(1, count + 1)[:, None] * np.array([1 / plastic, plastic**-2])
    return (2.0 * ((0.5 + multiples) % 1.0) - 1.0) * np.array(START_RANGE)


def _returns(
    solution: _Solution, starts: Float[np.ndarray, "N 2"]
) -> Float[np.ndarray, " N"]:
    """Return the achieved return from each start.

    Without noise the best of several episodes counts: that of the greedy policy, and
    the same after a push in either direction.
    """
    environment = solution.environment
    free = np.full((len(starts), environment.steps), np.nan)
    if environment.noise_std > 0:
        stream = np.random.default_rng(0)
        noise = stream.normal(0.0, environment.noise_std, (*free.shape, 2))
        return np.asarray(_follow(solution, starts, free, noise).value)
    best = np.asarray(_follow(solution, starts, free).value)
    for push in _pushes(environment)[1::2]:
        for direction in (-1.0, 1.0):
            forced = np.repeat(direction * push[None], len(starts), axis=0)
            best = np.maximum(best, _follow(solution, starts, forced).value)
    return best


def _mean_episode(solution: _Solution) -> Optimum:
    """Return the mean over starts and noise.

    V is known at every start, so only V − return is averaged over episodes.
    """
    environment = solution.environment
    sampled = _starts(environment.start, EPISODES * (4 if environment.noise_std else 1))
    returns = _returns(solution, sampled)
    gaps = _values_at(solution.fine.whole, sampled) - returns
    many = _starts(environment.start, 64 * EPISODES)
    value = float(_values_at(solution.fine.whole, many).mean() - gaps.mean())
    return _conclude(
        solution,
        many,
        {"greedy policy": value},
        std=float(returns.std(ddof=1)),
        statistical_error=2.0 * float(gaps.std(ddof=1)) / len(gaps) ** 0.5,
    )
