"""Kernels: values by hand and from two libraries, slopes by differences."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.gaussian_process import kernels as sklearn_kernels
from tinygp import kernels as tinygp_kernels
from tinygp.kernels.distance import L2Distance

from driftrl.errors import InputError
from driftrl.models.kernels import (
    KERNELS,
    gram,
    kernel_named,
    pair_statistic,
    variance_at,
)

# Made in the test: their scales take the precision of the moment.
TINYGP = {
    "se": lambda: tinygp_kernels.ExpSquared(),
    "matern32": lambda: tinygp_kernels.Matern32(distance=L2Distance()),
    "matern52": lambda: tinygp_kernels.Matern52(distance=L2Distance()),
    "linear": lambda: tinygp_kernels.DotProduct(),
}
SKLEARN = {
    "se": sklearn_kernels.RBF(1.0),
    "matern32": sklearn_kernels.Matern(1.0, nu=1.5),
    "matern52": sklearn_kernels.Matern(1.0, nu=2.5),
    "linear": sklearn_kernels.DotProduct(0.0, "fixed"),
}


def points(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, 4))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        # x = (0, 0), z = (3, 4): r = 5, x·z = 0.
        ("se", np.exp(-12.5)),
        ("matern32", (1 + 5 * 3**0.5) * np.exp(-5 * 3**0.5)),
        ("matern52", (1 + 5 * 5**0.5 + 125 / 3) * np.exp(-5 * 5**0.5)),
        ("linear", 0.0),
    ],
)
def test_value_at_distance_five(name: str, value: float) -> None:
    found = gram(KERNELS[name], np.zeros((1, 2)), np.array([[3.0, 4.0]]), np)
    assert found.item() == pytest.approx(value, rel=1e-13)


def test_linear_value_by_hand() -> None:
    x, z = np.array([[1.0, 2.0]]), np.array([[3.0, -4.0], [0.5, 1.0]])
    found = gram(KERNELS["linear"], x, z, np)
    np.testing.assert_array_equal(found, [[-5.0, 2.5]])


@pytest.mark.parametrize("name", KERNELS)
def test_equals_scikit_learn(name: str) -> None:
    x, z = points(30, 1), points(20, 2)
    np.testing.assert_allclose(
        gram(KERNELS[name], x, z, np), SKLEARN[name](x, z), rtol=1e-12, atol=1e-14
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", KERNELS)
def test_equals_tinygp(name: str) -> None:
    x, z = points(10, 3), points(8, 4)
    other = TINYGP[name]()(jnp.asarray(x), jnp.asarray(z))
    found = gram(KERNELS[name], x, z, np)
    np.testing.assert_allclose(found, other, rtol=1e-12, atol=1e-14)


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", KERNELS)
def test_numpy_and_jax_agree(name: str) -> None:
    kernel, x, z = KERNELS[name], points(30, 5), points(20, 6)
    in_jax = jnp.asarray(x), jnp.asarray(z)
    for function in (kernel.profile, kernel.slope):
        statistic = pair_statistic(kernel, x, z, np)
        np.testing.assert_allclose(
            function(statistic, np), function(jnp.asarray(statistic), jnp), rtol=1e-14
        )
    found = gram(kernel, *in_jax, jnp)
    assert found.dtype == jnp.float64
    np.testing.assert_allclose(gram(kernel, x, z, np), found, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        variance_at(kernel, x, np), variance_at(kernel, in_jax[0], jnp), rtol=1e-14
    )


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("at", [1e-3, 0.3, 1.0, 4.0, 25.0])
def test_slope_is_the_derivative(name: str, at: float) -> None:
    kernel, step = KERNELS[name], 1e-5 * at
    ends = kernel.profile(np.array([at - step, at + step]), np)
    slope = kernel.slope(np.array([at]), np).item()
    assert slope == pytest.approx((ends[1] - ends[0]) / (2 * step), rel=1e-6)


@pytest.mark.parametrize(
    ("name", "value"),
    [("se", -0.5), ("matern32", -1.5), ("matern52", -5 / 6), ("linear", 1.0)],
)
def test_slope_at_zero_is_finite(name: str, value: float) -> None:
    assert KERNELS[name].slope(np.zeros(1), np).item() == pytest.approx(value)


@pytest.mark.parametrize("name", KERNELS)
def test_variance_is_the_diagonal(name: str) -> None:
    x = points(25, 7)
    diagonal = np.diag(gram(KERNELS[name], x, x, np))
    np.testing.assert_allclose(variance_at(KERNELS[name], x, np), diagonal, rtol=1e-12)


@given(seed=st.integers(0, 2**32), size=st.integers(1, 25), spread=st.floats(0.01, 100))
def test_gram_matrices_are_symmetric_and_positive(
    seed: int, size: int, spread: float
) -> None:
    x = spread * points(size, seed)
    # Two equal rows must not make a distance negative, or its root NaN.
    x = np.concatenate([x, x[:1]])
    for kernel in KERNELS.values():
        matrix = gram(kernel, x, x, np)
        scale = np.abs(matrix).max()
        np.testing.assert_allclose(matrix, matrix.T, atol=1e-13 * scale)
        assert np.linalg.eigvalsh(matrix).min() > -1e-10 * scale * size
        assert np.all(np.diag(matrix) <= variance_at(kernel, x, np) * (1 + 1e-12))


def test_unknown_kernel_suggests_the_nearest() -> None:
    assert kernel_named("se") is KERNELS["se"]
    with pytest.raises(InputError, match=r"Unknown kernel 'mattern32'.*'matern32'"):
        kernel_named("mattern32")
