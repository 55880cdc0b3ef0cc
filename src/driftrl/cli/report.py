"""``driftrl report``: figures and one HTML page from recorded runs."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from driftrl.cli.options import parse, warn
from driftrl.cli.progress import oracle_progress
from driftrl.errors import require


@dataclass(frozen=True)
class Arguments:
    """Which results."""

    directories: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Directory of a study or of a single run; several are compared on one page."""
    out: Path | None = None
    """Directory of the report (default: report in the directory of one study)."""
    oracle: str | None = None
    """J*(θ) as module:function or as a CSV file with the columns theta and value."""
    returns: bool = False
    """Show returns only; train no oracle for the regret, which may take long."""


def main(argv: list[str]) -> int:
    """Write figures and an HTML page."""
    summary = "Make figures and one HTML page from recorded runs."
    arguments = parse(Arguments, argv, "report", summary)
    require(bool(arguments.directories), "Name the directory of a study or a run.")
    print_report(arguments, shlex.join(["driftrl", "report", *argv]))
    return 0


def print_report(arguments: Arguments, command: str = "") -> None:
    """Write a report and print its files."""
    from driftrl.analysis.load import read_results
    from driftrl.analysis.report import report_directory, write_report

    target = report_directory(arguments.directories, arguments.out)
    oracle = "none" if arguments.returns else arguments.oracle
    results = read_results(
        arguments.directories, oracle=oracle, progress=oracle_progress()
    )
    for note in results.notes:
        warn(note)
    print("The report:")
    for path in write_report(results, arguments.directories, target, command=command):
        print(f"  {path}")
