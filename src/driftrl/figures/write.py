"""Writing a study's figures and page to a directory."""

from collections.abc import Sequence
from pathlib import Path

from driftrl.atomic import write_atomically
from driftrl.errors import require
from driftrl.figures.printed import (
    final_regret_figure,
    overview_figure,
    regret_figure,
)
from driftrl.figures.report import report_page
from driftrl.figures.style import render
from driftrl.figures.sweep import sweep_figure, sweeps_of
from driftrl.regret import OracleTable, compare_methods
from driftrl.results.records import Run

FIGURES = {
    "regret": regret_figure,
    "overview": overview_figure,
    "final_regret": final_regret_figure,
}
"""Name of each figure's file, without its ending, and what draws it."""


def write_report(
    runs: Sequence[Run],
    oracle_table: OracleTable,
    directory: str | Path,
    title: str,
    description: str,
) -> list[Path]:
    """Write the figures as PNG and PDF and the page as ``report.html``, atomically.

    Args:
        runs: Runs of one task, finished or not.
        oracle_table: J*(θ) for every θ in the records.
        directory: Where to write; it is made if it is not there.
        title: Heading of the page.
        description: What was studied, in a sentence or two.

    Returns:
        The files that were written, the page last.
    """
    directory = Path(directory)
    require(
        directory.is_dir() or not directory.exists(),
        f"Cannot write a report into {directory}: it is a file, not a directory.",
    )
    study = compare_methods(runs, oracle_table)
    directory.mkdir(parents=True, exist_ok=True)
    written = []
    sweep = {"sweep": sweep_figure} if sweeps_of(study) else {}
    for name, draw in {**FIGURES, **sweep}.items():
        figure = draw(study)
        for kind in ("png", "pdf"):
            path = directory / f"{name}.{kind}"
            write_atomically(path, render(figure, kind))
            written.append(path)
    page = directory / "report.html"
    write_atomically(page, report_page(study, title, description).encode())
    return [*written, page]
