"""A replay that is kept on the device from one episode to the next.

Copying all retained transitions to the device for every episode would make a run cost
the square of its length.  Of consecutive data only what is new is written, in place,
and forgetting moves the start: an episode costs what it is long.
"""

from dataclasses import dataclass, replace
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Int

from driftrl.agents.replay import Replay, ordered, padded_rows
from driftrl.agents.sac import Batch
from driftrl.types import Data, Transition

# Rows of one write, at least: it costs a call more than it costs its rows.
_LEAST_CHUNK = 1000


@dataclass(frozen=True)
class Ring:
    """Arrays of a fixed size, written over where transitions have been forgotten."""

    columns: Batch
    start: int
    """Row of the oldest transition."""
    size: int
    """Number of transitions."""

    @property
    def capacity(self) -> int:
        """Number of rows."""
        return len(self.columns.rewards)

    @property
    def replay(self) -> Replay:
        """The transitions as compiled functions take them."""
        start, size = (jnp.asarray(n, jnp.int32) for n in (self.start, self.size))
        return Replay(self.columns, start, size)


def empty_ring(sizes: tuple[int, int], capacity: int) -> Ring:
    """Return a ring without transitions, for ``sizes`` = (states, actions)."""
    states, actions = sizes
    shapes = ((states,), (actions,), (), (states,), ())
    columns = Batch(*(jnp.zeros((capacity, *shape), jnp.float32) for shape in shapes))
    return Ring(columns, 0, 0)


def extended(ring: Ring, rows: Batch, count: int) -> Ring:
    """Return the ring with the first ``count`` of ``rows`` behind its newest.

    The ring that was passed in is written over, and must not be used any more.
    """
    assert ring.size + count <= ring.capacity, "the ring is full"
    place = jnp.asarray((ring.start + ring.size) % ring.capacity, jnp.int32)
    columns = _written(ring.columns, rows, place, jnp.asarray(count, jnp.int32))
    return Ring(columns, ring.start, ring.size + count)


# Donated, the arrays are changed where they are; else all rows would be copied.
@partial(jax.jit, donate_argnames="columns")
def _written(
    columns: Batch, rows: Batch, place: Int[Array, ""], count: Int[Array, ""]
) -> Batch:
    capacity, numbers = len(columns.rewards), jnp.arange(len(rows.rewards))
    # What is only padding goes to a row that there is not, where it is dropped.
    places = jnp.where(numbers < count, (place + numbers) % capacity, capacity)
    return jax.tree.map(
        lambda column, new: column.at[places].set(new, mode="drop"), columns, rows
    )


def without_oldest(ring: Ring, count: int) -> Ring:
    """Return the ring without its ``count`` oldest transitions."""
    return replace(
        ring, start=(ring.start + count) % ring.capacity, size=ring.size - count
    )


def enlarged(ring: Ring, capacity: int) -> Ring:
    """Return a copy of the ring with more rows."""
    more = capacity - ring.capacity
    columns = jax.tree.map(
        lambda column: jnp.pad(column, ((0, more), *((0, 0),) * (column.ndim - 1))),
        ordered(ring.replay),
    )
    return Ring(columns, 0, ring.size)


def row_of(transition: Transition) -> Batch:
    """Return one transition in single precision, as rows of which there is one."""
    columns = (
        transition.obs,
        transition.action,
        transition.reward,
        transition.next_obs,
        transition.terminated,
    )
    rows = (np.asarray(column, np.float32)[None] for column in columns)
    return Batch(*(jnp.asarray(row) for row in rows))


@dataclass(frozen=True)
class Holding:
    """A ring, and whose transitions are in it."""

    ring: Ring
    origin: object
    first: int
    """Number of the oldest transition in the ring, of all that its origin has had."""
    end: int
    """Number after the newest that belongs to the data; rows of a online may follow."""

    def begins(self, data: Data) -> bool:
        """Say whether all that it holds from the data's first on is the data's."""
        return (
            data.origin is not None
            and data.origin is self.origin
            and self.first <= data.offset <= self.end <= data.offset + len(data)
        )


class RingCache:
    """The ring of the data that were asked for last.

    What it returns depends on what is asked for alone; only the time it takes depends
    on what it holds.  The ring that it returned before is written over.
    """

    def __init__(self, sizes: tuple[int, int], steps: int) -> None:
        """Make an empty cache for episodes of ``steps`` transitions."""
        self._sizes = sizes
        self._chunk = max(steps, _LEAST_CHUNK)
        self._held: Holding | None = None

    def holding(self, data: Data, capacity: int) -> Holding:
        """Return exactly the data, in a ring of so many rows."""
        held = self._taken()
        if held is None or held.ring.capacity != capacity or not held.begins(data):
            del held  # before there is another of its size
            ring = empty_ring(self._sizes, capacity)
        else:
            ring = replace(held.ring, size=held.end - held.first)
            ring = without_oldest(ring, data.offset - held.first)
        while ring.size < len(data):
            rows = padded_rows(data, ring.size, self._chunk)
            ring = extended(ring, rows, min(self._chunk, len(data) - ring.size))
        end = data.offset + len(data)
        return self._keep(Holding(ring, data.origin, data.offset, end))

    def with_row(self, held: Holding, row: Batch) -> Holding:
        """Return a holding with one more transition, which no data has yet."""
        self._taken()
        ring = held.ring
        if ring.size == ring.capacity:
            ring = enlarged(ring, 2 * ring.capacity)
        return self._keep(replace(held, ring=extended(ring, row, 1)))

    def _taken(self) -> Holding | None:
        """Forget what is held while it is written: an interrupt may leave it broken."""
        held, self._held = self._held, None
        return held

    def _keep(self, held: Holding) -> Holding:
        self._held = held
        return held
