"""Learned termination: its loss by hand, and a rule that it must find."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.config.deep import EnsembleConfig
from driftrl.models import termination

CONFIG = EnsembleConfig(hidden=(16,), learning_rate=0.01)


def batch(rows: int, seed: int) -> tuple[jax.Array, jax.Array, jax.Array, jax.Array]:
    """Return transitions of a task that ends where |x'| exceeds 1."""
    rng = np.random.default_rng(seed)
    obs, actions = rng.uniform(-1, 1, (rows, 1)), rng.uniform(-1, 1, (rows, 1))
    next_obs = obs + actions
    ends = (np.abs(next_obs) > 1.0)[:, 0]
    columns = (obs, actions, next_obs, ends)
    first, second, third, fourth = (jnp.asarray(c, jnp.float32) for c in columns)
    return first, second, third, fourth


def test_cross_entropy_by_hand() -> None:
    state = termination.initial_state(1, 1, CONFIG, key=jax.random.key(0))
    rows = batch(4, seed=0)
    p = np.array(
        [termination.probability(state, *row) for row in zip(*rows[:3], strict=True)]
    )
    d = np.asarray(rows[3])
    expected = -np.mean(d * np.log(p) + (1 - d) * np.log(1 - p))
    found = termination.cross_entropy(state.network, *rows)
    assert float(found) == pytest.approx(float(expected), rel=1e-5)


def test_it_finds_the_rule() -> None:
    state = termination.initial_state(1, 1, CONFIG, key=jax.random.key(0))
    step = jax.jit(lambda state, rows: termination.update(state, *rows, config=CONFIG))
    for number in range(600):
        state = step(state, batch(64, seed=number))
    rows = batch(1000, seed=9999)
    p = jax.vmap(lambda *row: termination.probability(state, *row))(*rows[:3])
    right = (np.asarray(p) > 0.5) == np.asarray(rows[3], bool)
    assert right.mean() > 0.97
