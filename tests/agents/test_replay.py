"""The device replay: rings by hand, and the cache against data joined at once."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.agents import replay as module
from driftrl.agents.replay import Batch, DeviceReplay, ReplayCache, device_replay
from driftrl.memory.episodes import EpisodeMemory
from driftrl.types import Data, Episode, Transition
from factories import same

SIZES = (2, 1)


def episode(length: int, seed: int = 0) -> Episode:
    rng = np.random.default_rng(seed)
    return Episode(
        rng.normal(size=(length, 2)),
        rng.uniform(-1, 1, size=(length, 1)),
        rng.normal(size=length),
        rng.normal(size=(length, 2)),
        seed % 3 == 0,
    )


def memory_of(*lengths: int, seed: int = 0) -> EpisodeMemory:
    memory = EpisodeMemory(*SIZES, np.float32)
    for number, length in enumerate(lengths):
        memory.append(episode(length, seed + number))
    return memory


def content(replay: DeviceReplay) -> Batch:
    """Return the transitions in order, without padding."""
    rows = jax.device_get(replay.ordered())
    return jax.tree.map(lambda column: column[: int(replay.size)], rows)


def holds(replay: DeviceReplay, data: Data) -> bool:
    """Return whether a replay holds exactly the data."""
    columns = (data.obs, data.actions, data.rewards, data.next_obs, data.terminated)
    return same(content(replay), [column.astype(np.float32) for column in columns])


def test_data_keep_their_order_and_are_padded_with_zeros() -> None:
    data = memory_of(3).since(1)
    replay = device_replay(data, 5)
    assert (int(replay.size), int(replay.start), replay.capacity) == (3, 0, 5)
    np.testing.assert_array_equal(replay.rows.obs[:3], data.obs)
    np.testing.assert_array_equal(replay.rows.next_obs[3:], np.zeros((2, 2)))
    assert replay.rows.terminated.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_episodes_begin_where_an_observation_does_not_follow() -> None:
    obs = np.asarray([[1.0], [2.0], [3.0], [7.0], [8.0], [5.0]])
    next_obs = np.asarray([[2.0], [3.0], [4.0], [8.0], [9.0], [6.0]])
    data = Data(obs, obs, obs[:, 0], next_obs, obs[:, 0] < 0)
    replay = device_replay(data, 8)
    assert list(np.asarray(replay.starts)[:4, 0]) == [1.0, 7.0, 5.0, 1.0]
    rows = jnp.asarray([[4, 1, 0, 3], [65, 66, 0, 0]])
    batch = replay.take(rows).obs
    begun = np.asarray(replay.begin_at_starts(batch, rows, 0.5))[..., 0]
    assert begun.tolist() == [[7.0, 7.0, 1.0, 7.0], [7.0, 5.0, 1.0, 1.0]]
    assert replay.begin_at_starts(batch, rows, 0.0) is batch


def test_rows_are_taken_by_number_wherever_the_ring_starts() -> None:
    replay = device_replay(memory_of(4).since(1), 5)
    turned = jax.tree.map(lambda column: jnp.roll(column, 3, axis=0), replay.rows)
    ring = replay._replace(rows=turned, start=jnp.asarray(3, jnp.int32))
    numbers = jnp.asarray([[0, 3], [2, 2]])
    assert same(ring.take(numbers), replay.take(numbers))
    assert ring.take(numbers).obs.shape == (2, 2, 2)
    assert same(ring.ordered(), replay.rows)


@settings(max_examples=40)
@given(
    st.lists(
        st.tuples(st.integers(1, 5), st.integers(0, 4), st.booleans()), max_size=12
    )
)
def test_the_cache_holds_what_it_is_asked_for(
    steps: list[tuple[int, int, bool]],
) -> None:
    """Two ways: written and forgotten piece by piece, or joined and padded at once."""
    cache, memory, first = ReplayCache(SIZES, steps=5), EpisodeMemory(*SIZES), 1
    for seed, (length, kept, skipped) in enumerate(steps):
        memory.append(episode(length, seed))
        first = max(first, len(memory) + 1 - kept)
        data = memory.since(first)
        memory.release(before=first)
        if not skipped:
            assert holds(cache.load(data, 16 if len(data) <= 16 else 32), data)


def test_each_transition_is_written_once_and_in_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    written: list[int] = []
    write = module._written

    def counting(columns: Batch, rows: Batch, place: Any, count: Any) -> Batch:
        written.append(int(count))
        return write(columns, rows, place, count)

    monkeypatch.setattr(module, "_written", counting)
    cache, memory, pointers = ReplayCache(SIZES, 5), memory_of(), set()
    for number in range(1, 40):
        memory.append(episode(5, number))
        data = memory.since(max(1, number - 3))
        memory.release(before=max(1, number - 3))
        replay = cache.load(data, 50_000)
        pointers.add(replay.rows.obs.unsafe_buffer_pointer())
    assert sum(written) == 39 * 5
    assert len(pointers) == 1


def test_long_data_are_written_in_several_pieces() -> None:
    data = memory_of(2500).since(1)
    assert holds(ReplayCache(SIZES, 5).load(data, 3000), data)


def test_data_of_the_same_size_are_not_confused() -> None:
    """Of another memory, made by hand, other rows, or another capacity."""
    memory, cache = memory_of(4, 4, 4), ReplayCache(SIZES, 5)
    other = memory_of(4, 4, 4, seed=7).since(1)
    by_hand = Data(other.obs, other.actions, other.rewards, other.obs, other.terminated)
    for data, capacity in (
        (memory.since(1), 12),
        (other, 12),
        (by_hand, 12),
        (memory.since(2), 12),
        (memory.since(1), 12),
        (memory.since(1), 13),
    ):
        replay = cache.load(data, capacity)
        assert holds(replay, data) and replay.capacity == capacity


def test_appended_rows_do_not_stay() -> None:
    """An aborted episode leaves no trace."""
    memory, cache = memory_of(4, 3), ReplayCache(SIZES, 5)
    step = Transition(np.ones(2), np.full(1, 0.5), 7.0, np.full(2, 2.0), True, False)
    cache.load(memory.since(2), 8)
    for count in range(1, 6):
        replay = cache.append(step)
        assert cache.size == int(replay.size) == 3 + count
    newest = jax.tree.map(lambda column: column[-1], content(replay))  # pyright: ignore[reportPossiblyUnboundVariable]
    assert [part.tolist() for part in newest] == [[1, 1], [0.5], 7, [2, 2], 1]
    with pytest.raises(AssertionError, match="full"):
        cache.append(step)
    assert holds(cache.load(memory.since(2), 8), memory.since(2))
    memory.append(episode(5, seed=9))
    assert holds(cache.load(memory.since(2), 8), memory.since(2))


def test_an_interrupted_write_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, cache = memory_of(4), ReplayCache(SIZES, 5)
    cache.load(memory.since(1), 20)
    memory.append(episode(5, seed=1))

    def interrupted(*arguments: Any) -> Batch:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "_written", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache.load(memory.since(1), 20)
    assert holds(cache.load(memory.since(1), 20), memory.since(1))
