"""The posterior against three other libraries, normalisation done by hand here."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.config.gp import GPConfig
from driftrl.kernels import Hyperparameters
from driftrl.models import gp
from driftrl.types import Data

pytestmark = pytest.mark.usefixtures("x64")

Moments = tuple[np.ndarray, np.ndarray]
Reference = Callable[[str, np.ndarray, np.ndarray, np.ndarray], Moments]

KERNEL_NAMES = ("se", "matern32", "matern52", "linear")
HYPER = Hyperparameters(np.array([1.2, 0.8, 1.5, 4.0]), 1.7, 0.05)


def tinygp_moments(
    name: str, x: np.ndarray, y: np.ndarray, queries: np.ndarray
) -> Moments:
    import tinygp
    from tinygp.kernels.distance import L2Distance

    unit = {
        "se": lambda: tinygp.kernels.ExpSquared(),
        "matern32": lambda: tinygp.kernels.Matern32(distance=L2Distance()),
        "matern52": lambda: tinygp.kernels.Matern52(distance=L2Distance()),
        "linear": lambda: tinygp.kernels.DotProduct(),
    }[name]()
    kernel = HYPER.output_scale**2 * tinygp.transforms.Linear(
        jnp.asarray(1.0 / HYPER.length_scales), unit
    )

    @jax.jit
    def moments(column: jax.Array) -> tuple[jax.Array, jax.Array]:
        diagonal = jnp.full(len(x), HYPER.noise_std**2)
        process = tinygp.GaussianProcess(kernel, jnp.asarray(x), diag=diagonal)
        # Left to itself it adds 1.5e-8 to the variance that it returns.
        at, nothing = jnp.asarray(queries), jnp.zeros(len(queries))
        answer = process.condition(column, at, diag=nothing).gp
        return answer.loc, answer.variance

    found = [moments(jnp.asarray(column)) for column in y.T]
    return np.stack([mean for mean, _ in found], axis=1), np.asarray(found[0][1])


def gpjax_moments(
    name: str, x: np.ndarray, y: np.ndarray, queries: np.ndarray
) -> Moments:
    import gpjax

    # Its linear kernel has no length scales, so all kernels get scaled inputs.
    unit = {
        "se": gpjax.kernels.RBF,
        "matern32": gpjax.kernels.Matern32,
        "matern52": gpjax.kernels.Matern52,
        "linear": gpjax.kernels.Linear,
    }[name]
    # It mixes dtypes and ranks within, which is its own business.
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):

        @jax.jit
        def moments(column: jax.Array) -> tuple[jax.Array, jax.Array]:
            prior = gpjax.gps.Prior(
                mean_function=gpjax.mean_functions.Zero(),
                kernel=unit(variance=jnp.asarray(HYPER.output_scale**2)),
                jitter=0.0,
            )
            likelihood = gpjax.likelihoods.Gaussian(jnp.asarray(HYPER.noise_std))
            seen = gpjax.Dataset(jnp.asarray(x / HYPER.length_scales), column[:, None])
            belief = (prior * likelihood).condition(seen)
            at = jnp.asarray(queries / HYPER.length_scales)
            answer = belief.predict(at, covariance="diagonal")
            return jnp.asarray(answer.mean), jnp.asarray(answer.variance)

        found = [moments(jnp.asarray(column)) for column in y.T]
    return np.stack([mean for mean, _ in found], axis=1), np.asarray(found[0][1])


def sklearn_moments(
    name: str, x: np.ndarray, y: np.ndarray, queries: np.ndarray
) -> Moments:
    from sklearn.gaussian_process import GaussianProcessRegressor, kernels

    unit = {
        "se": kernels.RBF(1.0),
        "matern32": kernels.Matern(1.0, nu=1.5),
        "matern52": kernels.Matern(1.0, nu=2.5),
        "linear": kernels.DotProduct(0.0, "fixed"),
    }[name]
    regressor = GaussianProcessRegressor(
        kernels.ConstantKernel(HYPER.output_scale**2) * unit,
        alpha=HYPER.noise_std**2,
        optimizer=None,  # pyright: ignore[reportArgumentType]
    ).fit(x / HYPER.length_scales, y)
    at = queries / HYPER.length_scales
    mean, std = regressor.predict(at, return_std=True)[:2]
    return np.asarray(mean), np.asarray(std)[:, 0] ** 2


def predictions(
    name: str, data: Data, queries: Data
) -> tuple[gp.Posterior, np.ndarray, np.ndarray]:
    config = GPConfig(kernel=name, fit_steps=0)  # pyright: ignore[reportArgumentType]
    start = replace(gp.initial_state(3, 1, config), hyper=HYPER)
    posterior = gp.posterior(gp.fit(start, data, config), config)
    found = gp.predict_all(posterior, queries.obs, queries.actions)
    return posterior, np.asarray(found.mean), np.asarray(found.epistemic_std)


@pytest.mark.parametrize("name", KERNEL_NAMES)
@pytest.mark.parametrize("reference", [tinygp_moments, gpjax_moments, sklearn_moments])
def test_mean_and_std_equal_the_librarys(
    name: str, reference: Reference, swings: Callable[..., Data]
) -> None:
    data, queries = swings(0, 70), swings(0, 40, seed=1)
    x = np.concatenate([data.obs, data.actions], axis=1)
    y = data.next_obs - data.obs
    at = np.concatenate([queries.obs, queries.actions], axis=1)
    mean, variance = reference(
        name,
        (x - x.mean(axis=0)) / x.std(axis=0),
        (y - y.mean(axis=0)) / y.std(axis=0),
        (at - x.mean(axis=0)) / x.std(axis=0),
    )
    _, found_mean, found_std = predictions(name, data, queries)
    expected_mean = queries.obs + y.mean(axis=0) + y.std(axis=0) * mean
    expected_std = y.std(axis=0) * np.sqrt(variance)[:, None]
    np.testing.assert_allclose(found_mean, expected_mean, atol=1e-6)
    np.testing.assert_allclose(found_std, expected_std, atol=1e-6)
    # The tolerances would mean nothing if there were nothing to get wrong.
    assert np.ptp(found_std, axis=0).min() > 1e-3
    assert np.abs(found_mean - queries.obs - y.mean(axis=0)).max() > 0.1
