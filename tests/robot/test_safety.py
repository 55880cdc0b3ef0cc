"""What a robot lets through, and what it does not."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.errors import InputError
from driftrl.robot.safety import (
    Bound,
    Interrupted,
    Limits,
    check_observation,
    limited,
    sensor_ranges,
)

ENTRIES = st.floats(-1, 1)
LIMITS = Limits(
    stop=(0.0,),
    observation_size=2,
    bounds=(Bound(0, -1.4, 2.8),),
    sensors=(Bound(0, -100.0, 100.0), Bound(1, -8.0, 8.0)),
)


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float64)


@given(st.tuples(ENTRIES, ENTRIES), st.tuples(ENTRIES, ENTRIES), st.floats(0.01, 2))
def test_a_limited_action_is_the_nearest_allowed(
    values: tuple[float, float], before: tuple[float, float], rate: float
) -> None:
    found = limited(array(*values), array(*before), rate)
    assert (np.abs(found - before) <= rate + 1e-15).all()
    assert (np.abs(found) <= 1).all()
    change = np.abs(array(*values) - before)
    near, far = change <= rate - 1e-12, change >= rate + 1e-12
    assert np.array_equal(found[near], array(*values)[near])
    # Outside it goes as far as it may, in the right direction.
    assert np.allclose(
        (found - before)[far], (np.sign(values - array(*before)) * rate)[far]
    )


@pytest.mark.parametrize(
    ("obs", "reward", "code", "value"),
    [
        ((0.0, math.nan), 0.0, "observation", "Entry 1 .*nan"),
        ((math.inf, 0.0), 0.0, "observation", "Entry 0 .*inf"),
        ((0.0,), 0.0, "observation", r"\(1,\)"),
        ((0.0, 0.0), math.nan, "observation", "nan"),
        ((0.0, 8.5), 0.0, "range", "Entry 1 .*8.5.*-8 to 8"),
        ((-1.5, 0.0), 0.0, "bounds", "Entry 0 .*-1.5.*-1.4 to 2.8"),
        ((2.81, 0.0), 0.0, "bounds", "Entry 0"),
    ],
)
def test_wrong_observations_are_named(
    obs: tuple[float, ...], reward: float, code: str, value: str
) -> None:
    with pytest.raises(Interrupted, match=value) as raised:
        check_observation(array(*obs), reward, LIMITS)
    assert raised.value.code == code


def test_right_observations_pass() -> None:
    check_observation(array(2.8, -8.0), 1.0, LIMITS)
    check_observation(array(1e9, 0.0), 0.0, Limits((0.0,), 2))


def test_sensors_get_a_tenth_of_their_range() -> None:
    found = sensor_ranges(array(-1.0, 0.0, -math.inf), array(1.0, 5.0, math.inf))
    assert found == ((0, -1.2, 1.2), (1, -0.5, 5.5), (2, -math.inf, math.inf))
    assert sensor_ranges(array(0.0), array(math.inf)) == ((0, 0.0, math.inf),)


@pytest.mark.parametrize(
    ("settings", "value"),
    [
        ({"stop": ()}, "stop action"),
        ({"stop": (1.5,)}, "stop action"),
        ({"stop": (math.nan,)}, "stop action"),
        ({"rate": 0.0}, "rate limit"),
        ({"rate": math.nan}, "rate limit"),
        ({"bounds": (Bound(2, 0.0, 1.0),)}, "2"),
        ({"bounds": (Bound(-1, 0.0, 1.0),)}, "-1"),
        ({"bounds": (Bound(0, 2.0, 1.0),)}, "2"),
        ({"bounds": (Bound(0, math.nan, 1.0),)}, "nan"),
    ],
)
def test_limits_make_sense(settings: dict[str, Any], value: str) -> None:
    with pytest.raises(InputError, match=value):
        Limits(**{"stop": (0.0,), "observation_size": 2, **settings})
