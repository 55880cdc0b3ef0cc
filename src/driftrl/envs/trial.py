"""An environment tried out with given actions: what came back, and what went wrong.

Nothing that an environment returns or raises stops whoever tries it: it is noted, in a
sentence, and the episode is over.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

_HELD = 10  # steps
_RESULTS = "obs, reward, terminated, truncated, info"

Env = gymnasium.Env[Any, Any]
Actions = Callable[[int], np.ndarray | None]
"""Step (from 0) ↦ the action there; None ends the episode."""


@dataclass(frozen=True)
class Trial:
    """One episode, as far as it went."""

    observations: np.ndarray
    """From the reset on, one more than steps."""
    actions: np.ndarray
    rewards: np.ndarray
    seconds: np.ndarray
    """What each step took."""
    terminated: bool
    truncated: bool
    fault: str | None
    """What can't be learned from, in a sentence; the episode went no further."""
    oddities: tuple[str, ...] = ()
    """What can be learned from, and is not as it should be, in sentences."""

    def __len__(self) -> int:
        """Return the number of steps."""
        return len(self.rewards)


@dataclass
class _Log:
    observations: list[np.ndarray] = field(default_factory=list)
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    terminated: bool = False
    truncated: bool = False
    oddities: dict[str, None] = field(default_factory=dict)


class _Fault(Exception):
    """Says in a sentence what the environment did."""


def random_actions(space: spaces.Box, seed: int, *, held: bool) -> Actions:
    """Return actions drawn evenly within the bounds, anew at every step or held.

    Actions drawn anew cancel one another on a machine with inertia, which then hardly
    moves; those that are held for some steps show what it does when it does.
    """
    rng = np.random.default_rng(seed)
    action = np.zeros(space.shape)

    def draw(step: int) -> np.ndarray:
        nonlocal action
        if not held or step % _HELD == 0:
            action = rng.uniform(space.low, space.high).astype(space.dtype)
        return action

    return draw


def limited(actions: Actions, steps: int, deadline: float) -> Actions:
    """Return actions that end after some steps, and by a time of ``perf_counter``."""

    def draw(step: int) -> np.ndarray | None:
        late = step > 0 and time.perf_counter() > deadline
        return None if step >= steps or late else actions(step)

    return draw


def drive(
    env: Env, actions: Actions, *, seed: int, place: dict[str, int] | None = None
) -> Trial:
    """Live through one episode, up to its end, the last action, or a fault.

    Args:
        env: The environment.
        actions: What it is told.
        seed: Of the reset.
        place: Where the episode is on the clocks of a run, which a run tells reset.
    """
    log, fault = _Log(), None
    try:
        answer = _called("reset()", lambda: env.reset(seed=seed, options=place))
        for _ in _steps(env, answer, actions, log):
            pass
    except _Fault as error:
        fault = str(error)
    return Trial(
        observations=np.array(log.observations),
        actions=np.array(log.actions),
        rewards=np.array(log.rewards, np.float64),
        seconds=np.array(log.seconds, np.float64),
        terminated=log.terminated,
        truncated=log.truncated,
        fault=fault,
        oddities=tuple(log.oddities),
    )


def _steps(env: Env, answer: Any, actions: Actions, log: _Log) -> Iterator[None]:
    space = env.observation_space
    shape = space.shape
    if not isinstance(answer, tuple) or len(answer) != 2:
        raise _Fault(f"reset() must return (obs, info), and returned {_kind(answer)}.")
    log.observations.append(_numbers(answer[0], shape, "reset()"))
    log.oddities.update(_odd_type(answer[0], space))
    while not (log.terminated or log.truncated):
        step = len(log.rewards)
        if (action := actions(step)) is None:
            return
        where = f"step() number {step + 1} of an episode"
        began = time.perf_counter()
        answer = _called(where, lambda action=action: env.step(action))
        seconds = time.perf_counter() - began
        if not isinstance(answer, tuple) or len(answer) != 5:
            raise _Fault(f"{where} must return ({_RESULTS}): it was {_kind(answer)}.")
        obs, reward, terminated, truncated, _ = answer
        seen = _numbers(obs, shape, where)
        earned = _numbers(reward, (), f"{where}, as a reward,")
        log.observations.append(seen)
        log.actions.append(action)
        log.rewards.append(float(earned))
        log.seconds.append(seconds)
        log.oddities.update(_odd_type(obs, space))
        log.oddities.update(_odd_flags(terminated=terminated, truncated=truncated))
        log.terminated, log.truncated = bool(terminated), bool(truncated)
        yield


def _odd_type(obs: Any, space: spaces.Space[Any]) -> dict[str, None]:
    """Say that observations are of another type than they are declared to be."""
    if not isinstance(obs, np.ndarray) or obs.dtype == space.dtype:
        return {}
    return {
        f"Observations are returned as {obs.dtype}, and observation_space declares "
        f"{space.dtype}: declare what is returned.": None
    }


def _odd_flags(**flags: Any) -> dict[str, None]:
    """Say which flags of a step are no truth values."""
    return {
        f"step() returned {name} = {flag!r}, which counts as {bool(flag)}: return "
        "True or False.": None
        for name, flag in flags.items()
        if not isinstance(flag, bool | np.bool_)
    }


def _called(where: str, call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:  # an environment of the user's may raise anything
        raise _Fault(f"{where} raised {described(error)}.") from error


def _numbers(value: Any, shape: tuple[int, ...] | None, where: str) -> np.ndarray:
    """Return finite numbers of a shape, or raise what is wrong with them."""
    try:
        array = np.array(value, np.float64)
    except (TypeError, ValueError):
        raise _Fault(f"{where} returned {_kind(value)}, which is no number.") from None
    if array.shape != shape:
        raise _Fault(
            f"{where} returned numbers of shape {array.shape} where {shape} belongs."
        )
    if not np.isfinite(array).all():
        wrong = int(np.flatnonzero(~np.isfinite(array))[0])
        which = f"number {wrong} (from 0)" if array.ndim else "it"
        raise _Fault(
            f"{where} returned what is not finite: {which} is {array.flat[wrong]}."
        )
    return array


def _kind(value: Any) -> str:
    if isinstance(value, tuple):
        return f"a tuple of {len(value)}"
    return f"a {type(value).__name__}"


def described(error: Exception) -> str:
    """Return an exception in one line."""
    said = " ".join(str(error).split()).rstrip(".")
    return f"{type(error).__name__}: {said}" if said else type(error).__name__
