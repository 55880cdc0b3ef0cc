"""The physics of the RC car: closed forms, limits, symmetries, and its integrator."""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.envs.rccar import (
    DT,
    NOMINAL,
    RANGES,
    RELAXATION,
    START,
    SUBSTEPS,
    CarParameters,
    CarState,
    decision_reward,
    nearness,
    observe,
    reward,
    specimen,
    step,
    tyre_forces,
)

pytestmark = pytest.mark.usefixtures("x64")

COUNT = 500  # cars in a batch: one size, compiled once
REST = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)
FULL_SPEED = 8.2 / 1.25**2  # 5.248 m/s
TIME_CONSTANT = 1.65 / 1.25**2  # 1.056 s


def car(*values: float | jax.Array) -> CarState:
    return CarState(*map(jnp.asarray, values))


@functools.partial(jax.jit, static_argnames="substeps")
def one_step(
    state: Any,
    action: Any,
    theta: float = 1.0,
    parameters: CarParameters = NOMINAL,
    substeps: int = SUBSTEPS,
) -> jax.Array:
    return jnp.stack(step(CarState(*state), action, theta, parameters, substeps))


def drive(start: Any, actions: np.ndarray, *settings: Any) -> np.ndarray:
    """Return the states along a drive, the start first."""
    states = [np.array(start)]
    for action in actions:
        states.append(np.asarray(one_step(states[-1], action, *settings)))
    return np.array(states)


def many(states: np.ndarray, actions: np.ndarray, *settings: Any) -> np.ndarray:
    """Return a step from each of many states."""
    each = jax.vmap(lambda state, action: one_step(state, action, *settings))
    return np.array(each(jnp.asarray(states), jnp.asarray(actions)))


def wrapped(angles: np.ndarray) -> np.ndarray:
    return (angles + np.pi) % (2 * np.pi) - np.pi


def held(steering: float, throttle: float, steps: int) -> np.ndarray:
    return np.tile([steering, throttle], (steps, 1))


def forward_and_sideways(states: np.ndarray) -> np.ndarray:
    cos, sin = np.cos(states[:, 2]), np.sin(states[:, 2])
    forward = states[:, 3] * cos + states[:, 4] * sin
    return np.stack([forward, states[:, 4] * cos - states[:, 3] * sin], axis=1)


def moving_forwards(count: int) -> np.ndarray:
    """Random states of cars that roll and slide forwards, anywhere."""
    stream = np.random.default_rng(0)
    forward = stream.uniform(0.5, 4.0, count)
    sideways = stream.uniform(-2.0, 2.0, count)
    heading = stream.uniform(-np.pi, np.pi, count)
    cos, sin = np.cos(heading), np.sin(heading)
    velocity = [forward * cos - sideways * sin, forward * sin + sideways * cos]
    place, yaw = stream.uniform(-3, 3, (2, count)), stream.uniform(-6, 6, count)
    return np.stack([*place, heading, *velocity, yaw], axis=1)


