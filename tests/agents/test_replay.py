"""The replay as padded arrays, as a ring, and as what is kept between episodes."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.agents import device_replay as rings
from driftrl.agents.device_replay import (
    Holding,
    RingCache,
    empty_ring,
    enlarged,
    extended,
    row_of,
    without_oldest,
)
from driftrl.agents.replay import Replay, drawn, make_replay, ordered
from driftrl.memory.episodes import EpisodeMemory
from driftrl.types import Data, Episode, Transition

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


def same(found: Any, expected: Any) -> bool:
    """Return whether two pytrees are equal bit for bit."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    return all(np.array_equal(a, b) for a, b in pairs)


def content(replay: Replay) -> Any:
    """Return the transitions in order, without padding."""
    rows = jax.device_get(ordered(replay))
    return jax.tree.map(lambda column: column[: int(replay.size)], rows)


def holds(held: Holding, data: Data) -> bool:
    """Return whether a ring holds exactly the data."""
    columns = (data.obs, data.actions, data.rewards, data.next_obs, data.terminated)
    expected = [column.astype(np.float32) for column in columns]
    return held.ring.size == len(data) and same(content(held.ring.replay), expected)


# ---- padded arrays -------------------------------------------------------------------


def test_replay_keeps_order_and_pads_with_zeros() -> None:
    data = memory_of(3).since(1)
    replay = make_replay(data, 5)
    assert int(replay.size) == 3 and int(replay.start) == 0
    np.testing.assert_array_equal(replay.data.obs[:3], data.obs)
    np.testing.assert_array_equal(replay.data.next_obs[3:], np.zeros((2, 2)))
    assert replay.data.terminated.tolist() == [0.0, 0.0, 1.0, 0.0, 0.0]


def test_rows_are_drawn_by_number_wherever_the_ring_begins() -> None:
    replay = make_replay(memory_of(4).since(1), 5)
    turned = jax.tree.map(lambda column: jnp.roll(column, 3, axis=0), replay.data)
    ring = Replay(turned, jnp.asarray(3, jnp.int32), replay.size)
    numbers = jnp.asarray([[0, 3], [2, 2]])
    assert same(drawn(ring, numbers), drawn(replay, numbers))
    assert drawn(ring, numbers).obs.shape == (2, 2, 2)
    assert same(ordered(ring), replay.data)


# ---- the ring ------------------------------------------------------------------------


def numbered(first: int, count: int) -> Any:
    """Return rows whose every entry is their number, padded to 4 rows."""
    numbers = np.zeros(4, np.float32)
    numbers[:count] = np.arange(first, first + count)
    wide = np.repeat(numbers[:, None], 2, axis=1)
    columns = (wide, numbers[:, None], numbers, wide, numbers)
    return rings.Batch(*(jnp.asarray(column) for column in columns))


def test_ring_by_hand() -> None:
    ring = extended(empty_ring(SIZES, 5), numbered(1, 4), 4)
    ring = without_oldest(ring, 2)
    assert (ring.start, ring.size) == (2, 2)
    ring = extended(ring, numbered(5, 3), 3)
    # Transition 5 goes to the last row, 6 and 7 over the forgotten 1 and 2.
    assert ring.columns.rewards.tolist() == [6.0, 7.0, 3.0, 4.0, 5.0]
    assert content(ring.replay).rewards.tolist() == [3.0, 4.0, 5.0, 6.0, 7.0]
    ring = without_oldest(ring, 3)
    assert (ring.start, ring.size) == (0, 2)
    assert content(ring.replay).next_obs.tolist() == [[6.0, 6.0], [7.0, 7.0]]


def test_a_full_ring_takes_no_more() -> None:
    ring = extended(empty_ring(SIZES, 5), numbered(1, 4), 4)
    with pytest.raises(AssertionError, match="full"):
        extended(ring, numbered(5, 2), 2)


def test_an_enlarged_ring_holds_the_same() -> None:
    ring = extended(empty_ring(SIZES, 5), numbered(1, 4), 4)
    ring = extended(without_oldest(ring, 3), numbered(5, 4), 4)
    larger = enlarged(ring, 8)
    assert larger.capacity == 8
    assert content(larger.replay).rewards.tolist() == [4.0, 5.0, 6.0, 7.0, 8.0]


def test_rows_are_written_in_place() -> None:
    """Donated arrays are changed where they are: nothing is copied."""
    ring = extended(empty_ring(SIZES, 50_000), numbered(1, 4), 4)
    before = [column.unsafe_buffer_pointer() for column in ring.columns]
    longer = extended(ring, numbered(5, 4), 4)
    assert [column.unsafe_buffer_pointer() for column in longer.columns] == before
    assert ring.columns.obs.is_deleted()


# ---- what is kept between episodes ---------------------------------------------------

STEPS = st.lists(
    st.tuples(st.integers(1, 5), st.integers(0, 4), st.booleans()), max_size=12
)


