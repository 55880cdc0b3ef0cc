"""Soft resets: the mixture by hand, its two ends, what follows and what stays."""

import functools

import jax
import jax.numpy as jnp
import numpy as np

from driftrl.agents import sac
from driftrl.agents.replay import Batch, DeviceReplay
from driftrl.agents.sac import SACState, soft_reset
from driftrl.config.deep import SACConfig
from driftrl.models.networks import mix
from factories import same

CONFIG = SACConfig(hidden=(8, 8), batch_size=4, learning_rate=0.05)
KEY = jax.random.key(3)


@functools.cache
def learned() -> SACState:
    """Return a state after a few updates, targets far behind."""
    draw = lambda *shape: jnp.asarray(
        np.random.default_rng(0).normal(size=shape), jnp.float32
    )
    data = Batch(draw(9, 2), draw(9, 1), draw(9), draw(9, 2), jnp.zeros(9))
    start = sac.init(2, 1, CONFIG, key=jax.random.key(0))
    first, size = (jnp.asarray(number, jnp.int32) for number in (0, 9))
    replay = DeviceReplay(data, first, size, data.obs[:1])
    return sac.train(start, replay, 20, CONFIG, jax.random.key(1))[0]


@functools.cache
def fresh() -> SACState:
    return sac.init(2, 1, CONFIG, key=KEY)


# ---- the mixture -------------------------------------------------------------------


def test_mix_by_hand() -> None:
    old = {"a": jnp.array([4.0, -8.0]), "b": (jnp.array(2.0),)}
    new = {"a": jnp.array([0.0, 8.0]), "b": (jnp.array(-2.0),)}
    found = mix(old, new, 0.25)
    np.testing.assert_array_equal(found["a"], [3.0, -4.0])
    np.testing.assert_array_equal(found["b"][0], 1.0)


# ---- the agent ---------------------------------------------------------------------


def test_rate_0_changes_nothing_at_all() -> None:
    assert same(soft_reset(learned(), fresh(), 0.0), learned())
    # NaN beside it does not matter: 0·NaN is not 0.
    assert same(mix(jnp.array(-0.0), jnp.array(jnp.nan), 0.0), jnp.array(-0.0))
    assert same(mix(jnp.array(jnp.nan), jnp.array(2.0), 1.0), jnp.array(2.0))


def test_networks_are_mixed_and_optimisers_restart() -> None:
    found = soft_reset(learned(), fresh(), 0.2)
    for part in ("actor", "critics"):
        expected = jax.tree.map(
            lambda old, new: 0.8 * np.asarray(old) + 0.2 * np.asarray(new),
            getattr(learned(), part),
            getattr(fresh(), part),
        )
        jax.tree.map(
            lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-6, atol=1e-7),
            getattr(found, part),
            expected,
        )
        assert not same(getattr(found, part), getattr(learned(), part))
    assert not same(learned().actor_optimiser, fresh().actor_optimiser)
    assert same(found.actor_optimiser, fresh().actor_optimiser)
    assert same(found.critic_optimiser, fresh().critic_optimiser)


def test_targets_are_mixed_with_the_same_fresh_critics() -> None:
    def behind(state: SACState) -> list[jax.Array]:
        gap = jax.tree.map(jnp.subtract, state.critics, state.target_critics)
        return jax.tree.leaves(gap)

    found = soft_reset(learned(), fresh(), 0.2)
    for before, after in zip(behind(learned()), behind(found), strict=True):
        assert np.abs(np.asarray(before)).max() > 0.01
        np.testing.assert_allclose(after, 0.8 * np.asarray(before), atol=1e-6)


def test_temperature_and_count_go_on() -> None:
    found = soft_reset(learned(), fresh(), 0.5)
    assert float(learned().log_temperature) != 0.0
    kept = ("log_temperature", "temperature_optimiser", "updates")
    for part in kept:
        assert same(getattr(found, part), getattr(learned(), part))
