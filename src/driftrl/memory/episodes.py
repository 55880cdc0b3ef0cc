"""Episode-indexed storage, which never forgets.

Episodes are numbered from 1.  Before episode n the memory holds the episodes 1 … n−1,
and learning reads those from m on, where m is the choice of a forgetting rule.  On disk
every episode is a file of its own, ``000001.npz``, which no later episode rewrites; the
computer's own memory is given back for those that a rule has passed over.
"""

import io
import os
from pathlib import Path

import numpy as np

from driftrl.atomic import flush_directory, write_atomically
from driftrl.errors import CorruptFile, require
from driftrl.types import Data, Episode

_ARRAYS = ("obs", "actions", "rewards", "next_obs")


class EpisodeMemory:
    """All episodes so far, in the order in which they were lived through."""

    def __init__(self, state_size: int, action_size: int) -> None:
        """Make an empty memory for states and actions of these sizes."""
        self._columns = (state_size, action_size)
        self._lengths: list[int] = []
        self._episodes: dict[int, Episode] = {}
        self._first_held = 1

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self._lengths)

    @property
    def lengths(self) -> tuple[int, ...]:
        """Number of transitions of every episode, also of those released."""
        return tuple(self._lengths)

    def append(self, episode: Episode) -> int:
        """Store a copy of an episode, read-only and in double precision.

        Returns:
            The number of the episode, from 1.
        """
        episode = _frozen(episode)
        columns = (episode.obs.shape[1], episode.actions.shape[1])
        require(
            columns == self._columns,
            f"The states and actions of an episode must have {self._columns} columns, "
            f"as this memory has; received {columns}.",
        )
        require(
            len(episode) > 0,
            "An episode must have at least one transition; received one with none.",
        )
        self._lengths.append(len(episode))
        self._episodes[len(self)] = episode
        return len(self)

    def release(self, before: int) -> None:
        """Give back the memory of the episodes before a number; lengths are kept.

        Their files stay where they are.
        """
        for number in range(self._first_held, min(before, len(self) + 1)):
            del self._episodes[number]
        self._first_held = max(self._first_held, min(before, len(self) + 1))

    def episode(self, number: int) -> Episode:
        """Return one episode by its number, from 1."""
        require(
            1 <= number <= len(self),
            f"There is no episode {number}: the memory holds {len(self)} episodes, "
            f"numbered from 1.",
        )
        self._require_held(number)
        return self._episodes[number]

    def since(self, first: int) -> Data:
        """Join the episodes from number ``first`` to the newest.

        ``first`` may be one more than the newest, which gives data of no rows.
        """
        require(
            1 <= first <= len(self) + 1,
            f"The first retained episode must be at least 1 and at most "
            f"{len(self) + 1}, the next one; received {first}.",
        )
        self._require_held(first)
        chosen = [self._episodes[number] for number in range(first, len(self) + 1)]
        joined = [self._nothing(), *chosen]
        arrays = {
            name: np.concatenate([getattr(piece, name) for piece in joined])
            for name in _ARRAYS
        }
        arrays["terminated"] = _ends(chosen)
        for array in arrays.values():
            array.setflags(write=False)
        return Data(**arrays, offset=sum(self.lengths[: first - 1]))

    def _require_held(self, number: int) -> None:
        require(
            number >= self._first_held,
            f"Episode {number} was released: the memory holds episodes from "
            f"{self._first_held} on. Read it from its file, if the run has one.",
        )

    def _nothing(self) -> Episode:
        states, actions = self._columns
        no_states = np.zeros((0, states))
        return Episode(no_states, np.zeros((0, actions)), np.zeros(0), no_states, False)


def _ends(episodes: list[Episode]) -> np.ndarray:
    """Return where a task ended: in the last step of an episode, or nowhere in it."""
    ends = np.zeros(sum(len(episode) for episode in episodes), dtype=bool)
    last = np.cumsum([len(episode) for episode in episodes], dtype=int) - 1
    ends[last] = [episode.terminated for episode in episodes]
    return ends


def save_episode(directory: Path, number: int, episode: Episode) -> Path:
    """Write an episode to its own file, atomically; the same episode, the same bytes.

    The directory is made if it is not there.  A file of this number is replaced: it was
    left by a run that was stopped before the episode counted.

    Returns:
        The path of the file.
    """
    if not directory.is_dir():
        directory.mkdir(parents=True, exist_ok=True)
        flush_directory(directory.parent)
    episode = _frozen(episode)
    content = io.BytesIO()
    arrays = {name: getattr(episode, name) for name in _ARRAYS}
    np.savez(content, **arrays, terminated=np.bool_(episode.terminated))
    path = _path(directory, number)
    write_atomically(path, content.getvalue())
    return path


def load_episode(directory: Path, number: int) -> Episode:
    """Read an episode that ``save_episode`` has written.

    Raises:
        CorruptFile: The file is missing, or not as it was written.
    """
    path = _path(directory, number)
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise CorruptFile(
            f"Episode {number} is missing: there is no file {os.fspath(path)!r}. "
            f"Restore it from a copy, or start the run anew in another directory."
        ) from None
    try:
        return _decoded(content)
    except Exception as error:
        # A damaged archive makes the readers stumble in many ways (a wrong checksum, a
        # huge shape, an unknown compression); whichever it is, the file is damaged.
        raise CorruptFile(
            f"The file {os.fspath(path)!r} of episode {number} is damaged "
            f"({type(error).__name__}). Restore it from a copy, or start the run anew "
            f"in another directory."
        ) from error


def load_memory(
    directory: Path, count: int, state_size: int, action_size: int
) -> EpisodeMemory:
    """Read the episodes 1 … count; later files, which never counted, are left alone."""
    memory = EpisodeMemory(state_size, action_size)
    for number in range(1, count + 1):
        memory.append(load_episode(directory, number))
    return memory


def _path(directory: Path, number: int) -> Path:
    require(number >= 1, f"Episodes are numbered from 1; received {number}.")
    return directory / f"{number:06d}.npz"


def _decoded(content: bytes) -> Episode:
    with np.load(io.BytesIO(content), allow_pickle=False) as archive:
        if archive.zip.testzip() is not None:
            raise ValueError("a checksum does not match")
        arrays = {name: archive[name] for name in _ARRAYS}
        terminated = archive["terminated"]
    if terminated.shape != () or terminated.dtype != np.bool_:
        raise ValueError("terminated is not a truth value")
    return _frozen(Episode(**arrays, terminated=bool(terminated)))


def _frozen(episode: Episode) -> Episode:
    """Return a read-only copy of an episode whose arrays fit together."""
    arrays = {name: np.array(getattr(episode, name), np.float64) for name in _ARRAYS}
    obs, actions, rewards, next_obs = (arrays[name] for name in _ARRAYS)
    matrices = obs.ndim == actions.ndim == 2 and rewards.ndim == 1
    require(
        matrices
        and len(obs) == len(actions) == len(rewards)
        and obs.shape == next_obs.shape,
        f"An episode of T steps needs states [T, S], actions [T, A], rewards [T] and "
        f"next states [T, S]; received {obs.shape}, {actions.shape}, {rewards.shape} "
        f"and {next_obs.shape}.",
    )
    for array in arrays.values():
        array.setflags(write=False)
    return Episode(**arrays, terminated=episode.terminated)