@settings(max_examples=40)
@given(STEPS)
def test_a_cache_holds_what_it_is_asked_for(
    steps: list[tuple[int, int, bool]],
) -> None:
    """Two ways: written and forgotten piece by piece, or joined and padded at once."""
    cache, memory, first = RingCache(SIZES, steps=5), EpisodeMemory(*SIZES), 1
    for seed, (length, kept, skipped) in enumerate(steps):
        memory.append(episode(length, seed))
        first = max(first, len(memory) + 1 - kept)
        data = memory.since(first)
        memory.release(before=first)
        if not skipped:  # too little to learn from
            assert holds(cache.holding(data, 16 if len(data) <= 16 else 32), data)


class Counted:
    """Counts the rows that are written, and the rings that are made."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows, self.made = 0, 0
        write, make = rings.extended, rings.empty_ring

        def extended(ring: rings.Ring, rows: rings.Batch, count: int) -> rings.Ring:
            self.rows += count
            return write(ring, rows, count)

        def empty_ring(sizes: tuple[int, int], capacity: int) -> rings.Ring:
            self.made += 1
            return make(sizes, capacity)

        monkeypatch.setattr(rings, "extended", extended)
        monkeypatch.setattr(rings, "empty_ring", empty_ring)


def test_each_transition_is_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    counted, cache, memory = Counted(monkeypatch), RingCache(SIZES, 5), memory_of()
    for number in range(1, 40):
        memory.append(episode(5, number))
        data = memory.since(max(1, number - 3))
        memory.release(before=max(1, number - 3))
        assert holds(cache.holding(data, 20), data)
    assert (counted.rows, counted.made) == (39 * 5, 1)


def test_long_data_are_written_in_several_pieces() -> None:
    data = memory_of(2500).since(1)
    assert holds(RingCache(SIZES, 5).holding(data, 3000), data)


def test_other_data_of_the_same_size_are_not_taken_for_these(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Neither of another memory, nor made by hand, nor other rows, nor other room."""
    memory, cache = memory_of(4, 4, 4), RingCache(SIZES, 5)
    counted = Counted(monkeypatch)
    other = memory_of(4, 4, 4, seed=7).since(1)
    by_hand = Data(other.obs, other.actions, other.rewards, other.obs, other.terminated)
    asked = [
        (memory.since(1), 12),
        (other, 12),
        (by_hand, 12),
        (by_hand, 12),
        (memory.since(2), 12),
        (memory.since(1), 12),
        (memory.since(1), 13),
    ]
    for made, (data, capacity) in enumerate(asked, start=1):
        held = cache.holding(data, capacity)
        assert holds(held, data) and held.ring.capacity == capacity
        assert counted.made == made


def test_rows_of_a_lesson_do_not_stay() -> None:
    """An episode may be begun anew; what counts is what the memory then holds."""
    memory, cache = memory_of(4, 3), RingCache(SIZES, 5)
    seen = Transition(np.ones(2), np.full(1, 0.5), 7.0, np.full(2, 2.0), True, False)
    held = cache.holding(memory.since(2), 8)
    for count in range(1, 6):
        held = cache.with_row(held, row_of(seen))
        assert held.ring.size == 3 + count
    newest = jax.tree.map(lambda column: column[-1], content(held.ring.replay))
    assert [part.tolist() for part in newest] == [[1, 1], [0.5], 7, [2, 2], 1]
    assert holds(cache.holding(memory.since(2), 8), memory.since(2))
    memory.append(episode(5, seed=9))
    assert holds(cache.holding(memory.since(2), 8), memory.since(2))


def test_a_lesson_longer_than_its_room_goes_on() -> None:
    memory, cache = memory_of(3), RingCache(SIZES, 2)
    held = cache.holding(memory.since(1), 4)
    for reward in range(6):
        row = Transition(np.ones(2), np.ones(1), float(reward), np.ones(2), False, True)
        held = cache.with_row(held, row_of(row))
    rewards = content(held.ring.replay).rewards
    np.testing.assert_array_equal(rewards[:3], memory.since(1).rewards)
    assert rewards[3:].tolist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]


def test_two_memories_in_turn_do_not_disturb_each_other() -> None:
    cache = RingCache(SIZES, 5)
    lessons = [
        (memory, cache.holding(memory.since(1), 20))
        for memory in (memory_of(4), memory_of(4, seed=5))
    ]
    for memory, held in lessons:
        assert holds(held, memory.since(1))


def test_an_interrupted_write_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    memory, cache = memory_of(4), RingCache(SIZES, 5)
    cache.holding(memory.since(1), 20)
    memory.append(episode(5, seed=1))

    def interrupted(ring: rings.Ring, rows: rings.Batch, count: int) -> rings.Ring:
        extended(ring, rows, count)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(rings, "extended", interrupted)
        with pytest.raises(KeyboardInterrupt):
            cache.holding(memory.since(1), 20)
    assert holds(cache.holding(memory.since(1), 20), memory.since(1))
