"""What the bounds assume, and constants that are refused."""

import pytest

from driftrl.errors import InputError
from driftrl.theory.setting import (
    Setting,
    data_sets,
)


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
