"""Check a custom environment: what must be fixed, what to know, what a run assumes.

Gymnasium's own checker, random episodes within the bounds of the actions, and the
checks that matter for learning under drift.
"""

import re
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from driftrl.config.deep import EnsembleAgentConfig
from driftrl.config.task import Task
from driftrl.envs.custom import STEPS, Env, declared_steps, make, task_of
from driftrl.errors import InputError, at_least, positive, require

_HELD = 10  # steps: new actions at every step cancel out on a system with inertia
_COMPARED = 200  # steps
_LATE = 100  # episode that the first is compared with
_FIRST = {"episode": 1, "steps": 0}
_LARGE = 100.0  # of an observation or a reward
_SMALL = 0.01  # of a reward, or the spread of an observation
# Remarks of Gymnasium's checker that do not apply: wrappers are part of what is
# learned, actions are scaled to their bounds, and observations need none.
_NOT_APPLICABLE = (
    "different from the unwrapped version",
    "symmetric and normalized",
    "observation space minimum value is -infinity",
    "observation space maximum value is infinity",
)
_CHECKER = "Gymnasium's checker"
_NO_OBJECTION = "no objection"
_STARTS = "agent.learning.learning_starts"
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Report:
    """The result of a check."""

    name: str
    errors: tuple[str, ...]  # What must be fixed before it can be learned
    warnings: tuple[str, ...]  # What does not prevent learning, but should be known
    facts: dict[str, str]
    settings: dict[str, Any]  # What a run would assume

    @property
    def ok(self) -> bool:
        """Whether it can be learned."""
        return not self.errors


@dataclass
class _Rollout:
    """One episode, as far as it went."""

    observations: list[np.ndarray] = field(default_factory=list)
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False
    error: str | None = None

    def __len__(self) -> int:
        return len(self.rewards)


def check(
    factory: Callable[[], Any],
    name: str,
    *,
    episodes: int = 5,
    seconds: float = 20.0,
    seed: int = 0,
) -> Report:
    """Check the environments that a factory makes, with random episodes.

    The factory is called twice, the second time after the first environment was closed.
    No further step is taken after ``seconds``.
    """
    at_least("episodes", episodes, 1)
    positive("seconds", seconds)
    at_least("seed", seed, 0)
    env = make(factory, name)
    facts = {
        "observations": str(env.observation_space),
        "actions": str(env.action_space),
    }
    try:
        settings, limit = _settings(task_of(name, env)), declared_steps(env)
        deadline = time.perf_counter() + seconds
        rollouts = _random_rollouts(env, limit or 0, episodes, deadline, seed)
        late = {"episode": _LATE, "steps": (_LATE - 1) * len(rollouts[0])}
        options = (_FIRST, None, late)
        repeats, on_its_own, is_alike = (
            _repeats(env, rollouts[0], seed, one) for one in options
        )
        facts |= _facts(env, rollouts, limit)
        facts[f"episodes 1 and {_LATE}"] = "alike" if is_alike else "differ"
        wears_unseen = repeats and _wears_unseen(env, rollouts[0], seed, deadline)
    except InputError as error:
        return Report(name, (str(error),), (), facts, {})
    finally:
        _close(env)
    if error := rollouts[-1].error:
        return Report(name, (error,), (), facts, settings)
    caveats: list[str] = []
    if not repeats:
        caveats.append(
            "The same seed and actions give another episode. It can be learned, but a "
            "run can't be repeated exactly. A simulation of wear should use the "
            "options of reset, {'episode': n, 'steps': t}."
        )
    elif not _second_repeats(factory, name, rollouts[0], seed):
        caveats.append(
            "A second instance can't be made or gives another episode for the same "
            "seed and actions. A resumed run will differ from an uninterrupted one."
        )
    elif wears_unseen:
        caveats.append(
            "It drifts by a count of its own and ignores options['episode'] of reset: "
            f"after up to {_LATE} episodes, episode 1 comes out otherwise. A run that "
            "is resumed would go on with a machine that is as new."
        )
    elif not on_its_own:
        caveats.append(
            "It drifts on its own: reset without options gives another episode. With "
            "the options that a run gives, the same seed and actions give the same "
            "episode."
        )
    caveats += [
        *_disagreement(facts[_CHECKER], repeats, on_its_own),
        *_value_warnings(env, rollouts),
        *_length_warnings(rollouts, limit, settings),
    ]
    return Report(name, (), tuple(caveats), facts, settings)


def _close(env: Env) -> None:
    with suppress(Exception):  # the report matters more than an error on closing
        env.close()


