"""The device replay, and the cache that grows within an episode."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

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
    rows = jax.device_get(replay.rows)
    return jax.tree.map(lambda column: column[: int(replay.size)], rows)


def holds(replay: DeviceReplay, data: Data) -> bool:
    """Return whether a replay holds exactly the data."""
    columns = (data.obs, data.actions, data.rewards, data.next_obs, data.terminated)
    return same(content(replay), [column.astype(np.float32) for column in columns])


def test_data_keep_their_order_and_are_padded_with_zeros() -> None:
    data = memory_of(3).since(1)
    replay = device_replay(data, 5)
    assert (int(replay.size), replay.capacity) == (3, 5)
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


def test_rows_are_taken_by_number() -> None:
    data = memory_of(4).since(1)
    taken = device_replay(data, 5).take(jnp.asarray([[0, 3], [2, 2]]))
    np.testing.assert_array_equal(taken.obs, data.obs[[[0, 3], [2, 2]]])


def test_appended_rows_do_not_stay() -> None:
    """An aborted episode leaves no trace."""
    memory, cache = memory_of(4, 3), ReplayCache()
    step = Transition(np.ones(2), np.full(1, 0.5), 7.0, np.full(2, 2.0), True, False)
    cache.load(memory.since(2), 8)
    for count in range(1, 6):
        replay = cache.append(step)
        assert cache.size == int(replay.size) == 3 + count
    newest = jax.tree.map(lambda column: column[-1], content(replay))  # pyright: ignore[reportPossiblyUnboundVariable]
    assert [part.tolist() for part in newest] == [[1, 1], [0.5], 7, [2, 2], 1]
    with pytest.raises(AssertionError):
        cache.append(step)
    assert holds(cache.load(memory.since(2), 8), memory.since(2))
    memory.append(episode(5, seed=9))
    assert holds(cache.load(memory.since(2), 8), memory.since(2))
