"""Marginal likelihood: value and gradient from outside, and what a fit finds."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tinygp
from scipy.stats import multivariate_normal

from driftrl.models.kernels import KERNELS
from driftrl.models.likelihood import (
    LENGTH_SCALE_RANGE,
    NOISE_RANGE,
    OUTPUT_SCALE_RANGE,
    Hyperparameters,
    covariance,
    fit_hyperparameters,
    negative_log_likelihood,
)

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


def test_no_steps_change_nothing() -> None:
    x, y = data(10, 1)
    found = fit_hyperparameters("se", HYPER, x, y, steps=0, learn_noise=True)
    np.testing.assert_array_equal(logs_of(found), logs_of(HYPER))
