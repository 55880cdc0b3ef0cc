"""Writing a study's figures and page to a directory."""

import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from matplotlib.figure import Figure

from driftrl.errors import require
from driftrl.figures.aggregates import aggregate_figure
from driftrl.figures.bound import BoundColumn, bound_figure
from driftrl.figures.growth import growth_figure
from driftrl.figures.parking import drives_of, parking_figure, parking_words
from driftrl.figures.part import Picture
from driftrl.figures.printed import (
    final_regret_figure,
    overview_figure,
    regret_figure,
    returns_figure,
)
from driftrl.figures.problems import problems_caption, problems_figure
from driftrl.figures.report import ALL, Origin, report_page
from driftrl.figures.style import render
from driftrl.figures.sweep import sweep_figure, sweep_returns_figure, sweeps_of
from driftrl.io import write_atomically
from driftrl.results.comparison import Comparison
from driftrl.results.growth import growth_of

Bounds = Mapping[str, Sequence[BoundColumn]]
"""What the regret bound says, by the label of the problem."""

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
GROWTH_FIGURES = {"growth": growth_figure}
"""The same, where runs have different lengths."""
PARKING_FIGURES = {"parking": parking_figure}
"""The same, where a car was to park and its drives are at hand."""
_CAPTIONS = {
    "bound": (
        "The bound beside the regret",
        "Row by row: the measured regret of each episode; the uncertainty Σ along it, "
        "of which the bound’s learning term is made; the drift of the dynamics within "
        "what was remembered, of which its drift term is made; and all of them summed "
        "with every constant of the bound, beside the largest regret that there can "
        "be. Measured on the runs’ own episodes, in the norm of a kernel that was "
        "fitted to them.",
    ),
    "growth": (
        "Regret against the number of episodes",
        "Mean over seeds with one standard error to either side, and the exponents of "
        "N with 95 % t intervals: over all lengths, and between the two longest.",
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
_RETURN_CAPTIONS = _CAPTIONS | {
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


MOST_PROBLEMS = 8
"""Problems of a study up to which each has printed figures of its own, unasked."""
MOST_METHODS = 8
"""Methods up to which one printed figure has room for the names of all."""


def write_report(
    comparison: Comparison,
    directory: str | Path,
    title: str,
    description: str,
    origin: Origin | None = None,
    *,
    bounds: Bounds | None = None,
    all_figures: bool = False,
) -> list[Path]:
    """Write the figures as PNG and PDF and the page as ``report.html``, atomically.

    Figures of one of several problems have its label in their names.

    Args:
        comparison: The regret on each problem of a study.
        directory: Where to write; it is made if it is not there.
        title: Heading of the page.
        description: What was studied, in a sentence or two.
        origin: Which directories and which command the page comes from.
        bounds: What the regret bound says of the methods of some problems.
        all_figures: Print the figures of each problem, however many there are; a
            problem takes some seconds.

    Returns:
        The files that were written, the page last.
    """
    directory = check_place(directory)
    directory.mkdir(parents=True, exist_ok=True)
    written: list[Path] = []
    pictures: dict[str, list[Picture]] = {}
    if all_figures or prints_each(comparison):
        written = _print_problems(comparison, directory, pictures, bounds or {})
    together = aggregate_figure(comparison)
    if together is not None:
        written += _write_figure(together, directory, "aggregate")
    page = directory / "report.html"
    text = report_page(comparison, title, description, pictures, origin)
    write_atomically(page, text.encode())
    return [*written, page]


def check_place(directory: str | Path) -> Path:
    """Return where a report is to be written, unless a file is in the way."""
    directory = Path(directory)
    in_the_way = [one for one in (directory, *directory.parents) if one.is_file()]
    require(
        not in_the_way,
        f"Cannot write a report into {directory}: "
        f"{in_the_way[-1] if in_the_way else ''} is a file, not a directory.",
    )
    return directory


def prints_each(comparison: Comparison) -> bool:
    """Whether each problem has printed figures of its own, unasked."""
    return len(comparison.studies) <= MOST_PROBLEMS


def _print_problems(
    comparison: Comparison,
    directory: Path,
    pictures: dict[str, list[Picture]],
    bounds: Bounds,
) -> list[Path]:
    """Write the figures of all problems and of each, and note those for the page."""
    written: list[Path] = []
    names = {one.method for study in comparison.studies for one in study.methods}
    if not comparison.has_one_problem and len(names) <= MOST_METHODS:
        figure = problems_figure(comparison.studies)
        written += _write_figure(figure, directory, "problems")
        caption = problems_caption(comparison.studies)
        picture = Picture("All problems", caption, written[-2].read_bytes())
        pictures[ALL] = [picture]
    endings = file_endings([study.problem for study in comparison.studies])
    for study, ending in zip(comparison.studies, endings, strict=True):
        figures = FIGURES if study.table.known else RETURN_FIGURES
        pictured = {
            **(SWEEP_FIGURES if sweeps_of(study) else {}),
            **(GROWTH_FIGURES if growth_of(study) else {}),
            **(PARKING_FIGURES if drives_of(study) else {}),
        }
        if columns := bounds.get(study.problem):
            pictured["bound"] = partial(bound_figure, columns=columns)
        for name, draw in {**figures, **pictured}.items():
            written += _write_figure(draw(study), directory, name + ending)
            if name in pictured:
                captions = _CAPTIONS if study.table.known else _RETURN_CAPTIONS
                words = captions.get(name) or parking_words(study)
                picture = Picture(*words, written[-2].read_bytes())
                pictures.setdefault(study.problem, []).append(picture)
    return written


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
