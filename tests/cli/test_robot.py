"""``driftrl robot`` as a user meets it."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrl.cli.main import main
from driftrl.envs.drifting import make_env
from driftrl.envs.tasks import configure
from driftrl.errors import EpisodeAborted
from driftrl.robot.client import RemoteEnv
from factories import free_address

Start = Callable[..., subprocess.Popen[str]]
LONG: dict[str, Any] = {"away": 60.0, "silence": 20.0}
QUICK = ("--no-real-time", "--period", "0.01")


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "driftrl", "robot", *arguments]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=tmp_path
        )
        started.append(process)
        return process

    yield run
    for process in started:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_a_twin_is_served_until_it_is_asked_to_end(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "run.toml").write_text(
        'task = "pendulum"\n[environment]\nsim_steps = 20\n[drift]\nstart = 1\n'
    )
    address, log = free_address(), tmp_path / "log.jsonl"
    robot = start(
        *("pendulum", "--address", address, "--config", "run.toml"),
        *("--log", str(log), *QUICK),
    )
    changes = {"environment": {"sim_steps": 20}, "drift": {"start": 1}}
    config = configure("pendulum", "sombrl", changes)
    twin = make_env("pendulum", config.environment, config.drift)
    env = RemoteEnv(address, **LONG)
    assert env.robot.steps == config.environment.steps
    obs, info = env.reset(seed=3, options={"episode": 9, "steps": 0})
    expected, _ = twin.reset(seed=3, options={"episode": 9, "steps": 0})
    assert np.array_equal(obs, expected) and info["theta"] == twin.theta
    over = False
    while not over:
        obs, reward, _, over, _ = env.step(np.array([0.7]))
        expected, paid, _, ended, _ = twin.step(np.array([0.7]))
        assert np.array_equal(obs, expected) and (reward, over) == (paid, ended)
    env.reset(seed=4)
    env.step(np.array([0.7]))
    os.kill(robot.pid, signal.SIGTERM)
    with pytest.raises(EpisodeAborted, match="ends"):
        env.step(np.array([0.7]))
    env.close()
    printed, _ = robot.communicate(timeout=30)
    assert robot.returncode == 0
    assert address in printed and "shutdown: 1" in printed
    assert "Finished episodes: 1" in printed and "Missed deadlines: 0" in printed
    rows = [json.loads(line) for line in log.read_text().splitlines()]
    assert [row["event"] for row in rows] == ["connected", "finished", "halted"]


OWN = """
import gymnasium
import numpy as np
from pathlib import Path


class Valve(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0.0, 8.0, (1,))
    action_space = gymnasium.spaces.Box(0.0, 4.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = 5.0
        return np.array([self.level], np.float32), {}

    def step(self, action):
        self.level += float(action[0]) - 2.0
        return np.array([self.level], np.float32), self.level, False, False, {}

    def halt(self):
        with Path("halts").open("a") as file:
            file.write("halt ")


def make():
    with Path("made").open("a") as file:
        file.write("made ")
    return Valve()
"""


def test_a_machine_of_ones_own(start: Start, tmp_path: Path) -> None:
    """It is made once, acts on [−1, 1], is watched, and is halted."""
    (tmp_path / "valve.py").write_text(OWN)
    address = free_address()
    robot = start(
        *("valve:make", "--address", address, "--steps", "3", "--episodes", "1"), *QUICK
    )
    env = RemoteEnv(address, **LONG)
    assert (env.robot.name, env.robot.steps) == ("valve:make", 3)
    assert not env.robot.theta_known
    obs, info = env.reset(seed=1)
    assert obs.tolist() == [5.0] and "theta" not in info and env.theta is None
    # Full scale opens it by 4, and 2 flows out: 5, 7, 9, which no sensor here reads.
    assert env.step(np.array([1.0]))[0].tolist() == [7.0]
    with pytest.raises(EpisodeAborted, match="9"):
        env.step(np.array([1.0]))
    env.reset(seed=1)
    for command, level in ((0.5, 6.0), (0.0, 6.0), (-1.0, 4.0)):
        assert env.step(np.array([command]))[0].tolist() == [level]
    env.close()
    printed, _ = robot.communicate(timeout=30)
    assert robot.returncode == 0 and "range: 1" in printed
    assert (tmp_path / "made").read_text() == "made "
    assert (tmp_path / "halts").read_text() == "halt halt "


@pytest.mark.parametrize(
    ("arguments", "value"),
    [
        ("pendulum --address tcp://0.0.0.0:5557", "token"),
        ("pendulum --bounds 1:2", "'1:2'"),
        ("pendulum --bounds 7:0:1", "7"),
        ("pendulum --stop 0 0", "2"),
        ("pendulum --episodes 0", "received 0"),
        ("pendulum --steps 5", "--steps"),
        ("pendulumm", "'pendulum'"),
        ("valve:make --steps 0", "received 0"),
        ("valve:make --config x.toml", "--config"),
    ],
)
def test_bad_input_is_refused(
    arguments: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["robot", *arguments.split()]) == 2
    error = capsys.readouterr().err
    assert value in error and "Traceback" not in error
