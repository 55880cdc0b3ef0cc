"""Several agents that are alike practise in one program: the seed is an axis of it.

One compilation serves them all, and an accelerator that a single agent's small batches
leave idle does the work of several for little more than the price of one.
"""

from functools import partial

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int, Key

from driftrl.agents.practice import Config, DeepState, practise
from driftrl.agents.replay import Replay
from driftrl.imagination.policy_rollout import Known


@partial(jax.jit, static_argnames=("config", "known"))
def practise_together(
    states: tuple[DeepState, ...],
    replays: tuple[Replay, ...],
    count: Int[Array, ""],
    config: Config,
    known: Known,
    keys: tuple[Key[Array, ""], ...],
) -> tuple[DeepState, ...]:
    """Do ``count`` units with each state on its own replay, as ``practise`` would.

    The arithmetic is that of ``practise`` for each of them; only the order in which a
    sum of products is added up may differ, and with it the last digits.
    """

    def one(state: DeepState, replay: Replay, key: Key[Array, ""]) -> DeepState:
        return practise(state, replay, count, config, known, key)

    # Put together and taken apart in here: outside, each array would be a call.
    state, replay, key = (
        jax.tree.map(lambda *parts: jnp.stack(parts), *each)
        for each in (states, replays, keys)
    )
    learned = jax.vmap(one)(state, replay, key)
    return tuple(
        jax.tree.map(lambda part: part[number], learned)  # noqa: B023
        for number in range(len(states))
    )
