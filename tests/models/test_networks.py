"""Networks: layers by hand, how they start, the residual block, ensembles by vmap."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.models.networks import (
    HIDDEN_GAIN,
    MLP,
    Dense,
    ResidualMLP,
    generator,
    stacked,
)

KEY = jax.random.key(0)


def dense(weight: list[list[float]], bias: list[float]) -> Dense:
    """Return a layer with these parameters."""
    layer = Dense(len(weight), len(bias), 1.0, rng=generator(KEY))
    parts = jnp.array(weight), jnp.array(bias)
    return eqx.tree_at(lambda d: (d.weight, d.bias), layer, parts)


# ---- one layer ---------------------------------------------------------------------


def test_dense_by_hand() -> None:
    layer = dense([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], [0.5, -1.0, 0.0])
    # (2, −1)·W = (2 − 4, 4 − 5, 6 − 6)
    np.testing.assert_array_equal(layer(jnp.array([2.0, -1.0])), [-1.5, -2.0, 0.0])


@pytest.mark.parametrize("shape", [(6, 6), (12, 3), (3, 12)])
def test_weights_start_orthogonal_with_the_asked_gain(shape: tuple[int, int]) -> None:
    layer = Dense(*shape, 1.5, rng=generator(KEY))
    weight = np.asarray(layer.weight)
    gram = weight.T @ weight if shape[0] >= shape[1] else weight @ weight.T
    np.testing.assert_allclose(gram, 1.5**2 * np.eye(min(shape)), atol=1e-5)
    np.testing.assert_array_equal(layer.bias, 0.0)


def test_weights_come_from_the_key() -> None:
    first, again = (Dense(4, 4, 1.0, rng=generator(KEY)) for _ in range(2))
    other = Dense(4, 4, 1.0, rng=generator(jax.random.key(1)))
    np.testing.assert_array_equal(first.weight, again.weight)
    assert np.abs(np.asarray(first.weight - other.weight)).max() > 0.1


@pytest.mark.parametrize("outputs", [1, 2, 3, 8])
def test_batches_of_a_tall_layer_have_the_plain_value_and_gradient(
    outputs: int,
) -> None:
    layer = Dense(8, outputs, 1.0, rng=generator(KEY))
    x = jax.random.normal(jax.random.key(1), (5, 8))
    pull = jax.random.normal(jax.random.key(2), (5, outputs))

    def pulled(layer: Dense, x: jax.Array) -> jax.Array:
        return jnp.sum(pull * jax.vmap(layer)(x))

    by_layer, by_x = jax.jit(jax.grad(pulled, argnums=(0, 1)))(layer, x)
    weight = np.asarray(layer.weight)
    np.testing.assert_allclose(jax.vmap(layer)(x), x @ weight, atol=1e-5)
    np.testing.assert_allclose(by_layer.weight, np.asarray(x).T @ pull, atol=1e-5)
    np.testing.assert_allclose(by_layer.bias, np.asarray(pull).sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(by_x, np.asarray(pull) @ weight.T, atol=1e-5)


# ---- networks ----------------------------------------------------------------------


def test_mlp_by_hand() -> None:
    layers = (
        dense([[1.0, -1.0], [2.0, 1.0]], [0.0, 1.0]),
        dense([[1.0], [-2.0]], [-10.0]),
    )
    net = MLP((2, 2, 1), jax.nn.relu, last_gain=1.0, key=KEY)
    net = eqx.tree_at(lambda n: n.layers, net, layers)
    # Hidden (1 + 6, −1 + 3 + 1) = (7, 3); out 7 − 6 − 10, with nothing after it.
    np.testing.assert_array_equal(net(jnp.array([1.0, 3.0])), [-9.0])
    # Hidden (−2, 0) is cut to (0, 0).
    np.testing.assert_array_equal(net(jnp.array([0.0, -1.0])), [-10.0])


def test_mlp_sizes_gains_and_activation() -> None:
    net = MLP((3, 8, 8, 2), jnp.tanh, last_gain=0.5, key=KEY)
    shapes = [layer.weight.shape for layer in net.layers]
    assert shapes == [(3, 8), (8, 8), (8, 2)]
    lengths = [np.linalg.norm(np.asarray(la.weight), ord=2) for la in net.layers]
    np.testing.assert_allclose(lengths, [HIDDEN_GAIN, HIDDEN_GAIN, 0.5], rtol=1e-5)
    x = jnp.array([0.3, -0.2, 0.9])
    hidden = np.tanh(np.tanh(x @ net.layers[0].weight) @ net.layers[1].weight)
    np.testing.assert_allclose(net(x), hidden @ net.layers[2].weight, atol=1e-6)


def test_residual_block_by_hand() -> None:
    net = ResidualMLP(1, 2, 1, key=KEY)
    parts = (
        dense([[1.0, 3.0]], [0.0, 0.0]),
        dense([[1.0, -1.0], [0.0, 1.0]], [0.0, 0.0]),
        dense([[2.0, 0.0], [0.0, 2.0]], [0.0, 1.0]),
        dense([[1.0], [10.0]], [0.5]),
    )
    net = eqx.tree_at(
        lambda n: (n.first, n.inner, n.outer, n.last, n.scale, n.shift),
        net,
        (*parts, jnp.array([1.0, 3.0]), jnp.array([2.0, 0.0])),
    )
    # x = (1, 3), normalised (−1, 1), scaled and shifted (1, 3); inner relu(1, −1 + 3)
    # = (1, 2), outer (2, 4 + 1), sum (3, 8), last 3 + 80 + 0.5.
    np.testing.assert_allclose(net(jnp.array([1.0])), [83.5], rtol=1e-5)
    # x = relu(−1, −3) = 0 has no spread; still a number: the shift alone goes on.
    # inner relu(2, −2) = (2, 0), outer (4, 1), last 4 + 10 + 0.5.
    np.testing.assert_allclose(net(jnp.array([-1.0])), [14.5], rtol=1e-5)


def test_residual_network_against_numpy() -> None:
    net = ResidualMLP(3, 16, 2, key=KEY)
    x = np.array([0.5, -1.0, 2.0], np.float32)
    weights = [np.asarray(la.weight) for la in (net.first, net.inner, net.outer)]
    hidden = np.maximum(x @ weights[0], 0)
    normal = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-6)
    total = hidden + np.maximum(normal @ weights[1], 0) @ weights[2]
    expected = total @ np.asarray(net.last.weight)
    np.testing.assert_allclose(net(jnp.asarray(x)), expected, rtol=1e-4)
    for layer in (net.first, net.inner, net.outer, net.last):
        length = np.linalg.norm(np.asarray(layer.weight), ord=2)
        assert length == pytest.approx(HIDDEN_GAIN, rel=1e-5)


def test_members_of_a_vmapped_ensemble_are_single_networks() -> None:
    keys = jax.random.split(KEY, 3)
    make = lambda key: MLP((2, 5, 2), jax.nn.silu, last_gain=1.0, key=key)
    together = stacked([make(key) for key in keys])
    x = jnp.array([0.4, -0.7])
    found = jax.vmap(lambda net: net(x))(together)
    alone = [make(key)(x) for key in keys]
    np.testing.assert_allclose(found, np.stack(alone), atol=1e-6)
    assert np.abs(np.diff(found, axis=0)).min() > 1e-3
