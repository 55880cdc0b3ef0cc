"""What a run is expected to take, beside what runs have taken."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from driftrl.config.task import REFERENCE_RATE
from driftrl.config.toml import read_toml
from driftrl.envs.tasks import configure
from driftrl.memory.episodes import save_episode
from driftrl.oracles.table import StoredOracle
from driftrl.presets.tasks import TASKS
from driftrl.training.speed import expected_bytes, expected_minutes
from driftrl.training.study import find_study
from driftrl.types import Episode


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


def test_an_oracle_takes_what_was_measured() -> None:
    """A J*(θ) of the cheetah took 1.54 minutes of a core of 2.08 × the rate."""
    oracle = StoredOracle("halfcheetah", TASKS["halfcheetah"].environment)
    one = oracle.expected_minutes(1, 2.08 * REFERENCE_RATE)
    assert 1 / 1.5 < one / 1.54 < 1.5
    more = oracle.expected_minutes(5, REFERENCE_RATE)
    assert more == pytest.approx(5 * 2.08 * one)
    # 3 × 12,000 × 5 updates instead of 60,000, of products of a seventh the size.
    small = TASKS["pendulum-decay"].environment
    by_sac = StoredOracle("pendulum-decay", small, by="sac")
    weights = lambda sizes: sum(a * b for a, b in pairwise(sizes))
    products = [
        4 * weights([s, h, h, 2 * a]) + 12 * weights([s + a, h, h, 1])
        for s, a, h in ((3, 1, 64), (17, 6, 128))
    ]
    expected = 3 * one * (products[0] / products[1]) ** 0.8
    found = by_sac.expected_minutes(1, 2.08 * REFERENCE_RATE)
    assert found == pytest.approx(expected)


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
