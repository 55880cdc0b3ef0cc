"""A start from a controller: how far the learned policy may go, and when."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import pytest
from tests.test_limits import SMALL, Slide

import driftrl
from driftrl.agents.base import LearnContext, ModelMetrics
from driftrl.agents.guided import FREE, GuidedAgent, GuidedState
from driftrl.agents.model_based import ModelBasedAgent
from driftrl.config.limits import InitialConfig
from driftrl.errors import EnvironmentFault, InputError
from driftrl.memory.episodes import load_episode
from driftrl.memory.forgetting import Decision
from driftrl.training.assembly import make_agent
from driftrl.training.checkpoint import load_checkpoint, save_checkpoint
from driftrl.training.session import Session
from driftrl.types import Data

KEY = jax.random.key(0)


class Known(ModelBasedAgent):
    """Knows x' = x + u/2 and that −x² is earned, in two members that may differ.

    Its policy wants ``mode``·x, and explores ``noise`` above it.
    """

    precision, members = np.float64, 2

    def __init__(self, mode: float = -2.0, noise: float = 0.0) -> None:
        self.mode, self.noise, self.doubt = mode, noise, 0.0

    def initial_state(self, *, key: Any) -> Any:
        return 0.0

    def learn(self, state: Any, data: Data, context: Any, *, key: Any) -> Any:
        return state + 1.0

    def warm_up(self, points: int, steps: int) -> None:
        return

    def policy(self, state: Any) -> Any:
        return KnownPolicy(self.mode, self.noise)

    def step_members(
        self, state: Any, obs: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        after = obs + 0.5 * actions
        after[len(obs) // 2 :] += self.doubt * np.abs(actions[len(obs) // 2 :])
        return after, -(after[:, 0] ** 2), np.zeros(len(obs), bool)


class KnownPolicy:
    weight, metrics, trained = 0.0, {}, True

    def __init__(self, mode: float, noise: float) -> None:
        self.mode, self.noise = mode, noise

    def begin(self) -> None:
        return None

    def act(self, obs: np.ndarray, carry: None, *, key: Any) -> tuple[np.ndarray, None]:
        return np.clip(self.mode * obs + self.noise, -1.0, 1.0), None

    def modes(self, obs: np.ndarray) -> np.ndarray:
        return self.mode * obs

    def deterministic(self) -> "KnownPolicy":
        return KnownPolicy(self.mode, 0.0)

    def model_metrics(self, episode: Any, scale: float = 1.0) -> ModelMetrics:
        return ModelMetrics()


def weak(obs: np.ndarray) -> np.ndarray:
    return -0.4 * obs


def guided(agent: Known, **settings: Any) -> GuidedAgent:
    settings = {"controller": "somewhere", "episodes": 0, **settings}
    return GuidedAgent(agent, weak, InitialConfig(**settings))


def episode(gain: float = -0.4, start: float = 0.8, extra: float = 0.0) -> Data:
    """Return five steps of a gain, each worth ``extra`` less than it should be."""
    x = [start]
    for _ in range(5):
        x.append(x[-1] + 0.5 * gain * x[-1])
    rows = np.array(x)[:, None]
    rewards = -(rows[1:, 0] ** 2) - extra
    return Data(rows[:-1], gain * rows[:-1], rewards, rows[1:], np.zeros(5, bool))


def after(agent: GuidedAgent, state: GuidedState, data: Data, **context: Any) -> Any:
    given = {"episode": state.episode + 1, "steps": 5, "collected": 5, **context}
    return agent.learn(state, data, LearnContext(**given), key=KEY)


def test_the_reach_doubles_until_the_controller_has_no_say() -> None:
    agent = guided(Known())
    state, reaches = GuidedState(0.0), []
    for _ in range(7):
        state = after(agent, state, episode())
        reaches.append(state.reach)
    assert reaches[:4] == [0.1, 0.2, 0.4, 0.8]
    # Beyond 0.8 nothing changes: the policy is within 1.28 of the controller.
    assert max(reaches) <= FREE
    assert (state.learned, state.episode) == (7.0, 8)


def test_a_policy_that_is_no_better_never_leads() -> None:
    agent, state = guided(Known(mode=-0.3)), GuidedState(0.0)
    for _ in range(3):
        state = after(agent, state, episode())
        assert state.reach == 0.0


def test_every_member_must_agree() -> None:
    known = Known()
    known.doubt = 1.0  # in the second member it gets worse the more it does
    assert after(guided(known), GuidedState(0.0), episode()).reach == 0.0


def test_a_margin_is_asked_for_in_proportion_to_the_reach() -> None:
    data, state = episode(), GuidedState(0.0)
    # A reach of 0.1 gains 0.35 on a return of −1.02, of which 1/20 is asked for.
    assert after(guided(Known(), margin=4.0), state, data).reach == 0.1
    assert after(guided(Known(), margin=8.0), state, data).reach == 0.0


def test_predictions_that_were_wrong_raise_the_margin() -> None:
    agent = guided(Known())
    state = after(agent, GuidedState(0.0), episode(extra=4.0))
    assert state.error == pytest.approx(10.0)  # half of 5·4
    assert state.reach == 0.0
    state = after(agent, state, episode())
    assert (state.error, state.reach) == (pytest.approx(5.0), 0.1)


@pytest.mark.parametrize(
    ("context", "data"),
    [
        ({"degraded": True}, episode()),
        ({}, episode(gain=0.5)),  # worse than all that the controller drove
    ],
)
def test_the_controller_takes_over_again(context: Any, data: Data) -> None:
    agent, state = guided(Known()), GuidedState(0.0)
    for _ in range(3):
        state = after(agent, state, episode())
    assert state.reach == 0.4
    assert after(agent, state, data, **context).reach == 0.0


def test_the_first_episodes_are_the_controllers_alone() -> None:
    agent, obs = guided(Known(noise=0.05), episodes=2), np.array([0.5])
    state = GuidedState(0.0)
    acted = []
    for _ in range(3):
        policy = agent.policy(state)
        acted.append(float(policy.act(obs, None, key=KEY)[0][0]))
        state = after(agent, state, episode())
    assert acted[:2] == [-0.2, -0.2]
    assert acted[2] == pytest.approx(-0.3 + 0.05)


def test_actions_stay_within_the_reach_and_the_exploration() -> None:
    agent, obs = guided(Known(noise=0.5)), np.array([0.5])
    policy = agent.policy(GuidedState(0.0, reach=0.3))
    # The mode −1 is cut to −0.2 − 0.3, and the noise 0.5 to 0.1.
    assert policy.act(obs, None, key=KEY)[0] == pytest.approx([-0.4])
    assert policy.deterministic().act(obs, None, key=KEY)[0] == pytest.approx([-0.5])
    assert policy.metrics == {"reach": 0.3}
    free = replace(policy, reach=FREE).deterministic()
    assert free.act(obs, None, key=KEY)[0] == pytest.approx([-1.0])


def volts(obs: np.ndarray) -> float:
    return float(5.0 - 4.0 * (obs[0] - 1.0))


def nothing(obs: np.ndarray) -> float:
    return float("nan")


def two(obs: np.ndarray) -> list[float]:
    return [1.0, 2.0]


SETTINGS = {
    "agent": {**SMALL, "policy_gradient": "model"},
    "initial": {"controller": volts, "episodes": 1},
    "environment": {"limits": {"rate": 0.5}},
}


def test_a_run_starts_from_a_controller_and_goes_on(tmp_path: Path) -> None:
    for episodes in (1, 2):
        kept = {"episodes": episodes, "out": tmp_path, "settings": SETTINGS}
        trained = driftrl.train(Slide(), **kept)
    assert [row.reach for row in trained.records] == [0.0, 0.0]
    first = load_episode(tmp_path / "memory", 1)
    x, before = first.obs[:, 0], first.obs[:, 1]
    wanted = np.clip(-0.8 * (x - 1.0), before - 0.5, before + 0.5)
    assert first.next_obs[:, 1] == pytest.approx(np.clip(wanted, -1, 1), abs=1e-5)
    second = load_episode(tmp_path / "memory", 2)
    explored = second.actions[:, 0] - first.actions[:, 0]
    assert np.abs(explored[0]) <= 0.1 + 1e-6


def test_the_reach_is_in_the_checkpoint(tmp_path: Path) -> None:
    state = GuidedState(1.5, 4, 0.2, 0.3, -2.0)
    save_checkpoint(tmp_path, 3, state, Decision(1))
    read, _ = load_checkpoint(tmp_path, 3, GuidedState(0.0))
    assert read == state


@pytest.mark.parametrize(
    ("controller", "error"), [(nothing, EnvironmentFault), (two, InputError)]
)
def test_what_a_controller_must_return(controller: Any, error: Any) -> None:
    task = driftrl.custom_task("slide", observations=1, actions=1, steps=5)
    changes = {"initial": {"controller": controller, "episodes": 1}}
    agent = make_agent(driftrl.configure(task, changes=changes))
    policy = agent.policy(agent.initial_state(key=KEY))
    with pytest.raises(error):
        policy.act(np.zeros(1), policy.begin(), key=KEY)


def test_a_learner_without_a_model_is_refused() -> None:
    task = driftrl.custom_task("slide", observations=1, actions=1, steps=5)
    changes = {"initial": {"controller": volts}, "agent": {"kind": "sac"}}
    with pytest.raises(InputError):
        make_agent(driftrl.configure(task, changes=changes))


@pytest.mark.parametrize("works", [True, False])
def test_health_takes_the_policy_back(works: bool) -> None:
    task = driftrl.custom_task("slide", observations=1, actions=1, steps=5)
    for changes, asked in ((SETTINGS, True), ({}, False)):
        config = driftrl.configure(task, changes=changes)
        health = lambda: SimpleNamespace(works=works)
        session: Any = SimpleNamespace(config=config, health=health)
        assert Session._degraded(session) == (asked and not works)
