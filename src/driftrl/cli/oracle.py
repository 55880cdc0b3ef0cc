"""``driftrl oracle``: J*(θ), how it was obtained, and its error."""

import os
from dataclasses import asdict, dataclass, replace
from typing import Annotated, Any, Literal

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.progress import oracle_progress
from driftrl.config.run import EnvironmentConfig
from driftrl.config.task import Task
from driftrl.envs.tasks import task_named
from driftrl.errors import require
from driftrl.training.process import prepare


@dataclass(frozen=True)
class Arguments:
    """Which system, at which θ, and how J* is found."""

    task: Annotated[str, tyro.conf.Positional]
    """Name of the task."""
    theta: tuple[float, ...] = ()
    """Values of θ (default: those of the task's own schedule)."""
    by: Literal["dp", "sac"] | None = None
    """Dynamic programming, where there is one (then the default), or SAC."""
    seeds: int | None = None
    """Trainings of SAC for one value (default: 3)."""
    action_repeat: int = 1
    """Steps of the simulator for which a decision is held; 1 is the most that can be
    achieved, whatever the repeat of an agent."""
    start: str | None = None
    """Start of an episode (default: the task's)."""
    steps: int | None = None
    """Length of an episode in steps of the simulator (default: the task's)."""
    json: bool = False
    """Print one JSON document instead of a table."""


def main(argv: list[str]) -> int:
    """Print optimal returns."""
    summary = "Print the optimal return J*(θ), how it was obtained, and its error."
    arguments = parse(Arguments, argv, "oracle", summary)
    task = task_named(arguments.task)
    environment = _environment(task, arguments)
    numbers = range(1, task.episodes + 1)
    thetas = arguments.theta or tuple({task.drift(n): None for n in numbers})
    prepare(os.environ)
    from driftrl.oracles.lookup import method_of, oracle_of_task
    from driftrl.oracles.sac_settings import settings_for

    by = arguments.by or method_of(task)
    settings = settings_for(task.plant)
    if arguments.seeds is not None:
        require(
            by == "sac",
            "--seeds is for SAC alone, and dynamic programming is asked; add --by sac.",
        )
        settings = replace(settings, seeds=arguments.seeds)
    with oracle_progress() as tell:
        table = oracle_of_task(
            task.name, thetas, environment, tell, by=by, settings=settings
        )
    entries = [table.lookup(theta) for theta in thetas]
    if arguments.json:
        document: dict[str, Any] = {
            "task": task.name,
            "environment": asdict(environment),
            "by": by,
            "provenance": table.provenance,
            "values": [asdict(entry) for entry in entries],
        }
        print_json(document)
        return 0
    print_table(
        ["θ", "J*(θ)", "error"],
        [[f"{e.theta:.6g}", f"{e.value:.2f}", f"{e.error:.2f}"] for e in entries],
    )
    print(f"\n{table.provenance}")
    return 0


def _environment(task: Task, arguments: Arguments) -> EnvironmentConfig:
    """Return the task's own environment with what was asked for laid over it."""
    names = ("action_repeat", "start", "steps")
    asked = {name: getattr(arguments, name) for name in names}
    given = {name: value for name, value in asked.items() if value is not None}
    return replace(task.environment, **given)
