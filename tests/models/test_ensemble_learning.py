"""Learning of the ensemble: against single networks, and on known systems."""

import math
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from driftrl.config.deep import EnsembleConfig
from driftrl.models import ensemble
from driftrl.models.ensemble import EnsembleState, Samples
from driftrl.models.networks import MLP

S, A, E = 3, 2, 4
SMALL = EnsembleConfig(members=E, hidden=(8, 7), learning_rate=1e-2)
KEY = jax.random.key(7)

# Compiled whole, these take less time than their pieces one by one.
measure = jax.jit(
    lambda state, *data: replace(state, statistics=ensemble.statistics(*data))
)
update = jax.jit(ensemble.update, static_argnums=2)


def transitions(rows: int, seed: int = 0) -> Samples:
    rng = np.random.default_rng(seed)
    inputs, outputs = rng.normal(size=(rows, S + A)), rng.normal(size=(rows, S + 1))
    return Samples(
        jnp.asarray(2.0 * inputs - 1.0, jnp.float32),
        jnp.asarray(0.5 * outputs + 3.0, jnp.float32),
    )


def normalised_state() -> EnsembleState:
    state = ensemble.initial_state(S, A, SMALL, key=KEY)
    return measure(state, transitions(40), jnp.asarray(40))


def member(state: EnsembleState, index: int) -> MLP:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[index], state.members)


def manual_steps(
    state: EnsembleState, batches: list[Samples], config: EnsembleConfig
) -> list[MLP]:
    """Train the members one by one with plain Adam; clip their joint gradient."""
    known = state.statistics
    adam = optax.adam(config.learning_rate)

    @jax.jit
    def slope(network: MLP, batch: Samples) -> MLP:
        def loss(network: MLP) -> jax.Array:
            z = (batch.inputs - known.input_mean[None]) / known.input_std[None]
            y = (batch.outputs - known.output_mean[None]) / known.output_std[None]
            return jnp.mean((jax.vmap(network)(z) - y) ** 2) / E

        return jax.grad(loss)(network)

    @jax.jit
    def step(
        network: MLP, memory: optax.OptState, gradient: MLP, shrink: jax.Array
    ) -> tuple[MLP, optax.OptState]:
        gradient = jax.tree.map(lambda leaf: shrink * leaf, gradient)
        with jax.numpy_dtype_promotion("standard"):
            change, memory = adam.update(gradient, memory)  # pyright: ignore[reportArgumentType]
            return optax.apply_updates(network, change), memory  # pyright: ignore[reportArgumentType, reportReturnType]

    networks = [member(state, index) for index in range(E)]
    memories = [adam.init(network) for network in networks]  # pyright: ignore[reportArgumentType]
    for batch in batches:
        slopes = [slope(network, batch) for network in networks]
        size = math.sqrt(sum(float((x**2).sum()) for x in jax.tree.leaves(slopes)))
        shrink = jnp.asarray(min(1.0, config.gradient_clip / size))
        for e in range(E):
            networks[e], memories[e] = step(networks[e], memories[e], slopes[e], shrink)
    return networks


def test_an_update_is_that_of_single_networks() -> None:
    config = replace(SMALL, gradient_clip=0.5)
    state = normalised_state()
    # Adam forgets a constant factor of the gradients; batches of different difficulty
    # are shortened by different factors.
    batches = [
        Samples(batch.inputs, factor * batch.outputs)
        for factor, batch in zip(
            (100.0, 1.0, 30.0),
            (transitions(10, seed) for seed in range(3)),
            strict=True,
        )
    ]
    expected = manual_steps(state, batches, config)
    before = float(
        ensemble.regression_loss(state.members, state.statistics, batches[0])
    )
    for number, batch in enumerate(batches):
        state, loss = update(state, batch, config)
        if number == 0:
            assert float(loss) == pytest.approx(before, rel=1e-5)
    assert int(state.updates) == 3
    for index in range(E):
        for found, wanted in zip(
            jax.tree.leaves(member(state, index)),
            jax.tree.leaves(expected[index]),
            strict=True,
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-5)


# ---- known systems -----------------------------------------------------------------

LINEAR = np.array(
    [[0.1, 0.2, -0.1, 1.0], [-0.3, 0.1, 0.0, 0.5], [1.0, 0.5, 0.2, -1.0]], np.float32
).T[:, :3]


def linear_system(rows: int, seed: int) -> Samples:
    """Two states, two actions; changes and reward are linear."""
    rng = np.random.default_rng(seed)
    inputs = rng.uniform(-1.0, 1.0, (rows, 4)).astype(np.float32)
    outputs = inputs @ LINEAR + np.array([5.0, 0.0, -20.0], np.float32)
    return Samples(jnp.asarray(inputs), jnp.asarray(outputs))


def test_learns_a_linear_system() -> None:
    config = EnsembleConfig(hidden=(32, 32), learning_rate=3e-3)
    data, size = linear_system(1000, seed=0), jnp.asarray(1000)

    def step(state: EnsembleState, key: jax.Array) -> tuple[EnsembleState, None]:
        rows = jax.random.randint(key, (128,), 0, size)
        batch = Samples(data.inputs[rows], data.outputs[rows])
        return ensemble.update(state, batch, config)[0], None

    keys = jax.random.split(KEY, 600)
    state = measure(ensemble.initial_state(2, 2, config, key=KEY), data, size)
    state = jax.jit(lambda s: jax.lax.scan(step, s, keys)[0])(state)
    fresh = linear_system(200, seed=1)
    ask = jax.jit(jax.vmap(lambda z: ensemble.predict(state, z[:2], z[2:])))
    near = ask(fresh.inputs)
    changes = np.concatenate(
        [near.mean - fresh.inputs[:, :2], near.reward[:, None]], axis=1
    )
    error = (changes - np.asarray(fresh.outputs)) / np.asarray(near.scale)
    assert np.sqrt(np.mean(error**2)) < 0.05
    # What was seen is known, what lies three times as far out is not.
    far = ask(jnp.asarray(4.0 * np.sign(fresh.inputs)))
    unknown = [np.mean(np.asarray(p.epistemic_std / p.scale)) for p in (near, far)]
    assert unknown[1] > 5.0 * unknown[0]
