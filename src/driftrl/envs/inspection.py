"""What an environment of one's own is like, found out by asking and by trying it.

``declared`` only asks.  ``inspect`` also drives it, with random actions within its
bounds; what stands in the way of learning comes first, in sentences.
"""

import re
import time
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.utils.env_checker import check_env

from driftrl.config.deep import EnsembleAgentConfig
from driftrl.envs.custom import (
    STEPS,
    as_env,
    check_reset,
    custom_task,
    episode_steps,
    steps_of,
)
from driftrl.envs.spaces import box_sizes
from driftrl.envs.trial import Env, Trial, described, drive, limited, random_actions
from driftrl.errors import InputError, at_least, positive, require

_COMPARED = 200  # steps
_LARGE = 100.0
_GUESSED_STEPS = 200  # of an attempt of which nobody says how long it is
# What Gymnasium's checker remarks and is no matter here: wrappers are part of what is
# learned, actions are scaled to their bounds, and observations need none.
_OF_NO_CONCERN = (
    "different from the unwrapped version",
    "symmetric and normalized",
    "observation space minimum value is -infinity",
    "observation space maximum value is infinity",
)
_COLOUR = re.compile(r"\x1b\[[0-9;]*m")


@dataclass(frozen=True)
class Driven:
    """What random episodes showed."""

    lengths: tuple[int, ...]
    """Steps of every episode."""
    terminated: int
    """Episodes that the task ended."""
    truncated: int
    """Episodes that the clock ended."""
    cut: int | None
    """Shortest length at which we gave up waiting for an end; None if we never did."""
    truncated_after: tuple[int, ...]
    """All lengths at which the clock ended an episode."""
    reward_mean: float
    reward_spread: float
    """Standard deviation over steps."""
    reward_largest: float
    """The one farthest from 0."""
    step_ms: float
    """Median time of a step."""
    lowest: tuple[float, ...]
    """Of every number observed."""
    highest: tuple[float, ...]
    constant: tuple[int, ...]
    """Numbers observed that never changed, from 0."""
    large: tuple[int, ...]
    """Numbers observed that are far larger than ±1."""
    outside: tuple[int, ...]
    """Numbers observed outside the bounds that are declared for them."""
    oddities: tuple[str, ...] = ()
    """What was returned and is not as it should be, in sentences."""

    @property
    def clockwork(self) -> int | None:
        """Steps after which the task ended every episode alike; None if it did not."""
        longest = max(self.lengths)
        alike = set(self.lengths) == {longest} and len(self.lengths) > 1
        return longest if alike and self.terminated == len(self.lengths) else None


@dataclass(frozen=True)
class Repeats:
    """Whether the same seed and actions give the same episode, bit for bit."""

    steps: int
    """Length of what was compared."""
    here: str | None
    """How a second time differs in the same instance; None if it does not."""
    elsewhere: str | None
    """How it differs in a second instance, or why there is none; None if same."""
    untold: str | None = None
    """How it differs if reset is not told which episode it is; None if it does not."""


@dataclass(frozen=True)
class Findings:
    """All that is known of an environment."""

    name: str
    observation: str
    """The space of observations, in Gymnasium's words."""
    action: str
    sizes: tuple[int, int] | None
    """Numbers of observations and actions; None if they can't be learned."""
    observation_bounded: bool
    """Whether every observation has finite bounds."""
    low: tuple[float, ...]
    """Lower bounds of actions; empty if they are no box."""
    high: tuple[float, ...]
    limit: int | None
    """Longest episode, if the environment declares it."""
    whole_actions: bool = False
    """Whether actions are whole numbers."""
    faults: tuple[str, ...] = ()
    """What must be mended before it can be learned."""
    checker: tuple[str, ...] | None = None
    """What Gymnasium's own checker objects to; None if it was not asked."""
    driven: Driven | None = None
    repeats: Repeats | None = None

    @property
    def learnable(self) -> bool:
        """Whether nothing stands in the way."""
        return not self.faults


@dataclass(frozen=True)
class Defaults:
    """What a run starts from, and why."""

    steps: int
    """Decisions of an episode that runs its full time, as a run takes it to be."""
    lasts: int
    """Decisions that one seems to take, which is what ``steps`` should be."""
    termination: Literal["absent", "known", "learned"]
    """When imagined rollouts end."""
    learning_starts: int
    """Retained transitions below which nothing is updated."""
    batch: int
    forget_after: int
    """H of R-OMBRL and w of SW-OMBRL, in episodes."""
    hidden: tuple[int, ...]
    """Units of each hidden layer, of the policy and of every model."""
    reasons: Mapping[str, str]
    """Why, by the names above."""


def built(make: Callable[[], Any], name: str) -> Env:
    """Return the environment that a factory makes.

    Raises:
        InputError: It makes none.
    """
    try:
        made_one = make()
    except Exception as error:  # a factory of the user's may raise anything
        raise InputError(
            f"Making the environment {name!r} raised {described(error)}."
        ) from error
    return as_env(made_one, name)


