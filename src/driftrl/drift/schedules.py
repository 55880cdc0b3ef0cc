"""Schedules: the drifting parameter θ as a function of an integer clock.

The clock is usually the number n of an episode, counted from 1 as in the paper.  A
schedule is any callable that returns θ at a clock.  It must have no state, so that θ_n
can be asked for in any order, or again after a restart.  All boundaries are inclusive:
the first changed value is that of ``start + 1``, as in the paper's formula.

``SCHEDULES`` has the schedules that come with driftrl by ``kind``, their name in files
and on the command line.  Their defaults are the torque limit, in N·m, of a pendulum
that becomes weaker.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from driftrl.errors import require, shown


@runtime_checkable
class Schedule(Protocol):
    """θ at every clock."""

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        ...


def value_at(schedule: Schedule, clock: int) -> float:
    """Return θ of a schedule; ``InputError`` if it is not a finite number."""
    value: Any = schedule(clock)
    number = math.nan
    if hasattr(value, "__float__") and not isinstance(value, bool):
        number = float(value)
    require(
        math.isfinite(number),
        f"The schedule {getattr(schedule, '__qualname__', schedule)} returned "
        f"{shown(value)} at {clock}; it must return a finite number.",
    )
    return number


def extremes(schedule: Schedule) -> tuple[float, float]:
    """Return ``bounds`` of a schedule that has them, or else its first value twice."""
    bounds = getattr(schedule, "bounds", None)
    return bounds or (value_at(schedule, 1), value_at(schedule, 1))


@dataclass(frozen=True)
class _Checked:
    """Checks fields by their types and stores plain floats and ints.

    Schedules that mean the same are then equal and are written alike.
    """

    kind: ClassVar[str]
    least: ClassVar[Mapping[str, int]] = {}

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type is float:
                self._demand(_is_number(value), item.name, "a finite number")
                object.__setattr__(self, item.name, float(value))
            elif item.type is int:
                whole = _is_whole(value)
                self._demand(whole, item.name, "a whole number, at least 0")
                object.__setattr__(self, item.name, int(value))
        for name, least in self.least.items():
            self._demand(getattr(self, name) >= least, name, f"at least {least}")

    def _demand(self, condition: bool, name: str, allowed: str) -> None:
        """Refuse a field unless the condition holds."""
        require(
            condition,
            f"Schedule {self.kind!r}: {name} must be {allowed}; received "
            f"{shown(getattr(self, name))}.",
        )


@dataclass(frozen=True)
class _Bounded(_Checked):
    """A schedule that stays between two values, and is at the upper one at first."""

    theta_max: float = 2.0
    """Largest value of θ: its value before it begins to drift."""
    theta_min: float = 1.0
    """Smallest value of θ."""
    start: int = field(default=10, kw_only=True)
    """Last clock before θ begins to drift."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._demand(self.theta_min <= self.theta_max, "theta_min", "at most theta_max")

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest θ."""
        return self.theta_min, self.theta_max

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        return self._after(max(0, clock - self.start))

    def _after(self, elapsed: int) -> float:
        """Return θ so many ticks after ``start``."""
        raise NotImplementedError

    def _between(self, share: float) -> float:
        """Return share·(θ_max−θ_min) + θ_min, which rounding keeps within bounds."""
        if share == 1:
            return self.theta_max  # the sum would be 0.8999999999999999 for 0.9 and 0.2
        return share * (self.theta_max - self.theta_min) + self.theta_min


@dataclass(frozen=True)
class Constant(_Checked):
    """No drift: θ_n = value."""

    kind: ClassVar[str] = "constant"

    value: float = 2.0
    """Value of θ at all times."""

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        return self.value


@dataclass(frozen=True)
class Exponential(_Bounded):
    """The paper's decay: θ_n = exp(−a·max(0, n−n_start))·(θ_max−θ_min) + θ_min."""

    kind: ClassVar[str] = "exponential"
    least: ClassVar[Mapping[str, int]] = {"rate": 0}

    rate: float = 1.0
    """Rate a of the decay per tick of the clock; 0 is no decay."""

    def _after(self, elapsed: int) -> float:
        return self._between(math.exp(-self.rate * elapsed))


@dataclass(frozen=True)
class Linear(_Bounded):
    """A straight line: θ_max up to ``start``, θ_min from ``start + duration`` on."""

    kind: ClassVar[str] = "linear"
    least: ClassVar[Mapping[str, int]] = {"duration": 1}

    duration: int = 10
    """Ticks of the clock from the first value to the last."""

    def _after(self, elapsed: int) -> float:
        left = max(0, self.duration - elapsed)
        return self._between(left / self.duration)


@dataclass(frozen=True)
class Step(_Bounded):
    """One sudden change: θ_max up to and including ``start``, θ_min after it."""

    kind: ClassVar[str] = "step"

    def _after(self, elapsed: int) -> float:
        return self.theta_min if elapsed else self.theta_max


