"""``driftrl regret``: cumulative dynamic regret a method, problem by problem."""

import math
import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.progress import oracle_progress
from driftrl.training.process import prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from driftrl.regret import OracleTable, StudyRegret
    from driftrl.results.comparison import Comparison
    from driftrl.results.records import Run
    from driftrl.results.statistics import Interval


@dataclass(frozen=True)
class Arguments:
    """Which results, and how to print them."""

    directory: Annotated[Path, tyro.conf.Positional]
    """Directory of a study or of a single run."""
    json: bool = False
    """Print one JSON document instead of tables."""


def main(argv: list[str]) -> int:
    """Print the regret of recorded runs."""
    summary = "Print the cumulative dynamic regret of recorded runs, method by method."
    arguments = parse(Arguments, argv, "regret", summary)
    comparison = compare(arguments.directory)
    from driftrl.results.document import comparison_document

    if arguments.json:
        print_json(comparison_document(comparison))
    else:
        print_comparison(comparison)
    return 0


def compare(directory: Path) -> "Comparison":
    """Compare the recorded runs of a directory with the oracle, and say how it goes."""
    prepare(os.environ)
    from driftrl.oracles.lookup import oracle_of_runs
    from driftrl.results.comparison import compare_problems
    from driftrl.results.records import load_runs

    everything = load_runs(directory)

    def oracle(runs: "Sequence[Run]") -> "OracleTable":
        with oracle_progress() as tell:
            return oracle_of_runs(runs, tell, shown=everything)

    return compare_problems(everything, oracle)


def print_comparison(comparison: "Comparison") -> None:
    """Print the tables of every problem, under its label where there are several."""
    for place, study in enumerate(comparison.studies):
        print("\n" if place else "", end="")
        if study.problem:
            print(f"{study.problem}\n{'=' * len(study.problem)}")
        _print_study(study)
    if comparison.waiting:
        print(f"\nNot started: {', '.join(comparison.waiting)}.")


def _print_study(study: "StudyRegret") -> None:
    from driftrl.results.curves import minutes_a_run

    print(f"Cumulative dynamic regret R_N after N = {study.episodes} episodes.")
    print(f"Oracle: {study.table.provenance}\n")
    columns = ["method", "seeds", "R_N", "standard error", "95 % bootstrap interval"]
    last = f"short of J*, last {study.gaps[0].last}"
    print_table(
        [*columns, last, "minutes a run"],
        [
            [
                one.method,
                len(one.seeds),
                _number(one.final.mean),
                _number(one.final.stderr),
                _interval(one.final.bootstrap),
                "–" if gap.estimate is None else f"{gap.estimate.mean:.1%}",
                f"{minutes_a_run(study.runs_of(one.method)):.1f}",
            ]
            for one, gap in zip(study.methods, study.gaps, strict=True)
        ],
    )
    if study.differences:
        print(f"\nDifference to {study.baseline}, paired by seed:\n")
        columns = ["method", "seeds", "R_N difference", "95 % bootstrap", "95 % t"]
        print_table(
            columns,
            [
                [
                    one.method,
                    len(one.seeds),
                    _number(one.estimate.mean),
                    _interval(one.estimate.bootstrap),
                    _interval(one.estimate.student),
                ]
                for one in study.differences
            ],
        )
    for warning in study.warnings:
        print(f"\nWarning: {warning}")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0f}"


def _interval(interval: "Interval") -> str:
    return f"[{_number(float(interval.low))}, {_number(float(interval.high))}]"
