"""J*(θ) by soft actor-critic: what a model-free learner achieves on the frozen system.

For any task.  A training collects with the drawn policy and learns in between; at
intervals the deterministic policy is evaluated.  Of the late evaluations the best one
names the policy of the training, and of several trainings the best one counts::

    J*(θ) ≈ max_seeds J(π_seed, θ),    π_seed = argmax_{late π} Ĵ(π, θ)

J is measured on fresh episodes, so that a policy chosen for a lucky Ĵ gains nothing.

An oracle need not be fair: it starts its training episodes wherever the task can start
one, not only where the return is asked for.  A learner that always starts hanging often
settles on one swing too many.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Float, Key

from driftrl.agents import sac
from driftrl.agents.replay import make_replay
from driftrl.config.run import EnvironmentConfig
from driftrl.config.task import Task
from driftrl.envs.drifting import freeze
from driftrl.envs.tasks import task_named
from driftrl.errors import EnvironmentFault
from driftrl.models.networks import MLP
from driftrl.oracles.collector import Action, Collector, starting_everywhere
from driftrl.oracles.optimum import Optimum
from driftrl.oracles.sac_settings import SACOracleSettings
from driftrl.training.loop import Env
from driftrl.training.streams import Purpose, integer_for, key_for

METHOD = "SAC"
_STANDARD_ERRORS = 2.0
# Places of the evaluation stream: the same starts for all policies of a training, so
# that they are compared fairly, and others to judge the one that was chosen.
_COMPARING, _JUDGING = 0, 1


class Training(NamedTuple):
    """What one seed achieved."""

    late: tuple[float, ...]
    """The late evaluations, in their order."""
    returns: tuple[float, ...]
    """Fresh episodes of the policy with the best late evaluation."""


def optimal_return(
    task: str,
    theta: float,
    environment: EnvironmentConfig,
    settings: SACOracleSettings,
    trained: Callable[[], None] = lambda: None,
) -> Optimum:
    """Return the best that trainings of several seeds achieve on the task at θ.

    ``trained`` is called after each of them.
    """
    trainings = []
    for seed in range(settings.seeds):
        one = train(task_named(task), theta, environment, settings, seed=seed)
        trainings.append(one)
        trained()
    return conclude(theta, trainings, settings)


def conclude(
    theta: float, trainings: Sequence[Training], settings: SACOracleSettings
) -> Optimum:
    """Return the best training as an optimum with its error.

    The error is how far below the best the middle one of the trainings lies, or the
    middle one of the best training's late evaluations, or a share of the value: the
    largest of the three.  Where returns scatter, two standard errors of their mean are
    added.
    """
    values = [float(np.mean(training.returns)) for training in trainings]
    best = int(np.argmax(values))
    late, returns = trainings[best]
    spread, middle = float(np.std(returns)), float(np.median(late))
    doubt = max(
        values[best] - float(np.median(values)),
        max(late) - middle,
        settings.least_error * abs(values[best]),
    )
    found = {f"seed {seed}": value for seed, value in enumerate(values)}
    return Optimum(
        theta=theta,
        value=values[best],
        error=doubt + _STANDARD_ERRORS * spread / len(returns) ** 0.5,
        spread=spread,
        method=METHOD,
        grid=str(settings),
        found={**found, "value, middle of the late": middle},
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
    envs = starting_everywhere(task, theta, environment)
    collector = Collector(envs, sizes, settings.decisions, seed=seed)
    evenly = np.random.default_rng(integer_for(seed, Purpose.ACTING))
    collector.collect(
        settings.random_decisions, lambda obs, number: evenly.uniform(-1, 1, sizes[1])
    )
    env = freeze(task.name, theta, environment)
    state = sac.init(*sizes, settings.sac, key=key_for(seed, Purpose.LEARNING, 0))
    late: list[float] = []
    best = state.actor
    for number in range(1, settings.evaluations + 1):
        key = key_for(seed, Purpose.ACTING, number)
        chosen = drawing(state.actor, settings.evaluate_every, key=key)
        collector.collect(settings.evaluate_every, chosen)
        replay = make_replay(collector.data, settings.decisions)
        state, _ = sac.train(
            state,
            replay.data,
            int(replay.size),
            settings.updates * settings.evaluate_every,
            settings.sac,
            key=key_for(seed, Purpose.LEARNING, number),
        )
        if number > settings.evaluations - settings.late_evaluations:
            places = [(seed, _COMPARING, one) for one in range(settings.episodes)]
            value = float(np.mean(rollouts(state.actor, env, places)))
            best = state.actor if not late or value > max(late) else best
            late.append(value)
    places = [(seed, _JUDGING, one) for one in range(settings.judging_episodes)]
    return Training(tuple(late), rollouts(best, env, places))


def drawing(
    actor: MLP, decisions: int, *, key: Key[Array, ""]
) -> Callable[[Float[np.ndarray, " S"], int], Action]:
    """Return the policy that draws its actions, for so many decisions."""
    keys = jax.random.split(key, decisions)
    return lambda obs, number: _action(actor, obs, keys[number])


def rollouts(
    actor: MLP, env: Env, places: Sequence[tuple[int, int, int]]
) -> tuple[float, ...]:
    """Return the returns of the deterministic policy from the starts of ``places``."""
    return tuple(_rollout(actor, env, place) for place in places)


def _rollout(actor: MLP, env: Env, place: tuple[int, int, int]) -> float:
    seed, *rest = place
    obs, _ = env.reset(seed=integer_for(seed, Purpose.EVALUATION, *rest))
    total, over = 0.0, False
    while not over:
        obs, reward, terminated, truncated, _ = env.step(_action(actor, obs, None))
        total += float(reward)
        over = terminated or truncated
    if not np.isfinite(total):
        raise EnvironmentFault(
            f"An episode of the SAC oracle returned {total}: the environment's reward "
            "or the policy that was trained on it is not finite."
        )
    return total


def _action(
    actor: MLP, obs: Float[np.ndarray, " S"], key: Key[Array, ""] | None
) -> Action:
    single = sac.act(actor, np.asarray(obs, np.float32), key=key)
    return np.asarray(single, np.float64)
