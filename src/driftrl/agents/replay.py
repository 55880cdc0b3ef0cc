"""The retained transitions as arrays of a fixed size, so that growing compiles nothing.

Only the first ``size`` rows are transitions, the others are padding.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from driftrl.agents.sac import Batch
from driftrl.types import Data, Transition


class Replay(NamedTuple):
    """Padded transitions on the device."""

    data: Batch
    size: Int[Array, ""]


def make_replay(data: Data, capacity: int) -> Replay:
    """Return transitions in single precision, padded to ``capacity`` rows."""
    terminated = data.terminated.astype(np.float64)
    columns = (data.obs, data.actions, data.rewards, data.next_obs, terminated)
    rows = Batch(*(_padded(column, capacity) for column in columns))
    return Replay(rows, jnp.asarray(len(data), jnp.int32))


def _padded(column: np.ndarray, rows: int) -> Float[Array, "..."]:
    padded = np.zeros((rows, *column.shape[1:]), np.float32)
    padded[: len(column)] = column
    return jnp.asarray(padded)


def append(replay: Replay, row: Batch) -> Replay:
    """Return the replay with one more transition, ``row`` without a leading axis."""
    data, size = replay
    columns = [old.at[size].set(new) for old, new in zip(data, row, strict=True)]
    return Replay(Batch(*columns), size + 1)


def row_of(transition: Transition) -> Batch:
    """Return one transition in single precision."""
    columns = (
        transition.obs,
        transition.action,
        transition.reward,
        transition.next_obs,
        float(transition.terminated),
    )
    return Batch(*(jnp.asarray(column, jnp.float32) for column in columns))
