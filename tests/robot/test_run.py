"""``driftrl run --robot``: the records of a simulator, by way of a robot."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftrl.cli import run as cli_run
from driftrl.cli.main import main
from driftrl.envs.drifting import environment_of
from driftrl.envs.tasks import configure, task_of_robot
from driftrl.errors import InputError
from driftrl.robot.controller import Controller
from driftrl.robot.machine import Machine
from driftrl.robot.protocol import VERSION, Welcome
from driftrl.robot.safety import Limits
from driftrl.robot.server import Robot
from driftrl.robot.timing import Timing
from driftrl.types import EpisodeRecord
from factories import rows_of

SMALL = [
    *("--episodes", "4", "--environment.sim_steps", "20", "--evaluation.episodes", "0"),
    *("--agent.planner.samples", "8", "--agent.planner.elites", "2"),
    *("--agent.planner.iterations", "1", "--agent.planner.horizon", "2"),
    *("--agent.model.fit-steps", "1", "--drift.start", "1"),
]


@pytest.fixture
def address() -> Iterator[str]:
    """Serve a drifting pendulum at an address, without hurry."""
    changes = {"environment": {"sim_steps": 20}, "drift": {"start": 1}}
    config = configure("pendulum", "sombrl", changes)
    steps = config.environment.steps
    machine = Machine(
        environment_of(config), name=config.task, steps=steps, theta_known=True
    )
    limits = Limits(stop=(0.0,), observation_size=machine.observation_size)
    timing = Timing(period=0.01, real_time=False)
    robot = Robot(Controller(machine, limits, timing), "tcp://127.0.0.1:*")
    thread = threading.Thread(target=robot.serve)
    thread.start()
    yield robot.address
    robot.end()
    thread.join()


def test_a_robot_gives_the_records_of_a_simulator(
    address: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Also if its learner is stopped on the way and resumed."""
    local, remote = tmp_path / "local", tmp_path / "remote"
    assert main(["run", "pendulum", *SMALL, "--out", str(local)]) == 0
    words = ["run", "--robot", address, *SMALL, "--out", str(remote)]

    def stop(record: EpisodeRecord) -> None:
        if record.episode == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(cli_run, "episode_printer", lambda episodes: stop)
        assert main(words) == 130
    assert len(rows_of(remote)) == 2
    assert main([*words, "--resume"]) == 0
    assert "Acting took" in capsys.readouterr().out
    assert rows_of(remote) == rows_of(local) and len(rows_of(remote)) == 4


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
