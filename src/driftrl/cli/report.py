"""``driftrl report``: figures as PNG and PDF, and one self-contained HTML page."""

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from driftrl.cli.bound import bound_columns
from driftrl.cli.options import parse, print_table
from driftrl.cli.recorded import compare
from driftrl.errors import counted, require
from driftrl.results.calibration import is_calibration


@dataclass(frozen=True)
class Arguments:
    """Which results."""

    directories: Annotated[tuple[Path, ...], tyro.conf.Positional]
    """Directory of a study, of runs or of calibration, or of a single run; several
    studies are compared on one page."""
    out: Path | None = None
    """Directory of the report (default: report in the directory of one study)."""
    returns: bool = False
    """Show returns alone, and train no oracle for the regret, which may take long."""
    all_figures: bool = False
    """Print the figures of each problem, also of more than eight."""


def main(argv: list[str]) -> int:
    """Draw the report of recorded runs."""
    summary = "Draw figures and one HTML page from recorded runs."
    arguments = parse(Arguments, argv, "report", summary)
    directories = arguments.directories
    require(bool(directories), "Which results? Name the directory of a study or run.")
    for one in directories:
        require(
            not one.is_file(),
            f"{one} is a file; a report is about results. Name the directory of a run, "
            "or that into which `driftrl study` has written, such as runs/NAME.",
        )
    calibrations = [one for one in directories if is_calibration(one)]
    if not calibrations:
        write_and_tell(
            *directories,
            out=arguments.out,
            returns_only=arguments.returns,
            all_figures=arguments.all_figures,
        )
        return 0
    require(
        len(directories) == 1 and arguments.out is None,
        f"{calibrations[0]} holds a study of calibration, which has a report of its "
        "own: name it alone, and leave out --out.",
    )
    tell_calibration(directories[0])
    return 0


def tell_calibration(directory: Path) -> None:
    """Print the coverage of every bound and draw the figure."""
    from driftrl.figures.calibration import write_calibration_figure
    from driftrl.results.calibration import (
        coverage_lines,
        coverage_table,
        read_calibration,
    )

    records = read_calibration(directory)
    print_table(
        ["", "scheme", "bound", "draws covered", "95 % interval", "points", "±width"],
        coverage_lines(coverage_table(records.verdicts)),
    )
    print("The report:")
    for path in write_calibration_figure(records, directory / "report"):
        print(f"  {path}")


def write_and_tell(
    *directories: Path,
    out: Path | None = None,
    returns_only: bool = False,
    all_figures: bool = False,
) -> None:
    """Write one report of directories of results and say where it is.

    Args:
        directories: One study or run, or several.
        out: Where to write; ``report`` in the directory, if there is one alone.
        returns_only: Ask no oracle.
        all_figures: Print the figures of each problem, however many there are.
    """
    from driftrl.figures.report import Origin
    from driftrl.figures.wording import listing
    from driftrl.figures.write import check_place, prints_each, write_report
    from driftrl.results.origin import read_sources
    from driftrl.results.studies import merge_studies

    require(
        len(directories) == 1 or out is not None,
        "A report on several studies lies in none of them: say where, with --out DIR.",
    )
    out = check_place(out or directories[0] / "report")
    sources = read_sources(directories)
    comparison = merge_studies(
        {one.name: compare(one.directory, returns_only=returns_only) for one in sources}
    )
    title, description = sources[0].title, sources[0].description
    if len(sources) > 1:
        title, description = listing([one.name for one in sources]), ""
    flags = ["--returns"] * returns_only + ["--all-figures"] * all_figures
    command = _command(directories, out, flags)
    paths = write_report(
        comparison,
        out,
        title,
        description,
        Origin(tuple(sources), command),
        bounds={one.problem: bound_columns(one) for one in comparison.studies},
        all_figures=all_figures,
    )
    print("The report:")
    for path in paths:
        print(f"  {path}")
    if not (all_figures or prints_each(comparison)):
        print(
            f"It has {counted(len(comparison.studies), 'problem')}: --all-figures "
            "prints the figures of each, which takes some seconds a problem."
        )


def _command(directories: Sequence[Path], out: Path, flags: Sequence[str]) -> str:
    """Return the command that makes this report again."""
    words = ["driftrl", "report", *map(str, directories), *flags]
    if len(directories) > 1 or out != directories[0] / "report":
        words += ["--out", str(out)]
    return shlex.join(words)
