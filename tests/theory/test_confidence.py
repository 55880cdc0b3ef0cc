"""β and λ against numbers computed by hand, and the information gain two ways."""

import numpy as np
import pytest

from driftrl.theory.confidence import (
    confidence_width,
    exploration_weight,
    information_gain,
)


def width(gain: float, **changes: float) -> float:
    settings = {
        "rkhs_bound": 2.0,
        "noise_std": 0.5,
        "outputs": 3,
        "failure_probability": 0.1,
        **changes,
    }
    return float(confidence_width(gain, **settings))


def test_full_reset_by_hand() -> None:
    # 2 + 0.5·√(2(4 + 3·log 10)) = 2 + 0.5·√(2·10.907755…) = 4.335354…
    assert width(4.0) == pytest.approx(2 + 0.5 * np.sqrt(2 * (4 + 3 * 2.302585093)))
    assert width(4.0) == pytest.approx(4.335354, abs=1e-6)


def test_sliding_window_by_hand() -> None:
    # n·T = 400: 2 + 0.5·√(2(4 + 3·log 4000)) = 2 + 0.5·√57.76430
    assert width(4.0, horizon_steps=400) == pytest.approx(5.8002, abs=1e-4)


def test_weight_by_hand() -> None:
    # λ = R_max·T·β/σ = 2·40·3/0.5
    found = exploration_weight(3.0, reward_max=2.0, steps=40, noise_std=0.5)
    assert float(found) == 480.0


def test_information_gain_two_ways() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(30, 2))
    kernel = np.exp(-0.5 * ((x[:, None] - x[None]) ** 2).sum(-1))
    noise = 0.3
    factor = np.linalg.cholesky(kernel + noise**2 * np.eye(30))
    _, log_determinant = np.linalg.slogdet(np.eye(30) + kernel / noise**2)
    assert information_gain(factor, noise) == pytest.approx(0.5 * log_determinant)
    assert information_gain(np.zeros((0, 0)), noise) == 0.0
