"""Limits of a robot: pure checks of actions and observations."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from driftrl.errors import require
from driftrl.robot.protocol import Code

Actions = Float[np.ndarray, " A"]
_SLACK = 0.1


class Interrupted(Exception):
    """The episode cannot go on: the machine must be stopped."""

    def __init__(self, code: Code, reason: str) -> None:
        super().__init__(reason)
        self.code: Code = code
        self.reason = reason


class Bound(NamedTuple):
    """Where one entry of the observation, such as a position, must stay."""

    entry: int
    low: float
    high: float


@dataclass(frozen=True)
class Limits:
    """Limits of a robot."""

    stop: tuple[float, ...]
    """The action that brings the machine to rest."""
    observation_size: int
    rate: float = 2.0
    """Largest change of an action's entry from one period to the next; 2 is all."""
    bounds: tuple[Bound, ...] = ()
    sensors: tuple[Bound, ...] = ()
    """What the sensors can read, entry by entry."""

    def __post_init__(self) -> None:
        require(
            len(self.stop) > 0 and all(abs(value) <= 1 for value in self.stop),
            f"The stop action must be numbers in [−1, 1], received {self.stop!r}.",
        )
        require(
            0 < self.rate <= 2,
            f"The rate limit must lie in (0, 2], received {self.rate!r}.",
        )
        for bound in self.bounds:
            require(
                0 <= bound.entry < self.observation_size and bound.low < bound.high,
                f"A bound has an entry of 0 to {self.observation_size - 1} and leaves "
                f"room between its ends, received {bound}.",
            )


def sensor_ranges(
    low: Float[np.ndarray, " S"], high: Float[np.ndarray, " S"]
) -> tuple[Bound, ...]:
    """Return what sensors may read: the declared range, and a tenth of it either side.

    The slack is for noise and rounding; an infinite end stays infinite.
    """
    margin = _SLACK * np.where(np.isfinite(high - low), high - low, 0.0)
    ends = np.stack([low - margin, high + margin], axis=1).tolist()
    return tuple(Bound(entry, *pair) for entry, pair in enumerate(ends))


def limited(values: Actions, before: Actions, rate: float) -> Actions:
    """Return the action nearest to ``values`` in [−1, 1] with |u − u_before| ≤ rate.

    An action within the limits is returned unchanged, bit for bit.
    """
    low, high = np.maximum(before - rate, -1.0), np.minimum(before + rate, 1.0)
    return np.minimum(np.maximum(values, low), high)


def check_observation(
    obs: Float[np.ndarray, "..."], reward: float, limits: Limits
) -> None:
    """Raise Interrupted if an observation is wrong."""
    if obs.shape != (limits.observation_size,):
        size = limits.observation_size
        raise Interrupted("observation", f"{size} numbers expected, not {obs.shape}.")
    for index in np.flatnonzero(~np.isfinite(obs)):
        raise Interrupted(
            "observation", f"Entry {index} of the observation is {obs[index]}."
        )
    if not np.isfinite(reward):
        raise Interrupted("observation", f"The reward is {reward}.")
    _check_within(obs, limits.sensors, "range", "the sensors read")
    _check_within(obs, limits.bounds, "bounds", "the machine must stay")


def _check_within(
    obs: Float[np.ndarray, " S"], bounds: Sequence[Bound], code: Code, what: str
) -> None:
    for entry, low, high in bounds:
        if not low <= obs[entry] <= high:
            raise Interrupted(
                code,
                f"Entry {entry} of the observation is {obs[entry]:.6g}; {what} from "
                f"{low:.6g} to {high:.6g}.",
            )
