"""λ, B, Σ and the episodic bound: by hand, and against systems that are known."""

import numpy as np
import pytest

from driftrl.theory.performance import (
    drift_penalty,
    episodic_regret_bound,
    optimism_penalty,
    optimism_weight,
    performance_difference_bound,
    reward_scale,
    uncertainty_along,
    uncertainty_weight,
)
from driftrl.theory.setting import Setting

SETTING = Setting(noise_std=0.5, steps=10, reward_max=2.0, kernel_bound=4.0, outputs=2)


def test_quantities_by_hand() -> None:
    # λ = 2·10/0.5·3, B = 7·2·100/0.5·0.25
    assert float(uncertainty_weight(SETTING, 3.0)) == 120.0
    assert float(drift_penalty(SETTING, 7.0, 0.25)) == 700.0


def test_intrinsic_reward_is_bounded_by_its_root() -> None:
    # k ≤ 4 and two outputs: ‖σ‖ ≤ √8, where σ_max = 4 is printed.
    assert reward_scale(SETTING) == pytest.approx(np.sqrt(8))
    assert reward_scale(SETTING, "printed") == 4.0
    # With k ≤ ¼ the printed one is too small: a single σ reaches ½.
    small = Setting(kernel_bound=0.25, reward_max=0.0)
    assert reward_scale(small, "printed") == 0.25
    assert reward_scale(small) == 0.5
    assert float(optimism_weight(SETTING, 3.0, "printed")) == 240.0
    assert float(optimism_penalty(SETTING, 7.0, 0.25, "printed")) == 1400.0
    assert float(optimism_weight(SETTING, 3.0)) == pytest.approx(60 * np.sqrt(8))


def test_uncertainty_along_trajectories() -> None:
    std = np.array([[3.0, 4.0], [0.0, 2.0]])
    assert float(uncertainty_along(std)) == 7.0
    assert float(uncertainty_along(np.stack([std, 3 * std]))) == 14.0


def test_performance_difference_is_cut_where_it_says_nothing() -> None:
    found = performance_difference_bound(SETTING, 2.0, [1.0, 100.0], [3.0, 0.0])
    np.testing.assert_allclose(found, [5.0, 20.0])


def test_episodic_bound_by_hand() -> None:
    terms = episodic_regret_bound(3.0, [2.0, 0.0], [1.0, 0.5])
    np.testing.assert_allclose(terms.learning, [30.0, 0.0])  # (9 + 6)·2
    np.testing.assert_allclose(terms.drift, [5.0, 2.5])
    np.testing.assert_allclose(terms.total, [35.0, 2.5])


def test_performance_difference_of_known_systems() -> None:
    """State ½x + w against ½x + e + w: J differs by less than T·R_max·T/σ·e."""
    rng = np.random.default_rng(0)
    setting = Setting(noise_std=0.3, steps=8)
    for error in (0.0, 0.02, 0.1):
        noise = 0.3 * rng.standard_normal((20_000, 8))
        returns = []
        for shift in (0.0, error):
            x, total = np.zeros(20_000), np.zeros(20_000)
            for step in range(8):
                total += np.exp(-((x - 1) ** 2))  # in [0, 1]
                x = 0.5 * x + shift + noise[:, step]
            returns.append(total.mean())
        # β·σ(z) is the error, everywhere: Σ = T·error for β = 1.
        std = np.full((8, 1), error)
        bound = performance_difference_bound(
            setting, uncertainty_weight(setting, 1.0), uncertainty_along(std), 0.0
        )
        assert abs(returns[0] - returns[1]) <= float(bound) + 1e-12
