"""β and λ against numbers computed by hand, and constants that are refused."""

import numpy as np
import pytest

from driftrl.errors import InputError
from driftrl.theory.confidence import (
    Setting,
    confidence_width,
    data_sets,
    exploration_weight,
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


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rkhs_bound", -1.0),
        ("noise_std", 0.0),
        ("steps", 0),
        ("failure_probability", 1.0),
        ("failure_probability", float("nan")),
    ],
)
def test_impossible_constants_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError):
        Setting(**{name: value})  # pyright: ignore[reportArgumentType]


def test_data_sets_begun_afresh() -> None:
    assert data_sets("keep_all", 3, 10) == 1
    # Algorithm 1 resets at 4 and 8: {1,2,3}, {4,…,7}, {8,…}.
    assert data_sets("reset", 4, 10) == 3
    assert data_sets("reset", 5, 10) == 3
    assert data_sets("window", 4, 10) == 10
    assert data_sets("window", 10, 10) == data_sets("reset", 12, 10) == 1
