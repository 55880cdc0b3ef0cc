"""Schedules: numbers computed by hand, and what every schedule promises."""

import math
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.drift import schedules
from driftrl.errors import InputError

Unchecked = Callable[[ModuleType], Any]

KINDS = [kind for kind in schedules.SCHEDULES if kind != "unknown"]

HAND_COMPUTED = [
    (schedules.Constant(1.25), {0: 1.25, 1: 1.25, 1000: 1.25}),
    # The pendulum of the paper's table: exp(-0.05) = 0.951229424500714, and so on.
    (
        schedules.Exponential(theta_max=5.0, theta_min=1.0, rate=0.05, start=5),
        {
            1: 5.0,
            5: 5.0,
            6: 1 + 4 * 0.951229424500714,
            15: 1 + 4 * 0.6065306597126334,
            25: 1 + 4 * 0.36787944117144233,
            100: 1 + 4 * 0.008651695203120634,
        },
    ),
    # The walker: exp(-0.0005 * 500) = 0.7788007830714049.
    (
        schedules.Exponential(theta_max=1.0, theta_min=0.3, rate=0.0005, start=1500),
        {1500: 1.0, 2000: 0.3 + 0.7 * 0.7788007830714049},
    ),
    (
        schedules.Linear(theta_max=2.0, theta_min=1.0, start=10, duration=4),
        {1: 2.0, 10: 2.0, 11: 1.75, 12: 1.5, 13: 1.25, 14: 1.0, 99: 1.0},
    ),
    (
        schedules.Step(theta_max=2.0, theta_min=1.0, start=10),
        {1: 2.0, 9: 2.0, 10: 2.0, 11: 1.0, 99: 1.0},
    ),
    (
        schedules.Piecewise(values=(2.0, 1.0, 1.5), boundaries=(3, 7)),
        {1: 2.0, 3: 2.0, 4: 1.0, 7: 1.0, 8: 1.5, 99: 1.5},
    ),
    (
        schedules.Cyclic(theta_max=3.0, theta_min=1.0, period=8, start=2),
        {
            1: 3.0,
            2: 3.0,
            3: 2 + math.sqrt(0.5),
            4: 2.0,
            5: 2 - math.sqrt(0.5),
            6: 1.0,
            8: 2.0,
            10: 3.0,
            14: 1.0,
        },
    ),
    # The first draws of NumPy's generator for seed 0 are 0.12573022, -0.13210486,
    # 0.64042265 and 0.10490012; the third and fourth sum are mirrored at 2.
    (
        schedules.RandomWalk(
            theta_max=2.0, theta_min=1.0, initial=1.5, scale=1.0, seed=0, start=3
        ),
        {1: 1.5, 3: 1.5, 4: 1.62573022, 5: 1.49362536, 6: 1.86595199, 7: 1.76105187},
    ),
    (
        schedules.Geometric(theta_max=8.0, theta_min=1.5, ratio=0.5, start=1),
        {0: 8.0, 1: 8.0, 2: 4.0, 3: 2.0, 4: 1.5, 5: 1.5, 5000: 1.5},
    ),
    # log 2 = 0.6931471805599453, log 3 = 1.0986122886681098, log 8 > 2.
    (
        schedules.Logarithmic(theta_max=3.0, theta_min=2.0, rate=0.5, start=1),
        {
            0: 3.0,
            1: 3.0,
            2: 3 - 0.5 * 0.6931471805599453,
            3: 3 - 0.5 * 1.0986122886681098,
            8: 2.0,
            11: 2.0,
        },
    ),
]


def _build(kind: str, **values: Any) -> schedules.Schedule:
    return schedules.SCHEDULES[kind](**values)


@pytest.mark.parametrize(
    ("schedule", "expected"), HAND_COMPUTED, ids=lambda item: type(item).__name__
)
def test_values_computed_by_hand(
    schedule: schedules.Schedule, expected: dict[int, float]
) -> None:
    for clock, theta in expected.items():
        assert schedule(clock) == pytest.approx(theta, abs=1e-8), clock


@pytest.mark.parametrize("low", [0.2, 0.3])
@pytest.mark.parametrize("kind", ["exponential", "linear", "step", "cyclic"])
def test_the_value_before_the_drift_is_exact(kind: str, low: float) -> None:
    assert (0.9 - low) + low != 0.9
    assert _build(kind, theta_max=0.9, theta_min=low, start=4)(4) == 0.9