def _gymnasium_objections(env: Env) -> str:
    """Return what Gymnasium's checker warns of or fails with."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            check_env(env, skip_render_check=True, skip_close_check=True)
        except Exception as error:  # it passes on whatever the environment raises
            warnings.warn(_described(error), stacklevel=1)
    texts = (_COLOUR.sub("", str(warning.message)) for warning in caught)
    objections = [
        " ".join(text.split()).removeprefix("WARN: ").rstrip(".") + "."
        for text in texts
        if not any(phrase in text for phrase in _NOT_APPLICABLE)
    ]
    return " ".join(dict.fromkeys(objections)) or _NO_OBJECTION


def _random_rollouts(
    env: Env, limit: int, episodes: int, deadline: float, seed: int
) -> list[_Rollout]:
    """Run random episodes until one fails or the time is up."""
    space = env.action_space
    assert isinstance(space, spaces.Box)

    def actions(rng: np.random.Generator, hold: int) -> Iterator[np.ndarray]:
        action = space.low
        for step in range(max(STEPS, limit)):
            if step % hold == 0:
                action = rng.uniform(space.low, space.high).astype(space.dtype)
            yield action
            if time.perf_counter() > deadline:
                return

    rollouts: list[_Rollout] = []
    for number in range(episodes):
        chosen = actions(np.random.default_rng(seed + number), (1, _HELD)[number % 2])
        options = {"episode": number + 1, "steps": sum(map(len, rollouts))}
        rollouts.append(_rollout(env, chosen, seed + number, options))
        if rollouts[-1].error or time.perf_counter() > deadline:
            break
    return rollouts


def _rollout(
    env: Env, actions: Iterable[np.ndarray], seed: int, options: dict[str, int] | None
) -> _Rollout:
    """Run one episode up to its end, the last action, or an error."""
    rollout = _Rollout()
    shape, where = env.observation_space.shape, "reset()"
    try:
        obs, _ = env.reset(seed=seed, options=options)
        rollout.observations.append(_numbers(obs, shape, where))
        for action in actions:
            where = f"step() number {len(rollout) + 1}"
            obs, reward, rollout.terminated, rollout.truncated, _ = env.step(action)
            rollout.observations.append(_numbers(obs, shape, where))
            reward = _numbers(reward, (), f"the reward of {where}")
            rollout.actions.append(action)
            rollout.rewards.append(float(reward))
            if rollout.terminated or rollout.truncated:
                break
    except InputError as error:
        rollout.error = str(error)
    except Exception as error:  # the user's environment may raise anything
        rollout.error = f"{where} raised {_described(error)}."
    return rollout


def _numbers(value: Any, shape: tuple[int, ...] | None, where: str) -> np.ndarray:
    """Return finite numbers of a shape; ``InputError`` if they are not."""
    array = np.array(value, np.float64)
    require(array.shape == shape, f"{where} has shape {array.shape}, not {shape}.")
    require(bool(np.isfinite(array).all()), f"{where} is not finite: {array.tolist()}.")
    return array


def _described(error: Exception) -> str:
    text = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _repeats(
    env: Env, first: _Rollout, seed: int, options: dict[str, int] | None
) -> bool:
    """Return whether the first episode's first actions give the same once more."""
    second = _rollout(env, first.actions[:_COMPARED], seed, options)
    steps = len(second)
    return (
        steps == min(len(first), _COMPARED)
        and np.array_equal(first.observations[: steps + 1], second.observations)
        and np.array_equal(first.rewards[:steps], second.rewards)
    )


def _wears_unseen(env: Env, first: _Rollout, seed: int, deadline: float) -> bool:
    """Return whether episode 1 comes out otherwise after many, by whatever options."""
    for number in range(2, _LATE + 1):
        if time.perf_counter() > deadline:
            break
        _rollout(env, first.actions[:_COMPARED], seed + number, {"episode": number})
    return not _repeats(env, first, seed, _FIRST)


def _disagreement(objections: str, repeats: bool, on_its_own: bool) -> Iterator[str]:
    """Explain a verdict that is not that of Gymnasium's checker."""
    if objections == _NO_OBJECTION and not repeats:
        yield f"{_CHECKER} compares one step, and driftrl up to {_COMPARED}."
    elif objections != _NO_OBJECTION:
        drifts = repeats and not on_its_own
        why = "It resets without options, and takes the drift for chance" * drifts
        why = why or "driftrl uses no bounds of observations, and scales actions itself"
        yield (
            f"{_CHECKER} objects (see below), and yet it can be learned. {why}. Other "
            "libraries may need it fixed."
        )


