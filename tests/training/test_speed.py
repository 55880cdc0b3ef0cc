"""The products of an update, counted by hand, and what runs have taken."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftrl.config.deep import (
    DeepOptimismConfig,
    EnsembleAgentConfig,
    EnsembleConfig,
    ImaginationConfig,
    LearningConfig,
    SACConfig,
)
from driftrl.config.task import REFERENCE_RATE
from driftrl.config.toml import read_toml
from driftrl.envs.tasks import configure
from driftrl.memory.episodes import save_episode
from driftrl.presets.tasks import TASKS
from driftrl.training.speed import expected_bytes, expected_minutes, update_flops
from driftrl.training.study import find_study
from driftrl.types import Episode

CONFIG = EnsembleAgentConfig(
    policy_gradient="critic",
    model=EnsembleConfig(members=2, hidden=(5,)),
    imagination=ImaginationConfig(),
    optimism=DeepOptimismConfig(),
    sac=SACConfig(hidden=(4, 4), batch_size=3),
    learning=LearningConfig(model_updates=1, policy_updates=2, learning_starts=3),
)


def test_flops_of_an_update_by_hand() -> None:
    # Networks of 4·5 + 5·4, 3·4 + 4·4 + 4·2 and 4·4 + 4·4 + 4·1 weights; each is in a
    # multiplication and an addition for 3 rows, of 2 members, 1 actor and 2 critics.
    model, actor, critics = (2 * 3 * n for n in (2 * 40, 36, 2 * 36))
    # Backwards each weight is in two products more, but the first layer's in one.
    model_step = 3 * model - 2 * 3 * 2 * 20
    actor_step, critic_step = 3 * actor - 2 * 3 * 12, 3 * critics - 2 * 3 * 2 * 16
    # K = 2 imagined steps and the collected one; two updates of the policy, each with
    # actions for the targets, the targets, and the slope of the critics by actions.
    policy = 2 * (actor + critics + critic_step + 2 * critics + actor_step)
    expected = model_step + 3 * model + 2 * actor + policy
    assert update_flops(CONFIG, (3, 1)) == expected
    tuned = replace(CONFIG, optimism=DeepOptimismConfig(rule="tuned"))
    assert update_flops(tuned, (3, 1)) == expected + model + actor
    residual = replace(CONFIG, sac=replace(CONFIG.sac, critic="residual"))
    # 16 weights more, in 1 + 3 + 2 products of both critics and both updates.
    more = 2 * 6 * 2 * 3 * 2 * 16
    assert update_flops(residual, (3, 1)) == expected + more


def test_flops_of_an_update_through_the_model_by_hand() -> None:
    model = replace(CONFIG.model, batch_size=7, steps=3)
    critics = replace(CONFIG.sac, critics=3)
    config = replace(CONFIG, policy_gradient="model", model=model, sac=critics)
    # Two rows of three: as many for each of two members.
    model, actor, critics = (2 * 2 * n for n in (2 * 40, 36, 3 * 36))
    model_steps = 3 * (3 * 40 - 20) * 2 * 7 * 2
    critic_step = 3 * critics - 2 * 2 * 3 * 16
    # K = 2: three actions, whose slopes go back to the state, two predictions, and the
    # critics at the end, backwards to their inputs alone; then targets and regression.
    policy = 3 * 3 * actor + 2 * 2 * model + 2 * critics + critics + critic_step
    assert update_flops(config, (3, 1)) == model_steps + 2 * policy
    # Without a bonus, one member predicts a row.
    alone = replace(
        config,
        optimism=DeepOptimismConfig(weight=0.0),
        imagination=ImaginationConfig(dynamics="member"),
    )
    less = 2 * 2 * 2 * model / 2
    assert update_flops(alone, (3, 1)) == model_steps + 2 * policy - less


@pytest.mark.parametrize("task", TASKS)
def test_a_task_takes_its_own_time(task: str) -> None:
    config = configure(task, "sombrl")
    expected = TASKS[task].minutes
    assert expected_minutes(config, REFERENCE_RATE) == pytest.approx(expected)
    assert expected_minutes(config, 2 * REFERENCE_RATE) == pytest.approx(expected / 2)


def test_episodes_and_updates_count_in_full() -> None:
    config = configure("pendulum-decay", "sombrl")
    usual = expected_minutes(config, REFERENCE_RATE)
    longer = replace(config, episodes=3 * config.episodes)
    assert expected_minutes(longer, REFERENCE_RATE) == pytest.approx(3 * usual)
    changes = {"agent": {"learning": {"model_updates": 8}}}
    busier = configure("pendulum-decay", "sombrl", changes)
    assert expected_minutes(busier, REFERENCE_RATE) == pytest.approx(4 * usual)


@pytest.mark.parametrize(
    ("study", "preset", "task", "minutes"),
    [
        # Quickest of the recorded runs: docs/records, on a core of 1.03 × the rate.
        ("mujoco_decay_rates", "laptop", "halfcheetah", 5.76),
        ("rccar_parking", "", "rccar", 3.75),
        ("pendulum_decay_rates", "laptop", "pendulum-decay", 1.39),
        # "About an hour": docs/deep_pendulum.md.
        ("pendulum_decay_rates", "paper", "pendulum-decay", 60.0),
    ],
)
def test_other_settings_take_what_was_measured(
    study: str, preset: str, task: str, minutes: float
) -> None:
    table = read_toml(find_study(study))
    settings = table.get("presets", {}).get(preset, {})
    run = configure(task, "sombrl", settings)
    ratio = expected_minutes(run, 1.03 * REFERENCE_RATE) / minutes
    assert 1 / 1.5 < ratio < 1.5


@pytest.mark.parametrize(
    ("task", "number"), [("pendulum", np.float64), ("pendulum-decay", np.float32)]
)
def test_episodes_lie_on_the_disk_as_expected(
    tmp_path: Path, task: str, number: type
) -> None:
    config = configure(task, "sombrl", {"episodes": 1})
    steps = config.environment.steps
    columns = {"obs": 3, "actions": 1, "next_obs": 3}
    arrays = {name: np.zeros((steps, size)) for name, size in columns.items()}
    episode = Episode(**arrays, rewards=np.zeros(steps), terminated=False)
    save_episode(tmp_path, 1, episode, number)
    (file,) = tmp_path.iterdir()
    assert expected_bytes(config) == pytest.approx(file.stat().st_size + 650, rel=0.05)
