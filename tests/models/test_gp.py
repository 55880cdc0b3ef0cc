"""The Gaussian process: limits by hand, padding, compression, refusals."""

from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.config.gp import GPConfig
from driftrl.kernels import KERNELS, Hyperparameters, covariance, gram, pivoted_factor
from driftrl.models import gp
from driftrl.models.gp import Prediction
from driftrl.normaliser import Normaliser
from driftrl.types import Data

pytestmark = pytest.mark.usefixtures("x64")

Swings = Callable[..., Data]
CONFIGS = [
    GPConfig(kernel="se", fit_steps=0),
    GPConfig(kernel="matern32", fit_steps=0),
    GPConfig(kernel="matern52", fit_steps=0),
    GPConfig(kernel="linear", fit_steps=0),
]
# Close to what a fit on the pendulum finds.
HYPER = Hyperparameters(np.array([3.5, 2.5, 1.5, 9.0]), 2.4, 0.01)

each_kernel = pytest.mark.parametrize("config", CONFIGS, ids=lambda c: c.kernel)


def fitted(data: Data, config: GPConfig, hyper: Hyperparameters = HYPER) -> gp.GPState:
    """Condition on ``data`` with given hyperparameters."""
    start = replace(gp.initial_state(3, 1, config), hyper=hyper)
    return gp.fit(start, data, replace(config, fit_steps=0))


def ask(posterior: gp.Posterior, obs: list[float], action: float) -> Prediction:
    """Return the answer to one query; shares the compiled code of all of them."""
    found = gp.predict_all(posterior, np.array([obs]), np.array([[action]]))
    return Prediction(*(field[0] for field in found))


def normalised(posterior: gp.Posterior, queries: Data) -> tuple[np.ndarray, np.ndarray]:
    """Return μ and σ of the change in units of the outputs; σ is the same for all."""
    found = gp.predict_all(posterior, queries.obs, queries.actions)
    change = np.asarray(found.mean) - queries.obs - np.asarray(posterior.output_mean)
    scale = np.asarray(posterior.output_scale)
    return change / scale, np.asarray(found.epistemic_std)[:, 0] / scale[0]


def repeated(data: Data, times: int) -> Data:
    columns = (data.obs, data.actions, data.rewards, data.next_obs)
    obs, actions, rewards, next_obs = (np.concatenate([c] * times) for c in columns)
    return Data(obs, actions, rewards, next_obs, np.zeros(len(obs), bool))


# ---- limits ------------------------------------------------------------------------


@each_kernel
def test_without_data_it_is_the_prior(config: GPConfig) -> None:
    state = gp.initial_state(3, 1, config)
    hyper = Hyperparameters(np.array([1.0, 2.0, 4.0, 0.5]), 1.5, 0.2)
    posterior = gp.posterior(replace(state, hyper=hyper), config)
    found = ask(posterior, [0.5, -1.0, 3.0], 0.25)
    np.testing.assert_array_equal(found.mean, [0.5, -1.0, 3.0])
    unit = 1.0 if config.kernel != "linear" else 0.25 + 0.25 + 9 / 16 + 0.25
    np.testing.assert_allclose(found.epistemic_std, 1.5 * unit**0.5, rtol=1e-14)
    np.testing.assert_allclose(found.aleatoric_std, 0.2, rtol=1e-14)
    np.testing.assert_array_equal(found.scale, np.ones(3))


@pytest.mark.parametrize("compression", [0.0, 1e-4])
@pytest.mark.parametrize("rows", [1, 40])
def test_one_point_once_or_often(compression: float, rows: int) -> None:
    # The fit runs: a single outcome must not make it certain.
    config = GPConfig(fit_steps=30, learn_noise=True, compression=compression)
    hanging = np.array([[-1.0, 0.0, 0.0]])
    after = np.array([[-0.9, 0.1, 0.5]])
    point = Data(hanging, np.zeros((1, 1)), np.zeros(1), after, np.zeros(1, bool))
    state = gp.fit(gp.initial_state(3, 1, config), repeated(point, rows), config)
    assert (state.hyper.output_scale, state.hyper.noise_std) == (1.0, config.noise_std)
    posterior = gp.posterior(state, config)
    found = ask(posterior, [-1.0, 0.0, 0.0], 0.0)
    np.testing.assert_allclose(found.mean, after[0], rtol=1e-12)
    noise = config.noise_std**2 / rows
    expected = (noise / (1.0 + noise)) ** 0.5
    np.testing.assert_allclose(found.epistemic_std, expected, rtol=1e-6)
    elsewhere = ask(posterior, [1.0, 0.0, 0.0], 1.0)
    assert np.all(np.asarray(elsewhere.epistemic_std) > 0.5)


def test_a_fit_foresees_the_pendulum(swings: Swings) -> None:
    config = GPConfig(learn_noise=True)
    state = gp.fit(gp.initial_state(3, 1, config), swings(0, 400), config)
    unseen = swings(0, 400, seed=1)
    found = gp.predict_all(gp.posterior(state, config), unseen.obs, unseen.actions)
    error = np.abs(np.asarray(found.mean) - unseen.next_obs)
    spread = (unseen.next_obs - unseen.obs).std(axis=0)
    assert np.sqrt(np.mean((error / spread) ** 2)) < 0.05
    total = np.hypot(found.epistemic_std, found.aleatoric_std)
    assert np.mean(error <= 2 * total) > 0.9
    # Error and certainty belong together, point by point.
    certain = found.epistemic_std[:, 0] < np.median(found.epistemic_std[:, 0])
    assert error[certain].mean() < 0.5 * error[~certain].mean()


