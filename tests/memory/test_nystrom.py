"""The process on landmarks, against dense formulas and scikit-learn."""

from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import (
    RBF,
    ConstantKernel,
    DotProduct,
    WhiteKernel,
)

from driftrl.memory import nystrom
from driftrl.memory.nystrom import RunningSums, fit_features, posterior
from driftrl.types import Episode


def swinging(count: int, steps: int, gains: list[float]) -> list[Episode]:
    """Return episodes of x' = x + 0.3·sin(2x) + gain·u, with a little noise."""
    draw = np.random.default_rng(3)
    episodes = []
    for number in range(count):
        obs = draw.uniform(-2, 2, (steps, 1))
        actions = draw.uniform(-1, 1, (steps, 1))
        noise = 0.01 * draw.standard_normal((steps, 1))
        after = obs + 0.3 * np.sin(2 * obs) + gains[number] * actions + noise
        episodes.append(Episode(obs, actions, np.zeros(steps), after, False))
    return episodes


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return swinging(6, 20, [0.5] * 6)


def test_running_sums_of_a_window(episodes: list[Episode]) -> None:
    features = fit_features(episodes)
    parts = [features.of(episode) for episode in episodes]
    sums = RunningSums(parts).between(2, 5)
    phi = np.concatenate([part[0] for part in parts[1:4]])
    y = np.concatenate([part[1] for part in parts[1:4]])
    assert sums.gram == pytest.approx(phi.T @ phi, abs=1e-9)
    assert sums.cross == pytest.approx(phi.T @ y, abs=1e-9)
    assert sums.square == pytest.approx((y**2).sum(axis=0))
    assert float(sums.count) == 60


def test_posterior_is_scikit_learns(episodes: list[Episode]) -> None:
    """The same prior and noise give the same mean and variance."""
    features = fit_features(episodes)
    parts = [features.of(episode) for episode in episodes]
    belief = posterior(RunningSums(parts).between(1, 6))
    mean, variance = belief.predict(parts[5][0])

    def inputs(some: list[Episode]) -> np.ndarray:
        raw = [np.concatenate([one.obs, one.actions], axis=1) for one in some]
        return features.inputs.normalise(np.concatenate(raw)) / features.length_scales

    noise = float(belief.noise[0])
    prior = noise / float(belief.level[0])
    kernel: Any = ConstantKernel(prior) * (DotProduct(1.0) + RBF(1.0))
    untouched: Any = None  # no optimiser
    regressor = GaussianProcessRegressor(
        kernel + WhiteKernel(noise), alpha=0.0, optimizer=untouched
    )
    y = np.concatenate([part[1] for part in parts[:5]])
    regressor.fit(inputs(episodes[:5]), y[:, 0])
    wanted, std = regressor.predict(inputs(episodes[5:]), return_std=True)
    assert mean[:, 0] == pytest.approx(wanted, abs=2e-3)
    assert np.sqrt(variance[:, 0]) == pytest.approx(std, rel=0.05)


def test_noise_level_has_the_largest_evidence(
    episodes: list[Episode], monkeypatch: pytest.MonkeyPatch
) -> None:
    features = fit_features(episodes)
    parts = [features.of(episode) for episode in episodes[:2]]
    sums = RunningSums(parts).between(1, 3)
    found = posterior(sums)
    phi = np.concatenate([part[0] for part in parts])
    y = np.concatenate([part[1] for part in parts])[:, 0]
    evidences = []
    for level in nystrom._NOISE_LEVELS:
        monkeypatch.setattr(nystrom, "_NOISE_LEVELS", np.array([level]))
        noise = float(posterior(sums).noise[0])
        matrix = noise * (np.eye(len(y)) + phi @ phi.T / level)
        law: Any = multivariate_normal(np.zeros(len(y)), matrix, allow_singular=True)
        evidences.append(law.logpdf(y))
    monkeypatch.undo()
    best = nystrom._NOISE_LEVELS[int(np.argmax(evidences))]
    assert float(found.level[0]) == best
