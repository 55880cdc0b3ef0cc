"""Random streams, each derived from (seed, purpose, episode) and nothing else.

No stream has hidden state: a run resumes at an episode boundary exactly, and evaluating
more or less often changes nothing in training.
"""

import enum
from functools import lru_cache

import jax
import numpy as np
from jaxtyping import Array, Key, UInt32


class Purpose(enum.IntEnum):
    """What randomness is for; the numbers are part of every recorded result."""

    ENVIRONMENT = 0
    ACTING = 1
    LEARNING = 2
    EVALUATION = 3
    RECOVERY = 4


def key_for(seed: int, purpose: Purpose, *place: int) -> Key[Array, ""]:
    """Return the JAX key of a purpose at a place, such as (episode, step)."""
    return _folded(_root(seed), np.array((purpose, *place), np.uint32))


@lru_cache(maxsize=16)
def _root(seed: int) -> Key[Array, ""]:
    return jax.random.key(seed)


@jax.jit
def _folded(key: Key[Array, ""], numbers: UInt32[Array, " N"]) -> Key[Array, ""]:
    """Fold numbers into a key one after the other, in one call: there is one a step."""
    for place in range(len(numbers)):
        key = jax.random.fold_in(key, numbers[place])
    return key


def integer_for(seed: int, purpose: Purpose, *place: int) -> int:
    """Return a 32-bit seed of a purpose at a place, for environments."""
    sequence = np.random.SeedSequence([seed, int(purpose), *place])
    return int(sequence.generate_state(1)[0])
