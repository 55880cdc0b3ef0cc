"""Metrics of predictions, against SciPy."""

import numpy as np
import pytest
from scipy.stats import norm

from driftrl.agents.base import prediction_metrics
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
    assert found.coverage == np.mean(np.abs(next_obs - mean) <= 2 * total)
    norms = np.linalg.norm(epistemic / spread, axis=1)
    assert found.epistemic_std == pytest.approx(norms.mean())


def test_a_state_that_does_not_change_is_measured_in_its_own_units() -> None:
    obs = np.zeros((2, 1))
    episode = Episode(obs, obs, np.zeros(2), obs, False)
    found = prediction_metrics(episode, obs + 0.5, obs + 0.3, obs + 0.4)
    assert found.model_error == pytest.approx(0.5)
    # Half a nat for one standard deviation: ½ + log ½ + ½ log 2π.
    assert found.predictive_loss == pytest.approx(0.5 - np.log(2) + 0.918938533)
