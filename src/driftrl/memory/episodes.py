"""Episode-indexed storage, which never forgets.

Episodes are numbered from 1.  Before episode n the memory has the episodes 1 … n−1,
and learning reads those from m on, where m is the choice of a forgetting rule.  On disk
every episode is one file, ``000001.npz``, which no later episode rewrites; the arrays
of episodes before m are freed.
"""

import io
import os
from collections.abc import Callable, Sequence
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

    Their transitions lie one after the other in arrays.  What is handed out is a view,
    never a copy, and never changes: a row is written once, and more room means new
    arrays, while the old ones live on in their views.  New arrays have room for twice
    the rows they start with, so one more costs the same on average, however many.
    """

    def __init__(
        self, state_size: int, action_size: int, precision: Precision = np.float64
    ) -> None:
        """Make an empty memory for states and actions of these sizes."""
        self.sizes = (state_size, action_size)
        """Numbers of states and of actions."""
        self._history: list[EpisodeSummary] = []
        self._bounds = [0]  # transitions before every episode, and before the next
        self._held = self._before = 0  # transitions before those held, and the arrays
        self.precision: Precision = precision
        self._arrays = self._room_for(0)
        self.directory: Path | None = None
        """Where the files of released episodes are."""

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self._bounds) - 1

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of transitions of every episode, also of those released."""
        return tuple(end - start for start, end in pairwise(self._bounds))

    @property
    def evidence(self) -> Evidence:
        """What a forgetting rule may look at before the next episode."""
        past = LazyEpisodes(range(1, len(self) + 1), self.episode)
        return Evidence.of(self._history, past)

    def append(self, episode: Episode, summary: EpisodeSummary | None = None) -> int:
        """Store a copy of an episode, in the precision of this memory; return n.

        ``summary`` is the evidence for forgetting rules, by default length and return.
        """
        start, end = self._bounds[-1], self._bounds[-1] + len(episode)
        if end - self._before > len(self._arrays["rewards"]):
            self._move(end - self._held)
        self._write(self._arrays, start - self._before, episode)
        self._bounds.append(end)
        self._history.append(
            summary or EpisodeSummary(len(episode), episode.executed_return)
        )
        return len(self)

    def attach(self, directory: Path, history: Sequence[EpisodeSummary]) -> None:
        """Take over the episodes of a run; their files are read when they are needed.

        Files of later episodes than the history's, which never counted, stay.
        """
        self.directory = directory
        assert self._held == self._bounds[-1], "rows that are held have no gap behind"
        for summary in history:
            self._bounds.append(self._bounds[-1] + summary.length)
            self._history.append(summary)
        self._held = self._bounds[-1]

    def release(self, before: int) -> None:
        """Free the arrays of the episodes before a number; their files stay.

        The front of an array can't be freed alone: it waits until three quarters are
        free, or until new rows need room.
        """
        self._held = max(self._held, self._bounds[min(before, len(self) + 1) - 1])
        held = self._bounds[-1] - self._held
        if len(self._arrays["rewards"]) > max(4 * held, _LEAST_ROOM):
            self._move(held)

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
        rows = self._rows(self._bounds[number - 1], self._bounds[number])
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
        return Data(**self._rows(offset, end), offset=offset, origin=self)

    def _recall(self, first: int) -> None:
        """Hold the episodes from ``first`` on again."""
        start = self._bounds[first - 1]
        arrays = self._room_for(self._bounds[-1] - start)
        for number in range(first, len(self) + 1):
            self._write(arrays, self._bounds[number - 1] - start, self.episode(number))
        self._arrays, self._held, self._before = arrays, start, start

    def _write(
        self, arrays: dict[str, np.ndarray], place: int, episode: Episode
    ) -> None:
        sizes = (episode.obs.shape[1], episode.actions.shape[1])
        require(
            sizes == self.sizes and len(episode) > 0,
            f"An episode must have transitions of {self.sizes} states and actions; "
            f"received {len(episode)} of {sizes}.",
        )
        rows = slice(place, place + len(episode))
        for name in _ARRAYS:
            arrays[name][rows] = getattr(episode, name)
        arrays["terminated"][rows] = False
        arrays["terminated"][rows.stop - 1] = episode.terminated

    def _room_for(self, needed: int) -> dict[str, np.ndarray]:
        """Return arrays with room for twice as many rows as needed.

        Room that is not used yet costs no memory: the system gives it page by page.
        """
        states, actions = self.sizes
        shapes = ((states,), (actions,), (), (states,))
        count = max(2 * needed, _LEAST_ROOM)
        arrays = {
            name: np.empty((count, *shape), self.precision)
            for name, shape in zip(_ARRAYS, shapes, strict=True)
        }
        return {**arrays, "terminated": np.empty(count, bool)}

    def _move(self, needed: int) -> None:
        """Move the rows that are held into new arrays."""
        arrays = self._room_for(needed)
        for name, rows in self._rows(self._held, self._bounds[-1]).items():
            arrays[name][: len(rows)] = rows
        self._arrays, self._before = arrays, self._held

    def _rows(self, first: int, end: int) -> dict[str, np.ndarray]:
        """Return rows ``first`` … ``end`` − 1 of every column, read-only."""
        rows = slice(first - self._before, end - self._before)
        views = {name: array[rows] for name, array in self._arrays.items()}
        for view in views.values():
            view.setflags(write=False)
        return views

    def _is_held(self, number: int) -> bool:
        return self._bounds[number - 1] >= self._held


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

    ``CorruptFile`` if the file is missing, or not as it was written.
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
