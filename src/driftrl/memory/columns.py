"""Columns that grow at their end and are given back at their front."""

from collections.abc import Mapping

import numpy as np

# Room for this many rows at the start, so that short episodes do not each make more.
_LEAST_ROOM = 1024


class Columns:
    """Arrays with a row for each transition, counted from the first there ever was.

    What is handed out is a view, never a copy, and never changes: a row is written
    once, and more room means new arrays, while the old ones live on in their views.
    New arrays have room for twice the rows they start with, so that however many rows
    there are, one more costs the same on average.
    """

    def __init__(self, blank: Mapping[str, np.ndarray]) -> None:
        """Start with no rows, of the shapes and types of the columns of ``blank``."""
        self._arrays = {name: column[:0] for name, column in blank.items()}
        self._before = 0  # rows before row 0 of the arrays
        self.first = 0
        """Number of the oldest row that is held."""
        self.end = 0
        """Number of the next row to come."""

    @property
    def room(self) -> int:
        """Rows that the arrays have room for, held or not."""
        return len(next(iter(self._arrays.values())))

    def append(self, rows: Mapping[str, np.ndarray]) -> None:
        """Write rows behind the newest."""
        count = len(next(iter(rows.values())))
        if self.end + count - self._before > self.room:
            self._move(self.end + count - self.first)
        for name, array in self._arrays.items():
            array[self._place(self.end, self.end + count)] = rows[name]
        self.end += count

    def skip(self, count: int) -> None:
        """Count rows that were never here, behind no row that is."""
        assert self.first == self.end, "rows that are held can't be followed by a gap"
        self.end += count
        self.first = self.end

    def release(self, before: int) -> None:
        """Give back the rows before a number.

        The front of an array can't be freed alone: it waits until three quarters are
        free, or until new rows need room.
        """
        self.first = max(self.first, before)
        held = self.end - self.first
        if self.room > max(4 * held, _LEAST_ROOM):
            self._move(held)

    def rows(self, first: int, end: int) -> dict[str, np.ndarray]:
        """Return rows ``first`` … ``end`` − 1 of every column, read-only."""
        assert self.first <= first <= end <= self.end, "these rows are not held"
        views = {name: a[self._place(first, end)] for name, a in self._arrays.items()}
        for view in views.values():
            view.setflags(write=False)
        return views

    def _place(self, first: int, end: int) -> slice:
        return slice(first - self._before, end - self._before)

    def _move(self, needed: int) -> None:
        """Move the rows that are held into new arrays with room for twice ``needed``.

        Room that is not used yet costs no memory: the system gives it page by page.
        """
        room, moved = max(2 * needed, _LEAST_ROOM), {}
        for name, old in self.rows(self.first, self.end).items():
            moved[name] = np.empty((room, *old.shape[1:]), old.dtype)
            moved[name][: len(old)] = old
        self._arrays, self._before = moved, self.first
