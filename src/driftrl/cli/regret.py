"""``driftrl regret``: cumulative dynamic regret a method, problem by problem."""

import math
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.progress import oracle_progress
from driftrl.cli.recorded import (
    announce_trainings,
    recorded_runs,
    unknown_environment,
)
from driftrl.errors import InputError
from driftrl.training.process import prepare

if TYPE_CHECKING:
    from collections.abc import Sequence

    from driftrl.oracles.values import OracleTable
    from driftrl.records import Run
    from driftrl.results.comparison import Comparison
    from driftrl.results.regret import StudyRegret
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
    comparison = _with_oracle(compare(arguments.directory), arguments.directory)
    from driftrl.results.document import comparison_document

    if arguments.json:
        print_json(comparison_document(comparison))
    else:
        print_comparison(comparison)
    return 0


def _with_oracle(comparison: "Comparison", directory: Path) -> "Comparison":
    """Return the problems that have an oracle, and say which have none, and why."""
    known = tuple(study for study in comparison.studies if study.table.known)
    others = [study for study in comparison.studies if not study.table.known]
    if not others:
        return comparison
    tasks = ", ".join(dict.fromkeys(study.task for study in others))
    message = (
        f"No regret is known for runs of {tasks}. {others[0].table.provenance} "
        f"`driftrl report {directory}` shows the returns."
    )
    if not known:
        raise InputError(message)
    print(f"driftrl: {message}", file=sys.stderr)
    return replace(comparison, studies=known)


def compare(directory: Path, *, returns_only: bool = False) -> "Comparison":
    """Compare the recorded runs of a directory, with the oracle where there is one.

    Nobody's own machine is made for that: its records are enough.

    Args:
        directory: Directory of a study or of a single run.
        returns_only: Ask no oracle, for one that must be trained takes its time.
    """
    prepare(os.environ)
    from driftrl.oracles.values import OracleTable
    from driftrl.results.comparison import compare_problems

    found = recorded_runs(directory)

    def oracle(runs: "Sequence[Run]") -> "OracleTable":
        reason = "" if not returns_only else "J* was not asked for."
        reason = _without_oracle(runs) or reason
        if reason:
            return OracleTable((), reason)
        from driftrl.oracles import optimal_returns_of_runs

        announce_trainings(runs, directory)
        with oracle_progress() as tell:
            return optimal_returns_of_runs(runs, others=found.runs, progress=tell)

    return compare_problems(found.runs, oracle, found.notes)


def _without_oracle(runs: "Sequence[Run]") -> str:
    """Return why there can't be an oracle for runs, or nothing if there can."""
    from driftrl.envs.custom import is_custom
    from driftrl.oracles.values import NO_ORACLE

    thetas = [record.theta for run in runs for record in run.records]
    # A robot need not tell θ, even if it is the twin of a task of ours.
    if is_custom(runs[0].task) or not all(map(math.isfinite, thetas)):
        return NO_ORACLE.provenance
    if any(run.config.get("extra_drifts") for run in runs):
        return "There is no oracle where more than one parameter drifts."
    return unknown_environment(runs)


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
