"""Episode storage: in memory, on disk, and on a disk that is damaged."""

import dataclasses
import os
import time
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.errors import CorruptFile, InputError
from driftrl.memory.episodes import EpisodeMemory, load_episode, save_episode
from driftrl.memory.forgetting import EpisodeSummary
from driftrl.types import Data, Episode, Precision

ARRAYS = ("obs", "actions", "rewards", "next_obs")


def _episode(
    length: int, seed: int = 0, states: int = 3, terminated: bool = False
) -> Episode:
    rng = np.random.default_rng(seed)
    return Episode(
        obs=rng.normal(size=(length, states)),
        actions=rng.uniform(-1, 1, size=(length, 2)),
        rewards=rng.normal(size=length),
        next_obs=rng.normal(size=(length, states)),
        terminated=terminated,
    )


def _assert_equal(
    left: Any, right: Any, precision: Precision = np.float64, first: int = 0
) -> None:
    for name in ARRAYS:
        expected = getattr(right, name)[first:].astype(precision)
        np.testing.assert_array_equal(getattr(left, name), expected)
        assert getattr(left, name).dtype == precision


def _filled(*lengths: int) -> EpisodeMemory:
    memory = EpisodeMemory(3, 2)
    for seed, length in enumerate(lengths):
        assert memory.append(_episode(length, seed)) == seed + 1
    return memory


def test_stored_episodes_cannot_be_changed() -> None:
    memory = EpisodeMemory(3, 2)
    episode = _episode(4)
    memory.append(episode)
    episode.obs[:] = 0
    _assert_equal(memory.episode(1), _episode(4))
    for stored in (memory.episode(1), memory.since(1)):
        for name in ARRAYS:
            with pytest.raises(ValueError, match="read-only"):
                getattr(stored, name)[0] = 1
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(memory.episode(1), "obs", episode.obs)  # noqa: B010


@pytest.mark.parametrize("precision", [np.float32, np.float64])
def test_a_file_holds_what_the_memory_holds(
    tmp_path: Path, precision: Precision
) -> None:
    """Bit for bit, so that what is learned after a restart is what would have been."""
    memory = EpisodeMemory(3, 2, precision)
    memory.append(_episode(6))
    save_episode(tmp_path, 1, _episode(6), precision)
    _assert_equal(memory.episode(1), _episode(6), precision)
    _assert_equal(memory.since(1), _episode(6), precision)
    _assert_equal(load_episode(tmp_path, 1), memory.since(1), precision)
    # Both kinds of files are read into both kinds of memory.
    for wanted in (np.float32, np.float64):
        again = EpisodeMemory(3, 2, wanted)
        again.attach(tmp_path, [EpisodeSummary(6)])
        _assert_equal(again.since(1), load_episode(tmp_path, 1), wanted)


def test_refusals() -> None:
    memory = _filled(4, 2)
    for first in (0, -1, 4):
        sentence = f"at least 1 and at most 3, the next one; received {first}"
        with pytest.raises(InputError, match=sentence):
            memory.since(first)
    for number in (0, 3):
        sentence = f"no episode {number}: the memory holds 2 episodes"
        with pytest.raises(InputError, match=sentence):
            memory.episode(number)
    for wrong in (_episode(3, states=4), _episode(0)):
        with pytest.raises(InputError, match=r"\(3, 2\) states and actions"):
            memory.append(wrong)
    assert memory.lengths == (4, 2)


def _loaded(directory: Path, lengths: list[int], first: int = 1) -> EpisodeMemory:
    memory = EpisodeMemory(3, 2)
    memory.attach(directory, [EpisodeSummary(n) for n in lengths])
    memory.since(first)
    return memory


@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_files_of_forgotten_episodes_are_not_opened(tmp_path: Path, first: int) -> None:
    memory = _filled(4, 1, 7)
    for number in range(first, 4):
        save_episode(tmp_path, number, memory.episode(number))
    loaded = _loaded(tmp_path, [4, 1, 7], first)
    assert len(loaded) == 3 and loaded.lengths == (4, 1, 7)
    _assert_equal(loaded.since(first), memory.since(first))
    assert loaded.since(first).offset == memory.since(first).offset
    if first > 1:
        with pytest.raises(CorruptFile, match=f"Episode {first - 1} is missing"):
            loaded.since(first - 1)
    for one in (loaded, memory):
        assert one.append(_episode(3, seed=9)) == 4
    _assert_equal(loaded.since(first), memory.since(first))


def test_a_file_of_another_length_is_refused(tmp_path: Path) -> None:
    save_episode(tmp_path, 1, _episode(5))
    with pytest.raises(CorruptFile, match=r"000001.npz.*5 transitions.* 6"):
        _loaded(tmp_path, [6])


def test_released_episodes_are_read_again(tmp_path: Path) -> None:
    memory, loaded = _filled(4, 1, 7), EpisodeMemory(3, 2)
    for number in (1, 2):
        save_episode(tmp_path, number, memory.episode(number))
    loaded.attach(tmp_path, [EpisodeSummary(4), EpisodeSummary(1)])
    loaded.append(memory.episode(3))  # has no file yet
    loaded.release(before=3)
    _assert_equal(loaded.since(1), memory.since(1))
    assert loaded.since(1).offset == 0 and loaded.since(2).offset == 4
    for each in (memory, loaded):
        each.append(_episode(2, seed=9))
    _assert_equal(loaded.since(2), memory.since(2))


