"""Episode-indexed storage, which never forgets.

Episodes are numbered from 1.  Before episode n the memory has the episodes 1 … n−1,
and learning reads those from m on, where m is the choice of a forgetting rule.  On disk
every episode is one file, ``000001.npz``, which no later episode rewrites; the arrays
of episodes before m are freed.
"""

import io
import os
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, overload

import numpy as np

from driftrl.errors import CorruptFile, InputError, require
from driftrl.exported import read_arrays
from driftrl.io import flush_directory, write_atomically
from driftrl.memory.forgetting import EpisodeSummary, Evidence
from driftrl.types import Data, Episode, Precision

_ARRAYS = ("obs", "actions", "rewards", "next_obs")
_PRECISIONS = {np.float32, np.float64}
# Room for this many rows at the start, so that short episodes do not each make more.
_LEAST_ROOM = 1024


class LazyEpisodes(Sequence[Episode]):
    """Episodes that are read when they are asked for."""

    def __init__(self, numbers: range, load: Callable[[int], Episode]) -> None:
        """Take the numbers of the episodes and what returns one by its number."""
        self._numbers = numbers
        self._load = load

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self._numbers)

    @overload
    def __getitem__(self, index: int) -> Episode: ...
    @overload
    def __getitem__(self, index: slice) -> "LazyEpisodes": ...
    def __getitem__(self, index: int | slice) -> "Episode | LazyEpisodes":
        """Read one episode, or return several that are not read yet."""
        if isinstance(index, slice):
            return LazyEpisodes(self._numbers[index], self._load)
        return self._load(self._numbers[index])


