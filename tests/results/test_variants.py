"""Names of variants: what they sweep, and the order people count in."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.results.variants import SweepPoint, natural_key, sweep_point


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("sw-ombrl w=10", SweepPoint("sw-ombrl", "w", 10.0)),
        ("r-ombrl alpha=0.2", SweepPoint("r-ombrl", "alpha", 0.2)),
        ("r-ombrl rate=1e-3", SweepPoint("r-ombrl", "rate", 0.001)),
        ("sombrl", None),
        ("sw-ombrl theory", None),
        ("sw-ombrl =5", None),
        ("sw-ombrl 5", None),
        ("sw-ombrl loss=mse", None),
    ],
)
def test_a_sweep_has_a_setting_and_a_number(
    name: str, point: SweepPoint | None
) -> None:
    assert sweep_point(name) == point


def test_names_sort_as_people_count() -> None:
    names = ["w=10", "w=2", "a=0.1", "a=0.05", "a=1e-3", "a=0.025", "", "w", "w=2b"]
    assert sorted(names, key=natural_key) == [
        *("", "a=1e-3", "a=0.025", "a=0.05", "a=0.1"),
        *("w", "w=2", "w=2b", "w=10"),
    ]


@given(st.lists(st.text(alphabet="a=.1e-2 θ", max_size=8)))
def test_any_names_can_be_sorted(names: list[str]) -> None:
    ordered = sorted(names, key=natural_key)
    assert sorted(ordered) == sorted(names)