@dataclass(frozen=True)
class Piecewise(_Checked):
    """Several sudden changes: value i holds up to and including boundary i."""

    kind: ClassVar[str] = "piecewise"

    values: tuple[float, ...] = (2.0, 1.0)
    """Values of θ in the order of time, one more than there are boundaries."""
    boundaries: tuple[int, ...] = (10,)
    """Last clock of every value but the last one, increasing."""

    def __post_init__(self) -> None:
        self._demand(all(map(_is_number, self.values)), "values", "finite numbers")
        self._demand(
            all(map(_is_whole, self.boundaries))
            and all(a < b for a, b in pairwise(self.boundaries))
            and len(self.boundaries) + 1 == len(self.values),
            "boundaries",
            "increasing whole numbers, one less than there are values",
        )
        object.__setattr__(self, "values", tuple(map(float, self.values)))
        object.__setattr__(self, "boundaries", tuple(map(int, self.boundaries)))

    @property
    def bounds(self) -> tuple[float, float]:
        """Smallest and largest θ."""
        return min(self.values), max(self.values)

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        return self.values[bisect_left(self.boundaries, clock)]


@dataclass(frozen=True)
class Cyclic(_Bounded):
    """A cosine that begins at θ_max after ``start`` and is at θ_min half a period on.

    θ_n = (θ_max−θ_min)·(1 + cos(2π·max(0, n−start)/period))/2 + θ_min
    """

    kind: ClassVar[str] = "cyclic"
    least: ClassVar[Mapping[str, int]] = {"period": 1}

    period: int = 20
    """Ticks of the clock from one largest value to the next."""

    def _after(self, elapsed: int) -> float:
        # The remainder makes the cycle repeat exactly, however large the clock is.
        phase = (elapsed % self.period) / self.period
        return self._between((1 + math.cos(2 * math.pi * phase)) / 2)


@dataclass(frozen=True)
class RandomWalk(_Bounded):
    """A Gaussian random walk that is reflected at θ_min and θ_max.

    θ_n = fold(initial + scale·(ε_1 + … + ε_k)), where k = max(0, n−start), the ε are
    standard normal draws fixed by ``seed``, and fold mirrors the line into
    [θ_min, θ_max]: the law of a walk that is reflected at every single step.  The draws
    are made anew in every call, so that there is no state to lose; a call costs O(k).
    """

    kind: ClassVar[str] = "random_walk"
    least: ClassVar[Mapping[str, int]] = {"scale": 0}

    initial: float = 2.0
    """Value of θ before the walk begins, between the bounds."""
    scale: float = 0.1
    """Standard deviation of one step of the walk."""
    seed: int = 0
    """Seed that fixes all steps of the walk."""

    def __post_init__(self) -> None:
        super().__post_init__()
        inside = self.theta_min <= self.initial <= self.theta_max
        self._demand(inside, "initial", "between theta_min and theta_max")

    def _after(self, elapsed: int) -> float:
        if elapsed == 0:
            return self.initial
        draws = np.random.default_rng(self.seed).standard_normal(elapsed)
        value = self.initial + self.scale * math.fsum(draws)
        width = self.theta_max - self.theta_min
        if width == 0:
            return self.theta_min
        beyond = (value - self.theta_min) % (2 * width)
        return self._between(min(beyond, 2 * width - beyond) / width)


@dataclass(frozen=True)
class Geometric(_Bounded):
    """A constant loss per tick: θ_n = max(θ_max·ratio^max(0, n−start), θ_min)."""

    kind: ClassVar[str] = "geometric"
    # A negative value would grow towards 0, out of its bounds.
    least: ClassVar[Mapping[str, int]] = {"theta_min": 0}

    ratio: float = 0.9
    """Factor by which θ shrinks with every tick, above 0 and at most 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self._demand(0 < self.ratio <= 1, "ratio", "above 0 and at most 1")

    def _after(self, elapsed: int) -> float:
        return max(self.theta_max * self.ratio**elapsed, self.theta_min)


@dataclass(frozen=True)
class Logarithmic(_Bounded):
    """Ever slower wear: θ_n = max(θ_max − a·log(1 + max(0, n−start)), θ_min).

    Its variation grows as log N, the paper's example of a budget under which the regret
    stays sublinear.
    """

    kind: ClassVar[str] = "logarithmic"
    least: ClassVar[Mapping[str, int]] = {"rate": 0}

    rate: float = 0.2
    """What θ loses while the elapsed time grows by a factor of e, at least 0."""

    def _after(self, elapsed: int) -> float:
        return max(self.theta_max - self.rate * math.log1p(elapsed), self.theta_min)


@dataclass(frozen=True)
class Unknown:
    """A system that drifts on its own, if it does: θ is neither set nor known."""

    kind: ClassVar[str] = "unknown"

    def __call__(self, clock: int) -> float:
        """Return NaN."""
        return math.nan


SCHEDULES: dict[str, type[Any]] = {
    schedule.kind: schedule
    for schedule in (
        *(Constant, Exponential, Linear, Step, Piecewise, Cyclic, RandomWalk),
        *(Geometric, Logarithmic, Unknown),
    )
}
"""The schedules that come with driftrl by their kind."""


def _is_number(value: Any) -> bool:
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and math.isfinite(value)


def _is_whole(value: Any) -> bool:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and int(value) >= 0
