"""Schedules: the drifting parameter θ as a pure function of an integer clock.

The clock is usually the number n of an episode, counted from 1 as in the paper.  A
schedule holds no state, so θ_n can be asked for in any order, twice, or again after a
restart.  All boundaries are inclusive: at the clock ``start`` the old value still holds
and the first changed value is that of ``start + 1``, as in the paper's formula.

``SCHEDULES`` finds the schedules by ``kind``, their name in files and on the command
line.  The defaults are the torque limit, in N·m, of a pendulum that becomes weaker.
"""

import math
from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import pairwise
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np

from driftrl.errors import require


@dataclass(frozen=True)
class Constant:
    """No drift: θ_n = value."""

    kind: ClassVar[str] = "constant"

    value: float = 2.0
    """Value of θ at all times."""

    def __post_init__(self) -> None:
        _settle_numbers(self, "value")

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        _settled_clock(clock)
        return self.value


@dataclass(frozen=True)
class Exponential:
    """The paper's decay: θ_n = exp(−a·max(0, n−n_start))·(θ_max−θ_min) + θ_min."""

    kind: ClassVar[str] = "exponential"

    theta_max: float = 2.0
    """Value of θ before the decay."""
    theta_min: float = 1.0
    """Value that θ decays to."""
    rate: float = 1.0
    """Rate a of the decay per tick of the clock; 0 is no decay."""
    start: int = 10
    """Last clock n_start before the decay."""

    def __post_init__(self) -> None:
        _settle_bounds(self)
        _settle_numbers(self, "rate")
        _settle_whole(self, "start", least=0)
        _demand(self, self.rate >= 0, "rate", self.rate, "at least 0")

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        elapsed = max(0, _settled_clock(clock) - self.start)
        return _blend(math.exp(-self.rate * elapsed), self.theta_max, self.theta_min)


@dataclass(frozen=True)
class Linear:
    """A straight line: θ_max up to ``start``, θ_min from ``start + duration`` on."""

    kind: ClassVar[str] = "linear"

    theta_max: float = 2.0
    """Value of θ before the line begins."""
    theta_min: float = 1.0
    """Value of θ after the line has ended."""
    start: int = 10
    """Last clock at which θ has its first value."""
    duration: int = 10
    """Ticks of the clock from the first value to the last."""

    def __post_init__(self) -> None:
        _settle_bounds(self)
        _settle_whole(self, "start", least=0)
        _settle_whole(self, "duration", least=1)

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        elapsed = min(max(0, _settled_clock(clock) - self.start), self.duration)
        share = (self.duration - elapsed) / self.duration
        return _blend(share, self.theta_max, self.theta_min)


@dataclass(frozen=True)
class Step:
    """One sudden change: θ_max up to and including ``start``, θ_min after it."""

    kind: ClassVar[str] = "step"

    theta_max: float = 2.0
    """Value of θ before the change."""
    theta_min: float = 1.0
    """Value of θ after the change."""
    start: int = 10
    """Last clock before the change."""

    def __post_init__(self) -> None:
        _settle_bounds(self)
        _settle_whole(self, "start", least=0)

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        return self.theta_max if _settled_clock(clock) <= self.start else self.theta_min


