"""What is seen of the RC car, what it is worth, and which cars there are."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.envs.rccar import (
    NOMINAL,
    RANGES,
    START,
    CarState,
    body_velocity,
    decision_reward,
    drift_angle,
    nearness,
    observe,
    reward,
    specimen,
    wrap,
)
from driftrl.errors import InputError

pytestmark = pytest.mark.usefixtures("x64")


def car(*values: float) -> CarState:
    return CarState(*map(jnp.asarray, values))


def test_the_observation() -> None:
    obs = observe(car(1.0, 2.0, np.pi / 6, 3.0, 4.0, 5.0))
    np.testing.assert_allclose(obs, [1, 2, 0.5, np.sqrt(0.75), 3, 4, 5], rtol=1e-14)


def test_angles_are_wrapped() -> None:
    assert [float(wrap(angle)) for angle in (0.0, 3.5, -3.5, 7.0)] == pytest.approx(
        [0.0, 3.5 - 2 * np.pi, 2 * np.pi - 3.5, 7.0 - 2 * np.pi]
    )


def test_velocity_in_the_frame_of_the_car() -> None:
    forward, sideways = body_velocity(car(0, 0, np.pi / 2, -1.0, 2.0, 0))
    assert (float(forward), float(sideways)) == pytest.approx((2.0, 1.0))


@pytest.mark.parametrize(
    ("heading", "v_x", "v_y", "yaw_rate", "degrees"),
    [
        (0.0, 1.0, 0.0, 0.0, 0.0),
        (0.0, 1.0, 1.0, 0.0, 45.0),
        (0.0, -1.0, 0.0, 0.0, 0.0),  # reversing is not drifting
        (0.0, -1.0, 1.0, 0.0, 45.0),
        (np.pi / 2, 1.0, 0.0, 0.0, -90.0),
        (np.pi, -1.0, np.tan(np.pi / 6), 0.0, -30.0),
        (0.0, 1.0, 0.34, 2.0, 0.0),  # nor is a curve in which the rear axle rolls
        (0.0, 0.34, 0.0, -2.0, 45.0),  # the tail swings out to the left
    ],
)
def test_drift_angles(
    heading: float, v_x: float, v_y: float, yaw_rate: float, degrees: float
) -> None:
    angle = drift_angle(car(0, 0, heading, v_x, v_y, yaw_rate))
    assert float(jnp.rad2deg(angle)) == pytest.approx(degrees, abs=1e-9)


def pose(x: float, y: float, heading: float) -> jax.Array:
    return observe(car(x, y, heading, 0.3, -0.2, 0.1))


@pytest.mark.parametrize(
    ("x", "y", "heading", "expected"),
    [
        (0.0, 0.0, 0.0, 1.0),
        (0.06, -0.08, 0.0, 1.0),  # D = 0.1
        (0.0, 0.0, 0.09, 1.0),
        (2.1, 0.0, 0.0, 0.1),  # as far beyond 0.1 as the margin
        (0.0, 1.1, 0.0, 1 / (1 + 9 * 0.25)),
        (0.3, 0.0, -0.4, 1 / (1 + 9 * 0.04)),  # D = 0.5
        (0.0, 0.0, 2 * np.pi + 1.1, 1 / (1 + 9 * 0.25)),
        (*START, 0.034991),  # D = 3.601
    ],
)
def test_nearness_by_hand(x: float, y: float, heading: float, expected: float) -> None:
    assert float(nearness(pose(x, y, heading))) == pytest.approx(expected, abs=1e-6)


def test_the_reward_charges_for_the_command() -> None:
    away, action = pose(*START), jnp.asarray([0.6, -0.8])
    assert float(reward(away, action, pose(0, 0, 0))) == pytest.approx(1 - 0.005)
    there = reward(pose(0, 0, 0), action, away)
    assert float(there) == pytest.approx(0.034991 - 0.005, abs=1e-6)


def test_the_reward_has_a_slope_everywhere() -> None:
    for place in ((0.0, 0.0, 0.0), (0.06, 0.08, 0.0), START):
        slope = jax.grad(lambda obs: nearness(obs))(pose(*place))
        assert np.isfinite(slope).all()


@pytest.mark.parametrize("repeat", [1, 2, 5])
def test_the_reward_of_a_held_command(repeat: int) -> None:
    known: Callable = decision_reward(repeat, 1.0)
    action = jnp.asarray([0.5, 0.5])
    here, there = pose(0.0, 1.1, 0.0), pose(0.0, 0.0, 0.0)
    values = np.linspace(float(nearness(here)), 1.0, repeat + 1)[1:]
    total = values.sum() - repeat * 0.005 * 0.5
    assert float(known(here, action, there)) == pytest.approx(total, rel=1e-12)
    assert known is decision_reward(repeat, 1.0)  # one function, compiled once


# Specimens


def test_specimens_are_drawn_from_the_ranges_and_keep_their_numbers() -> None:
    assert specimen(0) == NOMINAL
    cars = np.array([specimen(number) for number in range(1, 401)])
    low, high = np.array([*RANGES.values()]).T
    assert (low <= cars).all() and (cars <= high).all()
    varied = high > low
    assert list(np.array(NOMINAL._fields)[~varied]) == ["c_d"]
    middle = ((cars - low) / np.where(varied, high - low, 1.0)).mean(axis=0)
    np.testing.assert_allclose(middle[varied], 0.5, atol=0.06)
    assert len(np.unique(cars, axis=0)) == 400
    assert specimen(17) == specimen(17)
    assert all(
        low <= NOMINAL[i] <= high for i, (low, high) in enumerate(RANGES.values())
    )


def test_there_is_no_car_before_the_nominal_one() -> None:
    with pytest.raises(InputError, match="numbered from 0.*received -1"):
        specimen(-1)
