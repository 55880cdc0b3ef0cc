"""``driftrl oracle``: J*(θ), how it was obtained, and its error."""

import dataclasses
import os
from dataclasses import dataclass
from typing import Annotated, Any

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.progress import oracle_progress
from driftrl.config import EnvironmentConfig
from driftrl.envs.tasks import task_named
from driftrl.training.process import prepare


@dataclass(frozen=True)
class Arguments:
    """Which system, and at which θ."""

    task: Annotated[str, tyro.conf.Positional]
    """Name of the task."""
    theta: tuple[float, ...] = ()
    """Values of θ (default: those of the task's own schedule)."""
    action_repeat: int = 1
    """Steps of the simulator for which a decision is held."""
    start: str | None = None
    """Start of an episode (default: the task's)."""
    steps: int = 200
    """Length of an episode in steps of the simulator."""
    json: bool = False
    """Print one JSON document instead of a table."""


def main(argv: list[str]) -> int:
    """Print optimal returns."""
    summary = "Print the optimal return J*(θ), how it was obtained, and its error."
    arguments = parse(Arguments, argv, "oracle", summary)
    task = task_named(arguments.task)
    environment = EnvironmentConfig(
        steps=arguments.steps,
        action_repeat=arguments.action_repeat,
        start=arguments.start or task.environment.start,
    )
    numbers = range(1, task.episodes + 1)
    thetas = arguments.theta or tuple({task.drift(n): None for n in numbers})
    prepare(os.environ)
    from driftrl.oracles.lookup import oracle_of_task

    with oracle_progress() as tell:
        table = oracle_of_task(task.name, thetas, environment, tell)
    entries = [table.lookup(theta) for theta in thetas]
    if arguments.json:
        document: dict[str, Any] = {
            "task": task.name,
            "environment": dataclasses.asdict(environment),
            "provenance": table.provenance,
            "values": [dataclasses.asdict(entry) for entry in entries],
        }
        print_json(document)
        return 0
    print_table(
        ["θ", "J*(θ)", "error"],
        [[f"{e.theta:.6g}", f"{e.value:.2f}", f"{e.error:.2f}"] for e in entries],
    )
    print(f"\n{table.provenance}")
    return 0