class EpisodeMemory:
    """All episodes so far, in order.

    The transitions of all episodes are stored one after the other: reading costs
    nothing, since what is returned are views.
    """

    def __init__(
        self, state_size: int, action_size: int, precision: Precision = np.float64
    ) -> None:
        """Make an empty memory for states and actions of these sizes."""
        self._sizes = (state_size, action_size)
        self._history: list[EpisodeSummary] = []
        self._bounds = [0]  # transitions before every episode, and before the next
        states = np.zeros((0, state_size), precision)
        self._blank = {
            "obs": states,
            "actions": np.zeros((0, action_size), precision),
            "rewards": np.zeros(0, precision),
            "next_obs": states,
            "terminated": np.zeros(0, bool),
        }
        self._columns = Columns(self._blank)
        self.precision: Precision = precision
        self.directory: Path | None = None
        """Where the files of released episodes are."""

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self._bounds) - 1

    @property
    def sizes(self) -> tuple[int, int]:
        """Numbers of states and of actions."""
        return self._sizes

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of transitions of every episode, also of those released."""
        return tuple(end - start for start, end in pairwise(self._bounds))

    @property
    def history(self) -> tuple[EpisodeSummary, ...]:
        """What is known of every episode, also of those released."""
        return tuple(self._history)

    @property
    def evidence(self) -> Evidence:
        """What a forgetting rule may look at before the next episode."""
        past = LazyEpisodes(range(1, len(self) + 1), self.episode)
        return Evidence.of(self._history, past)

    def append(self, episode: Episode, summary: EpisodeSummary | None = None) -> int:
        """Store a copy of an episode, in the precision of this memory.

        ``summary`` is the evidence for forgetting rules, by default length and return.

        Returns:
            The number of the episode, from 1.
        """
        self._store(self._columns, episode)
        self._bounds.append(self._columns.end)
        self._history.append(
            summary or EpisodeSummary(len(episode), episode.executed_return)
        )
        return len(self)

    def attach(self, directory: Path, history: Sequence[EpisodeSummary]) -> None:
        """Take over the episodes of a run; their files are read when they are needed.

        Files of later episodes than the history's, which never counted, stay.
        """
        self.directory = directory
        for summary in history:
            self._columns.skip(summary.length)
            self._bounds.append(self._columns.end)
            self._history.append(summary)

    def release(self, before: int) -> None:
        """Free the arrays of the episodes before a number; their files stay."""
        self._columns.release(before=self._bounds[min(before, len(self) + 1) - 1])

    def episode(self, number: int) -> Episode:
        """Return one episode by its number, from 1; a released one from its file."""
        require(
            1 <= number <= len(self),
            f"There is no episode {number}: the memory holds {len(self)} episodes, "
            f"numbered from 1.",
        )
        if not self._is_held(number):
            if self.directory is None:
                raise InputError(f"Episode {number} was released, and has no file.")
            length = self._history[number - 1].length
            return load_episode(self.directory, number, length)
        rows = self._columns.rows(self._bounds[number - 1], self._bounds[number])
        ends = rows.pop("terminated")
        return Episode(**rows, terminated=bool(ends[-1]))

    def since(self, first: int) -> Data:
        """Return the episodes from number ``first`` to the newest, joined.

        ``first`` may be one more than the newest, which gives data of no rows.
        Released episodes are read from their files again.
        """
        require(
            1 <= first <= len(self) + 1,
            f"The first retained episode must be at least 1 and at most "
            f"{len(self) + 1}, the next one; received {first}.",
        )
        if not self._is_held(first):
            self._recall(first)
        offset, end = self._bounds[first - 1], self._bounds[-1]
        rows = self._columns.rows(offset, end)
        return Data(**rows, offset=offset, origin=self)

    def _recall(self, first: int) -> None:
        """Hold the episodes from ``first`` on again."""
        columns = Columns(self._blank)
        columns.skip(self._bounds[first - 1])
        for number in range(first, len(self) + 1):
            self._store(columns, self.episode(number))
        self._columns = columns

    def _store(self, columns: "Columns", episode: Episode) -> None:
        sizes = (episode.obs.shape[1], episode.actions.shape[1])
        require(
            sizes == self._sizes and len(episode) > 0,
            f"An episode must have transitions of {self._sizes} states and actions; "
            f"received {len(episode)} of {sizes}.",
        )
        ends = np.zeros(len(episode), bool)
        ends[-1] = episode.terminated
        arrays = {name: getattr(episode, name) for name in _ARRAYS}
        columns.append({**arrays, "terminated": ends})

    def _is_held(self, number: int) -> bool:
        return self._bounds[number - 1] >= self._columns.first


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


def save_episode(
    directory: Path, number: int, episode: Episode, precision: Precision = np.float64
) -> Path:
    """Write an episode to its own file, atomically; return the path.

    Read back, it is what a memory of this precision holds, bit for bit.  A file of this
    number is replaced: it was left by a run that was stopped before the episode
    counted.
    """
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        flush_directory(directory.parent)
    content = io.BytesIO()
    arrays: dict[str, Any] = {
        name: np.asarray(getattr(episode, name), precision) for name in _ARRAYS
    }
    if episode.thetas is not None:
        arrays["thetas"] = np.asarray(episode.thetas, np.float64)
    np.savez(content, **arrays, terminated=np.bool_(episode.terminated))
    path = episode_file(directory, number)
    write_atomically(path, content.getvalue())
    return path


def load_episode(directory: Path, number: int, length: int | None = None) -> Episode:
    """Read an episode that ``save_episode`` has written, of a length if it is known.

    Raises:
        CorruptFile: The file is missing, or not as it was written.
    """
    path = episode_file(directory, number)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CorruptFile(
            f"Episode {number} is missing: there is no file {os.fspath(path)!r}. "
            f"Restore it from a copy, or start the run anew in another directory."
        ) from None
    try:
        episode = _decoded(content)
        if length not in (None, len(episode)):
            raise ValueError(f"{len(episode)} transitions instead of {length}")
        return episode
    except Exception as error:
        # A damaged archive makes the readers stumble in many ways (a wrong checksum, a
        # huge shape, an unknown compression); whichever it is, the file is damaged.
        raise CorruptFile(
            f"The file {os.fspath(path)!r} of episode {number} is damaged "
            f"({type(error).__name__}: {error}). Restore it from a copy, or start the "
            f"run anew in another directory."
        ) from error


def episode_file(directory: Path, number: int) -> Path:
    """Return the file of an episode."""
    return directory / f"{number:06d}.npz"


def _decoded(content: bytes) -> Episode:
    archive = read_arrays(content)
    arrays = {name: archive[name] for name in _ARRAYS}
    terminated = archive["terminated"]
    if terminated.shape != () or terminated.dtype != np.bool_:
        raise ValueError("terminated is not a truth value")
    if {array.dtype.type for array in arrays.values()} - _PRECISIONS:
        raise ValueError("numbers are not of single or double precision")
    for array in arrays.values():
        array.setflags(write=False)
    obs, actions, rewards, next_obs = (array.shape for array in arrays.values())
    if not (
        len(obs) == len(actions) == 2
        and obs == next_obs
        and rewards == obs[:1] == actions[:1]
    ):
        raise ValueError("the arrays do not fit together")
    thetas = archive.get("thetas")
    if thetas is not None and (thetas.shape != rewards or thetas.dtype != np.float64):
        raise ValueError("thetas does not fit the steps")
    return Episode(**arrays, terminated=bool(terminated), thetas=thetas)
