"""``driftrl run --robot``: the run's machine is on the other side of a wire."""

import gc
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import EvaluationConfig, RunConfig
from driftrl.config.task import Task
from driftrl.envs.custom import sized_task
from driftrl.errors import require
from driftrl.presets.tasks import TASKS

if TYPE_CHECKING:
    from driftrl.robot.client import RemoteEnv
    from driftrl.robot.protocol import Welcome
    from driftrl.training.loop import OnEpisode
    from driftrl.training.run_directory import Warn
    from driftrl.training.session import Session
    from driftrl.types import EpisodeRecord


def connect(address: str, token_file: str | None) -> "RemoteEnv":
    """Return the robot at an address, once it has said what it is."""
    from driftrl.robot.client import RemoteEnv
    from driftrl.robot.transport import read_token

    def warn(message: str) -> None:
        print(f"driftrl: {message}", file=sys.stderr, flush=True)

    token = read_token(Path(token_file) if token_file else None)
    return RemoteEnv(address, token, warn=warn)


def task_of_robot(robot: "Welcome", named: str | None) -> Task:
    """Return the task of a robot: the twin of one of ours, or a machine of its own.

    A robot is judged by what it does: no episode is spent on evaluation.
    """
    sizes = (robot.observation_size, robot.action_size)
    name = named or robot.name
    if name not in TASKS:
        return sized_task(name if ":" in name else f"robot:{name}", sizes, robot.steps)
    task = TASKS[name]
    expected = task.sizes(task.environment)
    require(
        sizes == expected,
        f"Task {name!r} observes {expected[0]} numbers and commands {expected[1]}; the "
        f"robot {robot.name!r} has {sizes[0]} and {sizes[1]}.",
    )
    steps = robot.steps * task.environment.action_repeat
    return replace(
        task,
        environment=replace(task.environment, sim_steps=steps),
        evaluation=EvaluationConfig(episodes=0),
    )


def check_answers_in_time(config: RunConfig, robot: "Welcome") -> None:
    """Refuse an agent that would learn while the robot waits for an action."""
    agent = config.agent
    require(
        isinstance(agent, GPAgentConfig)
        or agent.learning.when == "episode"
        or not robot.real_time,
        "A robot does not wait while its learner learns within an episode: "
        "agent.learning.when must be 'episode', received 'step'.",
    )


def learn_on_robot(
    session: "Session", robot: "RemoteEnv", show: "OnEpisode", warn: "Warn"
) -> None:
    """Let a session drive a robot, keep delays out of episodes, and say how it went."""
    from driftrl.robot.timing import undisturbed
    from driftrl.training.loop import drive

    def between(record: "EpisodeRecord") -> None:
        show(record)
        gc.collect()

    with session, closing(robot), undisturbed():
        drive(session, robot, on_episode=between, warn=warn)
    delays = robot.thinking
    acting = f"Acting took {delays}" if delays.count else "No action was taken"
    print(f"{acting}; attempts that were aborted and begun again: {robot.aborted}.")
