"""Runs: what is recorded, that it repeats, and that it resumes exactly."""

import dataclasses
import itertools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden
from driftrl.drift.schedules import Step
from driftrl.envs.drifting import DriftingEnv, freeze, known_reward, make_env
from driftrl.envs.tasks import task_named
from driftrl.errors import EnvironmentFault, InputError
from driftrl.memory.episodes import load_episode
from driftrl.memory.forgetting import ForgettingRule, Window
from driftrl.training import loop
from driftrl.training.assembly import check_run
from driftrl.training.streams import Purpose, integer_for, key_for
from factories import Chaotic, Stop, compilations, ignore, rows_of, stop_after


def run(config: RunConfig, directory: Path, *, resume: bool = False) -> list[dict]:
    loop.run(config, directory, resume=resume, on_episode=ignore, warn=ignore)
    return rows_of(directory)


def test_rows_say_what_happened(tiny: RunConfig, tmp_path: Path) -> None:
    rows = run(tiny, tmp_path)
    assert [row["episode"] for row in rows] == [1, 2, 3, 4, 5]
    # θ_n = exp(−max(0, n−2))·(2−1) + 1: the paper's decay from episode 2 on.
    expected = [2.0, 2.0, 1 + np.exp(-1), 1 + np.exp(-2), 1 + np.exp(-3)]
    np.testing.assert_allclose([row["theta"] for row in rows], expected, rtol=1e-15)
    # A window of two episodes of 40/5 = 8 decisions.
    assert [row["first_retained"] for row in rows] == [1, 1, 1, 2, 3]
    assert [row["transitions"] for row in rows] == [0, 8, 16, 16, 16]
    assert [row["steps"] for row in rows] == [8] * 5
    assert [row["optimism"] for row in rows] == [1.0] * 5
    assert rows[0]["model_error"] is None and rows[0]["coverage"] is None
    for row in rows[1:]:
        assert row["model_error"] > 0 and 0 <= row["coverage"] <= 1
    for row in rows:
        stored = load_episode(tmp_path / "memory", row["episode"])
        assert row["return_executed"] == stored.rewards.sum()
        assert row["return_eval"] is None


def test_stored_transitions_follow_the_dynamics_of_their_own_theta(
    tiny: RunConfig, tmp_path: Path
) -> None:
    """Fails if θ is shifted by one episode anywhere between schedule and simulator."""
    config = overridden(tiny, {"environment": {"noise_std": 0.0}})
    for row in run(config, tmp_path):
        episode = load_episode(tmp_path / "memory", row["episode"])
        env = freeze("pendulum", row["theta"], config.environment)
        obs, info = env.reset(seed=0)
        assert info["theta"] == row["theta"]
        for step in range(len(episode)):
            np.testing.assert_array_equal(obs, episode.obs[step])
            obs, reward, *_ = env.step(episode.actions[step])
            assert reward == episode.rewards[step]
            np.testing.assert_array_equal(obs, episode.next_obs[step])


def test_theta_within_an_episode_is_recorded(tiny: RunConfig, tmp_path: Path) -> None:
    drift = {"kind": "linear", "start": 4, "duration": 30}
    changes = {"drift": drift, "clock": "steps", "drift_every": 3}
    config = overridden(tiny, changes)
    whole = run(config, tmp_path / "whole")
    for row in whole:
        clock = 8 * (row["episode"] - 1)
        ticks = [t - t % 3 for t in range(clock, clock + 8)]
        episode = load_episode(tmp_path / "whole" / "memory", row["episode"])
        np.testing.assert_array_equal(episode.thetas, [config.drift(t) for t in ticks])
        assert row["theta"] == np.mean([config.drift(t) for t in ticks])
    with pytest.raises(Stop):
        loop.run(config, tmp_path / "parts", on_episode=stop_after(2), warn=ignore)
    assert run(config, tmp_path / "parts", resume=True) == whole
    with pytest.raises(InputError, match="'steps'"):
        overridden(tiny, {"drift_every": 3})


def test_evaluation_changes_nothing_in_training(
    tiny: RunConfig, tmp_path: Path
) -> None:
    plain = run(tiny, tmp_path / "a")
    judged = run(overridden(tiny, {"evaluation": {"episodes": 2}}), tmp_path / "b")
    assert all(row["return_eval"] is not None for row in judged)
    assert [{**row, "return_eval": None} for row in judged] == plain


def test_evaluation_of_a_deterministic_system_with_one_plan_equals_a_rollout(
    tiny: RunConfig, tmp_path: Path
) -> None:
    """π_n is evaluated at θ_n, not at θ_{n+1} or after learning from episode n."""
    config = overridden(
        tiny, {"environment": {"noise_std": 0.0}, "evaluation": {"episodes": 1}}
    )
    config = overridden(
        config, {"agent": {"planner": {"samples": 400, "iterations": 6}}}
    )
    rows = run(config, tmp_path)
    for row in rows[1:]:
        # So many samples that executed and evaluated plans are nearly the same.
        assert row["return_eval"] == pytest.approx(row["return_executed"], rel=0.1)


