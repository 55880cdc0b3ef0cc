"""``driftrl oracle``: J*(θ), its source, and its error."""

import sys
from dataclasses import asdict
from typing import Annotated, Literal

import tyro

from driftrl.cli.options import print_json, print_table
from driftrl.cli.progress import duration, oracle_progress
from driftrl.envs.tasks import task_named
from driftrl.errors import counted


def main(
    task: Annotated[str, tyro.conf.Positional],
    *,
    theta: tuple[float, ...] = (),
    by: Literal["dp", "sac"] | None = None,
    json: bool = False,
) -> None:
    """Print the optimal return J*(θ), its source and its error.

    Where it has to be computed, that begins with an estimate of the time.

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
    if missing := len(oracle.missing(thetas)):
        from driftrl.training.speed import product_rate

        seconds = 60 * oracle.expected_minutes(missing, product_rate())
        what = f"J*(θ) is not stored at {counted(missing, 'value')} of θ"
        print(f"{what}: about {duration(seconds)} of an idle core.", file=sys.stderr)
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
