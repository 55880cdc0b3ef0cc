"""``driftrl regret``: the cumulative dynamic regret of recorded runs."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.progress import oracle_progress
from driftrl.training.process import prepare


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
    prepare(os.environ)
    from driftrl.analysis.load import read_results
    from driftrl.analysis.regret import LAST_EPISODES, regret, results_document

    with oracle_progress() as progress:
        results = read_results(
            arguments.directories, oracle=arguments.oracle, progress=progress
        )
    document = results_document(results)
    unknown = [
        f"No regret for {name}: {why}" for name, why in document["unknown"].items()
    ]
    for note in (*results.notes, *unknown):
        print(f"driftrl: {note}", file=sys.stderr)
    if arguments.json:
        print_json(document)
        return 0
    for part in regret(results.frame).partition_by("problem", maintain_order=True):
        rows = part.to_dicts()
        problem, episodes = rows[0]["problem"], rows[0]["episodes"]
        print(f"{problem}: R_N after N = {episodes} episodes")
        print(f"{results.oracles[problem]}\n")
        print_table(
            [
                *("method", "seeds", "R_N", "standard error"),
                "95 % bootstrap interval",
                f"short of J*, last {min(LAST_EPISODES, episodes)}",
                "minutes a run",
            ],
            [
                [
                    *(row["method"], row["seeds"], _number(row["regret"])),
                    *(_number(row["standard_error"]), _interval(row, "bootstrap_")),
                    _number(row["gap"], ".1%"),
                    _number(row["minutes"], ".1f"),
                ]
                for row in rows
            ],
        )
        paired = [row for row in rows if row["difference"] is not None]
        if paired:
            print(f"\nDifference to {rows[0]['baseline']}, paired by seed:\n")
            print_table(
                ["method", "seeds", "R_N difference", "95 % bootstrap", "95 % t"],
                [
                    [
                        *(row["method"], row["paired_seeds"]),
                        _number(row["difference"]),
                        _interval(row, "difference_bootstrap_"),
                        _interval(row, "difference_"),
                    ]
                    for row in paired
                ],
            )
        print()
    for problem in document["problems"]:
        for warning in problem["warnings"]:
            print(f"Warning: {warning}\n")
    return 0


def _number(value: float | None, digits: str = ".0f") -> str:
    return "–" if value is None else f"{value:{digits}}"


def _interval(row: dict[str, Any], prefix: str) -> str:
    return f"[{_number(row[prefix + 'low'])}, {_number(row[prefix + 'high'])}]"
