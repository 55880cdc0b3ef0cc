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


def main(argv: list[str]) -> int:
    """Draw the report of recorded runs."""
    summary = "Draw figures and one HTML page from recorded runs."
    directory = parse(Arguments, argv, "report", summary).directory
    if is_calibration(directory):
        tell_calibration(directory)
    else:
        write_and_tell(directory)
    return 0


def write_and_tell(directory: Path) -> None:
    """Write the report of a directory of results and say where it is."""
    comparison = compare(directory)
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
