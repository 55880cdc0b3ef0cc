"""J*(θ) of the pendulum: the best expected return of an episode, and its error.

From the hanging start, without noise, an episode is one deterministic optimisation.
Dynamic programming gives a value V near the optimum, from either side, and a policy;
iCEM plans on the true dynamics without it; episodes of both are polished to local
optima.  ``value`` is the best return that was *achieved*, which the optimum cannot be
below, and::

    error = |V − value| + |V − V_coarse|

says how far dynamic programming is from it, and by how much V changes with its grid.
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
    Values,
    greedy_rollouts,
    interpolate,
    pad,
    value_tables,
)
from driftrl.oracles.optimum import Optimum
from driftrl.oracles.planning import planned_episodes
from driftrl.oracles.polish import polish
from driftrl.oracles.trajectory import Trajectory

STARTS = ("hanging", "random")
START_RANGE = (np.pi, 1.0)  # random: uniform in ± this angle and speed (Pendulum-v1)
PUSHES = range(0, 31, 2)  # time steps of full torque that break the symmetry of hanging
VARIED_ROUNDS = 2  # of varying the best actions, in search of a better optimum nearby
EPISODES = 512  # over which a mean return is taken; four times as many if noisy
LEAST_ERROR = 1e-4  # relative: polishing and single precision promise no more


class _Solution(NamedTuple):
    """The problem at one θ, and what dynamic programming says of it."""

    theta: float
    environment: EnvironmentConfig
    grid: Grid
    fine: Values
    coarse: Float[Array, "P W"]
    """V_D on a grid with twice the spacing."""


def default_grid(repeat: int) -> Grid:
    """Return the grid with which J*(θ) is computed in seconds.

    Without repetition most decisions move the pendulum by less than a cell, which blurs
    V more than anything else: more angles, then, but half the actions are enough.
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
    require(
        environment.start in STARTS,
        f"The pendulum has no start {environment.start!r}; "
        f"environment.start may be {' or '.join(STARTS)}.",
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
            decisions=environment.steps,
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

    At the hanging start both directions are equally good, V has a crease there, and a
    policy that follows an interpolated V lingers at it.
    """
    lengths = sorted({steps // environment.action_repeat for steps in PUSHES})
    later = np.arange(environment.steps)[None, :] >= np.array(lengths)[:, None]
    return np.where(later, np.nan, 1.0)


def _variations(
    actions: Float[np.ndarray, " D"], like: Float[np.ndarray, "B D"], seed: int
) -> Float[np.ndarray, "B D"]:
    """Return forced actions: beginnings of ``actions``, most of them disturbed."""
    stream = np.random.default_rng(seed)
    decisions = len(actions)
    forced = np.full_like(like, np.nan)
    for index, row in enumerate(forced):
        length = int(stream.integers(1, decisions // 2 + 2))
        held = int(stream.integers(1, 6))
        noise = np.repeat(stream.normal(size=decisions), held)[:length]
        strength = (0.0, 0.1, 0.3, 1.0)[index % 4]
        row[:length] = np.clip(actions[:length] + strength * noise, -1.0, 1.0)
    return forced


def _best(episodes: list[Trajectory]) -> Trajectory:
    return max(episodes, key=lambda episode: float(episode.value))


def _best_episode(solution: _Solution) -> Optimum:
    """Find the best noise-free episode from the hanging start."""
    theta, environment = solution.theta, solution.environment
    repeat, decisions = environment.action_repeat, environment.steps

    def polished(episodes: list[Trajectory]) -> Trajectory:
        return _best([polish(episode, theta, repeat) for episode in episodes])

    pushes = _pushes(environment)
    followed = _from_hanging(solution, pushes)
    planned = planned_episodes(HANGING, theta, repeat=repeat, decisions=decisions)
    found = {
        "greedy policy": _best(followed),
        "iCEM": _best(planned),
        "greedy policy, polished": polished(followed),
        "iCEM, polished": polished(planned),
    }
    best = _best([*found.values()])
    for seed in range(VARIED_ROUNDS):
        forced = _variations(np.asarray(best.actions), pushes, seed)
        best = _best([best, polished(_from_hanging(solution, forced))])
    found["variations, polished"] = best
    achieved = {name: float(episode.value) for name, episode in found.items()}
    return _judge(solution, np.array([HANGING]), achieved)


def _judge(
    solution: _Solution,
    starts: Float[np.ndarray, "N 2"],
    achieved: dict[str, float],
    spread: float = 0.0,
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
        spread=spread,
        method=method,
        grid=str(solution.grid),
        found={"value, fine grid": fine, "value, coarse grid": coarse, **achieved},
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
    """Return what is achieved in one episode from each start.

    Without noise an episode can be known in advance, so the best of several may be
    taken: the greedy policy's, and the same after a push in either direction.
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
    """Take the mean over starts and noise.

    V is known at every start, so only V − return has to be averaged over episodes.
    """
    environment = solution.environment
    sampled = _starts(environment.start, EPISODES * (4 if environment.noise_std else 1))
    returns = _returns(solution, sampled)
    gaps = _values_at(solution.fine.whole, sampled) - returns
    many = _starts(environment.start, 64 * EPISODES)
    value = float(_values_at(solution.fine.whole, many).mean() - gaps.mean())
    return _judge(
        solution,
        many,
        {"greedy policy": value},
        spread=float(returns.std(ddof=1)),
        statistical_error=2.0 * float(gaps.std(ddof=1)) / len(gaps) ** 0.5,
    )
