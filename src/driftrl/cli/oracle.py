"""``driftrl oracle``: J*(θ), its source, and its error."""

from dataclasses import asdict, dataclass
from typing import Annotated, Literal

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.progress import oracle_progress
from driftrl.envs.tasks import task_named


@dataclass(frozen=True)
class Arguments:
    """Which system, at which θ, and how J* is computed."""

    task: Annotated[str, tyro.conf.Positional]
    """Name of the task."""
    theta: tuple[float, ...] = ()
    """Values of θ; by default those of the task's schedule."""
    by: Literal["dp", "sac"] | None = None
    """Dynamic programming (the default where the task has it) or SAC."""
    json: bool = False
    """Print one JSON document instead of a table."""


def main(argv: list[str]) -> int:
    """Print optimal returns."""
    summary = "Print the optimal return J*(θ), its source and its error."
    arguments = parse(Arguments, argv, "oracle", summary)
    task = task_named(arguments.task)
    thetas = arguments.theta or {task.drift(n): n for n in range(1, task.episodes + 1)}
    from driftrl.oracles.table import StoredOracle

    oracle = StoredOracle(task.name, task.environment, by=arguments.by)
    table = oracle.table(sorted(thetas), oracle_progress())
    entries = [table.lookup(theta) for theta in thetas]
    if arguments.json:
        values = [asdict(entry) for entry in entries]
        print_json({"provenance": table.provenance, "values": values})
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
