"""Limits of a robot: pure checks of actions and observations."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from driftrl.errors import at_least, require
from driftrl.robot.protocol import Code

Actions = Float[np.ndarray, " A"]
_SLACK = 0.1


@dataclass(frozen=True)
class Fault:
    """Why the machine must be stopped."""

    code: Code
    reason: str


class Interrupted(Exception):
    """The episode cannot go on; ``fault`` says why."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.reason)
        self.fault = fault


def fault(code: Code, reason: str) -> Interrupted:
    """Return the exception that stops an episode."""
    return Interrupted(Fault(code, reason))


@dataclass(frozen=True)
class Bound:
    """Where one entry of the observation, such as a position, must stay."""

    index: int
    low: float
    high: float

    def __post_init__(self) -> None:
        at_least("The index of a bound", self.index, 0)
        require(
            self.low < self.high,
            f"A bound must leave room between its ends, received {self.low!r} to "
            f"{self.high!r}.",
        )


@dataclass(frozen=True)
class Limits:
    """Limits of a robot."""

    stop: tuple[float, ...]
    """The action that brings the machine to rest."""
    observation_size: int
    rate: float = 2.0
    """Largest change of an action's entry from one period to the next; 2 is all."""
    bounds: tuple[Bound, ...] = ()
    sensors: tuple[tuple[float, float], ...] = ()
    """Smallest and largest reading of each entry; empty if there is no such limit."""
    frozen: int = 0
    """So many equal observations in a row mean that the sensors are stuck; 0 is off."""

    def __post_init__(self) -> None:
        require(
            len(self.stop) > 0 and all(abs(value) <= 1 for value in self.stop),
            f"The stop action must be numbers in [−1, 1], received {self.stop!r}.",
        )
        require(
            0 < self.rate <= 2,
            f"The rate limit must lie in (0, 2], received {self.rate!r}.",
        )
        require(
            self.frozen == 0 or self.frozen >= 2,
            f"frozen must be 0 or at least 2 equal observations, got {self.frozen!r}.",
        )
        for bound in self.bounds:
            require(
                bound.index < self.observation_size,
                f"A bound is set on entry {bound.index} of the observation, which has "
                f"entries 0 to {self.observation_size - 1}.",
            )


def sensor_ranges(
    low: Float[np.ndarray, " S"], high: Float[np.ndarray, " S"]
) -> tuple[tuple[float, float], ...]:
    """Return what sensors may read: the declared range, and a tenth of it either side.

    The slack is for noise and rounding; an infinite end stays infinite.
    """
    width = np.where(np.isfinite(high - low), high - low, 0.0)
    margin = _SLACK * width
    return tuple(zip((low - margin).tolist(), (high + margin).tolist(), strict=True))


def limited(values: Actions, before: Actions, rate: float) -> Actions:
    """Return the action nearest to ``values`` in [−1, 1] with |u − u_before| ≤ rate.

    An action within the limits is returned unchanged, bit for bit.
    """
    low, high = np.maximum(before - rate, -1.0), np.minimum(before + rate, 1.0)
    return np.minimum(np.maximum(values, low), high)


def check_observation(
    obs: Float[np.ndarray, " S"], reward: float, repeats: int, limits: Limits
) -> Fault | None:
    """Return what is wrong with an observation, None if nothing is.

    Args:
        obs: The observation.
        reward: Its reward.
        repeats: Equal observations in a row, this one included.
        limits: The robot's limits.
    """
    size = limits.observation_size
    if obs.shape != (size,):
        found = f"an observation of shape {obs.shape}; it has {size} numbers"
        return Fault("observation", f"The machine returned {found}.")
    if not np.isfinite(obs).all():
        wrong = int(np.flatnonzero(~np.isfinite(obs))[0])
        return Fault(
            "observation", f"Entry {wrong} of the observation is {obs[wrong]}."
        )
    if not np.isfinite(reward):
        return Fault("observation", f"The reward is {reward}.")
    if limits.frozen and repeats >= limits.frozen:
        return Fault("stale", f"{repeats} observations in a row were the same.")
    return _beyond(obs, limits)


def _beyond(obs: Float[np.ndarray, " S"], limits: Limits) -> Fault | None:
    for index, (low, high) in enumerate(limits.sensors):
        if not low <= obs[index] <= high:
            return Fault(
                "range",
                f"Entry {index} of the observation is {obs[index]:.6g}; the sensors "
                f"read from {low:.6g} to {high:.6g}.",
            )
    for bound in limits.bounds:
        if not bound.low <= obs[bound.index] <= bound.high:
            return Fault(
                "bounds",
                f"Entry {bound.index} of the observation is {obs[bound.index]:.6g}; "
                f"the machine must stay within {bound.low:.6g} and {bound.high:.6g}.",
            )
    return None
