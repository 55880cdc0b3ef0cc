"""Networks, optimiser steps and safe square roots, by hand and against NumPy."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.models import networks
from driftrl.models.ensemble import disagreement

KEY = jax.random.key(0)


# ---- one layer ---------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(6, 6), (12, 3), (3, 12)])
def test_weights_start_orthogonal_with_the_asked_gain(shape: tuple[int, int]) -> None:
    layer = networks.Dense(*shape, 1.5, rng=networks.generator(KEY))
    weight = np.asarray(layer.weight)
    gram = weight.T @ weight if shape[0] >= shape[1] else weight @ weight.T
    np.testing.assert_allclose(gram, 1.5**2 * np.eye(min(shape)), atol=1e-5)
    np.testing.assert_array_equal(layer.bias, 0.0)


@pytest.mark.parametrize("outputs", [1, 8])
def test_a_layer_has_the_plain_value_and_gradient(outputs: int) -> None:
    layer = networks.Dense(8, outputs, 1.0, rng=networks.generator(KEY))
    x = jax.random.normal(jax.random.key(1), (5, 8))
    pull = jax.random.normal(jax.random.key(2), (5, outputs))

    def pulled(layer: networks.Dense, x: jax.Array) -> jax.Array:
        return jnp.sum(pull * jax.vmap(layer)(x))

    by_layer, by_x = jax.jit(jax.grad(pulled, argnums=(0, 1)))(layer, x)
    weight = np.asarray(layer.weight)
    np.testing.assert_allclose(jax.vmap(layer)(x), x @ weight, atol=1e-5)
    np.testing.assert_allclose(by_layer.weight, np.asarray(x).T @ pull, atol=1e-5)
    np.testing.assert_allclose(by_layer.bias, np.asarray(pull).sum(axis=0), atol=1e-5)
    np.testing.assert_allclose(by_x, np.asarray(pull) @ weight.T, atol=1e-5)


# ---- networks ----------------------------------------------------------------------


def test_mlp_sizes_gains_and_activation() -> None:
    net = networks.MLP((3, 8, 8, 2), jnp.tanh, last_gain=0.5, key=KEY)
    shapes = [layer.weight.shape for layer in net.layers]
    assert shapes == [(3, 8), (8, 8), (8, 2)]
    lengths = [np.linalg.norm(np.asarray(la.weight), ord=2) for la in net.layers]
    np.testing.assert_allclose(
        lengths, [networks.HIDDEN_GAIN, networks.HIDDEN_GAIN, 0.5], rtol=1e-5
    )
    x = jnp.array([0.3, -0.2, 0.9])
    hidden = np.tanh(np.tanh(x @ net.layers[0].weight) @ net.layers[1].weight)
    np.testing.assert_allclose(net(x), hidden @ net.layers[2].weight, atol=1e-6)


def test_residual_network_against_numpy() -> None:
    net = networks.ResidualMLP(3, 16, 2, key=KEY)
    x = np.array([0.5, -1.0, 2.0], np.float32)
    weights = [np.asarray(la.weight) for la in (net.first, net.inner, net.outer)]
    hidden = np.maximum(x @ weights[0], 0)
    normal = (hidden - hidden.mean()) / np.sqrt(hidden.var() + 1e-6)
    total = hidden + np.maximum(normal @ weights[1], 0) @ weights[2]
    expected = total @ np.asarray(net.last.weight)
    np.testing.assert_allclose(net(jnp.asarray(x)), expected, rtol=1e-4)
    for layer in (net.first, net.inner, net.outer, net.last):
        length = np.linalg.norm(np.asarray(layer.weight), ord=2)
        assert length == pytest.approx(networks.HIDDEN_GAIN, rel=1e-5)


# ---- square roots --------------------------------------------------------------------


def test_safe_sqrt_by_hand() -> None:
    found = networks.safe_sqrt(jnp.array([0.0, 0.25, 4.0, 1e-30]))
    np.testing.assert_allclose(found, [0.0, 0.5, 2.0, 1e-15], rtol=1e-6)
    slope = jax.vmap(jax.grad(networks.safe_sqrt))(jnp.array([0.0, 0.25, 4.0]))
    np.testing.assert_allclose(slope, [0.0, 1.0, 0.25], rtol=1e-6)


@given(exponent=st.floats(-30.0, 15.0), seed=st.integers(0, 100))
def test_slope_is_bounded_at_any_magnitude(exponent: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    values = jnp.asarray(10.0**exponent * rng.normal(size=(5, 1)), jnp.float32)
    slope = jax.grad(lambda v: disagreement(v)[0])(values)
    # Σ_e (∂σ/∂v_e)² = 1/E.  A square too small for a normal float is flushed to 0 and
    # takes at most the smallest one from σ²: the sum is at most 1/E more, or nothing.
    assert float(jnp.sum(slope**2)) <= 0.4
    if exponent > -15:
        assert float(jnp.sum(slope**2)) == pytest.approx(0.2, rel=1e-2)