def declared(env: Env, name: str) -> Findings:
    """Return what an environment says of itself; it is not touched."""
    observed, chosen = (
        getattr(env, part, None) for part in ("observation_space", "action_space")
    )
    for part, space in (("observation_space", observed), ("action_space", chosen)):
        require(
            isinstance(space, spaces.Space),
            f"Environment {name!r} has no {part} of gymnasium.spaces.",
        )
    box = chosen if isinstance(chosen, spaces.Box) else None
    found = Findings(
        name=name,
        observation=str(observed),
        action=str(chosen),
        sizes=None,
        observation_bounded=isinstance(observed, spaces.Box) and observed.is_bounded(),
        low=() if box is None else tuple(box.low.astype(float).ravel().tolist()),
        high=() if box is None else tuple(box.high.astype(float).ravel().tolist()),
        limit=steps_of(env),
        whole_actions=box is not None and np.issubdtype(box.dtype, np.integer),
    )
    try:
        found = replace(found, sizes=box_sizes(env))
        check_reset(env)
    except InputError as refusal:
        return replace(found, faults=(str(refusal),))
    return found


def inspect(
    make: Callable[[], Any],
    name: str,
    *,
    episodes: int = 5,
    seconds: float = 20.0,
    seed: int = 0,
) -> Findings:
    """Find out what an environment is like.

    Args:
        make: Makes it; called twice, the second time after the first was closed.
        name: What to call it.
        episodes: Random episodes to drive.
        seconds: Time after which no more is driven.
        seed: Of actions and resets.
    """
    at_least("episodes", episodes, 1)
    positive("seconds", seconds)
    at_least("seed", seed, 0)
    env = built(make, name)
    try:
        found = declared(env, name)
        if found.faults:
            return replace(found, checker=gymnasium_says(env))
        trials = _random_trials(env, found, episodes, seconds, seed)
        again = _again(env, trials[0], seed)
        untold = difference(trials[0], _again(env, trials[0], seed, told=False))
        checker = gymnasium_says(env)
    finally:
        _close(env)
    faults = tuple(dict.fromkeys(trial.fault for trial in trials if trial.fault))
    found = replace(found, faults=faults, checker=checker, driven=_driven(env, trials))
    if found.driven is None:
        return found
    elsewhere = _elsewhere(make, name, trials[0], seed)
    here = difference(trials[0], again)
    repeats = Repeats(len(again), here, elsewhere, untold)
    return replace(found, repeats=repeats)


