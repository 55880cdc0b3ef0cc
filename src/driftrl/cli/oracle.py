"""``driftrl oracle``: J*(θ), its source, and its error."""

from dataclasses import asdict, dataclass, replace
from typing import Annotated, Literal

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.progress import oracle_progress
from driftrl.envs.tasks import task_named
from driftrl.errors import require


@dataclass(frozen=True)
class Arguments:
    """Which system, at which θ, and how J* is computed."""

    task: Annotated[str, tyro.conf.Positional]
    """Name of the task."""
    theta: tuple[float, ...] = ()
    """Values of θ; by default those of the task's schedule."""
    by: Literal["dp", "sac"] | None = None
    """Dynamic programming (the default where the task has it) or SAC."""
    seeds: int | None = None
    """Trainings of SAC for one value."""
    action_repeat: int = 1
    """Simulator steps for which an action is held; 1 gives the highest return."""
    start: str | None = None
    """Start of an episode; by default the task's."""
    sim_steps: int | None = None
    """Length of an episode in simulator steps; by default the task's."""
    json: bool = False
    """Print one JSON document instead of a table."""


def main(argv: list[str]) -> int:
    """Print optimal returns."""
    summary = "Print the optimal return J*(θ), its source and its error."
    arguments = parse(Arguments, argv, "oracle", summary)
    task = task_named(arguments.task)
    names = ("action_repeat", "start", "sim_steps")
    changes = {name: getattr(arguments, name) for name in names}
    changes = {name: value for name, value in changes.items() if value is not None}
    environment = replace(task.environment, **changes)
    thetas = arguments.theta or {task.drift(n): n for n in range(1, task.episodes + 1)}
    from driftrl.oracles.settings import settings_for
    from driftrl.oracles.table import StoredOracle

    settings = settings_for(task.plant)
    if arguments.seeds is not None:
        settings = replace(settings, seeds=arguments.seeds)
    oracle = StoredOracle(task.name, environment, by=arguments.by, settings=settings)
    require(
        arguments.seeds is None or oracle.by == "sac",
        "--seeds applies to SAC only; add --by sac.",
    )
    table = oracle.table(sorted(thetas), oracle_progress())
    entries = [table.lookup(theta) for theta in thetas]
    if arguments.json:
        print_json(
            {
                "task": task.name,
                "environment": asdict(environment),
                "by": oracle.by,
                "provenance": table.provenance,
                "values": [asdict(entry) for entry in entries],
            }
        )
        return 0
    print_table(
        ["θ", "J*(θ)", "error", "source"],
        [
            [f"{e.theta:.6g}", f"{e.value:.2f}", f"{e.error:.2f}", e.source]
            for e in entries
        ],
    )
    print(f"\n{table.provenance}")
    return 0
