"""Learned termination: a rule that it must find."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.config.deep import EnsembleConfig
from driftrl.models import termination

CONFIG = EnsembleConfig(hidden=(16,), learning_rate=0.01)


def batch(rows: int, seed: int) -> tuple[jax.Array, jax.Array]:
    """Return rows (x, u, x') of a task that ends where |x'| exceeds 1."""
    rng = np.random.default_rng(seed)
    obs, actions = rng.uniform(-1, 1, (rows, 1)), rng.uniform(-1, 1, (rows, 1))
    inputs = np.concatenate([obs, actions, obs + actions], axis=1)
    ends = np.abs(inputs[:, 2]) > 1.0
    return jnp.asarray(inputs, jnp.float32), jnp.asarray(ends, jnp.float32)


def test_it_finds_the_rule() -> None:
    state = termination.initial_state(1, 1, CONFIG, key=jax.random.key(0))
    step = jax.jit(lambda state, rows: termination.update(state, *rows, config=CONFIG))
    for number in range(600):
        state = step(state, batch(64, seed=number))
    inputs, ends = batch(1000, seed=9999)
    p = jax.vmap(state.probability)(inputs[:, :1], inputs[:, 1:2], inputs[:, 2:])
    right = (np.asarray(p) > 0.5) == np.asarray(ends, bool)
    assert right.mean() > 0.97
    # Cross entropy makes it a probability: it says how often it is right.
    sure = np.maximum(p, 1 - p)
    assert np.mean(sure) == pytest.approx(right.mean(), abs=0.05)
