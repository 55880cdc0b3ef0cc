"""Metrics of predictions, against SciPy."""

import numpy as np
import pytest
from scipy.stats import norm

from driftrl.agents.base import interval_scale, prediction_metrics
from driftrl.types import Episode


def test_prediction_metrics_by_hand_and_against_scipy() -> None:
    rng = np.random.default_rng(0)
    obs, next_obs = rng.normal(size=(2, 40, 3))
    episode = Episode(obs, np.zeros((40, 1)), np.zeros(40), next_obs, False)
    mean = next_obs + rng.normal(size=(40, 3))
    epistemic, aleatoric = rng.uniform(0.1, 1.0, size=(2, 40, 3))
    found = prediction_metrics(episode, mean, epistemic, aleatoric)
    total = np.hypot(epistemic, aleatoric)
    log_likelihood = norm.logpdf(next_obs, mean, total).sum(axis=1)
    assert found.predictive_loss == pytest.approx(-log_likelihood.mean(), rel=1e-12)
    spread = (next_obs - obs).std(axis=0)
    error = (next_obs - mean) / spread
    assert found.model_error == pytest.approx(np.sqrt((error**2).mean()))
    explained = (error**2).mean() - ((aleatoric / spread) ** 2).mean()
    assert found.noise_free_error == pytest.approx(np.sqrt(explained))
    assert found.coverage == np.mean(np.abs(next_obs - mean) <= 2 * total)
    norms = np.linalg.norm(epistemic / spread, axis=1)
    assert found.epistemic_std == pytest.approx(norms.mean())


def test_a_state_that_does_not_change_is_measured_in_its_own_units() -> None:
    obs = np.zeros((2, 1))
    episode = Episode(obs, obs, np.zeros(2), obs, False)
    found = prediction_metrics(episode, obs + 0.5, obs + 0.3, obs + 0.4)
    assert found.model_error == pytest.approx(0.5)
    assert found.noise_free_error == pytest.approx(0.3)
    # Half a nat for one standard deviation: ½ + log ½ + ½ log 2π.
    assert found.predictive_loss == pytest.approx(0.5 - np.log(2) + 0.918938533)


def test_the_scale_of_intervals_by_hand() -> None:
    assert interval_scale([]) == 1.0
    assert interval_scale([None, 6.0]) == pytest.approx((0.1 + 3.0) / 1.1)
    expected = (0.1 + 1.0 * 0.7 + 3.0) / (0.1 + 0.7 + 1.0)
    assert interval_scale([None, 2.0, 6.0]) == pytest.approx(expected)


@pytest.mark.parametrize("tails", [3.0, 100.0])
def test_intervals_hold_although_a_model_is_too_sure(tails: float) -> None:
    """The noise is three times what the model says, with heavy tails and without."""
    rng = np.random.default_rng(1)
    zeros, quantiles, coverages = np.zeros((200, 3)), [], []
    for _ in range(40):
        next_obs = 3.0 * rng.standard_t(tails, size=(200, 3))
        episode = Episode(zeros, zeros[:, :1], zeros[:, 0], next_obs, False)
        scale = interval_scale(quantiles)
        found = prediction_metrics(episode, zeros, zeros, zeros + 1.0, scale=scale)
        quantiles.append(found.error_quantile)
        coverages.append(found.coverage)
        assert found.interval_scale == scale
    assert coverages[0] < 0.7
    assert np.mean(coverages[3:]) == pytest.approx(0.95, abs=0.01)
    assert min(coverages[3:]) > 0.9
