"""Machines of the MuJoCo suite: Gymnasium's, and nothing else changed."""

from dataclasses import replace
from typing import Any

import gymnasium
import numpy as np
import pytest

from driftrl.config.run import EnvironmentConfig, ExtraDrift
from driftrl.config.task import Task
from driftrl.drift.schedules import Constant, Exponential, Step
from driftrl.envs.drifting import DriftingEnv, freeze, make_env
from driftrl.errors import EnvironmentFault, InputError
from driftrl.presets.tasks import MUJOCO_TASKS, TASKS
from rollout import moves, play, same

BY_NAME = [pytest.param(task, id=task.name) for task in MUJOCO_TASKS]
CHEETAH, HOPPER = TASKS["halfcheetah"], TASKS["hopper"]


def model_of(env: DriftingEnv) -> Any:
    return env._plant._inner.model


def with_parameter(task: Task, parameter: str) -> EnvironmentConfig:
    return replace(task.environment, parameter=parameter)


@pytest.mark.parametrize("task", BY_NAME)
def test_nominal_and_unrepeated_it_is_gymnasiums_own_bit_for_bit(task: Task) -> None:
    env = freeze(task.name, 1.0, replace(task.environment, action_repeat=1))
    kwargs = {"include_cfrc_ext_in_observation": False} if task.name == "ant" else {}
    bare = gymnasium.make(f"{task.plant}-v5", **kwargs).unwrapped
    space = bare.action_space
    assert isinstance(space, gymnasium.spaces.Box)
    actions = moves(40, task.action_size)
    expected, _ = bare.reset(seed=7)
    ours = play(env, actions)
    np.testing.assert_array_equal(ours[0][0], expected)
    for action, row in zip(actions, ours[1:], strict=False):
        expected, reward, failed, _, _ = bare.step(action * space.high.astype(float))
        np.testing.assert_array_equal(row[0], expected)
        assert row[1] == reward
        assert row[2] == (bool(failed) and task.environment.terminates)
    assert len(ours) == 41 or task.environment.terminates


@pytest.mark.parametrize("task", BY_NAME)
@pytest.mark.parametrize("observation", ["contacts", "joints"])
def test_other_variants_have_the_sizes_that_they_say(
    task: Task, observation: str
) -> None:
    environment = replace(task.environment, observation=observation)
    if observation not in task.more_observations:
        with pytest.raises(InputError, match=observation):
            task.sizes(environment)
        return
    obs, _ = freeze(task.name, 1.0, environment).reset(seed=0)
    assert obs.shape == (task.sizes(environment)[0],)
    assert obs.shape != (task.state_size,)


def test_a_held_action_sums_rewards_and_skips_states() -> None:
    few = moves(20, 3)
    slow = play(freeze("hopper", 1.0), few)
    once = replace(HOPPER.environment, action_repeat=1)
    fast = play(freeze("hopper", 1.0, once), np.repeat(few, 2, axis=0))
    for decision in range(1, 21):
        np.testing.assert_array_equal(slow[decision][0], fast[2 * decision][0])
        parts = fast[2 * decision - 1][1] + fast[2 * decision][1]
        assert slow[decision][1] == pytest.approx(parts, rel=1e-12)


def test_the_clock_ends_an_episode_and_a_fall_only_on_demand() -> None:
    short = replace(HOPPER.environment, sim_steps=300)
    still = np.zeros((150, 3))
    rows = play(freeze("hopper", 1.0, short), still)
    assert len(rows) == 151 and rows[-1][2:] == (False, True)
    ending = play(freeze("hopper", 1.0, replace(short, terminates=True)), still)
    assert ending[-1][2:] == (True, False) and len(ending) < 100
    # Up to the fall, which ends the last decision early, they are one.
    assert same(rows[: len(ending) - 1], ending[:-1])


