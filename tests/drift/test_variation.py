"""Variation budgets and change points, against sums made by hand."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.drift.schedules import Constant, Exponential, Piecewise, RandomWalk, Step
from driftrl.drift.variation import (
    change_points,
    cumulative_variation,
    schedule_variation,
    total_variation,
    values_of,
)
from driftrl.errors import InputError

VALUES = st.lists(st.floats(-1e3, 1e3), max_size=30)


def test_values_begin_at_clock_one() -> None:
    np.testing.assert_array_equal(values_of(Step(start=2), 4), [2.0, 2.0, 1.0, 1.0])
    assert values_of(Step(), 0).shape == (0,)


def test_variation_computed_by_hand() -> None:
    assert total_variation([1.0, 3.0, 2.5, 2.5, 4.0]) == 4.0
    up_and_down = Piecewise((2.0, 1.0, 1.5), (3, 7))
    assert schedule_variation(up_and_down, 8) == 1.5
    assert schedule_variation(up_and_down, 7) == 1.0
    assert schedule_variation(up_and_down, 3) == 0.0
    assert schedule_variation(Constant(), 50) == 0.0


def test_variation_of_the_decay_is_the_distance_travelled() -> None:
    decay = Exponential(theta_max=5.0, theta_min=1.0, rate=0.05, start=5)
    expected = 4 * (1 - math.exp(-0.05 * 95))
    assert schedule_variation(decay, 100) == pytest.approx(expected, abs=1e-12)


def test_cumulative_variation_computed_by_hand() -> None:
    steps = cumulative_variation([1.0, 3.0, 2.5, 2.5, 4.0])
    np.testing.assert_array_equal(steps, [0.0, 2.0, 2.5, 2.5, 4.0])
    np.testing.assert_array_equal(cumulative_variation([7.0]), [0.0])
    assert cumulative_variation([]).shape == (0,)


@given(VALUES)
def test_cumulative_variation_is_that_of_every_beginning(values: list[float]) -> None:
    expected = [total_variation(values[: n + 1]) for n in range(len(values))]
    np.testing.assert_allclose(cumulative_variation(values), expected, atol=1e-9)


@given(VALUES)
def test_variation_is_at_least_the_net_change(values: list[float]) -> None:
    net = abs(values[-1] - values[0]) if values else 0.0
    assert total_variation(values) >= net - 1e-9


def test_change_points_are_the_first_clocks_of_the_new_value() -> None:
    assert change_points(values_of(Step(start=10), 30)) == (11,)
    assert change_points(values_of(Piecewise((2.0, 1.0, 1.5), (3, 7)), 9)) == (4, 8)
    assert change_points([1.0, 1.2, 1.2, 2.2], tolerance=0.5) == (4,)
    assert change_points([1.0, 1.5], tolerance=0.5) == ()
    assert change_points(values_of(RandomWalk(start=3), 6)) == (4, 5, 6)
    assert change_points([]) == change_points([1.0]) == ()


def test_refusals() -> None:
    with pytest.raises(InputError, match=r"number of episodes .* received -1\."):
        values_of(Constant(), -1)
    with pytest.raises(InputError, match=r"tolerance .* at least 0; received -0\.1\."):
        change_points([1.0], tolerance=-0.1)
    with pytest.raises(InputError, match=r"at least 0; received nan\."):
        change_points([1.0], tolerance=math.nan)
    with pytest.raises(InputError, match="one row of finite numbers"):
        total_variation([1.0, math.nan])
