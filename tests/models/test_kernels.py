"""Kernels, factors and the marginal likelihood, by hand and against libraries."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tinygp
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import kernels as sklearn_kernels

from driftrl.errors import InputError
from driftrl.models.kernels import (
    KERNELS,
    LENGTH_SCALE_RANGE,
    NOISE_RANGE,
    OUTPUT_SCALE_RANGE,
    Hyperparameters,
    covariance,
    factorise,
    fit_hyperparameters,
    gram,
    kernel_named,
    negative_log_likelihood,
    pair_statistic,
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


# ---- covariance matrices -------------------------------------------------------------


def random_covariance(size: int, seed: int, noise: float = 1e-4) -> np.ndarray:
    """Return a squared-exponential covariance of random points, with noise."""
    x = np.random.default_rng(seed).normal(size=(size, 3))
    distance = ((x[:, None] - x[None]) ** 2).sum(axis=-1)
    return np.exp(-0.5 * distance) + noise * np.eye(size)


@given(size=st.integers(0, 60), seed=st.integers(0, 2**32))
def test_factor_is_numpys(size: int, seed: int) -> None:
    matrix = random_covariance(size, seed)
    before = matrix.copy()
    found = factorise(matrix)
    np.testing.assert_allclose(found, np.linalg.cholesky(matrix), atol=1e-10)
    np.testing.assert_array_equal(matrix, before)
    np.testing.assert_array_equal(found, np.tril(found))


@pytest.mark.parametrize("deficit", [1e-13, 1e-11, 1e-9, 1e-7])
def test_smallest_jitter_that_works_is_added(deficit: float) -> None:
    # Eigenvalues 2 and −deficit: needs a jitter above the deficit, a decade or two on.
    matrix = np.array([[1.0, 1.0 + deficit], [1.0 + deficit, 1.0]])
    factor = factorise(100.0 * matrix)
    added = np.diag(factor @ factor.T) / 100.0 - 1.0
    np.testing.assert_allclose(added, 10 * deficit, rtol=0.01)


@pytest.mark.parametrize("size", [2, 50])
def test_refusal_of_a_matrix_that_is_not_positive(size: int) -> None:
    matrix = np.eye(size)
    matrix[0, 1] = matrix[1, 0] = 1.0001
    with pytest.raises(
        np.linalg.LinAlgError, match=f"{size}×{size} covariance matrix is not positive"
    ):
        factorise(matrix)


@pytest.mark.parametrize("size", [1, 3, 300])
@pytest.mark.parametrize("where", ["diagonal", "elsewhere"])
def test_refusal_of_nan(size: int, where: str) -> None:
    matrix = np.eye(size)
    row, column = (0, 0) if where == "diagonal" else (size - 1, 0)
    matrix[row, column] = matrix[column, row] = np.nan
    with pytest.raises(np.linalg.LinAlgError, match="not positive"):
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


def test_a_repeated_point_is_chosen_once() -> None:
    x = np.random.default_rng(0).normal(size=12)
    x = np.concatenate([x, x, x])
    matrix = np.exp(-0.5 * (x[:, None] - x[None]) ** 2)
    assert len(pivoted_factor(matrix, 1e-10).pivots) <= 12
    assert len(pivoted_factor(np.ones((30, 30)), 1e-10).pivots) == 1
    assert len(pivoted_factor(np.zeros((3, 3)), 1e-10).pivots) == 0


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
@pytest.mark.parametrize(("rows", "outputs"), [(1, 1), (30, 1), (30, 3)])
def test_value_equals_scipy(name: str, rows: int, outputs: int) -> None:
    x, y = data(rows, outputs)
    value, _ = negative_log_likelihood(KERNELS[name], HYPER, x, y)
    gaussian: Any = multivariate_normal  # its annotations know scalars only
    matrix = covariance(KERNELS[name], HYPER, x)
    expected = -sum(gaussian.logpdf(column, None, matrix) for column in y.T)
    assert value == pytest.approx(expected, rel=1e-10)


@pytest.mark.usefixtures("x64")
def test_value_equals_tinygp() -> None:
    x, y = data(25, 2)
    kernel = HYPER.output_scale**2 * tinygp.transforms.Linear(
        jnp.asarray(1.0 / HYPER.length_scales), tinygp.kernels.ExpSquared()
    )

    @jax.jit
    def log_likelihood(column: jax.Array) -> jax.Array:
        diagonal = jnp.full(len(x), HYPER.noise_std**2)
        process = tinygp.GaussianProcess(kernel, jnp.asarray(x), diag=diagonal)
        return process.log_probability(column)

    value, _ = negative_log_likelihood(KERNELS["se"], HYPER, x, y)
    expected = -sum(log_likelihood(jnp.asarray(column)) for column in y.T)
    assert value == pytest.approx(float(expected), rel=1e-10)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("outputs", [1, 3])
def test_gradient_equals_differences(name: str, outputs: int) -> None:
    x, y = data(20, outputs, seed=2)
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


def test_linear_fit_finds_which_inputs_matter() -> None:
    rng = np.random.default_rng(4)
    x = rng.normal(size=(100, 3))
    y = x[:, :1] * 2.0 + 0.05 * rng.normal(size=(100, 1))
    start = Hyperparameters(np.ones(3), 1.0, 0.5)
    found = fit_hyperparameters("linear", start, x, y, steps=60, learn_noise=True)
    weights = found.output_scale / found.length_scales
    assert weights[0] > 5 * weights[1:].max()
    assert found.noise_std == pytest.approx(0.05, rel=0.2)


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


def test_fit_stays_within_its_ranges() -> None:
    rng = np.random.default_rng(6)
    x = rng.normal(size=(30, 3))
    y = 1e3 * x[:, :1] ** 3  # without noise, and far larger than a normalised output
    found = fit_hyperparameters("se", HYPER, x, y, steps=50, learn_noise=True)
    for value, (low, high) in (
        *((length, LENGTH_SCALE_RANGE) for length in found.length_scales),
        (found.output_scale, OUTPUT_SCALE_RANGE),
        (found.noise_std, NOISE_RANGE),
    ):
        assert low * (1 - 1e-12) <= value <= high * (1 + 1e-12)


@pytest.mark.parametrize("rows", [1, 40])
def test_outputs_that_do_not_vary_teach_nothing(rows: int) -> None:
    x, _ = data(rows, 1)
    found = fit_hyperparameters(
        "se", HYPER, x, np.full((rows, 2), 1e-16), steps=30, learn_noise=True
    )
    np.testing.assert_array_equal(logs_of(found), logs_of(HYPER))
