"""The paper's figure of several problems: a column for each, side by side."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from driftrl.figures.axes import draw_episodes, draw_panel, what_is_drawn
from driftrl.figures.panels import regret_panel, return_panel, theta_panel
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


def problems_figure(studies: Sequence[StudyRegret]) -> Figure:
    """Draw θ_n, the return J(π_n) beside J*(θ_n), and R_n, a column for each problem.

    Lines are means over seeds, bands one standard error to either side.  A row has one
    vertical axis, so that problems can be compared by eye.
    """
    names = dict.fromkeys(one.method for study in studies for one in study.methods)
    styles = method_styles(names)
    width, height = max(PAGE_INCHES, _LEAST_COLUMN_INCHES * len(studies)), 4.7
    with printed_style():
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(
            3,
            len(studies),
            sharex=True,
            sharey="row",
            squeeze=False,
            height_ratios=[1, 2, 2],
        )
        figure.subplots_adjust(
            left=0.62 / width,
            right=1 - 0.1 / width,
            top=1 - (_LEGEND_INCHES + 0.22) / height,
            bottom=0.42 / height,
            hspace=0.12,
            wspace=0.08,
        )
        for column, study in zip(grid.T, studies, strict=True):
            _draw_column(column, study, styles)
        _fit_rows(grid, studies)
        labels = (r"$\theta_n$", r"Return $J(\pi_n)$", r"Cumulative regret $R_n$")
        for axes, label in zip(grid[:, 0], labels, strict=True):
            axes.set_ylabel(label)
        figure.align_ylabels(grid[:, 0])
        _draw_legend(figure, grid, studies)
    return figure


def _draw_column(
    column: np.ndarray, study: StudyRegret, styles: dict[str, MethodStyle]
) -> None:
    panels = (theta_panel(study), return_panel(study), regret_panel(study))
    for axes, panel in zip(column, panels, strict=True):
        draw_panel(axes, panel, styles)
        draw_episodes(axes, study)
    column[0].set_title(problem_name(study.problem), fontweight="bold")
    column[-1].set_xlabel(r"Episode $n$")


def _fit_rows(grid: np.ndarray, studies: Sequence[StudyRegret]) -> None:
    """Undo what the last column set for all: the axes are shared."""
    longest = max(len(run.records) for study in studies for run in study.runs)
    grid[0, 0].set_xlim(0.5, longest + 0.5)
    panels = [regret_panel(study) for study in studies]
    grid[-1, 0].autoscale(axis="y")
    if all(panel.starts_at_zero for panel in panels):
        grid[-1, 0].set_ylim(bottom=0)


def _draw_legend(
    figure: Figure, grid: np.ndarray, studies: Sequence[StudyRegret]
) -> None:
    known = {}
    for axes in grid[-1]:
        handles, labels = axes.get_legend_handles_labels()
        known |= dict(zip(labels, handles, strict=True))
    (optimum,) = grid[1, 0].plot([], [], color=INK, linewidth=0.9)
    label = return_panel(studies[0]).references[0].label
    figure.legend(
        [*known.values(), optimum],
        [*known, label],
        loc="upper left",
        ncols=len(known) + 1,
        bbox_to_anchor=(grid[0, 0].get_position().x0 - 0.01, 1),
        borderaxespad=0.2,
    )
    figure.text(
        grid[0, -1].get_position().x1,
        1 - 0.14 / figure.get_figheight(),
        what_is_drawn(*studies),
        ha="right",
        va="center",
        color=MUTED,
    )