@dataclass(frozen=True)
class Piecewise:
    """Several sudden changes: value i holds up to and including boundary i."""

    kind: ClassVar[str] = "piecewise"

    values: tuple[float, ...] = (2.0, 1.0)
    """Values of θ in the order of time, one more than there are boundaries."""
    boundaries: tuple[int, ...] = (10,)
    """Last clock of every value but the last one, increasing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", tuple(self.values))
        for value in self.values:
            _demand(self, _is_number(value), "values", value, "finite numbers")
        object.__setattr__(self, "values", tuple(float(v) for v in self.values))
        _settle_boundaries(self, pieces=len(self.values), called="values")

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        return self.values[bisect_left(self.boundaries, _settled_clock(clock))]


@dataclass(frozen=True)
class Cyclic:
    """A cosine that begins at θ_max after ``start`` and is at θ_min half a period on.

    θ_n = (θ_max−θ_min)·(1 + cos(2π·max(0, n−start)/period))/2 + θ_min
    """

    kind: ClassVar[str] = "cyclic"

    theta_max: float = 2.0
    """Largest value of θ, and the value before the cycle begins."""
    theta_min: float = 1.0
    """Smallest value of θ."""
    period: int = 20
    """Ticks of the clock from one largest value to the next."""
    start: int = 10
    """Last clock before the cycle begins."""

    def __post_init__(self) -> None:
        _settle_bounds(self)
        _settle_whole(self, "period", least=1)
        _settle_whole(self, "start", least=0)

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        # The remainder makes the cycle repeat exactly, however large the clock is.
        phase = (max(0, _settled_clock(clock) - self.start) % self.period) / self.period
        share = (1 + math.cos(2 * math.pi * phase)) / 2
        return _blend(share, self.theta_max, self.theta_min)


@dataclass(frozen=True)
class RandomWalk:
    """A Gaussian random walk that is reflected at θ_min and θ_max.

    θ_n = fold(initial + scale·(ε_1 + … + ε_k)), where k = max(0, n−start), the ε are
    independent standard normal draws fixed by ``seed``, and fold mirrors the line into
    [θ_min, θ_max] as a pair of facing mirrors would.  As ε and −ε are equally likely,
    this has the law of a walk that is reflected at every single step.  The draws are
    made anew in every call, so that there is no state to lose; a call costs O(k).
    """

    kind: ClassVar[str] = "random_walk"

    theta_max: float = 2.0
    """Upper bound at which the walk is reflected."""
    theta_min: float = 1.0
    """Lower bound at which the walk is reflected."""
    initial: float = 2.0
    """Value of θ before the walk begins, between the bounds."""
    scale: float = 0.1
    """Standard deviation of one step of the walk."""
    seed: int = 0
    """Seed that fixes all steps of the walk."""
    start: int = 10
    """Last clock before the walk begins."""

    def __post_init__(self) -> None:
        _settle_bounds(self)
        _settle_numbers(self, "initial", "scale")
        _settle_whole(self, "seed", least=0)
        _settle_whole(self, "start", least=0)
        _demand(self, self.scale >= 0, "scale", self.scale, "at least 0")
        inside = self.theta_min <= self.initial <= self.theta_max
        allowed = f"between {self.theta_min} and {self.theta_max}"
        _demand(self, inside, "initial", self.initial, allowed)

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        steps = max(0, _settled_clock(clock) - self.start)
        if steps == 0:
            return self.initial
        draws = np.random.default_rng(self.seed).standard_normal(steps)
        free = self.initial + self.scale * math.fsum(draws)
        return _fold(free, self.theta_max, self.theta_min)


@dataclass(frozen=True)
class Geometric:
    """A constant loss per tick: θ_n = max(θ_max·ratio^max(0, n−start), θ_min)."""

    kind: ClassVar[str] = "geometric"

    theta_max: float = 2.0
    """Value of θ before the loss."""
    theta_min: float = 1.0
    """Floor below which θ does not fall, at least 0."""
    ratio: float = 0.9
    """Factor by which θ shrinks with every tick, above 0 and at most 1."""
    start: int = 10
    """Last clock before the loss."""

    def __post_init__(self) -> None:
        _settle_bounds(self)
        _settle_numbers(self, "ratio")
        _settle_whole(self, "start", least=0)
        # A negative value would grow towards 0, out of its bounds.
        _demand(self, self.theta_min >= 0, "theta_min", self.theta_min, "at least 0")
        allowed = "above 0 and at most 1"
        _demand(self, 0 < self.ratio <= 1, "ratio", self.ratio, allowed)

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        elapsed = max(0, _settled_clock(clock) - self.start)
        return max(self.theta_max * self.ratio**elapsed, self.theta_min)


@dataclass(frozen=True)
class Logarithmic:
    """Ever slower wear: θ_n = max(θ_max − a·log(1 + max(0, n−start)), θ_min).

    Its variation grows as log N, the paper's example of a budget under which the regret
    stays sublinear.
    """

    kind: ClassVar[str] = "logarithmic"

    theta_max: float = 2.0
    """Value of θ before the wear."""
    theta_min: float = 1.0
    """Floor below which θ does not fall."""
    rate: float = 0.2
    """What θ loses while the elapsed time grows by a factor of e, at least 0."""
    start: int = 10
    """Last clock before the wear."""

    def __post_init__(self) -> None:
        _settle_bounds(self)
        _settle_numbers(self, "rate")
        _settle_whole(self, "start", least=0)
        _demand(self, self.rate >= 0, "rate", self.rate, "at least 0")

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        elapsed = max(0, _settled_clock(clock) - self.start)
        return max(self.theta_max - self.rate * math.log1p(elapsed), self.theta_min)


Part = (
    Constant
    | Exponential
    | Linear
    | Step
    | Piecewise
    | Cyclic
    | RandomWalk
    | Geometric
    | Logarithmic
)
"""The schedules that a join may be made of: all but a join."""


@dataclass(frozen=True)
class Join:
    """Schedules one after the other: part i holds up to and including boundary i.

    All parts read the same clock, which is not set back at a boundary: a part that
    shall begin to change at a boundary b has ``start = b``.  With one clock for all, a
    join of joins is again a plain join, so a join is not accepted as a part.
    """

    kind: ClassVar[str] = "join"

    parts: tuple[Part, ...] = field(default_factory=lambda: (Linear(), Constant()))
    """Schedules in the order of time, one more than there are boundaries."""
    boundaries: tuple[int, ...] = (30,)
    """Last clock of every part but the last one, increasing."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(self.parts))
        for part in self.parts:
            allowed = "schedules other than a join"
            _demand(self, isinstance(part, Part), "parts", part, allowed)
        _settle_boundaries(self, pieces=len(self.parts), called="parts")

    def __call__(self, clock: int) -> float:
        """Return θ at this clock."""
        return self.parts[bisect_left(self.boundaries, _settled_clock(clock))](clock)


