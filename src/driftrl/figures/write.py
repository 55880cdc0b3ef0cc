"""Writing a study's figures and page to a directory."""

import re
from collections.abc import Sequence
from pathlib import Path

from matplotlib.figure import Figure

from driftrl.atomic import write_atomically
from driftrl.errors import require
from driftrl.figures.printed import (
    final_regret_figure,
    overview_figure,
    regret_figure,
    returns_figure,
)
from driftrl.figures.problems import problems_figure
from driftrl.figures.report import ALL, report_page
from driftrl.figures.sections import Picture
from driftrl.figures.style import render
from driftrl.figures.sweep import sweep_figure, sweep_returns_figure, sweeps_of
from driftrl.regret import StudyRegret
from driftrl.results.comparison import Comparison

FIGURES = {
    "regret": regret_figure,
    "overview": overview_figure,
    "final_regret": final_regret_figure,
}
"""Name of each figure's file, without its ending, and what draws it."""
RETURN_FIGURES = {"returns": returns_figure, "overview": overview_figure}
"""The same, where no regret is known."""
SWEEP_FIGURES = {"sweep": sweep_figure, "sweep_returns": sweep_returns_figure}
"""The same, where settings were swept."""
_CAPTIONS = {
    "problems": (
        "All problems",
        "The drift θ, the return of each policy with the best possible J*(θ), and "
        "cumulative dynamic regret, a column for each problem. Lines are means over "
        "seeds, bands one standard error to either side; the dotted line marks where θ "
        "begins to change.",
    ),
    "sweep": (
        "Final regret over the swept setting",
        "Mean over seeds, with one standard error to either side.",
    ),
    "sweep_returns": (
        "Return of an episode, by value of the swept setting",
        "Lines are means over seeds, bands one standard error to either side; darker "
        "is a larger value. The black line is the best possible return J*(θ).",
    ),
}
_RETURN_CAPTIONS = {
    "problems": (
        "All problems",
        "The return of each policy, a column for each problem. Lines are means over "
        "seeds, bands one standard error to either side.",
    ),
    "sweep": (
        "Mean return over the swept setting",
        "Mean over episodes and seeds, with one standard error to either side.",
    ),
    "sweep_returns": (
        "Return of an episode, by value of the swept setting",
        "Lines are means over seeds, bands one standard error to either side; darker "
        "is a larger value.",
    ),
}
"""The same, where no regret is known."""


def write_report(
    comparison: Comparison, directory: str | Path, title: str, description: str
) -> list[Path]:
    """Write the figures as PNG and PDF and the page as ``report.html``, atomically.

    Figures of one of several problems have its label in their names.

    Args:
        comparison: The regret on each problem of a study.
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
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    pictures: dict[str, list[Picture]] = {}
    if not comparison.has_one_problem:
        figure = problems_figure(comparison.studies)
        written += _write_figure(figure, directory, "problems")
        pictures[ALL] = [_picture("problems", written[-2], comparison.studies)]
    endings = file_endings([study.problem for study in comparison.studies])
    for study, ending in zip(comparison.studies, endings, strict=True):
        sweeps = SWEEP_FIGURES if sweeps_of(study) else {}
        figures = FIGURES if study.table.known else RETURN_FIGURES
        for name, draw in {**figures, **sweeps}.items():
            written += _write_figure(draw(study), directory, name + ending)
            if name in sweeps:
                picture = _picture(name, written[-2], [study])
                pictures.setdefault(study.problem, []).append(picture)
    page = directory / "report.html"
    text = report_page(comparison, title, description, pictures)
    write_atomically(page, text.encode())
    return [*written, page]


def file_endings(labels: Sequence[str]) -> list[str]:
    """Return what to add to a file's name for each problem; nothing for no label."""
    words = [re.sub(r"[^\w.=+-]+", "_", label.replace(" ", "")) for label in labels]
    if len(set(words)) < len(words):  # other letters alone do not tell files apart
        words = [str(place) for place in range(1, len(words) + 1)]
    return [f"-{word}" if word else "" for word in words]


def _write_figure(figure: Figure, directory: Path, name: str) -> list[Path]:
    """Write a figure as PNG, then as PDF."""
    paths = [directory / f"{name}.{kind}" for kind in ("png", "pdf")]
    for path in paths:
        write_atomically(path, render(figure, path.suffix[1:]))
    return paths


def _picture(name: str, path: Path, shown: Sequence[StudyRegret]) -> Picture:
    is_known = [study.table.known for study in shown]
    title, caption = (_CAPTIONS if any(is_known) else _RETURN_CAPTIONS)[name]
    if any(is_known) and not all(is_known):
        caption += " Of machines of one’s own the returns alone are known."
    return Picture(title, caption, path.read_bytes())
