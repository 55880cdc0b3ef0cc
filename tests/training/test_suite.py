"""Every task of the MuJoCo suite is trained for two short episodes, and resumes."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftrl.config.run import ExtraDrift, RunConfig
from driftrl.config.task import Task
from driftrl.config.toml import overridden
from driftrl.drift.schedules import Linear
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.presets.tasks import MUJOCO_TASKS, TASKS
from driftrl.training import loop
from factories import Stop, rows_of, stop_after

# What takes time here is compiling, for every task anew: a few stand for the others,
# which are among the slow tests.
QUICK = {("hopper", "sac"), ("humanoid", "sw-ombrl")}
EVERY = [
    pytest.param(
        task,
        method,
        id=f"{task.name}-{method}",
        marks=() if (task.name, method) in QUICK else pytest.mark.slow,
    )
    for task in MUJOCO_TASKS
    for method in ("sac", "sw-ombrl")
]
SMALL = {
    "episodes": 2,
    "environment": {"sim_steps": 20},
    "agent": {
        "model": {"hidden": [8], "members": 2},
        "sac": {"hidden": [8, 8], "batch_size": 4},
        "learning": {"model_updates": 1, "policy_updates": 1, "learning_starts": 4},
    },
}


def short(task: Task, method: str = "sac", **changes: object) -> RunConfig:
    return overridden(configure(task.name, method, SMALL), changes)


@pytest.mark.parametrize(("task", "method"), EVERY)
def test_two_episodes_and_the_second_one_resumed(
    task: Task, method: str, tmp_path: Path
) -> None:
    whole = short(task, method)
    loop.run(whole, tmp_path / "whole")
    rows = rows_of(tmp_path / "whole")
    assert [row["episode"] for row in rows] == [1, 2]
    assert all(np.isfinite(row["return_eval"]) for row in rows)
    assert rows[1]["critic_loss"] is not None and rows[1]["theta"] == 1.0
    assert (rows[1]["model_loss"] is None) == (method == "sac")
    stopped = tmp_path / "stopped"
    with pytest.raises(Stop):
        loop.run(whole, stopped, on_episode=stop_after(1))
    assert len(rows_of(stopped)) == 1
    loop.run(whole, stopped, resume=True)
    assert rows_of(stopped) == rows


def test_an_end_is_known_in_imagination_where_episodes_end() -> None:
    config = configure("humanoid", "sombrl")
    assert config.environment.terminates
    assert config.agent.imagination.termination == "known"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(InputError, match="imagined rollouts must end too"):
        configure("hopper", "sombrl", {"environment": {"terminates": True}})
    with pytest.raises(InputError, match="terminates"):
        configure("halfcheetah", "sombrl", {"environment": {"terminates": True}})


def test_short_episodes_count_as_episodes_and_their_decisions_as_clock(
    tmp_path: Path,
) -> None:
    """A humanoid that falls at once: the clock is the number of decisions so far."""
    config = short(
        TASKS["humanoid"],
        episodes=3,
        environment={"sim_steps": 100},
        drift={"kind": "linear", "theta_max": 1.0, "theta_min": 0.0, "start": 0}
        | {"duration": 100},
    )
    loop.run(config, tmp_path)
    rows = rows_of(tmp_path)
    assert rows[0]["terminated"] and rows[0]["steps"] < 50
    taken = np.cumsum([0] + [row["steps"] for row in rows[:-1]])
    expected = np.maximum(1.0 - taken / 100, 0.0)
    np.testing.assert_allclose([row["theta"] for row in rows], expected, atol=1e-12)


def test_two_parameters_drift_in_a_run_and_survive_a_resume(tmp_path: Path) -> None:
    further = ExtraDrift("friction", Linear(1.0, 0.5, start=0, duration=2))
    config = replace(short(TASKS["hopper"]), extra_drifts=(further,))
    loop.run(config, tmp_path / "both")
    loop.run(replace(config, extra_drifts=()), tmp_path / "one")
    both, one = rows_of(tmp_path / "both"), rows_of(tmp_path / "one")
    assert both[1]["return_executed"] != one[1]["return_executed"]
    loop.run(config, tmp_path / "both", resume=True)
    assert rows_of(tmp_path / "both") == both
