"""Soft actor-critic: one step two ways, targets, temperature, the compiled scan."""

import functools
from dataclasses import replace
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from driftrl.agents import sac
from driftrl.agents.replay import Batch, DeviceReplay
from driftrl.agents.sac import Metrics, SACState
from driftrl.config.deep import SACConfig
from factories import same

STATES, ACTIONS = 3, 2
CONFIG = SACConfig(hidden=(8, 8), batch_size=6, target_entropy=-1.5)
RESIDUAL = replace(CONFIG, critic="residual")
KEY = jax.random.key(7)


@functools.cache
def fresh(config: SACConfig = CONFIG) -> SACState:
    return sac.init(STATES, ACTIONS, config, key=jax.random.key(0))


@functools.cache
def learned(config: SACConfig = CONFIG) -> SACState:
    """Return a state whose parts have all moved, targets far from critics."""
    generator = np.random.default_rng(2)
    shake = lambda leaf: (
        leaf + jnp.asarray(0.1 * generator.normal(size=leaf.shape), leaf.dtype)
    )
    state = fresh(config)
    parts = (state.actor, state.critics, state.target_critics, state.log_temperature)
    state = eqx.tree_at(
        lambda s: (s.actor, s.critics, s.target_critics, s.log_temperature),
        state,
        jax.tree.map(shake, parts),
    )
    return updated(state, transitions(6, seed=5), config, KEY)[0]


@functools.cache
def transitions(rows: int, seed: int = 1) -> Batch:
    generator = np.random.default_rng(seed)
    draw = lambda *shape: jnp.asarray(generator.normal(size=shape), jnp.float32)
    ended = jnp.asarray(generator.random(rows) < 0.3, jnp.float32)
    return Batch(
        obs=draw(rows, STATES),
        actions=jnp.tanh(draw(rows, ACTIONS)),
        rewards=draw(rows),
        next_obs=draw(rows, STATES),
        terminated=ended,
    )


@functools.partial(jax.jit, static_argnames="config")
def updated(
    state: SACState, batch: Batch, config: SACConfig, key: jax.Array
) -> tuple[SACState, Metrics]:
    return sac.update(state, batch, config, key=key)


def assert_close(found: Any, expected: Any, *, rtol: float, atol: float) -> None:
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(a, b, rtol=rtol, atol=atol),
        found,
        expected,
    )


DATA = transitions(16)


def trained(
    state: SACState, data: Batch, size: int, updates: int, key: jax.Array = KEY
) -> tuple[SACState, Metrics]:
    start = jnp.asarray(0, jnp.int32)
    replay = DeviceReplay(data, start, jnp.asarray(size, jnp.int32), data.obs[:1])
    return sac.train(state, replay, updates, CONFIG, key)


# ---- one update two ways -----------------------------------------------------------


def smaller(pair: Any, obs: Any, actions: Any) -> jax.Array:
    return jnp.minimum(*(critic(pair, j, obs, actions) for j in (0, 1)))


def critic(pair: Any, index: int, obs: Any, actions: Any) -> jax.Array:
    single = jax.tree.map(lambda leaf: leaf[index], pair)
    judge = lambda one, action: single(jnp.concatenate([one, action]))[0]
    return jax.vmap(judge)(obs, actions)


def draw(actor: Any, obs: Any, noise: Any) -> tuple[jax.Array, jax.Array]:
    mean, log_std = jnp.split(jax.vmap(actor)(obs), 2, axis=1)
    std = jnp.exp(jnp.clip(log_std, -10, 2))
    latent = mean + std * noise
    actions = jnp.tanh(latent)
    normal = jax.scipy.stats.norm.logpdf(latent, mean, std)
    return actions, jnp.sum(normal - jnp.log(1 - actions**2), axis=1)