def defaults_for(findings: Findings) -> Defaults:
    """Return what a run on the environment starts from.

    Raises:
        InputError: Its spaces can't be learned.
    """
    require(findings.sizes is not None, " ".join(findings.faults))
    assert findings.sizes is not None
    steps, (lasts, why_steps) = episode_steps(findings.limit), _lasts(findings)
    task = custom_task(findings.name, findings.sizes, steps)
    assert isinstance(task.agent, EnsembleAgentConfig)
    learning, sac = task.agent.learning, task.agent.sac
    waits = -(-learning.learning_starts // lasts)
    return Defaults(
        steps=steps,
        lasts=lasts,
        termination=task.agent.imagination.termination,
        learning_starts=learning.learning_starts,
        batch=sac.batch_size,
        forget_after=task.window,
        hidden=sac.hidden,
        reasons={
            "steps": why_steps,
            "termination": _why_termination(findings.driven),
            "learning_starts": f"enough to draw batches of {sac.batch_size} from; "
            f"episodes of full length until then: {waits}",
            "batch": "grows with the networks",
            "forget_after": "nobody knows how fast it drifts; they hold up to "
            f"{task.window * lasts} transitions, and the machine should hardly change "
            "meanwhile",
            "hidden": f"numbers observed: {findings.sizes[0]}",
        },
    )


def _lasts(findings: Findings) -> tuple[int, str]:
    """Return how long an episode seems to take, and why a run takes what it takes."""
    driven = findings.driven
    if findings.limit is not None:
        return findings.limit, "the environment declares it"
    assumed = "assumed, as the environment declares no limit"
    if driven is not None and driven.truncated_after:
        longest = max(driven.truncated_after)
        same = len(set(driven.truncated_after)) == 1
        return longest, (
            f"{assumed}; its clock ended random episodes after {longest}"
            f"{'' if same else ' at the latest'}: "
            f"give --environment.sim_steps {longest}"
        )
    # A better policy may last longer than random actions did.
    tried = () if driven is None or driven.cut else driven.lengths
    return max((_GUESSED_STEPS, *tried)), (
        f"{assumed}; choose what an attempt takes, as --environment.sim_steps"
    )


def _why_termination(driven: Driven | None) -> str:
    if driven is None:
        return "right whether it can end or not"
    if driven.terminated:
        return f"{driven.terminated} of {len(driven.lengths)} random episodes ended"
    return (
        f"none of {len(driven.lengths)} random episodes ended, which proves nothing; "
        "if no state ever ends it, 'absent' saves a network"
    )


def gymnasium_says(env: Env) -> tuple[str, ...]:
    """Return what Gymnasium's own checker objects to, a sentence each."""
    said = []
    with warnings.catch_warnings(record=True) as raised:
        warnings.simplefilter("always")
        try:
            check_env(env, skip_render_check=True, skip_close_check=True)
        except Exception as error:  # it lets through whatever the environment raises
            said = [described(error).removeprefix("AssertionError: ")]
    said = [*(str(warning.message) for warning in raised), *said]
    plain = [" ".join(_COLOUR.sub("", text).split()) for text in said]
    return tuple(
        dict.fromkeys(
            text.removeprefix("WARN: ").rstrip(".") + "."
            for text in plain
            if not any(phrase in text for phrase in _OF_NO_CONCERN)
        )
    )


def difference(first: Trial, second: Trial) -> str | None:
    """Say how a repetition, which may be of fewer actions, differs; None if not."""
    steps = len(second)
    if len(first) < steps or (_ended(second) and steps < len(first)):
        return f"one ends after step {min(len(first), steps)}, and the other goes on"
    pairs = (
        ("observations", first.observations[: steps + 1], second.observations),
        ("rewards", first.rewards[:steps], second.rewards),
    )
    for name, one, other in pairs:
        if not np.array_equal(one, other):
            gap = np.abs(one - other).reshape(len(one), -1).max(axis=1)
            start = int(np.flatnonzero(gap)[0]) + (name == "rewards")
            since = f"from step {start} on" if start else "from the reset on"
            return f"{name} differ {since}, by up to {gap.max():.3g}"
    return None


def _ended(trial: Trial) -> bool:
    return trial.terminated or trial.truncated or trial.fault is not None


def _random_trials(
    env: Env, found: Findings, episodes: int, seconds: float, seed: int
) -> list[Trial]:
    """Drive random episodes, until one shows a fault or the time is up."""
    assert isinstance(env.action_space, spaces.Box)
    deadline = time.perf_counter() + seconds
    trials: list[Trial] = []
    for number in range(episodes):
        held = number % 2 == 1
        actions = random_actions(env.action_space, seed + number, held=held)
        place = {"episode": number + 1, "steps": sum(map(len, trials))}
        trial = drive(
            env,
            limited(actions, max(STEPS, found.limit or 0), deadline),
            seed=seed + number,
            place=place,
        )
        trials.append(trial)
        if trial.fault or time.perf_counter() > deadline:
            break
    return trials


def _again(env: Env, trial: Trial, seed: int, *, told: bool = True) -> Trial:
    """Drive the first episode's first actions once more."""
    repeated = list(trial.actions[:_COMPARED])

    def action(step: int) -> np.ndarray | None:
        return repeated[step] if step < len(repeated) else None

    place = {"episode": 1, "steps": 0} if told else None
    return drive(env, action, seed=seed, place=place)


def _elsewhere(
    make: Callable[[], Any], name: str, trial: Trial, seed: int
) -> str | None:
    try:
        other = built(make, name)
    except InputError as error:
        return f"there is none: {str(error).rstrip('.')}"
    try:
        return difference(trial, _again(other, trial, seed))
    finally:
        _close(other)


def _close(env: Env) -> None:
    # What was found is worth more than a goodbye that went wrong.
    with suppress(Exception):
        env.close()


def _driven(env: Env, trials: list[Trial]) -> Driven | None:
    """Return what the steps before any fault showed; None if there are none."""
    if not any(len(trial) for trial in trials):
        return None
    assert isinstance(env.observation_space, spaces.Box)
    seen = np.concatenate([trial.observations for trial in trials if len(trial)])
    rewards = np.concatenate([trial.rewards for trial in trials])
    cut = [len(trial) for trial in trials if not _ended(trial)]
    lowest, highest = seen.min(axis=0), seen.max(axis=0)
    reach = np.maximum(np.abs(lowest), np.abs(highest))
    # Those that an environment gives in single precision may round past their bounds.
    room = 1e-6 * np.maximum(1.0, reach)
    low, high = env.observation_space.low, env.observation_space.high
    return Driven(
        lengths=tuple(len(trial) for trial in trials),
        terminated=sum(trial.terminated for trial in trials),
        truncated=sum(trial.truncated and not trial.terminated for trial in trials),
        cut=min(cut, default=None),
        truncated_after=tuple(len(one) for one in trials if one.truncated),
        reward_mean=float(rewards.mean()),
        reward_spread=float(rewards.std()),
        reward_largest=float(rewards[np.abs(rewards).argmax()]),
        step_ms=float(1e3 * np.median(np.concatenate([t.seconds for t in trials]))),
        lowest=tuple(lowest.tolist()),
        highest=tuple(highest.tolist()),
        constant=_where(lowest == highest),
        large=_where(reach > _LARGE),
        outside=_where((lowest < low - room) | (highest > high + room)),
        oddities=tuple(dict.fromkeys(odd for one in trials for odd in one.oddities)),
    )


def _where(condition: np.ndarray) -> tuple[int, ...]:
    return tuple(np.flatnonzero(condition).tolist())
