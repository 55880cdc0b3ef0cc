"""The paper's figure of several problems: a column for each, side by side."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftrl.figures.axes import draw_episodes, draw_panel, note, what_is_drawn
from driftrl.figures.panels import regret_panel, return_panel, study_panels
from driftrl.figures.style import (
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_styles,
    printed_style,
    problem_name,
)
from driftrl.regret import StudyRegret

_LEAST_COLUMN_INCHES = 2.2
_LEGEND_INCHES = 0.3
_ROWS = {
    "theta": (1, r"$\theta_n$"),
    "returns": (2, r"Return $J(\pi_n)$"),
    "regret": (2, r"Cumulative regret $R_n$"),
}
"""Height of each panel's row in relation to the others, and what its axis is called."""


def problems_figure(studies: Sequence[StudyRegret]) -> Figure:
    """Draw θ_n, the return J(π_n) beside J*(θ_n), and R_n, a column for each problem.

    Lines are means over seeds, bands one standard error to either side.  A row has one
    vertical axis, so that problems can be compared by eye; beside machines of one's
    own, whose rewards are of their own kind, each column has axes of its own.  A row
    that no problem has is left out.
    """
    names = dict.fromkeys(one.method for study in studies for one in study.methods)
    styles = method_styles(names)
    is_known = [study.table.known for study in studies]
    rows = _ROWS if any(is_known) else {"returns": _ROWS["returns"]}
    width, height = max(PAGE_INCHES, _LEAST_COLUMN_INCHES * len(studies)), 4.7
    if not any(is_known):
        height = 2.6
    with printed_style():
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(
            len(rows),
            len(studies),
            sharex="all" if all(is_known) else "col",
            sharey="row" if all(is_known) else False,
            squeeze=False,
            height_ratios=[share for share, _ in rows.values()],
        )
        figure.subplots_adjust(
            left=0.62 / width,
            right=1 - 0.1 / width,
            top=1 - (_LEGEND_INCHES + 0.22) / height,
            bottom=0.42 / height,
            hspace=0.12,
            wspace=0.08 if all(is_known) else 0.26,
        )
        for column, study in zip(grid.T, studies, strict=True):
            _draw_column(dict(zip(rows, column, strict=True)), study, styles)
        _fit_rows(grid, studies)
        for axes, (_, label) in zip(grid[:, 0], rows.values(), strict=True):
            axes.set_ylabel(label)
        figure.align_ylabels(grid[:, 0])
        _draw_legend(figure, grid[list(rows).index("returns")], studies)
    return figure


def _draw_column(
    column: Mapping[str, Axes], study: StudyRegret, styles: dict[str, MethodStyle]
) -> None:
    panels = {panel.key: panel for panel in study_panels(study)}
    for key, axes in column.items():
        if key in panels:
            draw_panel(axes, panels[key], styles)
        else:
            axes.set_yticks([])
            note(axes, "not known", (0.4, 0.55), axes.transAxes)
        draw_episodes(axes, study)
    places = list(column.values())
    places[0].set_title(problem_name(study.problem), fontweight="bold")
    places[-1].set_xlabel(r"Episode $n$")


def _fit_rows(grid: np.ndarray, studies: Sequence[StudyRegret]) -> None:
    """Undo what the last column set for all: the axes are shared."""
    if not all(study.table.known for study in studies):
        return
    longest = max(len(run.records) for study in studies for run in study.runs)
    grid[0, 0].set_xlim(0.5, longest + 0.5)
    panels = [regret_panel(study) for study in studies]
    grid[-1, 0].autoscale(axis="y")
    if all(panel.starts_at_zero for panel in panels):
        grid[-1, 0].set_ylim(bottom=0)


def _draw_legend(
    figure: Figure, returns: np.ndarray, studies: Sequence[StudyRegret]
) -> None:
    known = {}
    for axes in returns:
        handles, labels = axes.get_legend_handles_labels()
        known |= dict(zip(labels, handles, strict=True))
    optima = [one for study in studies for one in return_panel(study).references]
    for optimum in optima[:1]:
        (known[optimum.label],) = returns[0].plot([], [], color=INK, linewidth=0.9)
    figure.legend(
        [*known.values()],
        [*known],
        loc="upper left",
        ncols=len(known),
        bbox_to_anchor=(returns[0].get_position().x0 - 0.01, 1),
        borderaxespad=0.2,
    )
    figure.text(
        returns[-1].get_position().x1,
        1 - 0.14 / figure.get_figheight(),
        what_is_drawn(*studies),
        ha="right",
        va="center",
        color=MUTED,
    )
