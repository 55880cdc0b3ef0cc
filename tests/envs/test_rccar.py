"""The physics of the RC car: closed forms, limits, symmetries, and its integrator."""

import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.config.run import EnvironmentConfig
from driftrl.envs.rccar import (
    DT,
    NOISE_STD,
    NOMINAL,
    START,
    SUBSTEPS,
    CarParameters,
    CarState,
    RCCarPlant,
    decision_reward,
    known_next_obs,
    nearness,
    observe,
    runge_kutta,
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
    state: jax.Array,
    action: jax.Array,
    theta: float,
    parameters: CarParameters,
    substeps: int,
) -> jax.Array:
    return jnp.stack(step(CarState(*state), action, theta, parameters, substeps))


@functools.partial(jax.jit, static_argnames="substeps")
def step_of_each(
    states: jax.Array,
    actions: jax.Array,
    theta: float,
    parameters: CarParameters,
    substeps: int,
) -> jax.Array:
    one = lambda state, action: one_step(state, action, theta, parameters, substeps)
    return jax.vmap(one)(states, actions)


def drive(
    start: Sequence[float] | np.ndarray,
    actions: np.ndarray,
    theta: float = 1.0,
    parameters: CarParameters = NOMINAL,
    substeps: int = SUBSTEPS,
) -> np.ndarray:
    """Return the states along a drive, the start first."""
    states = [np.array(start)]
    for action in actions:
        after = one_step(states[-1], action, theta, parameters, substeps)
        states.append(np.asarray(after))
    return np.array(states)


def held(steering: float, throttle: float, steps: int) -> np.ndarray:
    return np.tile([steering, throttle], (steps, 1))


def forward_and_sideways(states: np.ndarray) -> np.ndarray:
    cos, sin = np.cos(states[:, 2]), np.sin(states[:, 2])
    forward = states[:, 3] * cos + states[:, 4] * sin
    return np.stack([forward, states[:, 4] * cos - states[:, 3] * sin], axis=1)


def many(
    states: np.ndarray,
    actions: np.ndarray,
    theta: float = 1.0,
    parameters: CarParameters = NOMINAL,
    substeps: int = SUBSTEPS,
) -> np.ndarray:
    """Return a step from each of many states."""
    return np.array(
        step_of_each(
            *(jnp.asarray(states), jnp.asarray(actions)), theta, parameters, substeps
        )
    )


def wrapped(angles: np.ndarray) -> np.ndarray:
    return (angles + np.pi) % (2 * np.pi) - np.pi


def moving_forwards(count: int) -> np.ndarray:
    """Random states of cars that roll and slide forwards, anywhere."""
    stream = np.random.default_rng(0)
    forward, sideways = (
        stream.uniform(0.5, 4.0, count),
        stream.uniform(-2.0, 2.0, count),
    )
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


def test_braking_stops_when_it_must_and_then_reverses() -> None:
    states = drive((0.0, 0.0, 0.0, 2.0, 0.0, 0.0), held(0.0, -1.0, 60))
    stop = TIME_CONSTANT * np.log(1 + 2 / FULL_SPEED)  # 0.341 s
    first = int(np.argmax(states[:, 3] < 0))
    assert first == int(np.ceil(stop / DT)) == 11
    # The equation of a straight line is the same on either side of the blend.
    time = DT * np.arange(61)
    speed = (2 + FULL_SPEED) * np.exp(-time / TIME_CONSTANT) - FULL_SPEED
    np.testing.assert_allclose(states[:, 3], speed, atol=1e-8)


def test_reversing_follows_the_wheels() -> None:
    states = drive(REST, held(0.5, -0.3, 120))
    forward, sideways = forward_and_sideways(states)[-1]
    turning = np.sin(np.arctan(np.tan(0.3) / 0.3))
    # They lag behind a changing speed by τ.
    assert forward < -1
    assert states[-1, 5] == pytest.approx(forward * turning, rel=2e-3)
    assert sideways == pytest.approx(forward * turning * 0.17, rel=2e-3)


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


