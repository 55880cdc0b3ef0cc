"""``driftrl run --robot``: two processes, and the records of one."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftrl.envs.tasks import task_of_robot
from driftrl.errors import InputError
from driftrl.robot.protocol import VERSION, Welcome

SMALL = [
    *("--episodes", "4", "--environment.sim_steps", "30", "--evaluation.episodes", "0"),
    *("--agent.model.members", "2", "--agent.model.hidden", "8"),
    *("--agent.sac.hidden", "8", "8", "--agent.sac.batch_size", "8"),
    *("--agent.learning.learning-starts", "20"),
    *("--agent.learning.policy-updates", "2"),
]
CONFIG = """
[environment]
sim_steps = 30
"""


def driftrl(*words: str, directory: Path) -> "subprocess.Popen[str]":
    plain = {k: v for k, v in os.environ.items() if not k.startswith("JAX_NUMPY")}
    return subprocess.Popen(
        [sys.executable, "-m", "driftrl", *words],
        cwd=directory,
        env={**plain, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """Serve the fading pendulum at an address, without hurry."""
    (tmp_path / "short.toml").write_text(CONFIG)
    words = ["robot", "pendulum-decay", "--no-real-time", "--config", "short.toml"]
    robot = driftrl(*words, "--address", "tcp://127.0.0.1:*", directory=tmp_path)
    assert robot.stdout is not None
    found = re.search(r"tcp://127\.0\.0\.1:\d+", robot.stdout.readline())
    assert found is not None
    yield found[0]
    robot.send_signal(signal.SIGINT)
    robot.communicate(timeout=20)


def rows(directory: Path) -> list[dict[str, object]]:
    lines = (directory / "episodes.jsonl").read_text().splitlines()
    return [{**json.loads(line), "wall_s": 0} for line in lines]


def finish(process: "subprocess.Popen[str]") -> str:
    said, _ = process.communicate(timeout=100)
    assert process.returncode == 0, said
    return said


def test_a_robot_gives_the_records_of_a_simulator(address: str, tmp_path: Path) -> None:
    """Also if its learner is killed on the way and resumed."""
    plain = ["run", "pendulum-decay", *SMALL, "--out", "local"]
    finish(driftrl(*plain, directory=tmp_path))
    words = ["run", "--robot", address, *SMALL, "--out", "remote"]
    learner = driftrl(*words, directory=tmp_path)
    record = tmp_path / "remote" / "episodes.jsonl"
    while not (record.exists() and record.read_text().count("\n")):
        assert learner.poll() is None
        time.sleep(0.02)
    learner.kill()
    learner.communicate(timeout=20)
    said = finish(driftrl(*words, "--resume", directory=tmp_path))
    assert "Acting took" in said
    assert rows(tmp_path / "remote") == rows(tmp_path / "local")
    assert len(rows(tmp_path / "remote")) == 4


def welcome(name: str, observed: int = 3) -> Welcome:
    return Welcome(
        version=VERSION,
        name=name,
        observation_size=observed,
        action_size=1,
        period=0.05,
        deadline=0.025,
        steps=200,
        theta_known=True,
        real_time=True,
    )


def test_a_robot_says_what_it_is() -> None:
    twin = task_of_robot(welcome("pendulum-decay"))
    assert twin.name == "pendulum-decay" and twin.evaluation.episodes == 0
    other = task_of_robot(welcome("crane", observed=9))
    assert other.name == "robot:crane" and other.environment.observations == 9
    assert task_of_robot(welcome("x:y")).name == "x:y"
    with pytest.raises(InputError, match="3"):
        task_of_robot(welcome("pendulum-decay", observed=4))