def by_hand(
    state: SACState, batch: Batch, config: SACConfig, key: jax.Array
) -> SACState:
    """Take the same step critic by critic, straight from the equations, with Optax."""
    next_noise, noise = jax.random.normal(key, (2, *batch.actions.shape))
    alpha = jnp.exp(state.log_temperature)

    following, log_prob = draw(state.actor, batch.next_obs, next_noise)
    future = smaller(state.target_critics, batch.next_obs, following)
    future = future - alpha * log_prob
    target = batch.rewards + config.discount * (1 - batch.terminated) * future

    def critic_loss(pair: Any) -> jax.Array:
        first, second = (critic(pair, j, batch.obs, batch.actions) for j in (0, 1))
        return jnp.mean((first - target) ** 2 + (second - target) ** 2)

    def step(loss: Any, part: Any, moments: Any) -> tuple[Any, Any]:
        clip = optax.clip_by_global_norm(config.gradient_clip)
        gradient, _ = clip.update(jax.grad(loss)(part), optax.EmptyState())
        with jax.numpy_dtype_promotion("standard"):
            change, moments = optax.adam(config.learning_rate).update(gradient, moments)
        return optax.apply_updates(part, change), (optax.EmptyState(), moments)

    critics, critic_moments = step(
        critic_loss, state.critics, state.critic_optimiser[1]
    )

    def actor_loss(actor: Any) -> jax.Array:
        actions, log_prob = draw(actor, batch.obs, noise)
        return jnp.mean(alpha * log_prob - smaller(critics, batch.obs, actions))

    actor, actor_moments = step(actor_loss, state.actor, state.actor_optimiser[1])
    entropy = -jnp.mean(draw(state.actor, batch.obs, noise)[1])
    log_alpha, alpha_moments = step(
        lambda log_alpha: log_alpha * (entropy + 1.5),
        state.log_temperature,
        state.temperature_optimiser[1],
    )
    tau = config.tau
    return SACState(
        actor=actor,
        critics=critics,
        target_critics=jax.tree.map(
            lambda old, new: (1 - tau) * old + tau * new, state.target_critics, critics
        ),
        value_range=state.value_range,
        actor_optimiser=actor_moments,
        critic_optimiser=critic_moments,
        log_temperature=log_alpha,
        temperature_optimiser=alpha_moments,
        updates=state.updates + 1,
    )


@pytest.mark.parametrize("config", [CONFIG, RESIDUAL], ids=["plain", "residual"])
def test_update_is_the_same_as_by_hand(config: SACConfig) -> None:
    state, batch = learned(config), transitions(6)
    assert 0 < float(batch.terminated.sum()) < 6
    found, _ = updated(state, batch, config, KEY)
    expected = jax.jit(by_hand, static_argnums=2)(state, batch, config, KEY)
    assert_close(found, expected, rtol=2e-4, atol=2e-6)
    # What moved, moved by more than that.
    for part in ("actor", "critics", "log_temperature"):
        moved = jax.tree.map(
            lambda a, b: float(jnp.abs(a - b).max()),
            getattr(found, part),
            getattr(state, part),
        )
        assert max(jax.tree.leaves(moved)) > 1e-4


@pytest.mark.parametrize(("size", "wanted"), [(1, -1.0), (6, -6.0)])
def test_default_target_entropy(size: int, wanted: float) -> None:
    assert sac.target_entropy(size, SACConfig()) == wanted
    assert sac.target_entropy(size, CONFIG) == -1.5


# ---- the compiled scan -------------------------------------------------------------


def test_training_is_updates_one_by_one() -> None:
    key = jax.random.key(3)
    found, seen = trained(learned(), DATA, 11, 10, key)
    rows_key, update_key = jax.random.split(key)
    rows = jax.random.randint(rows_key, (10, CONFIG.batch_size), 0, 11)
    state, history = learned(), []
    for row, step_key in zip(rows, jax.random.split(update_key, 10), strict=True):
        batch = Batch(*(column[row] for column in DATA))
        state, metrics = updated(state, batch, CONFIG, step_key)
        history.append(metrics)
    assert_close(found, state, rtol=1e-3, atol=1e-5)
    means = jax.tree.map(lambda *values: np.mean(values), *history)
    assert_close(seen, means, rtol=1e-3, atol=1e-5)
    assert int(found.updates) == int(learned().updates) + 10


def test_valid_rows_are_drawn_and_padding_is_not() -> None:
    spoil = lambda row: Batch(*(column.at[row].set(jnp.nan) for column in DATA))
    run = lambda data: trained(learned(), data, 5, 10)[0]
    for row in range(5):
        assert np.isnan(np.asarray(run(spoil(row)).actor.layers[0].bias)).all()
    assert same(run(spoil(slice(5, None))), run(DATA))


def test_growing_data_and_new_states_compile_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    state, _ = trained(fresh(), DATA, 2, 10)
    # Compiling again would call ``update`` again.
    monkeypatch.setattr(sac, "update", None)
    state, _ = trained(state, DATA, 9, 10, jax.random.key(9))
    trained(state, transitions(16, seed=3), 16, 10)
    with pytest.raises(TypeError, match="NoneType"):
        trained(state, DATA, 16, 11)