def test_energy_never_grows_without_throttle() -> None:
    states = moving_forwards(COUNT)
    actions = np.random.default_rng(2).uniform(-1, 1, (COUNT, 2)) * [1.0, 0.0]
    after = many(states, actions)
    stays = forward_and_sideways(after)[:, 0] > 0.05  # the tyres' equations throughout
    assert stays.mean() > 0.8
    energy = lambda rows: 0.5 * (rows[:, 3:] ** 2 @ [1.65, 1.65, 0.06])
    assert (energy(after) < energy(states))[stays].all()


@pytest.mark.parametrize(
    ("steering", "throttle"), [(0.0, 0.0), (0.5, 0.02), (1.0, 0.005)]
)
def test_chatter_at_a_crawl_is_bounded_and_small(
    steering: float, throttle: float
) -> None:
    start = (0.0, 0.0, 0.0, 0.002, 0.004, -0.05)
    ours, finer = (
        drive(start, held(steering, throttle, 120), substeps=count)[1:]
        for count in (SUBSTEPS, 90)
    )
    most = [
        np.abs(np.column_stack([forward_and_sideways(states), states[:, 5]])).max(0)
        for states in (ours, finer)
    ]
    assert (most[0] < most[1] + [0.01, 0.01, 0.03]).all()
    assert forward_and_sideways(ours)[:, 0].min() > -0.01


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


def test_sub_steps_agree_within_the_noise_of_the_sensors() -> None:
    """Nine sub-steps are as good as ninety, to what can be measured; three are not."""
    stream = np.random.default_rng(3)
    starts, found = np.tile([*START, 0.0, 0.0, 0.0], (20, 1)), []
    actions = stream.uniform(-1, 1, (20, 12, 2)).repeat(5, axis=1)
    for theta in (1.0, 0.25):
        states = starts
        for number in range(60):
            fine = many(states, actions[:, number], theta, substeps=90)
            for substeps in (3, 9):
                off = many(states, actions[:, number], theta, substeps=substeps) - fine
                off[:, 2] = wrapped(off[:, 2])
                found.append((substeps, np.abs(off)))
            states = fine
    coarse, ours = (
        np.concatenate([off for substeps, off in found if substeps == which])
        for which in (3, 9)
    )
    assert (ours.max(axis=0) < NOISE_STD).all()
    assert (coarse.max(axis=0) < 4 * NOISE_STD).all()
    assert not (coarse.max(axis=0) < NOISE_STD).all()
    assert np.median(ours, axis=0).max() < 1e-6 < 10 * np.median(coarse, axis=0).max()


def test_one_runge_kutta_step_by_hand() -> None:
    # x' = x: 1 + h + h²/2 + h³/6 + h⁴/24
    ones = car(*np.ones(6))
    after = runge_kutta(lambda state: state, ones, 0.5)
    expected = 1 + 0.5 + 0.125 + 0.125 / 6 + 0.0625 / 24
    np.testing.assert_allclose(np.stack(after), expected, rtol=1e-14)


# Observation and reward


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


@pytest.mark.parametrize("repeat", [1, 2, 5])
def test_the_reward_of_a_held_command(repeat: int) -> None:
    known: Callable = decision_reward(repeat, 1.0)
    action = jnp.asarray([0.5, 0.5])
    here, there = pose(0.0, 1.1, 0.0), pose(0.0, 0.0, 0.0)
    values = np.linspace(float(nearness(here)), 1.0, repeat + 1)[1:]
    total = values.sum() - repeat * 0.005 * 0.5
    assert float(known(here, action, there)) == pytest.approx(total, rel=1e-12)
    assert known is decision_reward(repeat, 1.0)  # one function, compiled once


def test_remembered_commands_are_known() -> None:
    env = RCCarPlant(EnvironmentConfig(sim_steps=9, start="away", parameter="throttle"))
    obs, _ = env.reset(seed=1)
    for action in np.random.default_rng(0).uniform(-1, 1, (4, 2)):
        after, *_ = env.step(action)
        found = known_next_obs(*(jnp.asarray(v) for v in (obs, action, 0 * after)))
        np.testing.assert_allclose(found[7:], after[7:], rtol=1e-6)
        np.testing.assert_allclose(found[:7], 0.0)
        obs = after
