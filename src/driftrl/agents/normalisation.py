"""Mean and spread of the retained transitions, which normalise an ensemble.

A short ring is measured at once.  A long one is measured block by block, over the rows
in use: at once it would need twice its own room, and as much time when nearly empty.
"""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from driftrl.agents.replay import Replay, drawn, ordered
from driftrl.agents.sac import Batch
from driftrl.models import ensemble
from driftrl.models.ensemble import EnsembleState, Samples, Statistics

_AT_ONCE = 2**17  # rows
_BLOCK = 2**13

Term = Callable[[Float[Array, "..."]], Float[Array, "..."]]


def samples(rows: Batch) -> Samples:
    """Return transitions as an ensemble learns from them."""
    return ensemble.samples_of(rows.obs, rows.actions, rows.rewards, rows.next_obs)


@jax.jit
def statistics_of(model: EnsembleState, replay: Replay) -> Statistics:
    """Return what ``ensemble.with_statistics`` measures on the transitions.

    Sums depend on the order of their terms, so they are taken in the order of the
    transitions: where a ring begins must not matter.
    """
    if len(replay.data.rewards) > _AT_ONCE:
        return _in_blocks(replay)
    rows = samples(ordered(replay))
    return ensemble.with_statistics(model, rows, replay.size).statistics


def _in_blocks(replay: Replay) -> Statistics:
    """Return the statistics of a ring from sums over blocks of its transitions."""
    # Sums of differences from a row: an offset of the column costs no precision.
    origin = samples(drawn(replay, jnp.zeros(1, jnp.int32)))
    count = jnp.maximum(replay.size, 1).astype(jnp.float32)
    shift = jax.tree.map(
        lambda total: total / count, _sum(replay, lambda value: value, origin)
    )
    centre = jax.tree.map(jnp.add, origin, shift)
    squares = _sum(replay, jnp.square, centre)
    anything = replay.size > 0
    mean = jax.tree.map(lambda value: jnp.where(anything, value[0], 0.0), centre)
    spread = jax.tree.map(lambda total: jnp.sqrt(total[0] / count), squares)
    return Statistics(
        input_mean=mean.inputs,
        input_std=_std(spread.inputs, ensemble.SMALLEST_INPUT_STD, anything),
        output_mean=mean.outputs,
        output_std=_std(spread.outputs, ensemble.SMALLEST_OUTPUT_STD, anything),
    )


def _std(
    spread: Float[Array, " D"], smallest: float, anything: Array
) -> Float[Array, " D"]:
    return jnp.where(anything, jnp.maximum(spread, smallest), 1.0)


def _sum(replay: Replay, term: Term, origin: Samples) -> Samples:
    """Return Σ term(x − origin) over the transitions, of every column, as one row."""

    def add(block: Int[Array, ""], sums: Samples) -> Samples:
        numbers = block * _BLOCK + jnp.arange(_BLOCK, dtype=jnp.int32)
        valid = (numbers < replay.size)[:, None]
        terms = jax.tree.map(
            lambda values, start: jnp.where(valid, term(values - start), 0.0),
            samples(drawn(replay, numbers)),
            origin,
        )
        return jax.tree.map(
            lambda total, more: total + jnp.sum(more, axis=0, keepdims=True),
            sums,
            terms,
        )

    blocks = (replay.size + _BLOCK - 1) // _BLOCK
    blank = jax.tree.map(jnp.zeros_like, origin)
    return jax.lax.fori_loop(0, blocks, add, blank)
