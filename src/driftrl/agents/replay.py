"""The retained transitions on the device, in arrays of a fixed size.

Of these arrays the first ``size`` rows are transitions, oldest first, and the others
are padding: growing data recompile nothing.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from driftrl.models import ensemble
from driftrl.models.ensemble import Samples, Statistics
from driftrl.types import Data, Transition

# Rows whose statistics are computed at once.  More are summed in blocks: at once they
# would need twice their own memory, and as much time when nearly empty.
_MEASURED_AT_ONCE = 2**17
_BLOCK = 2**13
STARTS = 64
"""Newest observations at the start of an episode that are kept at hand."""


class Batch(NamedTuple):
    """Transitions on the device, one row each."""

    obs: Float[Array, "B S"]
    actions: Float[Array, "B A"]
    rewards: Float[Array, " B"]
    next_obs: Float[Array, "B S"]
    terminated: Float[Array, " B"]
    """1 where the task ended in ``next_obs``, or the probability that it did."""


class DeviceReplay(NamedTuple):
    """The retained transitions, as compiled functions take them."""

    rows: Batch
    size: Int[Array, ""]
    starts: Float[Array, "M S"]
    """Observations at the start of the newest episodes, repeated if there are fewer."""

    @property
    def capacity(self) -> int:
        """Number of rows."""
        return len(self.rows.rewards)

    def take(self, numbers: Int[Array, "*N"]) -> Batch:
        """Return the transitions with these numbers, from 0 to size − 1."""
        return jax.tree.map(lambda column: column[numbers], self.rows)

    def begin_at_starts(
        self, obs: Float[Array, "*U B S"], rows: Int[Array, "*U B"], share: float
    ) -> Float[Array, "*U B S"]:
        """Replace this share of the rows by observations at the start of an episode.

        Which one follows from the random numbers ``rows``.
        """
        if share == 0:
            return obs
        count = round(share * rows.shape[-1])
        return obs.at[..., :count, :].set(self.starts[rows[..., :count] % STARTS])


def device_replay(data: Data, capacity: int) -> DeviceReplay:
    """Copy data to the device, in single precision, padded by zeros."""

    def padded(column: np.ndarray) -> Array:
        filled = np.zeros((capacity, *column.shape[1:]), np.float32)
        filled[: len(column)] = column
        return jnp.array(filled)

    columns = (data.obs, data.actions, data.rewards, data.next_obs, data.terminated)
    rows = Batch(*(padded(column) for column in columns))
    return DeviceReplay(rows, jnp.asarray(len(data), jnp.int32), _starts(data))


def starts_of(data: Data) -> Float[np.ndarray, "M S"]:
    """Return where the newest episodes began: where an observation is not the last's.

    A retained part of an episode begins anew, too.
    """
    continued = np.all(data.obs[1:] == data.next_obs[:-1], axis=1)
    return data.obs[np.flatnonzero(np.append(True, ~continued)[: len(data)])[-STARTS:]]


def _starts(data: Data) -> Float[Array, "M S"]:
    """Return them in an array of a fixed size."""
    shape = (STARTS, data.obs.shape[1])
    return jnp.asarray(np.resize(starts_of(data), shape), jnp.float32)


class ReplayCache:
    """The replay of the running episode, which grows by a transition at a time.

    What is returned is valid until the next call, which writes over it.
    """

    def __init__(self) -> None:
        """Make an empty cache."""
        self._replay: DeviceReplay | None = None
        self.size = 0

    def load(self, data: Data, capacity: int) -> DeviceReplay:
        """Return exactly ``data`` in a replay of this capacity."""
        self._replay = None  # free the memory first
        self._replay = replay = device_replay(data, capacity)
        self.size = len(data)
        return replay

    def append(self, transition: Transition) -> DeviceReplay:
        """Return the replay with one more transition, which is in no data yet."""
        assert self._replay is not None and self.size < self._replay.capacity
        columns = (
            transition.obs,
            transition.action,
            transition.reward,
            transition.next_obs,
            transition.terminated,
        )
        row = Batch(*(jnp.asarray(np.asarray(c, np.float32)) for c in columns))
        self._replay = replay = _appended(self._replay, row)
        self.size += 1
        return replay


# Donated, the arrays are changed in place; otherwise all rows would be copied.
@partial(jax.jit, donate_argnames="replay")
def _appended(replay: DeviceReplay, row: Batch) -> DeviceReplay:
    rows = jax.tree.map(
        lambda column, new: column.at[replay.size].set(new), replay.rows, row
    )
    return DeviceReplay(rows, replay.size + 1, replay.starts)


def samples_of(rows: Batch) -> Samples:
    """Return inputs and outputs of the model, of transitions."""
    return ensemble.samples_of(rows.obs, rows.actions, rows.rewards, rows.next_obs)


@jax.jit
def statistics_of(replay: DeviceReplay) -> Statistics:
    """Return mean and spread of the transitions."""
    if replay.capacity <= _MEASURED_AT_ONCE:
        return ensemble.statistics(samples_of(replay.rows), replay.size)
    # Subtract the first row, so that a large offset costs no precision.
    first = samples_of(replay.take(jnp.zeros(1, jnp.int32)))
    shift = _mean(replay, first, lambda value: value)
    mean = jax.tree.map(jnp.add, first, shift)
    variance = _mean(replay, mean, jnp.square)
    mean, variance = (jax.tree.map(lambda row: row[0], row) for row in (mean, variance))
    return ensemble.statistics_from(mean, variance, replay.size)


def _mean(
    replay: DeviceReplay, origin: Samples, term: Callable[[Array], Array]
) -> Samples:
    """Return the mean of term(x − origin), of every column, as one row."""

    def add(block: Int[Array, ""], sums: Samples) -> Samples:
        numbers = block * _BLOCK + jnp.arange(_BLOCK, dtype=jnp.int32)
        valid = (numbers < replay.size)[:, None]

        def grown(total: Array, values: Array, start: Array) -> Array:
            terms = jnp.where(valid, term(values - start), 0.0)
            return total + jnp.sum(terms, axis=0, keepdims=True)

        return jax.tree.map(grown, sums, samples_of(replay.take(numbers)), origin)

    blocks = (replay.size + _BLOCK - 1) // _BLOCK
    zeros = jax.tree.map(jnp.zeros_like, origin)
    sums = jax.lax.fori_loop(0, blocks, add, zeros)
    count = jnp.maximum(replay.size, 1).astype(jnp.float32)
    return jax.tree.map(lambda total: total / count, sums)