def test_the_same_episode_gives_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = save_episode(tmp_path / "a", 1, _episode(5)).read_bytes()
    local = time.localtime
    monkeypatch.setattr(time, "time", lambda: 2e9)
    monkeypatch.setattr(time, "localtime", lambda seconds=2e9: local(2e9))
    path = save_episode(tmp_path / "b", 1, _episode(5))
    assert path.read_bytes() == first
    with zipfile.ZipFile(path) as archive:
        assert {entry.date_time[0] for entry in archive.infolist()} == {1980}


def _assert_damaged(directory: Path, content: bytes) -> None:
    (directory / "000001.npz").write_bytes(content)
    with pytest.raises(CorruptFile, match=r"000001.npz' of episode 1 is damaged"):
        load_episode(directory, 1)


def test_a_shape_that_asks_for_less_is_damaged(tmp_path: Path) -> None:
    # The reader stops early here, and would never come to compare the checksum.
    content = save_episode(tmp_path, 1, _episode(900)).read_bytes()
    assert content.count(b"(900, 2)") == 1
    _assert_damaged(tmp_path, content.replace(b"(900, 2)", b"(900, 0)"))


class _Trap:
    """Something that makes a directory when it is unpickled."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (os.fspath(self.directory),)


def test_no_code_is_run_from_a_file(tmp_path: Path) -> None:
    trap = np.array([_Trap(tmp_path / "trapped")], dtype=object)
    np.savez(tmp_path / "other.npz", obs=trap)
    _assert_damaged(tmp_path, (tmp_path / "other.npz").read_bytes())
    assert not (tmp_path / "trapped").exists()


def test_other_contents_are_damaged(tmp_path: Path) -> None:
    _assert_damaged(tmp_path, b"not an archive")
    fitting = {name: getattr(_episode(2), name) for name in ARRAYS}
    for arrays in (
        {},
        fitting,
        {**fitting, "terminated": np.ones(1, bool)},
        {**fitting, "terminated": np.array(1.0)},
        {**fitting, "terminated": np.array(True), "rewards": np.zeros(5)},
    ):
        np.savez(tmp_path / "other.npz", **arrays)
        _assert_damaged(tmp_path, (tmp_path / "other.npz").read_bytes())


def test_released_episodes_keep_their_number_and_length() -> None:
    memory = _filled(4, 1, 7)
    memory.release(before=3)
    memory.release(before=2)  # what is gone stays gone
    assert memory.lengths == (4, 1, 7) and len(memory) == 3
    assert len(memory.since(3)) == 7 and memory.since(3).offset == 5
    with pytest.raises(InputError, match="Episode 2 was released"):
        memory.since(2)
    with pytest.raises(InputError, match="Episode 1 was released"):
        memory.episode(1)
    assert memory.append(_episode(2, seed=9)) == 4
    memory.release(before=100)  # no further than there are episodes
    assert len(memory.since(5)) == 0
    assert memory.append(_episode(2, seed=9)) == 5
    assert len(memory.since(5)) == 2


# ---- views ---------------------------------------------------------------------------


LIVES = st.lists(
    st.tuples(st.integers(1, 700), st.integers(0, 9)), min_size=1, max_size=20
)


@given(LIVES)
def test_what_was_handed_out_never_changes(steps: list[tuple[int, int]]) -> None:
    """Whatever is appended, released, grown and compacted afterwards."""
    memory, lived, given_out = EpisodeMemory(3, 2), [], list[tuple[int, Data]]()
    for seed, (length, forgotten) in enumerate(steps):
        lived.append(_episode(length, seed, terminated=seed % 2 == 0))
        memory.append(lived[-1])
        first = min(forgotten, len(lived)) + 1
        if memory._is_held(first):
            given_out.append((first, memory.since(first)))
        memory.release(before=first)
    expected = _joined(lived)
    for first, data in given_out:
        end = data.offset + len(data)
        for name in (*ARRAYS, "terminated"):
            found = getattr(data, name)
            np.testing.assert_array_equal(found, expected[name][data.offset : end])
            assert not found.flags.writeable
        assert data.offset == sum(len(one) for one in lived[: first - 1])


def _joined(lived: list[Episode]) -> dict[str, np.ndarray]:
    joined = {
        name: np.concatenate([getattr(one, name) for one in lived]) for name in ARRAYS
    }
    last = np.cumsum([len(one) for one in lived]) - 1
    ends = np.zeros(len(joined["rewards"]), bool)
    ends[last] = [one.terminated for one in lived]
    return {**joined, "terminated": ends}


def test_reading_copies_nothing() -> None:
    memory = _filled(400, 300)
    once, again = memory.since(1), memory.since(2)
    assert np.shares_memory(once.obs, again.obs)
    assert once.origin is again.origin is memory
    assert np.shares_memory(memory.episode(2).rewards, again.rewards)
