"""Limits of actions and states, from the environment to the rows of a run."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import Array

import driftrl
from driftrl.agents.gp_mpc import optimistic_return
from driftrl.agents.model_based import ModelBasedAgent
from driftrl.agents.rollouts import (
    TaskFunctions,
    limit_price,
    limited,
    nearest_within,
    with_price,
)
from driftrl.config.deep import EnsembleAgentConfig
from driftrl.config.limits import LimitsConfig
from driftrl.config.run import EnvironmentConfig
from driftrl.envs.custom import GymPlant
from driftrl.envs.limits import LimitedPlant, with_limits
from driftrl.errors import EpisodeAborted, InputError
from driftrl.memory.episodes import load_episode
from driftrl.models.ensemble import EnsemblePrediction
from driftrl.models.gp import Prediction
from driftrl.training.session import Session

unit = st.floats(-1.0, 1.0)


SMALL = {
    "model": {"hidden": [8], "batch_size": 8},
    "sac": {"hidden": [8], "batch_size": 8},
    "learning": {"learning_starts": 16},
}


class Slide(gymnasium.Env[np.ndarray, np.ndarray]):
    """x' = x + u/10 with u in volts of 0 to 10; the reward is −|x − 1|."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-np.inf, np.inf, (1,))
        self.action_space = spaces.Box(0.0, 10.0, (1,))
        self.commands: list[float] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.day = (options or {}).get("episode", 1)
        self.x, self.left = 0.0, 20
        self.commands = []
        return np.array([self.x]), {}

    def step(
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.commands.append(float(action[0]))
        self.x += float(action[0]) / 10.0
        self.left -= 1
        return np.array([self.x]), -abs(self.x - 1.0), False, self.left == 0, {}


def plant(**limits: Any) -> tuple[Slide, LimitedPlant]:
    env = Slide()
    config = EnvironmentConfig(sim_steps=20, limits=LimitsConfig(**limits))
    made = with_limits(GymPlant(env, config), config.limits)
    assert isinstance(made, LimitedPlant)
    return env, made


@given(st.lists(unit, min_size=1, max_size=20), st.floats(0.01, 1.9))
def test_whatever_is_chosen_no_action_changes_faster(
    choices: list[float], rate: float
) -> None:
    env, made = plant(rate=rate, rest=(-0.5,), low=(-0.75,), high=(0.5,))
    obs, _ = made.reset(seed=1)
    assert obs.tolist() == [0.0, -0.5]
    for choice in choices:
        before = obs
        obs, *_ = made.step(np.array([choice]))
        assert abs(obs[1] - before[1]) <= rate + 1e-15
        assert -0.75 <= obs[1] <= 0.5
        assert env.commands[-1] == pytest.approx(5.0 * (obs[1] + 1.0), abs=1e-5)


def test_the_ends_of_a_choice_are_the_ends_of_what_is_allowed() -> None:
    limits = LimitsConfig(rate=0.25)
    before = np.array([0.5, -0.9])
    assert limits.applied(before, np.array([1.0, -1.0])).tolist() == [0.75, -1.0]
    assert limits.applied(before, np.zeros(2)).tolist() == [0.5, -0.825]
    wanted = np.array([0.6, 0.9])
    chosen = limits.choice(before, wanted)
    assert limits.applied(before, chosen) == pytest.approx([0.6, -0.65])


@pytest.mark.parametrize(
    "wrong",
    [
        {"rate": 0.0},
        {"low": (0.5,), "high": (0.25,)},
        {"high": (1.5,)},
        {"rate": 0.5, "low": (0.25,)},
        {"states": ((0, 1.0, 1.0),)},
        {"price": -1.0},
    ],
)
def test_nonsense_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        LimitsConfig(**wrong)


@pytest.mark.parametrize("wrong", [{"low": (0.0, 0.0)}, {"states": ((1, 0.0, 1.0),)}])
def test_limits_of_what_there_is_not_are_refused(wrong: dict[str, Any]) -> None:
    task = driftrl.custom_task("slide", observations=1, actions=1, steps=5)
    with pytest.raises(InputError):
        driftrl.configure(task, changes={"environment": {"limits": wrong}})


def test_what_is_applied_by_the_machine_is_what_is_observed() -> None:
    env, made = plant(rate=0.5)
    step = env.step
    env.step = lambda action: (*step(action)[:4], {"applied_action": np.array([6.0])})
    made.reset(seed=1)
    obs, *_, info = made.step(np.array([1.0]))
    assert obs[1] == pytest.approx(0.2)
    assert info["applied"] == pytest.approx([0.4])  # of the choices from -0.5 to 0.5


def test_known_functions_get_what_they_are_written_for() -> None:
    limits = LimitsConfig(rate=0.5)
    functions = TaskFunctions(
        reward=lambda obs, action, after: obs[0] + 10 * action[0] + 100 * after[0],
        termination=lambda obs, action, after: after[0] > 2.0,
    )
    made = limited(functions, limits, 1)
    assert made.reward and made.termination and made.next_obs
    obs, action = jnp.array([1.0, 0.25]), jnp.array([1.0])  # so u = 0.75
    after = made.next_obs(obs, action, jnp.array([3.0, jnp.nan]))
    assert after.tolist() == [3.0, 0.75]
    assert float(made.reward(obs, action, after)) == pytest.approx(308.5)
    assert bool(made.termination(obs, action, after))
    assert limited(functions, LimitsConfig(), 1) is functions


def test_the_price_is_of_mu_and_beta_sigma() -> None:
    limits = LimitsConfig(states=((1, -1.0, 2.0),), margin=2.0, price=10.0)
    scale = jnp.array([1.0, 0.5])

    def price(mean: float, std: float) -> float:
        values = (jnp.array([9.0, mean]), jnp.array([9.0, std]), scale)
        return float(limit_price(limits, *values))

    assert price(0.0, 0.5) == 0.0  # ends at the limit
    assert price(2.5, 0.0) == pytest.approx(5.0)  # one usual change outside
    assert price(0.0, 1.5) == pytest.approx(10.0 * 4.0 / 5.0)  # by 2 = 4 changes
    assert price(-3.0, 0.0) == pytest.approx(8.0)


def test_the_ensemble_pays_the_price_with_each_member() -> None:
    limits = LimitsConfig(states=((0, -1.0, 1.0),), margin=1.0, price=2.0)
    made = EnsemblePrediction(
        mean=jnp.array([1.0]),
        reward=jnp.array(5.0),
        epistemic_std=jnp.array([0.6, 9.0]),
        aleatoric_std=jnp.array([0.8, 9.0]),
        scale=jnp.array([1.0, 1.0]),
        member_means=jnp.array([[0.0], [2.0]]),
        member_rewards=jnp.array([4.0, 6.0]),
    )
    reward: Callable[..., Array] = lambda obs, action, after: 10.0 * after[0]
    paid = with_price(limits, None, jnp.zeros(1), jnp.zeros(1), made)
    assert float(paid.reward) == pytest.approx(4.0)  # 1 outside: half of the price
    assert paid.member_rewards.tolist() == pytest.approx([3.0, 5.0])
    known = with_price(limits, reward, jnp.zeros(1), jnp.zeros(1), made)
    assert float(known.reward) == pytest.approx(9.0)
    assert known.member_rewards.tolist() == pytest.approx([-1.0, 19.0])


def test_the_planner_pays_the_price_too() -> None:
    limits = LimitsConfig(states=((0, -1.0, 1.0),), margin=1.0, price=2.0)
    one = jnp.ones(1)
    total = {
        price: float(
            optimistic_return(
                lambda obs, action: Prediction(obs + action, one, 0.0 * one, one),
                lambda obs, action, after: after[0],
                lambda made: jnp.zeros(()),
                jnp.zeros(()),
                jnp.zeros(1),
                jnp.array([[0.5], [0.5]]),
                price,
            )
        )
        for price in (None, limits)
    }
    # μ + σ = 1.5 and 2 are 0.5 and 1 outside: 2·(1/3 + 1/2) = 5/3.
    assert total[None] == pytest.approx(1.5)
    assert total[limits] == pytest.approx(1.5 - 5.0 / 3.0)


def double_integrator(std: float = 0.0) -> Callable[..., EnsemblePrediction]:
    """Return a model of a place and a speed: p' = p + v, v' = v + u."""

    def predict(obs: Array, action: Array) -> EnsemblePrediction:
        mean = jnp.stack([obs[0] + obs[1], obs[1] + action[0]])
        stds, zeros = std * jnp.ones(3), jnp.zeros(3)
        return EnsemblePrediction(
            mean, zeros[0], stds, zeros, zeros + 1.0, mean[None], zeros[:1]
        )

    return predict


@pytest.mark.parametrize(
    ("wanted", "lookahead", "std", "taken"),
    [
        (1.0, 1, 0.0, 1.0),  # p' = 1/2 whatever is done
        (1.0, 2, 0.0, 0.0),  # p'' = 1 + u
        (1.0, 2, 0.125, -0.25),  # p'' + 2σ = 5/4 + u
        (1.0, 4, 0.0, -0.25),  # coasting after u leads to 2 + 3u, holding it to 2 + 6u
        (-0.3, 3, 0.0, -0.3),  # nothing to change
        (0.7, 2, 0.9, -1.0),  # nothing keeps the limits: the least price
    ],
)
def test_the_action_taken_is_the_closest_that_keeps_the_limits(
    wanted: float, lookahead: int, std: float, taken: float
) -> None:
    limits = LimitsConfig(states=((0, -9.0, 1.0),), margin=2.0, lookahead=lookahead)
    mode, obs = lambda obs: jnp.zeros(1), jnp.array([0.0, 0.5])
    predict = double_integrator(std)
    action = nearest_within(limits, predict, mode, obs, jnp.array([wanted]))
    assert float(action[0]) == pytest.approx(taken)


def test_what_is_wanted_stays_where_nothing_is_better() -> None:
    limits = LimitsConfig(states=((1, 0.0, 0.02),), lookahead=1)  # v' + 2σ = u ± 1
    given = (lambda obs: jnp.zeros(1), jnp.zeros(2), jnp.array([0.01]))
    action = nearest_within(limits, double_integrator(0.5), *given)
    assert float(action[0]) == pytest.approx(0.01)


def test_only_the_entry_that_leads_outside_is_changed() -> None:
    limits = LimitsConfig(states=((1, -9.0, 1.0),), lookahead=1)

    def predict(obs: Array, action: Array) -> EnsemblePrediction:
        zeros = jnp.zeros(3)
        mean = obs + action
        return EnsemblePrediction(
            mean, zeros[0], zeros, zeros, zeros + 1.0, mean[None], zeros[:1]
        )

    wanted, obs = jnp.array([0.9, 0.9]), jnp.array([0.5, 0.5])
    action = nearest_within(limits, predict, lambda obs: 0.0 * obs, obs, wanted)
    assert action.tolist() == pytest.approx([0.9, 0.5])


def test_an_agent_guards_what_it_draws_and_its_mode() -> None:
    settings = EnsembleAgentConfig()
    states = ((0, -1e-6, 1e-6),)  # an untrained model is never as sure as that

    def chosen(**limits: Any) -> list[float]:
        agent = ModelBasedAgent(
            (2, 1),
            settings,
            capacity=256,
            steps=10,
            limits=LimitsConfig(states=states, **limits),
        )
        policy = agent.policy(agent.initial_state(key=jax.random.key(0)))
        random, drawn = policy, replace(policy, trained=True)
        key, obs = jax.random.key(1), np.array([0.3, 0.1])
        return [
            float(made.act(obs, None, key=key)[0][0])
            for made in (random, drawn, drawn.deterministic())
        ]

    free = chosen(lookahead=0)
    assert chosen(price=0.0) == free
    random, drawn, mode = chosen()
    assert random == free[0]  # there is no model yet
    for guarded in (drawn, mode):
        assert guarded * 8 == pytest.approx(round(guarded * 8)) or guarded in free
    assert drawn not in free


@pytest.mark.parametrize("gradient", ["critic", "model"])
def test_a_run_keeps_the_rate_knows_it_and_counts_violations(
    tmp_path: Path, gradient: str
) -> None:
    limits = {"rate": 0.5, "rest": [-1.0], "states": [[0, -0.5, 1.5]]}
    agent = {**SMALL, "policy_gradient": gradient}
    settings = {"environment": {"limits": limits}, "agent": agent}
    env = Slide()
    kept = {"episodes": 3, "out": tmp_path, "settings": settings}
    trained = driftrl.train(env, **kept)
    for row in trained.records:
        episode = load_episode(tmp_path / "memory", row.episode)
        outside = (episode.next_obs[:, 0] < -0.5) | (episode.next_obs[:, 0] > 1.5)
        assert row.violations == outside.sum()
        applied = np.append(episode.obs[:1, 1], episode.next_obs[:, 1])
        assert applied[0] == -1.0
        assert np.abs(np.diff(applied)).max() <= 0.5 + 1e-6
    assert sum(row.violations or 0 for row in trained.records) > 0
    # The model is judged by what it has to learn: not by the action before.
    error = trained.records[-1].model_error
    assert error is not None and np.isfinite(error)
    command = trained.act(np.array([0.0]), np.array([8.0]))
    assert 5.5 - 1e-9 <= command[0] <= 10.0
    assert 0.0 <= trained.act(np.array([0.0]))[0] <= 2.5 + 1e-9  # from rest
    (only,) = {len(load_episode(tmp_path / "memory", n).obs) for n in (1, 2, 3)}
    frame = driftrl.load(tmp_path)
    assert only == 20
    assert frame["violations"].to_list() == [r.violations for r in trained.records]


def test_a_resumed_run_looks_ahead_like_an_uninterrupted_one(tmp_path: Path) -> None:
    def third(name: str, stops: list[int], **limits: Any) -> list[float]:
        environment = {"limits": {"states": [[0, -0.5, 0.5]], **limits}}
        settings = {"environment": environment, "agent": SMALL}
        for episodes in stops:
            out = tmp_path / name
            driftrl.train(Slide(), episodes=episodes, out=out, settings=settings)
        return load_episode(tmp_path / name / "memory", 3).actions.ravel().tolist()

    whole = third("whole", [3])
    assert third("parts", [2, 3]) == whole
    assert third("blind", [3], lookahead=0) != whole


def test_a_gaussian_process_plans_within_the_rate(tmp_path: Path) -> None:
    reward = lambda obs, action, after: -jnp.abs(after[0] - 1.0)
    planner = {"horizon": 5, "samples": 16, "iterations": 2, "elites": 4}
    settings = {
        "environment": {"limits": {"rate": 0.25, "rest": [-1.0]}},
        "agent": {"kind": "gp", "planner": planner},
    }
    trained = driftrl.train(
        Slide(),
        episodes=2,
        out=tmp_path,
        functions=TaskFunctions(reward=reward),
        settings=settings,
    )
    episode = load_episode(tmp_path / "memory", 2)
    assert np.abs(np.diff(episode.next_obs[:, 1])).max() <= 0.25 + 1e-12
    # It goes to 1 and stays: it sees where the action before takes it.
    assert abs(episode.next_obs[-1, 0] - 1.0) < 0.2
    assert trained.records[1].violations is None


def test_leaving_a_limit_may_end_the_episode(tmp_path: Path) -> None:
    _, made = plant(states=((0, -1.0, 0.5),), penalty=7.0)
    made.reset(seed=1)
    obs, reward, terminated, truncated, _ = made.step(np.array([1.0]))
    assert (obs.tolist(), terminated, truncated) == ([1.0], True, False)
    assert reward == pytest.approx(-7.0)


def test_a_robot_that_stops_at_its_bounds_ends_the_episode_if_asked() -> None:
    env, made = plant(states=((0, -9.0, 9.0),), penalty=7.0)

    def stop(action: np.ndarray) -> Any:
        stopped = EpisodeAborted("stopped")
        stopped.end = (np.array([3.0]), -2.0)
        raise stopped

    env.step = stop
    made.reset(seed=1)
    obs, reward, terminated, *_ = made.step(np.zeros(1))
    assert (obs.tolist(), reward, terminated) == ([3.0], -9.0, True)
    other, plain = plant(states=((0, -9.0, 9.0),))
    other.step = stop
    plain.reset(seed=1)
    with pytest.raises(EpisodeAborted):
        plain.step(np.zeros(1))


def test_an_attempt_after_a_bound_differs_and_others_do_not(tmp_path: Path) -> None:
    task = driftrl.custom_task("slide", observations=1, actions=1, steps=5)
    agent = {"kind": "sac", **{k: v for k, v in SMALL.items() if k != "model"}}
    session = Session(driftrl.configure(task, changes={"agent": agent}), tmp_path)

    def action(vary: bool) -> float:
        session.begin_episode()
        chosen = float(session.act(np.zeros(1))[0])
        session.abort_episode(vary=vary)
        return chosen

    first = action(vary=False)
    assert action(vary=True) == first  # a sensor had failed: nothing noticed
    attempts = {action(vary=True) for _ in range(18)}
    assert len(attempts) > 10 and first not in attempts
    session.begin_episode()
    session.act(np.zeros(1))
    session.observe(np.zeros(1), 0.0, truncated=True)
    session.end_episode()
    session.learn()
    assert session._varied == 0
    session.close()


def test_a_log_is_seen_as_the_learner_sees_it() -> None:
    limits = LimitsConfig(rate=0.5, rest=(-1.0,))
    rows, chosen = limits.observed(np.zeros((3, 2)), np.array([[-0.75], [0.25]]))
    assert rows[:, 2].tolist() == [-1.0, -0.75, 0.25]
    assert chosen.ravel() == pytest.approx([0.0, 1.0])  # faster than it may be
