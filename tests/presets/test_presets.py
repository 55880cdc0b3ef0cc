"""The tables of tasks and methods: complete rows that import nothing slow."""

import subprocess
import sys

import pytest

from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.presets.tasks import TASKS


@pytest.mark.parametrize("name", TASKS)
def test_rows_of_tasks(name: str) -> None:
    task = TASKS[name]
    assert task.name == name and task.environment.start in task.starts
    assert task.drift(1) == task.nominal
    assert task.minutes > 0 and task.summary.endswith(".")


def test_methods_change_the_agent_last() -> None:
    task, weight = TASKS["pendulum-decay"], {"agent": {"optimism": {"weight": 3.0}}}
    mean, pets = (configure(task, name, weight).agent for name in ("mean", "pets"))
    assert isinstance(mean, EnsembleAgentConfig)
    assert isinstance(pets, EnsembleAgentConfig)
    assert mean.optimism.weight == pets.optimism.weight == 0.0
    assert pets.imagination.dynamics == "member" != mean.imagination.dynamics
    free = configure(task, "sac").agent
    assert isinstance(free, SACAgentConfig) and isinstance(
        task.agent, EnsembleAgentConfig
    )
    assert (free.sac, free.learning) == (task.agent.sac, task.agent.learning)
    with pytest.raises(InputError, match="pets"):
        configure("pendulum", "pets")


def test_listing_tasks_imports_neither_jax_nor_mujoco() -> None:
    code = (
        "import sys; from driftrl.cli.main import main; main(['list', 'tasks']);"
        "print('slow:', *{'jax', 'mujoco', 'matplotlib'} & sys.modules.keys())"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert all(name in done.stdout for name in TASKS)
    assert done.stdout.splitlines()[-1] == "slow:"
