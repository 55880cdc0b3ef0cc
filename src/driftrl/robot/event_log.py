"""Events of a robot: counted, timed, and written as JSON lines."""

import json
from array import array
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

Event = dict[str, Any]
"""What happened (``event``), with its facts as JSON types.

- finished: ``episode``, its ``steps`` and ``seconds``, ``total`` reward, how many
  actions were ``limited``, and the delays of its ``answers``;
- halted: ``episode``, ``step``, ``code`` and ``reason``, the ``periods`` from the last
  action to the stop action, and whether the machine was ``hanging`` in a call then, so
  that it gets the stop action when it comes back (its ``halt`` was called at once);
- connected and refused: a ``message`` about a learner.
"""


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

    def record(self, event: str, **facts: Any) -> None:
        """Report an event and write it."""
        row = {"event": event, **facts}
        if self._file is not None:
            self._file.write(json.dumps(row, ensure_ascii=False) + "\n")
            self._file.flush()
        self._on_event(row)

    def close(self) -> None:
        """Close the file."""
        if self._file is not None:
            self._file.close()
