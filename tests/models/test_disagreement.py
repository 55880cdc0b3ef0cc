"""Spread over members, and a square root with a harmless slope at 0."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.models.disagreement import disagreement, root


def test_root_by_hand() -> None:
    found = root(jnp.array([0.0, 0.25, 4.0, 1e-30]))
    np.testing.assert_allclose(found, [0.0, 0.5, 2.0, 1e-15], rtol=1e-6)


def test_slope_of_the_root() -> None:
    slope = jax.vmap(jax.grad(root))(jnp.array([0.0, 0.25, 4.0]))
    np.testing.assert_allclose(slope, [0.0, 1.0, 0.25], rtol=1e-6)


def test_disagreement_by_hand() -> None:
    # Means 2 and 5; squared distances 1, 0, 1 and 4, 4, 16, all divided by 3.
    values = jnp.array([[1.0, 3.0], [2.0, 3.0], [3.0, 9.0]])
    expected = np.sqrt([2.0 / 3.0, 24.0 / 3.0])
    np.testing.assert_allclose(disagreement(values), expected, rtol=1e-6)


def test_slope_of_the_disagreement() -> None:
    # ∂σ/∂v_e = (v_e − v̄)/(E·σ): for −1 and 1, σ = 1, that is ∓1/2.
    slope = jax.grad(lambda v: disagreement(v)[0])(jnp.array([[-1.0], [1.0]]))
    np.testing.assert_allclose(slope, [[-0.5], [0.5]], rtol=1e-6)


def test_no_disagreement_has_no_slope() -> None:
    same = jnp.full((5, 2), 0.7)
    slope = jax.grad(lambda v: jnp.sum(disagreement(v)))(same)
    np.testing.assert_array_equal(slope, np.zeros((5, 2)))
    assert float(jnp.sum(disagreement(same))) == 0.0


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