def test_two_parameters_drift_at_once_each_by_its_own_schedule() -> None:
    weaker = Exponential(theta_max=1.0, theta_min=0.5, rate=1.0, start=1)
    heavier = ExtraDrift("payload:torso", Step(theta_max=3.0, theta_min=0.0, start=2))
    env = make_env("halfcheetah", drift=weaker, extra_drifts=(heavier,))
    torso = model_of(env).body("torso").mass[0]
    bare = model_of(freeze("halfcheetah", 1.0)).body("torso").mass[0]
    assert torso == pytest.approx(bare + 3.0)
    _, info = env.reset(seed=0, options={"episode": 3})
    assert info["theta"] == env.theta == pytest.approx(0.5 + 0.5 * np.exp(-2.0))
    assert env.thetas == {"gear": env.theta, "payload:torso": 0.0}
    assert model_of(env).body("torso").mass[0] == bare
    assert model_of(env).actuator_gear[0, 0] == 120.0 * env.theta
    with pytest.raises(InputError, match="'gear'"):
        make_env("halfcheetah", extra_drifts=(ExtraDrift("gear", Constant()),))


def test_a_clock_of_decisions_counts_those_taken_before_the_episode() -> None:
    drift = Exponential(theta_max=1.0, theta_min=0.0, rate=0.1, start=4)
    env = make_env("hopper", drift=drift, clock="steps")
    assert env.reset(seed=0)[1]["theta"] == 1.0
    for action in moves(7, 3):
        assert env.step(action)[4]["theta"] == 1.0
    assert env.reset(seed=0)[1]["theta"] == pytest.approx(np.exp(-0.3))
    _, info = env.reset(seed=0, options={"episode": 99, "steps": 14})
    assert info["theta"] == pytest.approx(np.exp(-1.0))
    assert TASKS["humanoid"].clock == "steps"
    with pytest.raises(InputError, match="received -1"):
        env.reset(seed=0, options={"steps": -1})


def test_a_late_action_arrives_after_so_many_decisions() -> None:
    actions = moves(30, 6)
    late = play(
        freeze("halfcheetah", 2.0, with_parameter(CHEETAH, "action_delay")), actions
    )
    shifted = np.concatenate([np.zeros((2, 6)), actions[:-2]])
    assert same(late, play(freeze("halfcheetah", 1.0), shifted))
    off = play(
        freeze("halfcheetah", 0.0, with_parameter(CHEETAH, "action_delay")), actions
    )
    assert same(off, play(freeze("halfcheetah", 1.0), actions))


def test_a_late_observation_is_of_so_many_decisions_before() -> None:
    actions = moves(30, 6)
    prompt = play(freeze("halfcheetah", 1.0), actions)
    environment = with_parameter(CHEETAH, "observation_delay")
    late = play(freeze("halfcheetah", 3.0, environment), actions)
    seen = [prompt[max(0, step - 3)][0] for step in range(31)]
    for expected, row in zip(seen, late, strict=True):
        np.testing.assert_array_equal(row[0], expected)
    assert [row[1] for row in late] == [row[1] for row in prompt]
    assert same(play(freeze("halfcheetah", 0.0, environment), actions), prompt)


def test_noise_is_on_what_is_seen_alone_and_has_the_stated_size() -> None:
    actions = moves(200, 6)
    quiet = play(freeze("halfcheetah", 1.0), actions)
    environment = with_parameter(CHEETAH, "observation_noise")
    noisy = play(freeze("halfcheetah", 0.2, environment), actions)
    assert [row[1] for row in noisy] == [row[1] for row in quiet]
    added = np.array([a[0] - b[0] for a, b in zip(noisy, quiet, strict=True)])
    assert added.std() == pytest.approx(0.2, rel=0.05) and abs(added.mean()) < 0.02
    assert same(play(freeze("halfcheetah", 0.2, environment), actions), noisy)
    assert same(play(freeze("halfcheetah", 0.0, environment), actions), quiet)


def test_an_unstable_simulation_is_a_fault() -> None:
    env = freeze("halfcheetah", 1.0)
    env.reset(seed=0)
    env.step(np.zeros(6))
    env._plant._inner.data.qvel[:] = 1e12
    with pytest.raises(EnvironmentFault, match="BADQ"):
        env.step(np.zeros(6))
    env.reset(seed=0)
    env.step(np.zeros(6))  # and a reset mends it


def test_process_noise_is_refused() -> None:
    with pytest.raises(InputError, match="noise_std"):
        make_env("halfcheetah", replace(CHEETAH.environment, noise_std=0.1))
