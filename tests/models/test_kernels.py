"""Kernels, factors and the marginal likelihood, by hand and against libraries."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import kernels as sklearn_kernels

from driftrl.errors import InputError
from driftrl.kernels import (
    KERNELS,
    Hyperparameters,
    covariance,
    factorise,
    fit_hyperparameters,
    gram,
    kernel_named,
    negative_log_likelihood,
    pivoted_factor,
    variance_at,
)

SKLEARN = {
    "se": sklearn_kernels.RBF(1.0),
    "matern32": sklearn_kernels.Matern(1.0, nu=1.5),
    "matern52": sklearn_kernels.Matern(1.0, nu=2.5),
    "linear": sklearn_kernels.DotProduct(0.0, "fixed"),
}


def points(rows: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(rows, 4))


@pytest.mark.parametrize("name", KERNELS)
def test_equals_scikit_learn(name: str) -> None:
    x, z = points(30, 1), points(20, 2)
    np.testing.assert_allclose(
        gram(KERNELS[name], x, z, np), SKLEARN[name](x, z), rtol=1e-12, atol=1e-14
    )


@pytest.mark.usefixtures("x64")
@pytest.mark.parametrize("name", KERNELS)
def test_numpy_and_jax_agree(name: str) -> None:
    kernel, x, z = KERNELS[name], points(30, 5), points(20, 6)
    in_jax = jnp.asarray(x), jnp.asarray(z)
    found = gram(kernel, *in_jax, jnp)
    assert found.dtype == jnp.float64
    np.testing.assert_allclose(gram(kernel, x, z, np), found, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        variance_at(kernel, x, np), variance_at(kernel, in_jax[0], jnp), rtol=1e-14
    )


def test_unknown_kernel_suggests_the_nearest() -> None:
    assert kernel_named("se") is KERNELS["se"]
    with pytest.raises(InputError, match="'matern32'"):
        kernel_named("mattern32")


# ---- covariance matrices -------------------------------------------------------------


def random_covariance(size: int, seed: int, noise: float = 1e-4) -> np.ndarray:
    """Return a squared-exponential covariance of random points, with noise."""
    x = np.random.default_rng(seed).normal(size=(size, 3))
    distance = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    return np.exp(-0.5 * distance) + noise * np.eye(size)


@pytest.mark.parametrize("deficit", [1e-13, 1e-9])
def test_smallest_jitter_that_works_is_added(deficit: float) -> None:
    # Eigenvalues 2 and −deficit: needs a jitter above the deficit, a decade or two on.
    matrix = np.array([[1.0, 1.0 + deficit], [1.0 + deficit, 1.0]])
    factor = factorise(100.0 * matrix)
    added = np.diag(factor @ factor.T) / 100.0 - 1.0
    np.testing.assert_allclose(added, 10 * deficit, rtol=0.01)


@pytest.mark.parametrize("value", [1.0001, np.nan])
def test_a_matrix_that_is_not_positive_is_refused(value: float) -> None:
    matrix = np.eye(50)
    matrix[0, 1] = matrix[1, 0] = value
    with pytest.raises(np.linalg.LinAlgError):
        factorise(matrix)


@given(
    size=st.integers(1, 80),
    tolerance=st.floats(-9, -0.5).map(lambda power: 10**power),
    seed=st.integers(0, 2**32),
)
def test_pivoted_factor_is_within_its_tolerance(
    size: int, tolerance: float, seed: int
) -> None:
    matrix = random_covariance(size, seed, noise=0.0)
    pivots, basis, columns = pivoted_factor(matrix, tolerance)
    error = np.abs(matrix - columns @ columns.T).max()
    assert error <= tolerance + 1e-13
    assert len(set(pivots.tolist())) == len(pivots) == columns.shape[1]
    # The basis is the factor of the chosen rows, and G = K[:, pivots] · basis⁻ᵀ.
    chosen = matrix[np.ix_(pivots, pivots)]
    np.testing.assert_allclose(basis @ basis.T, chosen, atol=1e-12)
    np.testing.assert_allclose(columns @ basis.T, matrix[:, pivots], atol=1e-12)


def test_pivots_are_the_worst_explained_first() -> None:
    matrix = np.diag([1.0, 3.0, 2.0, 1e-3])
    found = pivoted_factor(matrix, 1e-2)
    np.testing.assert_array_equal(found.pivots, [1, 2, 0])
    np.testing.assert_allclose(found.basis, np.diag(np.sqrt([3.0, 2.0, 1.0])))


# ---- marginal likelihood -------------------------------------------------------------

HYPER = Hyperparameters(np.array([0.7, 1.5, 3.0]), 1.3, 0.2)


def data(rows: int, outputs: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=(rows, 3)), rng.normal(size=(rows, outputs))


def with_logs(logs: np.ndarray) -> Hyperparameters:
    values = np.exp(logs)
    return Hyperparameters(values[:-2], float(values[-2]), float(values[-1]))


def logs_of(hyper: Hyperparameters) -> np.ndarray:
    return np.log([*hyper.length_scales, hyper.output_scale, hyper.noise_std])


def test_covariance_by_hand() -> None:
    hyper = Hyperparameters(np.array([2.0, 0.5]), 3.0, 0.1)
    x = np.array([[0.0, 0.0], [2.0, 0.5]])
    # Scaled, the points are √2 apart: k = exp(−1).
    expected = [[9.01, 9 * np.exp(-1)], [9 * np.exp(-1), 9.01]]
    found = covariance(KERNELS["se"], hyper, x)
    np.testing.assert_allclose(found, expected, rtol=1e-14)


@pytest.mark.parametrize("name", KERNELS)
def test_value_equals_scipy(name: str) -> None:
    x, y = data(30, 3)
    value, _ = negative_log_likelihood(KERNELS[name], HYPER, x, y)
    gaussian: Any = multivariate_normal  # its annotations know scalars only
    matrix = covariance(KERNELS[name], HYPER, x)
    expected = -sum(gaussian.logpdf(column, None, matrix) for column in y.T)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.parametrize("name", KERNELS)
def test_gradient_equals_differences(name: str) -> None:
    x, y = data(20, 3, seed=2)
    logs, step = logs_of(HYPER), 1e-5
    _, gradient = negative_log_likelihood(KERNELS[name], HYPER, x, y)
    assert gradient.shape == logs.shape
    for index, along in enumerate(step * np.eye(len(logs))):
        high, _ = negative_log_likelihood(KERNELS[name], with_logs(logs + along), x, y)
        low, _ = negative_log_likelihood(KERNELS[name], with_logs(logs - along), x, y)
        difference = (high - low) / (2 * step)
        assert gradient[index] == pytest.approx(difference, rel=1e-6, abs=1e-6)


@pytest.mark.parametrize("name", ["se", "matern32", "matern52"])
def test_fit_recovers_what_data_were_drawn_with(name: str) -> None:
    truth = Hyperparameters(np.array([1.0, 2.0, 4.0]), 1.5, 0.2)
    rng = np.random.default_rng(3)
    x = rng.uniform(-2.0, 2.0, (250, 3))
    factor = np.linalg.cholesky(covariance(KERNELS[name], truth, x))
    y = factor @ rng.normal(size=(250, 3))
    start = Hyperparameters(np.ones(3), 1.0, 0.01)
    found = fit_hyperparameters(name, start, x, y, steps=60, learn_noise=True)
    ratio = found.length_scales / truth.length_scales
    np.testing.assert_allclose(ratio, 1.0, atol=0.25)
    assert found.output_scale == pytest.approx(truth.output_scale, rel=0.25)
    assert found.noise_std == pytest.approx(truth.noise_std, rel=0.2)


@pytest.mark.parametrize("learn_noise", [False, True])
def test_fit_never_ends_below_where_it_started(learn_noise: bool) -> None:
    x, y = data(40, 2, seed=5)
    y = y + np.sin(x[:, :1])
    for name, kernel in KERNELS.items():
        found = fit_hyperparameters(
            name, HYPER, x, y, steps=10, learn_noise=learn_noise
        )
        before, _ = negative_log_likelihood(kernel, HYPER, x, y)
        after, _ = negative_log_likelihood(kernel, found, x, y)
        assert after <= before + 1e-9
        if not learn_noise:
            assert found.noise_std == HYPER.noise_std
