"""``driftrl regret``: the cumulative dynamic regret of recorded runs."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.progress import oracle_progress


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
    from driftrl.analysis.regret import known_summaries, regret_document, summarize

    with oracle_progress() as progress:
        results = read_results(
            arguments.directories, oracle=arguments.oracle, progress=progress
        )
    summaries = known_summaries(summarize(results.frame))
    known = {summary.problem for summary in summaries}
    unknown = [f"{k}: {why}" for k, why in results.oracles.items() if k not in known]
    for note in (*results.notes, *unknown):
        print(f"driftrl: {note}", file=sys.stderr)
    documents = [regret_document(s, results.oracles[s.problem]) for s in summaries]
    if arguments.json:
        print_json(
            {
                "problems": documents,
                "not_started": list(results.not_started),
                "notes": list(results.notes),
            }
        )
        return 0
    for document in documents:
        _print_problem(document)
    return 0


def _print_problem(document: dict) -> None:
    title = f"{document['problem']}: R_N after N = {document['episodes']} episodes"
    print(f"{title}\n{'=' * len(title)}\n{document['oracle']}\n")
    methods = document["methods"].items()
    names = ("R_N", "standard error", "95 % bootstrap interval")
    last = f"short of J*, last {document['gap_episodes']}"
    print_table(
        ["method", "seeds", *names, last, "minutes a run"],
        [
            [
                *(name, len(row["seeds"]), *_cells(row["final_regret"])),
                f"{row['gap']['mean']:.1%}" if row["gap"] else "–",
                f"{row['minutes']:.1f}",
            ]
            for name, row in methods
        ],
    )
    paired = [(name, row["minus_baseline"]) for name, row in methods]
    paired = [(name, row) for name, row in paired if row]
    if paired:
        print(f"\nDifference to {document['baseline']}, paired by seed:\n")
        names = ("R_N difference", "standard error", "95 % bootstrap", "95 % t")
        print_table(
            ["method", "seeds", *names],
            [
                [name, len(row["seeds"]), *_cells(row), _range(row["t_interval"])]
                for name, row in paired
            ],
        )
    for warning in document["warnings"]:
        print(f"\nWarning: {warning}")
    print()


def _cells(estimate: dict) -> list[str]:
    error = estimate["standard_error"]
    return [
        f"{estimate['mean']:.0f}",
        "–" if error is None else f"{error:.0f}",
        _range(estimate["bootstrap_interval"]),
    ]


def _range(ends: list[float | None]) -> str:
    return "–" if None in ends else f"[{ends[0]:.0f}, {ends[1]:.0f}]"