@dataclass(frozen=True)
class Unknown:
    """A system that drifts by itself, if it does: nobody sets θ, and nobody knows it.

    The schedule of a machine, and of any environment of one's own.
    """

    kind: ClassVar[str] = "unknown"

    def __call__(self, clock: int) -> float:
        """Return NaN: there is nothing to be known."""
        _settled_clock(clock)
        return math.nan


Schedule = Part | Join | Unknown
"""Any schedule of θ."""

SCHEDULES: dict[str, type[Schedule]] = {
    schedule.kind: schedule
    for schedule in (
        Constant,
        Exponential,
        Linear,
        Step,
        Piecewise,
        Cyclic,
        RandomWalk,
        Geometric,
        Logarithmic,
        Join,
        Unknown,
    )
}
"""Every schedule by its kind."""


def _blend(share: float, theta_max: float, theta_min: float) -> float:
    """Return share·(θ_max−θ_min) + θ_min, which rounding keeps within the bounds."""
    if share == 1:
        return theta_max  # the sum would be 0.8999999999999999 for 0.9 and 0.2
    return share * (theta_max - theta_min) + theta_min


def _fold(value: float, theta_max: float, theta_min: float) -> float:
    """Mirror a number at the two bounds until it lies between them."""
    width = theta_max - theta_min
    if width == 0:
        return theta_min
    beyond = (value - theta_min) % (2 * width)
    return _blend(min(beyond, 2 * width - beyond) / width, theta_max, theta_min)


def _is_number(value: Any) -> bool:
    real = isinstance(value, Real) and not isinstance(value, bool)
    return real and math.isfinite(value)


def _is_whole(value: Any, least: int) -> bool:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    return whole and int(value) >= least


def _settled_clock(clock: Any) -> int:
    """Return a clock as a plain int, or refuse it."""
    require(
        _is_whole(clock, 0),
        f"The clock of a schedule must be a whole number, at least 0; "
        f"received {clock!r}.",
    )
    return int(clock)


def _demand(
    schedule: Any, condition: bool, name: str, received: Any, allowed: str
) -> None:
    """Refuse a field of a schedule unless the condition holds."""
    require(
        condition,
        f"Schedule {schedule.kind!r}: {name} must be {allowed}; received {received!r}.",
    )


# The settle functions check fields and store them as plain floats and ints, so that
# schedules that mean the same are equal, hash alike and are written alike.


def _settle_numbers(schedule: Any, *names: str) -> None:
    for name in names:
        value = getattr(schedule, name)
        _demand(schedule, _is_number(value), name, value, "a finite number")
        object.__setattr__(schedule, name, float(value))


def _settle_whole(schedule: Any, name: str, *, least: int) -> None:
    value = getattr(schedule, name)
    allowed = f"a whole number, at least {least}"
    _demand(schedule, _is_whole(value, least), name, value, allowed)
    object.__setattr__(schedule, name, int(value))


def _settle_bounds(schedule: Any) -> None:
    _settle_numbers(schedule, "theta_max", "theta_min")
    upper, lower = schedule.theta_max, schedule.theta_min
    allowed = f"at most theta_max, which is {upper}"
    _demand(schedule, lower <= upper, "theta_min", lower, allowed)
    finite = math.isfinite(2 * (upper - lower))
    allowed = "within the range of floating point numbers of theta_min"
    _demand(schedule, finite, "theta_max", upper, allowed)


def _settle_boundaries(schedule: Any, *, pieces: int, called: str) -> None:
    boundaries = tuple(schedule.boundaries)
    whole = all(_is_whole(clock, 0) for clock in boundaries)
    rising = whole and all(a < b for a, b in pairwise(boundaries))
    allowed = "increasing whole numbers, at least 0"
    _demand(schedule, rising, "boundaries", boundaries, allowed)
    require(
        pieces == len(boundaries) + 1,
        f"Schedule {schedule.kind!r}: there must be one more of {called} than of "
        f"boundaries; received {pieces} {called} and {len(boundaries)} boundaries.",
    )
    object.__setattr__(schedule, "boundaries", tuple(int(b) for b in boundaries))
