"""``driftrl report``: figures as PNG and PDF, and one self-contained HTML page."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from driftrl.cli.options import parse
from driftrl.cli.regret import compare
from driftrl.cli.study import tell_calibration
from driftrl.config_file import read_toml
from driftrl.results.calibration import is_calibration


@dataclass(frozen=True)
class Arguments:
    """Which results."""

    directory: Annotated[Path, tyro.conf.Positional]
    """Directory of a study, of runs or of calibration, or of a single run."""
    returns: bool = False
    """Show returns alone, and train no oracle for the regret, which may take long."""


def main(argv: list[str]) -> int:
    """Draw the report of recorded runs."""
    summary = "Draw figures and one HTML page from recorded runs."
    arguments = parse(Arguments, argv, "report", summary)
    if is_calibration(arguments.directory):
        tell_calibration(arguments.directory)
    else:
        write_and_tell(arguments.directory, returns_only=arguments.returns)
    return 0


def write_and_tell(directory: Path, *, returns_only: bool = False) -> None:
    """Write the report of a directory of results and say where it is."""
    comparison = compare(directory, returns_only=returns_only)
    from driftrl.figures.write import write_report

    title, description = directory.name, ""
    if (directory / "study.toml").is_file():
        # The words alone: to check its settings would make the machines of its runs.
        study = read_toml(directory / "study.toml")
        title = str(study.get("title", title))
        description = str(study.get("summary", ""))
    paths = write_report(comparison, directory / "report", title, description)
    print("The report:")
    for path in paths:
        print(f"  {path}")
