"""Events of a robot: counted, timed, and written as JSON lines."""

import json
from array import array
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from driftrl.robot.protocol import Code
from driftrl.robot.timing import Delays


@dataclass(frozen=True)
class Finished:
    """An episode that came to its end."""

    episode: int
    steps: int
    seconds: float
    total: float
    """Sum of its rewards."""
    limited: int
    """Actions that were clipped or whose change was limited."""
    answers: Delays
    """From an observation to its answer."""


@dataclass(frozen=True)
class Halted:
    """An episode that was stopped."""

    episode: int
    step: int
    code: Code
    reason: str
    periods: float
    """Periods from the last action, or from the start, to the stop action."""
    hanging: bool
    """Whether the machine was in a call then, so that it gets the stop action when
    it comes back; its ``halt`` was called at once."""


@dataclass(frozen=True)
class Contact:
    """A learner connected, or was refused."""

    served: bool
    message: str


Event = Finished | Halted | Contact


class EventLog:
    """Counts, delays and events, written to a file if there is one."""

    def __init__(
        self,
        on_event: Callable[[Event], None] = lambda event: None,
        file: Path | None = None,
    ) -> None:
        """Start counting; ``on_event`` delays the robot's loop: keep it fast."""
        self._on_event = on_event
        self._file = None if file is None else file.open("a", encoding="utf-8")
        self.counts: Counter[str] = Counter()
        """Of "finished", the codes of stops, and "refused", "malformed frames", "late
        actions", "limited", "failed stops"."""
        self.answers = array("d")
        """Seconds that each answer took."""

    def record(self, event: Event) -> None:
        """Count an event, report it and write it."""
        if isinstance(event, Finished):
            self.counts["finished"] += 1
        if isinstance(event, Halted):
            self.counts[event.code] += 1
        if self._file is not None:
            row = {"event": type(event).__name__.lower(), **asdict(event)}
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
            self._file.flush()
        self._on_event(event)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
