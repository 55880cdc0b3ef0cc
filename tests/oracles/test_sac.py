"""SAC as an oracle: its error by hand, and a task with a known answer."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import gymnasium
import jax
import numpy as np
import pytest
from gymnasium import spaces

from driftrl.agents import sac as learner
from driftrl.config.deep import SACConfig
from driftrl.config.run import EnvironmentConfig
from driftrl.envs.drifting import PLANTS, freeze
from driftrl.envs.pendulum import PendulumPlant
from driftrl.envs.tasks import task_named
from driftrl.errors import EnvironmentFault
from driftrl.models.networks import MLP
from driftrl.oracles import sac
from driftrl.oracles.table import SACOracleSettings, StoredOracle
from driftrl.presets.tasks import TASKS

SMALL = SACConfig(hidden=(16,), batch_size=32, learning_rate=3e-3, discount=0.0)
QUICK = SACOracleSettings(
    seeds=1,
    steps=560,
    updates=2,
    random_steps=80,
    evaluate_every=40,
    episodes=5,
    test_episodes=10,
    least_error=0.0,
    sac=SMALL,
)


class Guess(PendulumPlant):
    """Asks for a = s; s starts fixed or drawn, and turns its sign: J* = θ · steps."""

    observation_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)
    action_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)

    def __init__(
        self, config: EnvironmentConfig, render_mode: str | None = None
    ) -> None:
        self.config, self.render_mode = config, render_mode

    def set_parameters(self, values: Mapping[str, float]) -> None:
        self.theta = values["torque"]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        gymnasium.Env.reset(self, seed=seed)
        drawn = self.np_random.uniform(-0.8, 0.8, 1)
        self.obs = np.array([0.5]) if self.config.start == "fixed" else drawn
        self.left = self.config.steps
        return self.obs, {}

    def step(
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.left -= 1
        reward = self.theta - float((action[0] - self.obs[0]) ** 2)
        self.obs = -self.obs
        return self.obs, reward, False, self.left == 0, {}


@pytest.fixture
def guess(monkeypatch: pytest.MonkeyPatch) -> EnvironmentConfig:
    """Offer the task ``guess``; return its environment."""
    environment = EnvironmentConfig(sim_steps=10, start="random")
    row = replace(
        TASKS["pendulum"],
        name="guess",
        plant="guess",
        state_size=1,
        action_size=1,
        starts=("fixed", "random"),
        environment=environment,
    )
    monkeypatch.setitem(TASKS, "guess", row)
    monkeypatch.setitem(PLANTS, "guess", "tests.oracles.test_sac:Guess")
    return environment


def test_error_is_the_distance_to_the_median_training() -> None:
    trainings = [
        sac.Training(late=(-30.0, -20.0), returns=(-20.0, -20.0)),
        sac.Training(late=(-13.0, -10.0, -11.0), returns=(-10.0, -10.0)),
        sac.Training(late=(-14.0,), returns=(-14.0, -14.0)),
    ]
    optimum = sac.conclude(2.0, trainings, SACOracleSettings())
    assert (optimum.theta, optimum.value, optimum.std) == (2.0, -10.0, 0.0)
    assert optimum.error == 4.0
    assert optimum.effort == "3 seeds × 12000 steps × 5 updates"
    assert optimum.candidates == {
        "seed 0": -20.0,
        "seed 1": -10.0,
        "seed 2": -14.0,
        "median late evaluation": -11.0,
    }


def test_error_of_one_training_is_from_late_evaluations() -> None:
    optimum = sac.conclude(
        1.0, [sac.Training((-9.0, -5.0, -8.0, -7.0), (-5.0,))], QUICK
    )
    assert (optimum.value, optimum.error) == (-5.0, 2.5)


def test_scattered_returns_add_two_standard_errors() -> None:
    late, returns = (-4.0, -4.0), (-7.0, -1.0, -7.0, -1.0)
    optimum = sac.conclude(1.0, [sac.Training(late, returns)] * 2, QUICK)
    assert (optimum.value, optimum.std) == (-4.0, 3.0)
    assert optimum.error == 2.0 * 3.0 / 2.0


def test_collector_starts_everywhere_and_stores_transitions(
    guess: EnvironmentConfig,
) -> None:
    fixed = replace(guess, start="fixed")
    envs = sac.frozen_envs(task_named("guess"), 2.0, fixed)
    collector = sac.Collector(envs, seed=3)
    collector.collect(25, lambda obs, number: obs + 0.01 * number)
    collector.collect(5, lambda obs, number: obs)
    data = collector.data
    assert len(data) == 30
    turning = np.tile([1.0, -1.0], 5)[:, None]
    np.testing.assert_array_equal(data.obs[:10], 0.5 * turning)
    np.testing.assert_array_equal(data.obs[20:], 0.5 * turning)
    drawn = data.obs[10]
    np.testing.assert_array_equal(data.obs[10:20], drawn * turning)
    assert drawn != 0.5
    numbers = np.concatenate([np.arange(25), np.zeros(5)])
    np.testing.assert_allclose(data.actions[:, 0] - data.obs[:, 0], 0.01 * numbers)
    np.testing.assert_allclose(data.rewards, 2.0 - (0.01 * numbers) ** 2)
    np.testing.assert_array_equal(data.next_obs, -data.obs)
    assert not data.terminated.any()


def test_a_task_with_a_known_answer(guess: EnvironmentConfig) -> None:
    optimum = sac.optimal_return("guess", 2.0, guess, QUICK)
    # J* = 20; drawn evenly it would be 20 − 10·(1/3 + 0.64/3) = 14.5.
    assert 19.5 < optimum.value <= 20.0
    assert 20.0 - optimum.value <= optimum.error + 0.1 and optimum.error < 1.0
    assert optimum.effort == "1 seeds × 560 steps × 2 updates"


def test_best_late_policy_is_tested(guess: EnvironmentConfig) -> None:
    fixed = replace(guess, start="fixed")
    found = sac.train(task_named("guess"), 2.0, fixed, QUICK, seed=1)
    assert len(found.late) == 6
    # Where nothing is random, the best policy returns the same again.
    assert set(found.returns) == {max(found.late)}


def test_returns_that_are_not_finite_are_a_fault(guess: EnvironmentConfig) -> None:
    actor = learner.init(1, 1, SMALL, key=jax.random.key(0)).actor
    env = freeze("guess", 2.0, guess)
    assert len(sac.rollouts(actor, env, [(0, 0, 0), (0, 0, 1)])) == 2
    broken: MLP = jax.tree.map(lambda leaf: leaf * np.float32(np.nan), actor)
    with pytest.raises(EnvironmentFault, match="nan"):
        sac.rollouts(broken, env, [(0, 0, 0)])


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_it_agrees_with_dynamic_programming() -> None:
    environment = EnvironmentConfig(200, 1, "hanging")
    exact = StoredOracle("pendulum", environment).table([1.0]).entries[0]
    settings = SACOracleSettings(seeds=1)
    found = sac.optimal_return("pendulum-decay", 1.0, environment, settings)
    assert found.value <= exact.value + exact.error
    assert found.value == pytest.approx(exact.value, rel=0.1)
    assert exact.value - found.value <= found.error + exact.error
