"""``driftrl oracle``: J*(θ), its source, and its error."""

from dataclasses import asdict
from typing import Annotated, Literal

import tyro

from driftrl.cli.options import print_json, print_table
from driftrl.cli.progress import oracle_progress
from driftrl.envs.tasks import task_named


def main(
    task: Annotated[str, tyro.conf.Positional],
    *,
    theta: tuple[float, ...] = (),
    by: Literal["dp", "sac"] | None = None,
    json: bool = False,
) -> None:
    """Print the optimal return J*(θ), its source and its error.

    Args:
        task: Name of the task.
        theta: Values of θ; by default those of the task's schedule.
        by: Dynamic programming (the default where the task has it) or SAC.
        json: Print one JSON document instead of a table.
    """
    system = task_named(task)
    thetas = theta or {system.drift(n): n for n in range(1, system.episodes + 1)}
    from driftrl.oracles.table import StoredOracle

    oracle = StoredOracle(system.name, system.environment, by=by)
    table = oracle.table(sorted(thetas), oracle_progress())
    entries = [table.lookup(theta) for theta in thetas]
    if json:
        values = [asdict(entry) for entry in entries]
        print_json({"provenance": table.provenance, "values": values})
        return
    print_table(
        ["θ", "J*(θ)", "error", "source"],
        [
            [f"{e.theta:.6g}", f"{e.value:.2f}", f"{e.error:.2f}", e.source]
            for e in entries
        ],
    )
    print(f"\n{table.provenance}")
