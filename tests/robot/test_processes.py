"""Robots and learners that are killed, and a network that stalls."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrl.errors import EpisodeAborted
from driftrl.robot.client import RemoteEnv
from driftrl.robot.timing import Timing
from factories import free_address

PROGRAM = Path(__file__).parent / "point_mass.py"
STOP = -0.25
ACTION = np.array([0.5])

# A learner that drives on and on, and says so.
LEARNER = """
import sys
import time
import numpy as np
from driftrl.errors import EpisodeAborted
from driftrl.robot.client import RemoteEnv

env = RemoteEnv(sys.argv[1])
while True:
    try:
        env.reset(seed=1)
        for _ in range(3):
            env.step(np.array([0.5]))
        print("driving", flush=True)
        while True:
            env.step(np.array([0.5]))
    except EpisodeAborted:
        continue
"""


@pytest.fixture
def start() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return what starts a program; all that still run are killed in the end."""
    started: list[subprocess.Popen[str]] = []

    def run(*arguments: str) -> subprocess.Popen[str]:
        command = [sys.executable, *arguments]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield run
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def drive(env: RemoteEnv, steps: int) -> None:
    """Take so many steps of episode 1; a busy machine may need several attempts."""
    for _ in range(30):
        with contextlib.suppress(EpisodeAborted):
            env.reset(seed=1, options={"episode": 1, "steps": 0})
            for _ in range(steps):
                env.step(ACTION)
            return
    raise AssertionError("every attempt was aborted")


def _events(log: Path) -> list[str]:
    return [json.loads(line)["event"] for line in log.read_text().splitlines()]


@pytest.mark.kill
def test_the_robot_is_killed_and_started_again(
    start: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    address, log = free_address(), tmp_path / "robot.jsonl"
    arguments = (str(PROGRAM), address, str(log), "0.1")
    robot = start(*arguments)
    env = RemoteEnv(address, away=60.0, silence=0.5)
    drive(env, steps=3)
    os.kill(robot.pid, signal.SIGKILL)
    assert robot.wait() == -signal.SIGKILL
    start(*arguments)
    # Whether it is back before the learner has given it up is a matter of luck.
    with pytest.raises(EpisodeAborted):
        for _ in range(3):
            env.step(ACTION)
    drive(env, steps=8)
    assert env.theta == 1.0
    env.close()
    until = time.monotonic() + 10.0  # it writes after it has told the learner
    while (events := _events(log)).count("finished") < 1 and time.monotonic() < until:
        time.sleep(0.02)
    assert events.count("finished") == 1


@pytest.mark.kill
def test_the_learner_is_killed(
    serve: Callable[..., Any], start: Callable[..., subprocess.Popen[str]]
) -> None:
    """The machine is stopped within two periods, and free for another learner."""
    served = serve(Timing(period=0.15))
    served.machine.steps = 10_000
    learner = start("-c", LEARNER, served.address)
    assert first_line(learner) == "driving"
    before = len(served.stops())
    driving = len(served.machine.actions)
    os.kill(learner.pid, signal.SIGKILL)
    stop = served.stopped(before + 1)
    assert stop["code"] in ("gone", "deadline")
    assert stop["periods"] <= 2
    served.wait(lambda: served.machine.actions[-1] == STOP)
    # After the kill at most one action was still on its way.
    assert served.machine.actions[driving:].count(0.5) <= 2
    env = RemoteEnv(served.address, away=20.0, silence=5.0)
    env.reset(seed=1)
    env.close()
