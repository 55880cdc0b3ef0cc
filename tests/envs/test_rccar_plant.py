"""The RC car as an environment: delay, memory, noise, starts, rewards, refusals."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.config.run import ExtraDrift
from driftrl.drift.schedules import Constant, Step
from driftrl.envs import rccar
from driftrl.envs.drifting import known_reward, make_env
from driftrl.envs.rccar import NOISE_STD, NOMINAL_THETA, CarState, RCCarPlant
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.memory.forgetting import Reset, Window
from driftrl.presets.tasks import TASKS
from rollout import moves, play, same

TASK = TASKS["rccar"]
SETTINGS = TASK.environment


def car(**settings: Any) -> RCCarPlant:
    return RCCarPlant(replace(SETTINGS, **settings))


def quiet(**values: float) -> RCCarPlant:
    """Return a car that is seen without noise."""
    plant = car()
    plant.set_parameters({"observation_noise": 0.0, **values})
    return plant


def test_the_task_is_the_papers() -> None:
    thetas = [TASK.drift(n) for n in (1, 14, 15, 16, 17, 18, 30)]
    expected = [1, 1, 0.25 ** (1 / 3), 0.25 ** (2 / 3), 0.25, 0.25, 0.25]
    np.testing.assert_allclose(thetas, expected, rtol=1e-12)
    assert TASK.episodes == 30 and SETTINGS.steps == 200
    reset, window = (configure("rccar", name) for name in ("r-ombrl", "sw-ombrl"))
    assert reset.forgetting == Reset(period=15)
    assert window.forgetting == Window(window=7)
    agent: Any = reset.agent
    assert (agent.soft_reset.model, agent.soft_reset.policy) == (0.0, 0.0)
    assert agent.learning.when == "episode"
    assert SETTINGS.start == "away"
    assert TASK.nominal == NOMINAL_THETA[SETTINGS.parameter]


def test_without_noise_and_delay_it_is_the_functional_car() -> None:
    plant = quiet(action_delay=0.0, throttle=0.7)
    rows = play(plant, moves(40, 2))
    state = CarState(*_state_of(rows[0][0]).tolist())
    with jax.enable_x64(True):
        step = jax.jit(rccar.step)
        for action, row in zip(moves(40, 2), rows[1:], strict=True):
            state = step(state, jnp.asarray(action), 0.7)
            np.testing.assert_allclose(row[0][:7], rccar.observe(state), atol=1e-10)


def _state_of(obs: np.ndarray) -> np.ndarray:
    return np.array([*obs[:2], np.arctan2(obs[2], obs[3]), *obs[4:7]])


@pytest.mark.parametrize("delay", [1, 3, 5])
def test_a_delayed_drive_is_the_drive_after_idle_steps(delay: int) -> None:
    waiting = np.concatenate([np.zeros((delay, 2)), moves(23, 2)[:-delay]])
    late = play(quiet(action_delay=delay), moves(23, 2))
    prompt = play(quiet(action_delay=0), waiting)
    for row, other in zip(late, prompt, strict=True):
        np.testing.assert_array_equal(row[0][:7], other[0][:7])


def test_the_last_three_commands_are_observed_oldest_first() -> None:
    actions = moves(6, 2)
    rows = play(car(), actions)
    padded = np.concatenate([np.zeros((3, 2)), actions])
    for number, row in enumerate(rows):
        np.testing.assert_array_equal(row[0][7:], padded[number : number + 3].ravel())
    np.testing.assert_array_equal(rows[-1][0][11:], actions[-1])  # the newest


def test_noise_has_the_stated_size_and_leaves_the_car_alone() -> None:
    expected = NOISE_STD
    published = [0.00111, 0.00111, 0.00183, 0.00821, 0.00821, 0.0368]
    np.testing.assert_allclose(expected, published, rtol=5e-3)
    found = []
    for factor in (1.0, 3.0):
        noisy, exact = car(), quiet()
        noisy.set_parameters({"observation_noise": factor})
        offs = []
        for seed in range(12):
            rows, truth = (play(plant, moves(60, 2), seed) for plant in (noisy, exact))
            offs += [
                _state_of(a[0]) - _state_of(b[0])
                for a, b in zip(rows, truth, strict=True)
            ]
        off = np.array(offs)
        off[:, 2] = (off[:, 2] + np.pi) % (2 * np.pi) - np.pi
        found.append(off)
    for factor, off in zip((1.0, 3.0), found, strict=True):
        np.testing.assert_allclose(off.std(axis=0), factor * expected, rtol=0.1)
        limit = 4 * factor * expected / np.sqrt(len(off))
        assert (np.abs(off.mean(axis=0)) < limit).all()


def test_starts_are_spread_as_stated() -> None:
    plant = quiet()
    starts = np.array([_state_of(plant.reset(seed=seed)[0]) for seed in range(800)])
    off = starts[:, :3] - np.array(rccar.START)
    off[:, 2] = (off[:, 2] + np.pi) % (2 * np.pi) - np.pi
    bound = np.array([0.1, 0.1, 0.1 * np.pi])
    assert (np.abs(off) <= bound).all()
    np.testing.assert_allclose(off.std(axis=0), bound / np.sqrt(3), rtol=0.06)
    np.testing.assert_allclose(
        starts[:, 3:].std(axis=0), [0.005, 0.005, 0.02], rtol=0.08
    )


def test_the_reward_charges_for_the_command_as_it_was_given() -> None:
    # Neither has a command arrived after the first step, nor does θ change its price.
    for theta in (1.0, 0.25, 0.0):
        plant = car()
        plant.set_parameters({"throttle": theta})
        idle, busy = (play(plant, np.array([a]))[1][1] for a in ([0, 0], [0.6, -0.8]))
        assert idle - busy == pytest.approx(0.005, rel=1e-9)


def test_the_reward_is_that_of_the_measured_pose() -> None:
    known = known_reward(TASK, SETTINGS)
    assert known is not None
    rows = play(make_env("rccar"), moves(25, 2))
    with jax.enable_x64(True):
        for before, action, after in zip(rows, moves(25, 2), rows[1:], strict=False):
            arrays = map(jnp.asarray, (before[0], action, after[0]))
            assert after[1] == pytest.approx(float(known(*arrays)), rel=1e-12)


def test_a_held_command_sums_rewards_and_skips_states() -> None:
    twice = RCCarPlant(replace(SETTINGS, action_repeat=2))
    slow = play(twice, moves(20, 2))
    fast = play(car(), moves(20, 2).repeat(2, axis=0))
    for number in range(1, 21):
        np.testing.assert_array_equal(slow[number][0][:7], fast[2 * number][0][:7])
        parts = fast[2 * number - 1][1] + fast[2 * number][1]
        assert slow[number][1] == pytest.approx(parts, rel=1e-12)
    np.testing.assert_array_equal(slow[20][0][7:], moves(20, 2)[17:].ravel())
    assert play(twice, moves(100, 2))[-1][3]


@pytest.mark.parametrize(
    ("state", "parked", "lost"),
    [
        ((0.03, -0.03, 0.1, 0.1, 0.1, 0.1), True, False),
        ((0.06, 0.0, 0.0, 0.0, 0.0, 0.0), False, False),
        ((0.0, 0.0, 0.21, 0.0, 0.0, 0.0), False, False),
        ((0.0, 0.0, 0.0, 0.3, 0.0, 0.41), False, False),
        ((2.81, 0.0, 0.0, 0.0, 0.0, 0.0), False, True),
        ((0.0, -2.61, 0.0, 0.0, 0.0, 0.0), False, True),
        ((2.79, -2.59, 0.0, 0.0, 0.0, 0.0), False, False),
    ],
)
def test_flags(state: tuple[float, ...], parked: bool, lost: bool) -> None:
    plant = car()
    plant.reset(seed=0)
    plant._state = np.array(state)
    assert plant._flags() == {"goal_reached": parked, "out_of_bounds": lost}


def test_delay_and_noise_may_drift_too() -> None:
    settings = replace(SETTINGS, parameter="action_delay")
    drift = Step(theta_max=5.0, theta_min=3.0, start=1)
    still = ExtraDrift("observation_noise", Constant(value=0.0))
    env = make_env("rccar", settings, drift, extra_drifts=(still,))
    assert env.reset(seed=0)[1]["theta"] == 5.0
    late, nominal = (
        play(env, moves(20, 2), episode=1),
        play(env, moves(20, 2), episode=2),
    )
    assert not same(late, nominal)
    assert same(nominal, play(quiet(), moves(20, 2)))


def test_an_unnamed_parameter_is_nominal_again() -> None:
    plant = car()
    nominal = play(plant, moves(20, 2))
    plant.set_parameters({"throttle": 0.3, "action_delay": 1.0})
    assert not same(nominal, play(plant, moves(20, 2)))
    plant.set_parameters({"throttle": 1.0})
    assert same(nominal, play(plant, moves(20, 2)))


@pytest.mark.parametrize(
    "values", [{"throttle": -0.1}, {"throttle": float("nan")}, {"throtle": 1.0}]
)
def test_bad_parameters(values: dict[str, float]) -> None:
    with pytest.raises(InputError, match=next(iter(values))):
        car().set_parameters(values)


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="noise_std"):
        make_env("rccar", replace(SETTINGS, noise_std=0.1))
    for change in ({"start": "hanging"}, {"terminates": True}):
        with pytest.raises(InputError, match=next(iter(change))):
            configure("rccar", "sombrl", {"environment": change})


def test_bad_actions(unchecked: Callable[[ModuleType], Any]) -> None:
    plant = unchecked(rccar).RCCarPlant(SETTINGS)
    plant.reset(seed=0)
    for bad in ([0.0, np.nan], [0.0], [0.0, 0.0, 0.0], 0.5):
        with pytest.raises(InputError):
            plant.step(np.asarray(bad))
