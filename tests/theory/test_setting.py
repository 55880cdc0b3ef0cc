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
    ("name", "value", "sentence"),
    [
        ("rkhs_bound", -1.0, "RKHS bound B must be a number of at least 0"),
        ("noise_std", 0.0, "noise σ must be positive, received 0.0"),
        ("kernel_bound", 0.0, "σ_max must be positive"),
        ("outputs", 0, "d_x must be a number of at least 1"),
        ("steps", 0, "steps T of an episode must be a number of at least 1"),
        ("reward_max", -1.0, "R_max must be a number of at least 0"),
        ("failure_probability", 0.0, "strictly between 0 and 1, received 0.0"),
        ("failure_probability", 1.0, "strictly between 0 and 1, received 1.0"),
        ("failure_probability", float("nan"), "strictly between 0 and 1"),
    ],
)
def test_impossible_constants_are_refused(
    name: str, value: float, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        Setting(**{name: value})  # pyright: ignore[reportArgumentType]


def test_a_bound_needs_two_episodes() -> None:
    require_episodes(2)
    with pytest.raises(InputError, match="at least 2 episodes, received 1"):
        require_episodes(1)


def test_data_sets_begun_afresh() -> None:
    assert data_sets("keep_all", 3, 10) == 1
    # Algorithm 1 resets at 4 and 8: {1,2,3}, {4,…,7}, {8,…}.
    assert data_sets("reset", 4, 10) == 3
    assert data_sets("reset", 5, 10) == 3
    assert data_sets("window", 4, 10) == 10
    assert data_sets("window", 10, 10) == data_sets("reset", 12, 10) == 1


def test_unknown_names_are_refused() -> None:
    with pytest.raises(InputError, match="Unknown version of the bounds 'print'"):
        require_version("print")
    with pytest.raises(InputError, match="span p of retained episodes"):
        data_sets("reset", 0, 10)
    with pytest.raises(InputError, match="number of episodes N"):
        data_sets("reset", 1, 0)


@pytest.mark.usefixtures("unchecked_types")
def test_an_unknown_scheme_is_refused() -> None:
    with pytest.raises(InputError, match="Unknown forgetting scheme 'sliding'"):
        data_sets("sliding", 1, 2)  # type: ignore[arg-type]