@given(
    walk=st.builds(
        schedules.RandomWalk,
        theta_max=st.just(2.0),
        theta_min=st.just(1.0),
        initial=st.floats(1, 2),
        scale=st.floats(0, 3),
        seed=st.integers(0, 2**32),
        start=st.integers(0, 5),
    ),
    clock=st.integers(0, 60),
)
def test_random_walk_equals_a_ball_between_two_walls(
    walk: schedules.RandomWalk, clock: int
) -> None:
    draws = np.random.default_rng(walk.seed).standard_normal(60)
    position, direction = walk.initial, 1.0
    for draw in draws[: max(0, clock - walk.start)]:
        position += direction * walk.scale * float(draw)
        while not 1 <= position <= 2:
            wall = 1 if position < 1 else 2
            position, direction = 2 * wall - position, -direction
    assert walk(clock) == pytest.approx(position, abs=1e-10)


@pytest.mark.parametrize("kind", KINDS)
def test_every_schedule_is_a_pure_function_of_the_clock(kind: str) -> None:
    schedule = _build(kind)
    forward = [schedule(clock) for clock in range(60)]
    backward = [_build(kind)(clock) for clock in reversed(range(60))]
    assert forward == backward[::-1]
    assert all(type(theta) is float for theta in forward)
    assert {schedule: 1}[_build(kind)] == 1


BOUNDED = [k for k in KINDS if k not in ("constant", "piecewise")]


@pytest.mark.parametrize("kind", BOUNDED)
@given(low=st.floats(0, 1e6), width=st.floats(0, 1e6), clock=st.integers(0, 10**3))
def test_bounds_are_never_left(kind: str, low: float, width: float, clock: int) -> None:
    bounds = {"theta_max": low + width, "theta_min": low}
    more = {"initial": low, "scale": 1e5} if kind == "random_walk" else {}
    assert low <= _build(kind, **bounds, **more)(clock) <= low + width


def test_numbers_are_stored_as_plain_floats_and_ints(unchecked: Unchecked) -> None:
    plain = unchecked(schedules)
    mixed = plain.Exponential(theta_max=np.float32(2), theta_min=1, start=np.int64(10))
    assert mixed == plain.Exponential(2.0, 1.0)
    assert type(mixed.theta_max) is type(mixed.theta_min) is float
    assert type(mixed.start) is int
    listed = plain.Piecewise(values=[2, 1], boundaries=[np.int64(10)])
    assert listed == plain.Piecewise((2.0, 1.0), (10,))
    assert hash(listed) == hash(plain.Piecewise((2.0, 1.0), (10,)))
    assert plain.Constant()(np.int64(3)) == 2.0


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("constant", "value", math.nan),
        ("constant", "value", True),
        ("exponential", "rate", -0.1),
        ("linear", "duration", 0),
        ("cyclic", "period", 0),
        ("random_walk", "scale", -1.0),
        ("random_walk", "initial", 2.5),
        ("geometric", "ratio", 0.0),
        ("geometric", "theta_min", -1.0),
        ("logarithmic", "rate", -0.1),
        ("step", "theta_max", 0.5),
        ("step", "start", -1),
        ("piecewise", "values", (2.0, math.nan)),
        ("piecewise", "values", (1.0,)),
        ("piecewise", "boundaries", ("a",)),
        ("piecewise", "boundaries", (5, 5)),
    ],
)
def test_bad_fields_are_refused(
    unchecked: Unchecked, kind: str, name: str, value: Any
) -> None:
    with pytest.raises(InputError, match=f"Schedule '{kind}'"):
        unchecked(schedules).SCHEDULES[kind](**{name: value})


def test_any_callable_is_a_schedule() -> None:
    half: Any = lambda clock: np.float32(clock / 2)
    assert schedules.value_at(half, 3) == 1.5


@pytest.mark.parametrize("value", [math.nan, -math.inf, None, "2", True, [1.0]])
def test_nonsense_from_a_schedule_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="at 12"):
        schedules.value_at(lambda clock: value, 12)


def test_extremes_by_hand() -> None:
    assert schedules.extremes(schedules.Step(2.0, 0.5)) == (0.5, 2.0)
    assert schedules.extremes(schedules.Piecewise((4.0, 1.0, 2.0), (1, 2))) == (
        1.0,
        4.0,
    )
    assert schedules.extremes(lambda clock: 10.0 * clock) == (10.0, 10.0)
