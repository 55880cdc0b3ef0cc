"""When a robot acts: its clock, how long answers take, and what disturbs them."""

import contextlib
import gc
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from driftrl.errors import positive, require


@dataclass(frozen=True)
class Timing:
    """The clock of a robot: observation k is taken at t_0 + k·period."""

    period: float = 1 / 30
    """Seconds from one observation to the next."""
    deadline: float = 0.5
    """Share of the period after which an answer comes too late."""
    reset: float = 120.0
    """Seconds that the machine may take to get to its start."""
    real_time: bool = True
    """Keep to the period; --no-real-time waits for the learner instead."""
    patience: float = 60.0
    """Seconds to wait then for an answer, or for the machine."""

    def __post_init__(self) -> None:
        positive("period", self.period)
        positive("patience", self.patience)
        positive("reset", self.reset)
        require(
            0 < self.deadline < 1,
            "An answer is due after the observation and before the next one: deadline "
            f"must lie in (0, 1), received {self.deadline!r}.",
        )

    @property
    def answer_seconds(self) -> float:
        """How long an answer may take."""
        return self.deadline * self.period if self.real_time else self.patience

    @property
    def late_seconds(self) -> float:
        """By how much an observation may be late itself: half as much."""
        return self.answer_seconds / 2 if self.real_time else self.patience


@dataclass(frozen=True)
class Delays:
    """How long something took, over many times, in seconds."""

    count: int
    median: float
    p99: float
    longest: float

    def __str__(self) -> str:
        if not self.count:
            return "none"
        return (
            f"{1e3 * self.median:.2f} ms (99 %: {1e3 * self.p99:.2f}, longest "
            f"{1e3 * self.longest:.2f})"
        )


def delays_of(seconds: Sequence[float]) -> Delays:
    """Summarise durations; the 99th percentile is one that was measured."""
    if not len(seconds):
        return Delays(0, 0.0, 0.0, 0.0)
    values = np.asarray(seconds)
    median, p99 = np.percentile(values, [50, 99], method="higher")
    return Delays(len(values), float(median), float(p99), float(values.max()))


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Keep Python's garbage collector from running within this.

    A full collection looks at every object of the process, for tens of milliseconds
    once JAX is loaded.  What an episode leaves behind waits until it is over.
    """
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
