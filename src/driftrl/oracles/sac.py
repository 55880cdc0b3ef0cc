"""J*(θ) by soft actor-critic on the frozen system, for any task.

A training collects with the stochastic policy and learns in between; at intervals the
deterministic policy is evaluated.  The best of the later half of the evaluations
selects the policy of a training, and the best of several trainings counts::

    J*(θ) ≈ max_seeds J(π_seed, θ),    π_seed = argmax_{late π} Ĵ(π, θ)

J is measured on fresh episodes, so that a lucky Ĵ gains nothing.  Training episodes
start wherever the task can start one: a learner that always starts hanging often
settles on one swing too many.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import gymnasium
import jax
import numpy as np
from jaxtyping import Array, Float, Key

from driftrl.agents import sac
from driftrl.agents.replay import device_replay
from driftrl.config.run import EnvironmentConfig
from driftrl.config.task import Task
from driftrl.envs.drifting import freeze
from driftrl.envs.tasks import task_named
from driftrl.errors import EnvironmentFault
from driftrl.models.networks import MLP
from driftrl.oracles.table import Optimum, SACOracleSettings
from driftrl.training.streams import Purpose, integer_for, key_for
from driftrl.types import Data

Env = gymnasium.Env[np.ndarray, np.ndarray]
Action = Float[np.ndarray, " A"]

_STANDARD_ERRORS = 2.0
# Numbers within the evaluation stream: all policies of a training are compared on the
# same starts, and the selected one is tested on others.
_COMPARING, _TESTING = 0, 1


class Training(NamedTuple):
    """Result of one seed."""

    late: tuple[float, ...]
    """The late evaluations, in their order."""
    returns: tuple[float, ...]
    """Fresh episodes of the policy with the best late evaluation."""


def optimal_return(
    task: str, theta: float, environment: EnvironmentConfig, settings: SACOracleSettings
) -> Optimum:
    """Return the best that trainings of several seeds achieve on the task at θ."""
    trainings = [
        train(task_named(task), theta, environment, settings, seed=seed)
        for seed in range(settings.seeds)
    ]
    return conclude(theta, trainings, settings)


def conclude(
    theta: float, trainings: Sequence[Training], settings: SACOracleSettings
) -> Optimum:
    """Return the best training as an optimum with its error.

    The error is the larger of: the best minus the median training; the best minus the
    median late evaluation of the best training; and ``least_error``.  Twice the
    standard error of the tested returns is added.
    """
    values = [float(np.mean(training.returns)) for training in trainings]
    best = int(np.argmax(values))
    late, returns = trainings[best]
    std, median = float(np.std(returns)), float(np.median(late))
    doubt = max(
        values[best] - float(np.median(values)),
        max(late) - median,
        settings.least_error * abs(values[best]),
    )
    candidates = {f"seed {seed}": value for seed, value in enumerate(values)}
    return Optimum(
        theta=theta,
        value=values[best],
        error=doubt + _STANDARD_ERRORS * std / len(returns) ** 0.5,
        std=std,
        method="SAC",
        effort=str(settings),
        candidates={**candidates, "median late evaluation": median},
    )


def train(
    task: Task,
    theta: float,
    environment: EnvironmentConfig,
    settings: SACOracleSettings,
    *,
    seed: int,
) -> Training:
    """Train one policy on the frozen task and return what it achieved."""
    sizes = task.sizes(environment)
    collector = Collector(frozen_envs(task, theta, environment), seed=seed)
    uniform = np.random.default_rng(integer_for(seed, Purpose.ACTING))
    collector.collect(
        settings.random_steps, lambda obs, number: uniform.uniform(-1, 1, sizes[1])
    )
    env = freeze(task.name, theta, environment)
    state = sac.init(*sizes, settings.sac, key=key_for(seed, Purpose.LEARNING, 0))
    late: list[float] = []
    late_evaluations = max(1, round(0.5 * settings.evaluations))
    best = state.actor
    for number in range(1, settings.evaluations + 1):
        key = key_for(seed, Purpose.ACTING, number)
        keys = jax.random.split(key, settings.evaluate_every)
        policy = lambda obs, i, actor=state.actor, keys=keys: _action(
            actor, obs, keys[i]
        )
        collector.collect(settings.evaluate_every, policy)
        state, _ = sac.train(
            state,
            device_replay(collector.data, settings.steps),
            settings.updates * settings.evaluate_every,
            settings.sac,
            key_for(seed, Purpose.LEARNING, number),
        )
        if number > settings.evaluations - late_evaluations:
            streams = [(seed, _COMPARING, one) for one in range(settings.episodes)]
            value = float(np.mean(rollouts(state.actor, env, streams)))
            best = state.actor if not late or value > max(late) else best
            late.append(value)
    streams = [(seed, _TESTING, one) for one in range(settings.test_episodes)]
    return Training(tuple(late), rollouts(best, env, streams))


def frozen_envs(task: Task, theta: float, environment: EnvironmentConfig) -> list[Env]:
    """Return the frozen task with its own start, then with every other start."""
    return [
        freeze(task.name, theta, replace(environment, start=start))
        for start in dict.fromkeys((environment.start, *task.starts))
    ]


class Collector:
    """Steps through episodes of environments in turn, and stores the transitions."""

    def __init__(self, envs: Sequence[Env], *, seed: int) -> None:
        self._envs, self._seed = envs, seed
        self._episodes = 0
        self._rows: list[tuple[Any, ...]] = []
        self._begin()

    def collect(
        self, steps: int, policy: Callable[[Float[np.ndarray, " S"], int], Action]
    ) -> None:
        """Take more steps with the actions ``policy(obs, number)``."""
        for number in range(steps):
            action = policy(self._obs, number)
            next_obs, reward, terminated, truncated, _ = self._env.step(action)
            self._rows.append((self._obs, action, float(reward), next_obs, terminated))
            self._obs = next_obs
            if terminated or truncated:
                self._begin()

    @property
    def data(self) -> Data:
        """All transitions so far."""
        columns = map(np.array, zip(*self._rows, strict=True))
        obs, actions, rewards, next_obs, terminated = columns
        return Data(obs, actions, rewards, next_obs, terminated)

    def _begin(self) -> None:
        self._env = self._envs[self._episodes % len(self._envs)]
        seed = integer_for(self._seed, Purpose.ENVIRONMENT, self._episodes)
        self._obs, _ = self._env.reset(seed=seed)
        self._episodes += 1


def rollouts(
    actor: MLP, env: Env, streams: Sequence[tuple[int, int, int]]
) -> tuple[float, ...]:
    """Return the returns of the deterministic policy, an episode for each stream."""
    returns = []
    for seed, purpose, number in streams:
        obs, _ = env.reset(seed=integer_for(seed, Purpose.EVALUATION, purpose, number))
        total, over = 0.0, False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(_action(actor, obs, None))
            total += float(reward)
            over = terminated or truncated
        returns.append(total)
    if not np.isfinite(returns).all():
        raise EnvironmentFault(
            f"Episodes of the SAC oracle returned {returns}: the reward or the trained "
            "policy is not finite."
        )
    return tuple(returns)


def _action(
    actor: MLP, obs: Float[np.ndarray, " S"], key: Key[Array, ""] | None
) -> Action:
    single = sac.act(actor, np.asarray(obs, np.float32), key=key)
    return np.asarray(single, np.float64)
