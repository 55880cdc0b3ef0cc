"""The drifting pendulum: Gymnasium's, with θ_n in force and nothing else changed."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest

from driftrl.config.run import EnvironmentConfig
from driftrl.drift.schedules import Constant, Piecewise, RandomWalk, Schedule, Step
from driftrl.envs.drifting import freeze, make_env
from driftrl.envs.plant import Signals
from driftrl.errors import InputError
from rollout import moves, play

ONCE = EnvironmentConfig(sim_steps=200, action_repeat=1)


@pytest.mark.parametrize("theta", [0.5, 2.0, 5.0])
def test_repeat_one_is_gymnasiums_pendulum_bit_for_bit(theta: float) -> None:
    base = gymnasium.make("Pendulum-v1").unwrapped
    base.reset(seed=0)
    base.max_torque = theta  # pyright: ignore[reportAttributeAccessIssue]
    base.state = np.array([np.pi, 0.0])  # pyright: ignore[reportAttributeAccessIssue]
    env = make_env("pendulum", ONCE, Constant(value=theta))
    env.reset(seed=0)
    for action in moves(200, 1):
        expected, reward, *_ = base.step(theta * action)
        obs, earned, terminated, _, _ = env.step(action)
        assert earned == reward and not terminated
        np.testing.assert_allclose(obs, expected, rtol=1e-6)  # Gymnasium rounds to f32


def test_action_repeat_sums_rewards_and_skips_states() -> None:
    held = EnvironmentConfig(sim_steps=200, action_repeat=5)
    few = moves(40, 1)
    slow = play(make_env("pendulum", held), few)
    fast = play(make_env("pendulum", ONCE), np.repeat(few, 5, axis=0))
    for decision in range(1, 41):
        np.testing.assert_array_equal(slow[decision][0], fast[5 * decision][0])
        parts = [fast[i][1] for i in range(5 * decision - 4, 5 * decision + 1)]
        assert slow[decision][1] == pytest.approx(sum(parts), rel=1e-12)
    assert [row[3] for row in slow] == [False] * 40 + [True]


def test_theta_is_applied_at_reset_and_stamped() -> None:
    env = make_env("pendulum", ONCE, Step(theta_max=3.0, theta_min=1.0, start=2))
    thetas = [env.reset(seed=0)[1]["theta"] for _ in range(4)]
    assert thetas == [3.0, 3.0, 1.0, 1.0]
    assert env.step(np.array([0.5]))[4]["theta"] == 1.0


def test_random_start_is_gymnasiums_distribution_and_seeded() -> None:
    env = make_env("pendulum", EnvironmentConfig(start="random"))
    starts = np.array([env.reset(seed=seed)[0] for seed in range(400)])
    angles = np.arctan2(starts[:, 1], starts[:, 0])
    assert abs(angles.mean()) < 0.3 and angles.std() == pytest.approx(1.81, rel=0.1)
    assert np.abs(starts[:, 2]).max() <= 1
    assert starts[:, 2].std() == pytest.approx(1 / np.sqrt(3), rel=0.1)
    np.testing.assert_array_equal(env.reset(seed=5)[0], starts[5])


def test_process_noise_has_the_stated_size() -> None:
    quiet = make_env("pendulum", EnvironmentConfig(action_repeat=5))
    noisy = freeze("pendulum", 2.0, EnvironmentConfig(action_repeat=5, noise_std=0.05))
    quiet.reset(seed=0)
    expected = quiet.step(np.array([0.3]))[0]
    found = []
    for seed in range(600):
        noisy.reset(seed=seed)
        found.append(noisy.step(np.array([0.3]))[0])
    shift = np.array(found) - expected
    assert shift[:, 2].std() == pytest.approx(0.05, rel=0.1)
    assert abs(shift[:, 2].mean()) < 0.01
    angle = np.arctan2(np.array(found)[:, 1], np.array(found)[:, 0]) % (2 * np.pi)
    assert angle.std() == pytest.approx(0.05, rel=0.1)


@pytest.mark.parametrize(
    "schedule",
    [RandomWalk(2.0, -1.0, initial=1.0), Piecewise((2.0, -1.0, 2.0), (5, 20))],
    ids=lambda schedule: schedule.kind,
)
def test_a_schedule_that_comes_to_what_is_not_allowed_is_refused_at_once(
    schedule: Schedule,
) -> None:
    assert schedule(1) >= 0  # the first episode is possible
    with pytest.raises(InputError, match=r"received -1\.0"):
        make_env("pendulum", ONCE, schedule)


def test_a_delay_that_changes_holds_or_skips_what_is_on_its_way() -> None:
    signals = Signals()
    arrived = []
    for now, delay in enumerate([0, 0, 2, 2, 2, 2, 1, 1, 0]):
        signals.action_delay = delay
        arrived.append(int(signals.command(np.array([now]))[0]))
    assert arrived == [0, 1, 1, 1, 2, 3, 5, 6, 8]


@pytest.mark.parametrize(
    ("make", "value"),
    [
        (lambda: make_env("pendulum").reset(options={"episode": 0}), "received 0"),
        (lambda: freeze("pendulum", -1.0), r"received -1\.0"),
        (lambda: make_env("pendulum", replace(ONCE, parameter="mass")), "'mass'"),
        (lambda: make_env("pendulim"), "'pendulum'"),
    ],
)
def test_refusals(make: Callable[[], Any], value: str) -> None:
    with pytest.raises(InputError, match=value):
        make()