# ---- shapes ------------------------------------------------------------------------


@pytest.mark.parametrize("compression", [0.0, 1e-2])
def test_padding_changes_nothing(
    compression: float, swings: Swings, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = GPConfig(fit_steps=0, compression=compression)
    state, queries = fitted(swings(0, 90), config), swings(0, 40, seed=1)
    found = []
    for sizes in ((1,), (128,)):
        monkeypatch.setattr(gp, "SIZES", sizes)
        posterior = gp.posterior(state, config)
        assert len(posterior.support) % sizes[0] == 0
        found.append(normalised(posterior, queries))
    for mean, std in found[1:]:
        np.testing.assert_allclose(mean, found[0][0], atol=1e-12)
        np.testing.assert_allclose(std, found[0][1], atol=1e-12)


def test_growing_within_a_bucket_compiles_once(
    swings: Swings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gp, "SIZES", (64, 128))
    config = GPConfig()
    state = gp.initial_state(3, 1, config)
    predict = jax.jit(lambda known, obs, action: known.predict(obs, action))
    for points in (0, 64, 70, 100, 128):
        state = gp.fit(state, swings(0, points), config)
        predict(gp.posterior(state, config), jnp.zeros(3), jnp.zeros(1))
    assert predict._cache_size() == 2  # pyright: ignore[reportAttributeAccessIssue]
    for blank in gp.blank_posteriors(3, 1, 128, config):
        predict(blank, jnp.zeros(3), jnp.zeros(1))
    assert predict._cache_size() == 2  # pyright: ignore[reportAttributeAccessIssue]


def test_many_predictions_are_single_ones(swings: Swings) -> None:
    config = GPConfig()
    posterior = gp.posterior(fitted(swings(0, 80), config), config)
    queries = swings(0, 70, seed=1)
    many = gp.predict_all(posterior, queries.obs, queries.actions)
    one = jax.jit(lambda obs, action: posterior.predict(obs, action))
    for row in (0, 33, 69):
        single = one(jnp.asarray(queries.obs[row]), jnp.asarray(queries.actions[row]))
        for whole, part in zip(many, single, strict=True):
            assert whole.shape == (70, 3)
            np.testing.assert_allclose(whole[row], part, rtol=1e-9, atol=1e-12)


def test_single_precision_is_refused(swings: Swings) -> None:
    config = GPConfig()
    state = fitted(swings(0, 40), config)
    posterior = gp.posterior(state, config)
    with jax.enable_x64(False):
        with pytest.raises(RuntimeError):
            gp.posterior(state, config)
        with pytest.raises(RuntimeError):
            posterior.predict(jnp.zeros(3), jnp.zeros(1))


# ---- compression -------------------------------------------------------------------


@each_kernel
def test_compression_is_the_subset_of_regressors(
    config: GPConfig, swings: Swings
) -> None:
    config = replace(config, compression=0.5)
    hyper = replace(HYPER, noise_std=0.3)
    state, queries = fitted(swings(0, 120), config, hyper), swings(0, 40, seed=1)
    mean, std = normalised(gp.posterior(state, config), queries)

    noise, kernel = hyper.noise_std**2, KERNELS[config.kernel]
    signal = covariance(kernel, hyper, state.x) - noise * np.eye(120)
    chosen = pivoted_factor(signal, 0.5 * noise).pivots
    assert 4 <= len(chosen) < 120
    at = np.concatenate([queries.obs, queries.actions], axis=1)
    asked = state.inputs.normalise(at) / hyper.length_scales
    support = state.x[chosen] / hyper.length_scales
    cross = hyper.output_scale**2 * gram(kernel, asked, support, np)
    own, seen = signal[np.ix_(chosen, chosen)], signal[chosen]
    inner = noise * own + seen @ seen.T
    prior = hyper.output_scale**2 * gram(kernel, asked, asked, np)
    variance = prior - cross @ np.linalg.solve(own, cross.T)
    variance += noise * cross @ np.linalg.solve(inner, cross.T)
    expected = cross @ np.linalg.solve(inner, seen @ state.y)
    np.testing.assert_allclose(mean, expected, atol=1e-7)
    np.testing.assert_allclose(std**2, np.diag(variance), atol=1e-7)


@given(seed=st.integers(0, 2**32), rows=st.integers(1, 30), noise=st.floats(1e-3, 1.0))
def test_any_data_give_finite_answers(seed: int, rows: int, noise: float) -> None:
    rng = np.random.default_rng(seed)
    obs = rng.normal(size=(rows, 3)) * 10.0 ** rng.integers(-6, 6, size=3)
    # Some columns constant, some rows equal, some changes zero.
    obs[:, rng.integers(3)] = 1.0
    obs[rng.integers(rows)] = obs[0]
    after = obs + rng.normal(size=(rows, 3)) * rng.integers(0, 2, size=3)
    data = Data(obs, np.zeros((rows, 1)), np.zeros(rows), after, np.zeros(rows, bool))
    config = GPConfig(noise_std=noise, fit_steps=3, compression=float(seed % 2) * 1e-3)
    with jax.enable_x64(True):
        state = gp.fit(gp.initial_state(3, 1, config), data, config)
        found = gp.predict_all(gp.posterior(state, config), obs, np.ones((rows, 1)))
    prior = Normaliser.fit(after - obs).std * state.hyper.output_scale
    assert np.all(np.isfinite(found.mean))
    assert np.all((found.epistemic_std >= 0) & (found.epistemic_std <= prior * 1.001))