def anything(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Random states, reversing and nearly at rest too, and random actions."""
    stream = np.random.default_rng(1)
    states = moving_forwards(count)
    states[:, 3:] *= stream.choice([-1.0, 1.0, 0.03], (count, 1))
    return states, stream.uniform(-1, 1, (count, 2))


# Closed forms


@pytest.mark.parametrize("theta", [1.0, 0.25])
def test_from_rest_it_accelerates_as_the_closed_form_says(theta: float) -> None:
    states = drive(REST, held(0.0, 1.0, 150), theta)
    time = DT * np.arange(151)
    speed = 5.248 * theta * (1.0 - np.exp(-time / 1.056))
    way = 5.248 * theta * (time - 1.056 * (1.0 - np.exp(-time / 1.056)))
    np.testing.assert_allclose(states[:, 3], speed, atol=1e-10)
    np.testing.assert_allclose(states[:, 0], way, atol=1e-10)
    np.testing.assert_array_equal(states[:, [1, 2, 4, 5]], 0.0)


def test_terminal_speed_against_the_air() -> None:
    windy = NOMINAL._replace(c_d=0.415)
    states = drive(REST, held(0.0, 1.0, 400), 1.0, windy)
    linear, square = 1.25**2, 0.415**2
    speed = (-linear + np.sqrt(linear**2 + 4 * square * 8.2)) / (2 * square)
    assert states[-1, 3] == pytest.approx(speed, abs=1e-8)


def test_braking_stops_when_it_must_and_then_reverses() -> None:
    states = drive((0.0, 0.0, 0.0, 2.0, 0.0, 0.0), held(0.0, -1.0, 60))
    stop = TIME_CONSTANT * np.log(1 + 2 / FULL_SPEED)  # 0.341 s
    first = int(np.argmax(states[:, 3] < 0))
    assert first == int(np.ceil(stop / DT)) == 11
    # The equation of a straight line is the same on either side of the blend.
    time = DT * np.arange(61)
    speed = (2 + FULL_SPEED) * np.exp(-time / TIME_CONSTANT) - FULL_SPEED
    np.testing.assert_allclose(states[:, 3], speed, atol=1e-8)


def test_the_wheels_are_followed_at_runge_kuttas_rate() -> None:
    # λh = 1 with three sub-steps, where the exact factor is e⁻¹ = 0.368.
    states = drive((0.0, 0.0, 0.0, 0.0, 1.0, 1.0), held(0.7, 0.0, 1), 1.0, NOMINAL, 3)
    assert RELAXATION == DT / 3
    np.testing.assert_allclose(states[-1, 5], 0.375**3, rtol=1e-12)


def test_a_slow_circle_is_that_of_the_wheels() -> None:
    states = drive(REST, held(0.3, 0.03, 400))
    forward, sideways = forward_and_sideways(states)[-1]
    assert states[-1, 5] == pytest.approx(forward * np.tan(0.18) / 0.3, rel=5e-3)
    assert sideways == pytest.approx(0.17 * states[-1, 5], rel=1e-2)


def test_a_fast_circle_balances_its_forces() -> None:
    states = drive(REST, held(0.5, 0.5, 900))
    forward, sideways = forward_and_sideways(states)[-1]
    yaw = states[-1, 5]
    assert np.ptp(forward_and_sideways(states)[-30:], axis=0).max() < 1e-6
    front, rear = map(
        float,
        tyre_forces(car(0, 0, 0, forward, sideways, yaw), jnp.asarray(0.3), NOMINAL),
    )
    assert front * np.cos(0.3) * 0.13 == pytest.approx(rear * 0.17, rel=1e-5)
    centripetal = front * np.cos(0.3) + rear
    assert centripetal == pytest.approx(1.65 * forward * yaw, rel=1e-5)
    # As fast as this, it pushes over its front wheels, wide of the slow circle.
    assert yaw < 0.7 * forward * np.tan(0.3) / 0.3


# Limits


def test_tyres_push_with_at_most_their_grip() -> None:
    slips = np.linspace(-1.5, 1.5, 30001)
    forces = jax.vmap(
        lambda slip: jnp.stack(
            tyre_forces(car(0, 0, 0, 1.0, -jnp.tan(slip), 0), jnp.asarray(0.0), NOMINAL)
        )
    )(jnp.asarray(slips))
    peaks = np.abs(forces).max(axis=0)
    np.testing.assert_allclose(peaks, [0.4 * 9.81, 0.3 * 9.81], rtol=1e-7)
    np.testing.assert_allclose(peaks / 1.65, [2.378, 1.784], atol=5e-4)
    # The peak is where c atan(b α) = π/2, and beyond it grip is lost.
    for column, b, c in ((0, 2.75, 1.45), (1, 5.0, 1.3)):
        at = np.abs(slips[np.abs(forces[:, column]).argmax()])
        assert at == pytest.approx(np.tan(np.pi / (2 * c)) / b, abs=1e-3)
    np.testing.assert_allclose(forces, -forces[::-1], atol=1e-9)


def test_a_slide_is_braked_by_no_more_than_the_grip() -> None:
    states = drive((0.0, 0.0, 0.0, 0.1, 2.0, 0.0), held(0.0, 0.0, 10))
    braking = -np.diff(states[:, 4]) / DT
    assert braking.max() < (0.4 + 0.3) * 9.81 / 1.65  # 4.16 m/s²
    assert braking.min() > 3.0


def test_energy_never_grows_without_throttle() -> None:
    states = moving_forwards(COUNT)
    actions = np.random.default_rng(2).uniform(-1, 1, (COUNT, 2)) * [1.0, 0.0]
    after = many(states, actions)
    stays = forward_and_sideways(after)[:, 0] > 0.05  # the tyres' equations throughout
    assert stays.mean() > 0.8
    energy = lambda rows: 0.5 * (rows[:, 3:] ** 2 @ [1.65, 1.65, 0.06])
    assert (energy(after) < energy(states))[stays].all()


# Symmetries


def test_left_and_right_are_the_same() -> None:
    states, actions = anything(COUNT)
    mirror = np.array([1.0, -1.0, -1.0, 1.0, -1.0, -1.0])
    after = many(states, actions)
    other = many(states * mirror, actions * [-1.0, 1.0])
    np.testing.assert_allclose(other, after * mirror, atol=1e-9)


def test_the_floor_has_no_direction_and_no_place() -> None:
    states, actions = anything(COUNT)

    def elsewhere(rows: np.ndarray, turn: float) -> np.ndarray:
        rotation = np.array(
            [(np.cos(turn), np.sin(turn)), (-np.sin(turn), np.cos(turn))]
        )
        place = rows[:, :2] @ rotation + [3.0, -7.0]
        heading = wrapped(rows[:, 2] + turn)
        velocity = rows[:, 3:5] @ rotation
        return np.column_stack([place, heading, velocity, rows[:, 5]])

    expected = elsewhere(many(states, actions), 0.8)
    np.testing.assert_allclose(
        many(elsewhere(states, 0.8), actions), expected, atol=1e-9
    )


def test_an_angle_offset_is_a_heading_read_wrongly() -> None:
    states, actions = anything(COUNT)
    crooked = NOMINAL._replace(angle_offset=0.1)
    after = many(states, actions, 1.0, crooked)
    expected = many(states + np.array([0, 0, 0.1, 0, 0, 0]), actions)
    expected[:, 2] = wrapped(expected[:, 2] - 0.1)
    np.testing.assert_allclose(after, expected, atol=1e-9)


# Actions


def test_theta_scales_the_throttle_and_not_the_steering() -> None:
    states, actions = anything(COUNT)
    weak = many(states, actions, 0.25)
    np.testing.assert_array_equal(weak, many(states, actions * [1.0, 0.25]))
    assert not np.allclose(weak, many(states, actions * [0.25, 1.0]), atol=1e-3)
    # Steering works as before where the throttle has no power at all.
    dead = many(states, actions, 0.0)
    np.testing.assert_array_equal(dead, many(states, actions * [1.0, 0.0]))
    straight = many(states, actions * [0.0, 0.0])
    assert np.abs(dead - straight)[:, 5].mean() > 0.05


# The integrator


@pytest.mark.parametrize("speed", [1.5, 3.0])
def test_the_error_is_of_fourth_order(speed: float) -> None:
    start, actions = (0.0, 0.0, 0.0, speed, 0.3, 1.0), held(0.6, 0.4, 3)
    exact = drive(start, actions, 1.0, NOMINAL, 90)[-1]
    coarse, ours = (
        np.abs(drive(start, actions, 1.0, NOMINAL, count)[-1] - exact).max()
        for count in (3, 9)
    )
    assert np.log(coarse / ours) / np.log(3) == pytest.approx(4.0, abs=0.3)


def pose(x: float, y: float, heading: float) -> jax.Array:
    return observe(car(x, y, heading, 0.3, -0.2, 0.1))


@pytest.mark.parametrize(
    ("x", "y", "heading", "expected"),
    [
        (0.0, 0.0, 0.0, 1.0),
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
