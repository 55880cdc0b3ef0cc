"""What the bounds assume, and the sentences with which the rest is refused."""

import pytest

from driftrl.errors import InputError
from driftrl.theory.setting import (
    Setting,
    data_sets,
    require_episodes,
    require_version,
)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rkhs_bound", -1.0),
        ("noise_std", 0.0),
        ("kernel_bound", 0.0),
        ("outputs", 0),
        ("steps", 0),
        ("reward_max", -1.0),
        ("failure_probability", 0.0),
        ("failure_probability", 1.0),
        ("failure_probability", float("nan")),
    ],
)
def test_impossible_constants_are_refused(name: str, value: float) -> None:
    with pytest.raises(InputError):
        Setting(**{name: value})  # pyright: ignore[reportArgumentType]


def test_a_bound_needs_two_episodes() -> None:
    require_episodes(2)
    with pytest.raises(InputError):
        require_episodes(1)


def test_data_sets_begun_afresh() -> None:
    assert data_sets("keep_all", 3, 10) == 1
    # Algorithm 1 resets at 4 and 8: {1,2,3}, {4,…,7}, {8,…}.
    assert data_sets("reset", 4, 10) == 3
    assert data_sets("reset", 5, 10) == 3
    assert data_sets("window", 4, 10) == 10
    assert data_sets("window", 10, 10) == data_sets("reset", 12, 10) == 1


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError):
        require_version("print")
    with pytest.raises(InputError):
        data_sets("reset", 0, 10)
    with pytest.raises(InputError):
        data_sets("reset", 1, 0)


@pytest.mark.usefixtures("unchecked_types")
def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(InputError):
        data_sets("sliding", 1, 2)  # type: ignore[arg-type]
