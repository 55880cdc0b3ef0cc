"""Names of methods: their order, their settings, and the baseline among them."""

import pytest

from driftrl.analysis.style import (
    SweepPoint,
    default_baseline,
    natural_key,
    sweep_point,
)


@pytest.mark.parametrize(
    ("name", "point"),
    [
        ("sw-ombrl w=3", SweepPoint("sw-ombrl", "w", 3.0)),
        ("sombrl lr=1e-3", SweepPoint("sombrl", "lr", 1e-3)),
        ("sombrl", None),
        ("sombrl fast", None),
        ("sombrl w=big", None),
    ],
)
def test_a_sweep_has_a_setting_and_a_number(
    name: str, point: SweepPoint | None
) -> None:
    assert sweep_point(name) == point


def test_names_sort_by_the_numbers_in_them() -> None:
    names = ["w=10", "w=2", "a=0.5", "a=0.25", "a"]
    assert sorted(names, key=natural_key) == ["a", "a=0.25", "a=0.5", "w=2", "w=10"]


@pytest.mark.parametrize(
    ("methods", "baseline"),
    [
        (["r-ombrl alpha=0", "sombrl"], "sombrl"),
        (["r-ombrl alpha=0.1", "r-ombrl alpha=0.2"], "sombrl"),
        (["r-ombrl alpha=0", "sw-ombrl alpha=0"], "sombrl"),
        (["r-ombrl alpha=0", "r-ombrl alpha=1"], "r-ombrl alpha=0"),
        (["r-ombrl alpha=0", "r-ombrl model=0", "r-ombrl"], "sombrl"),
    ],
)
def test_only_one_zero_can_stand_in_for_sombrl(
    methods: list[str], baseline: str
) -> None:
    assert default_baseline(methods) == baseline