def _second_repeats(
    factory: Callable[[], Any], name: str, first: _Rollout, seed: int
) -> bool:
    try:
        other = make(factory, name)
    except InputError:
        return False
    repeats = _repeats(other, first, seed, _FIRST)
    _close(other)
    return repeats


def _value_warnings(env: Env, rollouts: list[_Rollout]) -> Iterator[str]:
    if np.issubdtype(env.action_space.dtype, np.integer):
        yield "Actions are integers: driftrl's real-valued actions are truncated."
    values = np.concatenate([rollout.observations for rollout in rollouts])
    reach = np.abs(values).max(axis=0)
    if (constant := np.ptp(values, axis=0) == 0).any():
        yield f"Observations that never changed: {_indices(constant)}."
    spread = values.std(axis=0)
    least = np.maximum(_SMALL, _SMALL * np.abs(values.mean(axis=0)))
    if (hardly := ~constant & (spread < least)).any():
        yield (
            "Observations that hardly vary in their units, by a standard deviation of "
            f"{spread[hardly].min():.2g} at the least: {_indices(hardly)}. The policy "
            "takes them as they are: subtract their mean and scale them to about ±1."
        )
    if (large := reach > _LARGE).any():
        yield (
            f"Large observations, up to {reach.max():.4g}: {_indices(large)}. The "
            "policy takes them as they are: scale them to about ±1, with a fixed scale "
            "in gymnasium.wrappers.TransformObservation."
        )
    rewards = np.concatenate([rollout.rewards for rollout in rollouts])
    largest = np.abs(rewards).max(initial=0.0)
    if rewards.size and rewards.min() == rewards.max():
        yield f"The reward was {rewards[0]:.4g} at every step."
    elif largest > _LARGE or largest < _SMALL:
        yield (
            f"The largest reward was {largest:.4g} in size: scale rewards to about ±1 "
            "with gymnasium.wrappers.TransformReward."
        )


def _indices(condition: np.ndarray) -> str:
    return f"{', '.join(map(str, np.flatnonzero(condition)))} (counted from 0)"


def _length_warnings(
    rollouts: list[_Rollout], limit: int | None, settings: dict[str, Any]
) -> Iterator[str]:
    lengths = {len(rollout) for rollout in rollouts}
    if limit is None and not any(r.terminated or r.truncated for r in rollouts):
        yield (
            f"No episode ended within {max(lengths)} steps, and the environment "
            "declares no limit: set one with gymnasium.wrappers.TimeLimit or "
            "--environment.sim_steps."
        )
    if all(r.terminated for r in rollouts) and len(lengths) == 1 < len(rollouts):
        yield (
            f"Every random episode was terminated after exactly {max(lengths)} steps. "
            "Return truncated when the time is up; terminated means that nothing more "
            "can be earned."
        )
    window, starts = settings["forgetting.window"], settings[_STARTS]
    held = window * (limit or max(lengths))
    if held < starts:
        yield (
            f"{window} episodes hold {held} transitions, and learning starts with "
            f"{starts}: a method that forgets would never learn. Increase H or w, or "
            f"decrease {_STARTS} and agent.sac.batch_size."
        )


def _facts(env: Env, rollouts: list[_Rollout], limit: int | None) -> dict[str, str]:
    settable = env.has_wrapper_attr("set_parameters")
    facts = {
        "parameters": "settable (set_parameters)"
        if settable
        else "no set_parameters(): it drifts on its own, unless a setter is given",
        "episode length": "not declared" if limit is None else f"at most {limit} steps",
        _CHECKER: _gymnasium_objections(env),
    }
    lengths = [len(rollout) for rollout in rollouts]
    rewards = np.concatenate([rollout.rewards for rollout in rollouts])
    if rewards.size:
        facts |= {
            "random episodes": f"{len(lengths)} of {min(lengths)} to {max(lengths)} "
            f"steps; {sum(bool(r.terminated) for r in rollouts)} terminated, "
            f"{sum(bool(r.truncated) for r in rollouts)} truncated",
            "reward of a step": f"{rewards.mean():.4g} ± {rewards.std():.4g}, "
            f"from {rewards.min():.4g} to {rewards.max():.4g}",
        }
    return facts


def _settings(task: Task) -> dict[str, Any]:
    """Return the settings of a run that depend on the environment."""
    agent = task.agent
    assert isinstance(agent, EnsembleAgentConfig)
    return {
        "environment.sim_steps": task.environment.sim_steps,
        "agent.imagination.termination": agent.imagination.termination,
        _STARTS: agent.learning.learning_starts,
        "agent.sac.batch_size": agent.sac.batch_size,
        "agent.sac.hidden": list(agent.sac.hidden),
        "forgetting.window": task.window,
    }
