"""The retained transitions on the device, in arrays of a fixed size.

The arrays are a ring: of ``size`` transitions, number i lies in row (start + i) mod
capacity, and the other rows are padding.  So growing data recompile nothing, and an
episode costs only its own length: new transitions are written in place, and forgetting
moves the start.
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
_SMALLEST_CHUNK = 1000  # rows per write: a call costs more than these rows
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
    start: Int[Array, ""]
    size: Int[Array, ""]
    starts: Float[Array, "M S"]
    """Observations at the start of the newest episodes, repeated if there are fewer."""

    @property
    def capacity(self) -> int:
        """Number of rows."""
        return len(self.rows.rewards)

    def take(self, numbers: Int[Array, "*N"]) -> Batch:
        """Return the transitions with these numbers, from 0 to size − 1."""
        rows = (self.start + numbers) % self.capacity
        return jax.tree.map(lambda column: column[rows], self.rows)

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

    def ordered(self) -> Batch:
        """Return all rows, oldest transition first, padding last."""
        return self.take(jnp.arange(self.capacity, dtype=jnp.int32))


def device_replay(data: Data, capacity: int) -> DeviceReplay:
    """Copy data to the device, in single precision."""
    start, size = (jnp.asarray(number, jnp.int32) for number in (0, len(data)))
    return DeviceReplay(_padded_rows(data, 0, capacity), start, size, _starts(data))


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


def _padded_rows(data: Data, first: int, rows: int) -> Batch:
    """Return up to ``rows`` transitions from ``first`` on, then zeros."""

    def padded(column: np.ndarray) -> Array:
        filled = np.zeros((rows, *column.shape[1:]), np.float32)
        part = column[first : first + rows]
        filled[: len(part)] = part
        return jnp.asarray(filled)

    columns = (data.obs, data.actions, data.rewards, data.next_obs, data.terminated)
    return Batch(*(padded(column) for column in columns))


class ReplayCache:
    """Keeps the newest data on the device, to copy only what is new.

    The returned replay depends only on the arguments, and is valid until the next call,
    which writes over it.
    """

    def __init__(self, sizes: tuple[int, int], steps: int) -> None:
        """Make an empty cache for episodes of ``steps`` transitions."""
        self._sizes = sizes
        self._chunk = max(steps, _SMALLEST_CHUNK)
        self._rows: Batch | None = None
        self._start = self.size = 0
        self._starts = jnp.zeros((STARTS, sizes[0]))
        # Of which transitions the rows are; ``append`` adds rows beyond ``_end``.
        self._origin: object = None
        self._first = self._end = 0

    def load(self, data: Data, capacity: int) -> DeviceReplay:
        """Return exactly ``data`` in a replay of this capacity."""
        reusable = (
            self._rows is not None
            and len(self._rows.rewards) == capacity
            and data.origin is not None
            and data.origin is self._origin
            and self._first <= data.offset <= self._end <= data.offset + len(data)
        )
        self._origin = None  # an interrupt would leave incomplete rows
        if reusable:
            self._start = (self._start + data.offset - self._first) % capacity
            self.size = self._end - data.offset
        else:
            self._rows = None  # free the memory first
            self._rows = _empty_rows(self._sizes, capacity)
            self._start = self.size = 0
        while self.size < len(data):
            rows = _padded_rows(data, self.size, self._chunk)
            self._write(rows, min(self._chunk, len(data) - self.size))
        self._first, self._end = data.offset, data.offset + len(data)
        self._origin, self._starts = data.origin, _starts(data)
        return self._replay()

    def append(self, transition: Transition) -> DeviceReplay:
        """Return the replay with one more transition, which is in no data yet."""
        step = transition
        columns = (step.obs, step.action, step.reward, step.next_obs, step.terminated)
        row = Batch(*(jnp.asarray(np.asarray(c, np.float32)[None]) for c in columns))
        origin, self._origin = self._origin, None
        self._write(row, 1)
        self._origin = origin
        return self._replay()

    def _write(self, rows: Batch, count: int) -> None:
        assert self._rows is not None
        capacity = len(self._rows.rewards)
        assert self.size + count <= capacity, "the replay is full"
        place = jnp.asarray((self._start + self.size) % capacity, jnp.int32)
        self._rows = _written(self._rows, rows, place, jnp.asarray(count, jnp.int32))
        self.size += count

    def _replay(self) -> DeviceReplay:
        assert self._rows is not None
        start, size = (jnp.asarray(n, jnp.int32) for n in (self._start, self.size))
        return DeviceReplay(self._rows, start, size, self._starts)


def _empty_rows(sizes: tuple[int, int], capacity: int) -> Batch:
    states, actions = sizes
    shapes = ((states,), (actions,), (), (states,), ())
    return Batch(*(jnp.zeros((capacity, *shape), jnp.float32) for shape in shapes))


# Donated, the arrays are changed in place; otherwise all rows would be copied.
@partial(jax.jit, donate_argnames="columns")
def _written(
    columns: Batch, rows: Batch, place: Int[Array, ""], count: Int[Array, ""]
) -> Batch:
    capacity, numbers = len(columns.rewards), jnp.arange(len(rows.rewards))
    # Padding goes to a row that does not exist, where it is dropped.
    places = jnp.where(numbers < count, (place + numbers) % capacity, capacity)
    return jax.tree.map(
        lambda column, new: column.at[places].set(new, mode="drop"), columns, rows
    )


def samples_of(rows: Batch) -> Samples:
    """Return inputs and outputs of the model, of transitions."""
    return ensemble.samples_of(rows.obs, rows.actions, rows.rewards, rows.next_obs)


@jax.jit
def statistics_of(replay: DeviceReplay) -> Statistics:
    """Return mean and spread of the transitions, summed in their order.

    So the result does not depend on where the ring starts, bit for bit.
    """
    if replay.capacity <= _MEASURED_AT_ONCE:
        return ensemble.statistics(samples_of(replay.ordered()), replay.size)
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