@pytest.mark.parametrize("rule", [Window(2), Chaotic(3)])
def test_resumed_equals_uninterrupted(
    tiny: RunConfig, tmp_path: Path, rule: ForgettingRule
) -> None:
    """Episode 3 of this run keeps the stored hyperparameters, bit for bit."""
    config = dataclasses.replace(tiny, forgetting=rule)
    whole = run(config, tmp_path / "whole")
    for last in (1, 2, 3):
        with pytest.raises(Stop):
            loop.run(
                config,
                tmp_path / "parts",
                resume=last > 1,
                on_episode=stop_after(last),
                warn=ignore,
            )
        assert len(rows_of(tmp_path / "parts")) == last
    assert run(config, tmp_path / "parts", resume=True) == whole


def test_a_run_may_become_longer(tiny: RunConfig, tmp_path: Path) -> None:
    whole = run(tiny, tmp_path / "whole")
    run(dataclasses.replace(tiny, episodes=2), tmp_path / "parts")
    assert run(tiny, tmp_path / "parts", resume=True) == whole


def test_a_refused_run_leaves_nothing(tiny: RunConfig, tmp_path: Path) -> None:
    unknown = overridden(tiny, {"environment": {"parameter": "gear"}})
    falling = dataclasses.replace(tiny, drift=Step(theta_min=-1.0, start=4))
    for refused in (unknown, falling):
        with pytest.raises(InputError, match="The pendulum"):
            run(refused, tmp_path / "r")
        with pytest.raises(InputError, match="The pendulum"):
            check_run(refused)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("bad", ["observation", "reward"])
def test_nan_names_episode_and_step_and_keeps_what_was_recorded(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str
) -> None:
    honest = DriftingEnv.step
    count = 0

    def step(self: DriftingEnv, action: np.ndarray) -> tuple:
        nonlocal count
        count += 1
        obs, reward, terminated, truncated, info = honest(self, action)
        if count == 8 + 4:
            obs = np.full_like(obs, np.nan) if bad == "observation" else obs
            reward = reward if bad == "observation" else float("inf")
        return obs, reward, terminated, truncated, info

    whole = run(tiny, tmp_path / "whole")
    monkeypatch.setattr(DriftingEnv, "step", step)
    with pytest.raises(EnvironmentFault, match=f"{bad}.*episode 2, θ.*, step 3"):
        run(tiny, tmp_path / "parts")
    assert rows_of(tmp_path / "parts") == whole[:1]
    monkeypatch.undo()
    assert run(tiny, tmp_path / "parts", resume=True) == whole


def test_nothing_compiles_after_the_third_episode(
    tiny: RunConfig, tmp_path: Path
) -> None:
    settings = {
        "forgetting": {"kind": "keep_all"},
        "episodes": 20,
        "agent": {"planner": {"samples": 17}},  # compiled by no other test
    }
    with compilations() as (compiled, count):
        loop.run(overridden(tiny, settings), tmp_path, on_episode=count, warn=ignore)
    assert 0 in compiled and max(compiled) < 3
    # The data did outgrow a padded size meanwhile: 20 × 8 = 160 > 128 points.
    assert rows_of(tmp_path)[-1]["transitions"] == 152


def test_known_reward_sums_to_nearly_the_simulators_return(tiny: RunConfig) -> None:
    """The learner's reward interpolates between decisions; the simulator does not."""
    settings = overridden(tiny, {"environment": {"noise_std": 0.0}}).environment
    reward = known_reward(task_named("pendulum"), settings)
    assert reward is not None
    env = make_env("pendulum", settings)
    rng = np.random.default_rng(0)
    told, earned = 0.0, 0.0
    obs, _ = env.reset(seed=0)
    for _ in range(settings.steps):
        action = rng.uniform(-1, 1, 1)
        after, received, *_ = env.step(action)
        row = (jnp.asarray(part, jnp.float32) for part in (obs, action, after))
        told, earned = told + float(reward(*row)), earned + received
        obs = after
    assert told == pytest.approx(earned, rel=0.03)


def test_theory_weight_depends_on_the_data(tiny: RunConfig, tmp_path: Path) -> None:
    agent = {"optimism": {"rule": "theory"}, "model": {"learn_noise": False}}
    weights = {}
    for window in (1, 3):
        rule = {"kind": "window", "window": window}
        settings = {"agent": agent, "forgetting": rule, "episodes": 3}
        rows = run(overridden(tiny, settings), tmp_path / str(window))
        weights[window] = rows[2]["optimism"]
    # β ≥ B = 1, so λ = R_max·T·β/σ ≥ 1·8/0.01; more data have more information.
    assert weights[3] > weights[1] > 800.0


def test_streams_differ_by_seed_purpose_and_place() -> None:
    first, *others = (
        jax.random.key_data(key_for(seed, purpose, n, t)).tolist()
        for seed, purpose, n, t in (
            (0, Purpose.ACTING, 1, 0),
            (1, Purpose.ACTING, 1, 0),
            (0, Purpose.EVALUATION, 1, 0),
            (0, Purpose.ACTING, 2, 0),
            (0, Purpose.ACTING, 1, 1),
        )
    )
    assert first not in others
    places = itertools.product(range(3), Purpose, range(50))
    assert len({integer_for(*place) for place in places}) == 3 * 4 * 50
