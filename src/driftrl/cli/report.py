"""``driftrl report``: figures and one HTML page from recorded runs."""

from pathlib import Path
from typing import Annotated

import tyro

from driftrl.cli.options import warn
from driftrl.cli.progress import oracle_progress
from driftrl.errors import require


def main(
    directories: Annotated[tuple[Path, ...], tyro.conf.Positional],
    *,
    out: Path | None = None,
    oracle: str | None = None,
    returns: bool = False,
) -> None:
    """Make figures and one HTML page from recorded runs.

    Args:
        directories: Directories of studies or runs, compared on one page.
        out: Directory of the report (default: report in the directory of one study).
        oracle: J*(θ) as module:function, or CSV file with columns theta and value.
        returns: Show returns only; train no oracle for the regret, which may take long.
    """
    from driftrl.analysis.report import report

    require(bool(directories), "Name the directory of a study or a run.")
    written = report(
        directories,
        out,
        oracle="none" if returns else oracle,
        progress=oracle_progress(),
        warn=warn,
    )
    print("The report:", *written, sep="\n  ")
