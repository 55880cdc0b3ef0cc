"""The bound's terms on a run's data: by hand, and by a dense Gaussian process."""

import math
from typing import Any

import numpy as np
import pytest

from driftrl.memory.nystrom import fit_features
from driftrl.theory.window_selection import estimate_constants
from driftrl.types import Episode
from factories import driven, gain_of_kernel, script

bound_beside_regret = script("bound_beside_regret")
drift_within = bound_beside_regret.drift_within
empirical_bound = bound_beside_regret.empirical_bound
WINDOW = np.array([1, 1, 1, 2, 3, 4])
THETAS = np.array([1.0, 1.0, 1.0, 0.8, 0.6, 0.6])


@pytest.fixture(scope="module")
def episodes() -> list[Episode]:
    return driven(THETAS, 12)


@pytest.fixture(scope="module")
def windowed(episodes: list[Episode]) -> Any:
    return empirical_bound(episodes, WINDOW, THETAS)


def test_drift_within_by_hand() -> None:
    found = drift_within(np.array([1.0, 2.0, 4.0]), np.array([1, 1, 2, 3]))
    assert found.tolist() == [0.0, 1.0, 2.0, 4.0]
    everything = drift_within(np.array([1.0, 2.0, 4.0]), np.ones(4, dtype=int))
    assert everything.tolist() == [0.0, 1.0, 3.0, 7.0]


def test_uncertainty_and_gain_are_those_of_a_dense_process(
    episodes: list[Episode], windowed: Any
) -> None:
    features = fit_features(episodes)
    noise = windowed.setting.noise_std
    for number, first in enumerate(WINDOW.tolist(), start=1):
        here = features.of(episodes[number - 1])[0]
        prior = (here**2).sum(axis=1)
        gain = 0.0
        if number > first:
            seen = np.concatenate(
                [features.of(one)[0] for one in episodes[first - 1 : number - 1]]
            )
            dense = seen @ seen.T + noise**2 * np.eye(len(seen))
            across = here @ seen.T
            prior -= np.einsum("ij,ji->i", across, np.linalg.solve(dense, across.T))
            gain = gain_of_kernel(seen @ seen.T, noise)
        assert windowed.uncertainty[number - 1] == pytest.approx(
            np.sqrt(np.maximum(prior, 0)).sum(), rel=1e-5
        )
        # λ̃ = max{R_max, √(d_x·σ_max)}·T/σ·β, with β for six data sets.
        setting = windowed.setting
        width = setting.rkhs_bound + math.sqrt(2 * (gain + math.log(6 / 0.1)))
        scale = max(setting.reward_max, math.sqrt(setting.kernel_bound))
        weight = scale * 12 / noise * width
        assert windowed.terms.learning[number - 1] == pytest.approx(
            (weight**2 + 2 * weight) * windowed.uncertainty[number - 1], rel=1e-6
        )


def test_drift_is_the_measured_variation_shared_out_over_theta(
    episodes: list[Episode], windowed: Any
) -> None:
    variation = estimate_constants(episodes, THETAS).variation
    assert variation > 0
    # θ falls by half of the way before episode 4 and by the other half before 5.
    expected = variation * np.array([0.0, 0.0, 0.0, 0.5, 1.0, 0.5])
    np.testing.assert_allclose(windowed.drift, expected, atol=1e-12)
    assert ((windowed.terms.drift > 0) == (expected > 0)).all()


def test_without_theta_every_episode_moves_alike(episodes: list[Episode]) -> None:
    unknown = empirical_bound(episodes, np.ones(6, dtype=int))
    assert np.diff(unknown.drift) == pytest.approx(np.full(5, unknown.drift[1]))


def test_the_way_back_counts_as_well() -> None:
    thetas = np.array([1.0, 1.0, 0.8, 1.0, 0.6])
    found = empirical_bound(driven(thetas), np.ones(5, dtype=int), thetas)
    assert found.drift / found.drift[-1] == pytest.approx([0, 0, 0.25, 0.5, 1])
