"""``driftrl regret``: the cumulative dynamic regret of recorded runs."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from driftrl.cli.options import parse, print_json, print_table, warn
from driftrl.cli.progress import number, oracle_progress


@dataclass(frozen=True)
class Arguments:
    """Which results, and how to print them."""

    directories: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Directory of a study or of a single run, or several."""
    oracle: str | None = None
    """J*(θ) as module:function or as a CSV file with the columns theta and value."""
    json: bool = False
    """Print one JSON document instead of tables."""


def main(argv: list[str]) -> int:
    """Print the regret of recorded runs."""
    summary = "Print the cumulative dynamic regret of recorded runs, method by method."
    arguments = parse(Arguments, argv, "regret", summary)
    from driftrl.analysis.load import read_results
    from driftrl.analysis.regret import regret, results_document

    results = read_results(
        arguments.directories, oracle=arguments.oracle, progress=oracle_progress()
    )
    document = results_document(results)
    for note in results.notes:
        warn(note)
    for name, reason in document["unknown"].items():
        warn(f"No regret for {name}: {reason}")
    if arguments.json:
        print_json(document)
        return 0
    for part in regret(results.frame).partition_by("problem", maintain_order=True):
        rows = part.to_dicts()
        problem, baseline = rows[0]["problem"], rows[0]["baseline"]
        print(f"{problem}: R_N after N = {rows[0]['episodes']} episodes")
        print(f"{results.oracles[problem]}\n")
        columns = ["method", "seeds", "R_N", "standard error", "95 % bootstrap"]
        columns += [f"minus {baseline}", "95 % t, paired", "short of J*", "minutes"]
        print_table(columns, [_cells(row) for row in rows])
        print()
    for problem in document["problems"]:
        for warning in problem["warnings"]:
            print(f"Warning: {warning}\n")
    return 0


def _cells(row: dict[str, Any]) -> list[Any]:
    return [
        row["method"],
        row["seeds"],
        number(row["regret"], ".0f"),
        number(row["standard_error"], ".0f"),
        _interval(row, "bootstrap_"),
        number(row["difference"], ".0f"),
        _interval(row, "difference_"),
        number(row["gap"], ".1%"),
        number(row["minutes"], ".1f"),
    ]


def _interval(row: dict[str, Any], prefix: str) -> str:
    low, high = (number(row[prefix + end], ".0f") for end in ("low", "high"))
    return f"[{low}, {high}]"
