"""What every task's environment promises: Gymnasium's interface, seeds, θ, clipping."""

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from driftrl.config.task import Task
from driftrl.drift.schedules import Constant, Linear, Step
from driftrl.envs.drifting import DriftingEnv, freeze, make_env, make_plant
from driftrl.presets.tasks import TASKS
from rollout import moves, play, same

EVERY = [pytest.param(task, id=task.name) for task in TASKS.values()]


# Unbounded observations are suspicious to Gymnasium's checker.
@pytest.mark.filterwarnings("ignore:.*infinity. This is probably")
@pytest.mark.parametrize("task", EVERY)
def test_gymnasium_makes_and_approves_it(task: Task) -> None:
    env = gymnasium.make(task.gymnasium_id, drift=Constant(task.nominal))
    assert isinstance(env.unwrapped, DriftingEnv)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.observation_space.shape == (task.state_size,)
    assert env.action_space.shape == (task.action_size,)


@pytest.mark.parametrize("task", EVERY)
def test_theta_and_seed_give_the_trajectory_again_bit_for_bit(task: Task) -> None:
    drift = Step(theta_max=task.nominal, theta_min=0.5 * task.nominal, start=1)
    env = make_env(task.name, drift=drift, clock="episodes")
    actions = moves(12, task.action_size)
    first, weaker, again = (play(env, actions, episode=n) for n in (1, 2, 1))
    assert same(first, again) and not same(first, weaker)
    fresh = make_env(task.name, drift=drift, clock="episodes")
    assert same(first, play(fresh, actions, episode=1))
    assert same(weaker, play(freeze(task.name, 0.5 * task.nominal), actions))
    noisy = task.environment.start != "hanging"
    assert same(first, play(env, actions, seed=8, episode=1)) != noisy


@pytest.mark.parametrize("task", EVERY)
def test_theta_drifts_within_an_episode(task: Task) -> None:
    """The same as setting the parameter of the plant by hand before a step."""
    drift = Linear(task.nominal, 0.5 * task.nominal, start=1, duration=11)
    every, clock, actions = 3, 4, moves(8, task.action_size)
    env = make_env(task.name, drift=drift, clock="steps", drift_every=every)
    plant = make_plant(task, task.environment)
    parameter, by_hand, thetas = task.environment.parameter, [], []
    plant.set_parameters({parameter: drift(3)})
    obs, _ = plant.reset(seed=7)
    for t, action in enumerate(actions, start=clock):
        thetas.append(drift(t - t % every))
        plant.set_parameters({parameter: thetas[-1]})
        obs, reward, *over, _ = plant.step(action)
        by_hand.append((obs, reward, *over))
    env.reset(seed=7, options={"episode": 1, "steps": clock})
    assert len(set(thetas)) == 3
    for action, expected, theta in zip(actions, by_hand, thetas, strict=True):
        obs, reward, terminated, truncated, info = env.step(action)
        assert info["theta"] == env.theta == theta
        assert same([(obs, reward, terminated, truncated)], [expected])


@pytest.mark.parametrize("task", EVERY)
def test_actions_beyond_the_box_are_clipped(task: Task) -> None:
    env, wild = make_env(task.name), 3.0 * moves(8, task.action_size)
    clipped = play(env, np.clip(wild, -1.0, 1.0), episode=1)
    assert same(play(env, wild, episode=1), clipped)
