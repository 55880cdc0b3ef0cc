"""The retained transitions as arrays of a fixed size, so that growing compiles nothing.

The arrays are a ring: of ``size`` transitions, number i lies in row (start + i) mod
capacity, and the other rows are padding.  Whoever reads them by number, as ``drawn``
and ``ordered`` do, gets the same wherever the ring begins.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from driftrl.agents.sac import Batch
from driftrl.types import Data


class Replay(NamedTuple):
    """Padded transitions on the device."""

    data: Batch
    start: Int[Array, ""]
    size: Int[Array, ""]


def make_replay(data: Data, capacity: int) -> Replay:
    """Return transitions in single precision, padded to ``capacity`` rows."""
    start, size = (jnp.asarray(number, jnp.int32) for number in (0, len(data)))
    return Replay(padded_rows(data, 0, capacity), start, size)


def padded_rows(data: Data, first: int, rows: int) -> Batch:
    """Return up to ``rows`` transitions from ``first`` on, then zeros."""
    columns = (data.obs, data.actions, data.rewards, data.next_obs, data.terminated)
    return Batch(*(_padded(column[first : first + rows], rows) for column in columns))


def _padded(column: np.ndarray, rows: int) -> Float[Array, "..."]:
    padded = np.zeros((rows, *column.shape[1:]), np.float32)
    padded[: len(column)] = column
    return jnp.asarray(padded)


def drawn(replay: Replay, numbers: Int[Array, "*N"]) -> Batch:
    """Return the transitions of these numbers, from 0 to size − 1."""
    rows = _rows(replay, numbers)
    return jax.tree.map(lambda column: column[rows], replay.data)


def ordered(replay: Replay) -> Batch:
    """Return all rows in the order of their numbers, padding last."""
    numbers = jnp.arange(len(replay.data.rewards), dtype=jnp.int32)
    return drawn(replay, numbers)


def _rows(replay: Replay, numbers: Int[Array, "*N"]) -> Int[Array, "*N"]:
    return (replay.start + numbers) % len(replay.data.rewards)
