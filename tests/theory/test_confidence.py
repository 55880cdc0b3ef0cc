"""β and λ against numbers computed by hand, and constants that are refused."""

import pytest

from driftrl.errors import InputError
from driftrl.theory.confidence import Setting, confidence_width, data_sets

SETTING = Setting(rkhs_bound=2.0, noise_std=0.5, outputs=3, steps=40, reward_max=2.0)


def test_printed_width_by_hand() -> None:
    # 2 + 0.5·√(2(4 + 3·log 10)) = 2 + 0.5·√(2·10.907755…) = 4.335354…
    assert float(confidence_width(SETTING, 4.0)) == pytest.approx(4.335354, abs=1e-6)
    # A window, n·T = 400: 2 + 0.5·√(2(4 + 3·log 4000)) = 2 + 0.5·√57.76430
    window = float(confidence_width(SETTING, 4.0, 400))
    assert window == pytest.approx(5.8002, abs=1e-4)


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
