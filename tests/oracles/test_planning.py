"""iCEM on the true dynamics: what it does is what it says, and it is of use."""

import numpy as np
import pytest

from driftrl.config.run import EnvironmentConfig
from driftrl.envs.drifting import freeze
from driftrl.oracles.planning import LOOKAHEADS, planned_episodes, planner
from driftrl.oracles.trajectory import Trajectory

THETA, DECISIONS = 5.0, 50
HANGING = (float(np.pi), 0.0)


@pytest.fixture(scope="module")
def episodes() -> list[Trajectory]:
    return planned_episodes(HANGING, THETA, repeat=1, decisions=DECISIONS)


def test_the_horizon_reaches_the_farthest_lookahead() -> None:
    assert planner(1).horizon == max(LOOKAHEADS)
    assert planner(5).horizon == max(LOOKAHEADS) // 5
    assert planner(500).horizon == 1


def test_returns_are_those_of_the_environment(episodes: list[Trajectory]) -> None:
    assert len(episodes) == len(LOOKAHEADS)
    config = EnvironmentConfig(sim_steps=DECISIONS, action_repeat=1)
    env = freeze("pendulum", THETA, config)
    for episode in episodes:
        env.reset(seed=0)
        total = sum(env.step(np.array([action]))[1] for action in episode.actions)
        assert float(episode.value) == pytest.approx(total, abs=1e-6)
        assert np.abs(episode.actions).max() <= 1.0


def test_it_swings_up_a_strong_pendulum(episodes: list[Trajectory]) -> None:
    hanging = -DECISIONS * np.pi**2
    assert max(float(episode.value) for episode in episodes) > hanging / 4.0
    best = max(episodes, key=lambda episode: float(episode.value))
    assert np.cos(best.states.angle[-1]) > 0.9


def test_it_does_not_plan_beyond_the_end(episodes: list[Trajectory]) -> None:
    # With one step left nothing but the cost of torque can be changed.
    assert all(abs(float(episode.actions[-1])) < 0.02 for episode in episodes)
