"""The paper's figure of several problems: a column for each, side by side."""

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftrl.figures.axes import draw_episodes, draw_panel, note, what_is_drawn
from driftrl.figures.panels import (
    regret_panel,
    return_panel,
    smoothing_width,
    study_changes,
    study_panels,
)
from driftrl.figures.style import (
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_styles,
    printed_style,
    problem_name,
)
from driftrl.figures.wording import listing
from driftrl.results.regret import StudyRegret

_LEAST_COLUMN_INCHES = 2.2
_HEAD_INCHES = 0.52  # for the legend and the names of problems
_FOOT_INCHES = 0.42
_SHARE_INCHES = 0.752  # of a row, for each share of the height
_ROWS = {
    "theta": (1, r"$\theta_n$"),
    "returns": (2, r"Return $J(\pi_n)$"),
    "regret": (2, r"Cumulative regret $R_n$"),
}
"""Height of each panel's row in relation to the others, and what its axis is called."""


def problems_figure(studies: Sequence[StudyRegret]) -> Figure:
    """Draw θ_n, the return J(π_n) beside J*(θ_n), and R_n, a column for each problem.

    Lines are means over seeds, bands one standard error to either side.  Columns of one
    task share their axes, so that problems can be compared by eye; another machine has
    rewards and episodes of its own kind, and axes of its own.  A row that no problem
    has is left out.
    """
    names = dict.fromkeys(one.method for study in studies for one in study.methods)
    styles = method_styles(names)
    rows = _rows(studies)
    groups = _like_columns(studies)
    shares = [_ROWS[key][0] for key in rows]
    width = max(PAGE_INCHES, _LEAST_COLUMN_INCHES * len(studies))
    height = _HEAD_INCHES + _FOOT_INCHES + _SHARE_INCHES * sum(shares)
    with printed_style():
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(
            len(rows), len(studies), sharex="col", squeeze=False, height_ratios=shares
        )
        figure.subplots_adjust(
            left=0.62 / width,
            right=1 - 0.1 / width,
            top=1 - _HEAD_INCHES / height,
            bottom=_FOOT_INCHES / height,
            hspace=0.12,
            wspace=0.08 if len(groups) == 1 else 0.26,
        )
        for columns in groups:
            _share_axes(grid[:, columns])
        for column, study in zip(grid.T, studies, strict=True):
            _draw_column(dict(zip(rows, column, strict=True)), study, styles)
        for columns in groups:
            shown = [studies[place] for place in columns]
            _fit_axes(dict(zip(rows, grid[:, columns[0]], strict=True)), shown)
        for axes, key in zip(grid[:, 0], rows, strict=True):
            axes.set_ylabel(_ROWS[key][1])
        figure.align_ylabels(grid[:, 0])
        _draw_legend(figure, grid[rows.index("returns")], studies)
    return figure


def problems_caption(studies: Sequence[StudyRegret]) -> str:
    """Say what is drawn for several problems, and of which of them not all is known."""
    rows = _rows(studies)
    optimum = " with the best possible J*(θ)" if "regret" in rows else ""
    shown = {
        "theta": "the drift θ",
        "returns": f"the return of each policy{optimum}",
        "regret": "cumulative dynamic regret",
    }
    dotted = any(study_changes(study) for study in studies)
    change = "; the dotted line marks where θ begins to change" * dotted
    said = (
        f"{listing([shown[key] for key in rows])}, a column for each problem. Lines "
        f"are means over seeds, bands one standard error to either side{change}."
    )
    smooth = any(smoothing_width(study) > 1 for study in studies)
    means = " Returns over many episodes are running means, of as many as it says."
    own = "" if len(_like_columns(studies)) == 1 else " Axes differ between machines."
    lacking = any(_rows([study]) != rows for study in studies)
    less = " Where J*(θ) is not known, the return is what there is to compare."
    return said[0].upper() + said[1:] + means * smooth + own + less * lacking


def _rows(studies: Sequence[StudyRegret]) -> list[str]:
    """Return the keys of the rows that at least one problem has something for."""
    found = {panel.key for study in studies for panel in study_panels(study)}
    return [key for key in _ROWS if key in found]


def _like_columns(studies: Sequence[StudyRegret]) -> list[list[int]]:
    """Return the places of the problems of each task of which the same is known."""
    groups: dict[tuple[str, ...], list[int]] = {}
    for place, study in enumerate(studies):
        groups.setdefault((study.task, *_rows([study])), []).append(place)
    return list(groups.values())


def _share_axes(columns: np.ndarray) -> None:
    """Give columns the axes of the first of them, and numbers at that one alone."""
    first, others = columns[:, 0], columns[:, 1:]
    for column in others.T:
        column[0].sharex(first[0])  # the column's other panels follow
        for axes, leader in zip(column, first, strict=True):
            axes.sharey(leader)
            axes.tick_params(labelleft=False)


def _draw_column(
    column: Mapping[str, Axes], study: StudyRegret, styles: dict[str, MethodStyle]
) -> None:
    width = smoothing_width(study)
    panels = {panel.key: panel.over(width) for panel in study_panels(study)}
    for key, axes in column.items():
        if key in panels:
            draw_panel(axes, panels[key], styles)
            if panels[key].is_noisy and width > 1:
                note(axes, f"mean of {width}", (0.03, 0.88), axes.transAxes)
        else:
            axes.set_yticks([])
            note(axes, "not known", (0.4, 0.55), axes.transAxes)
        draw_episodes(axes, study)
    places = list(column.values())
    places[0].set_title(problem_name(study.problem), fontweight="bold")
    places[-1].set_xlabel(r"Episode $n$")


def _fit_axes(column: Mapping[str, Axes], studies: Sequence[StudyRegret]) -> None:
    """Fit axes to all the problems that share them; each has fitted them to itself."""
    longest = max(len(run.records) for study in studies for run in study.runs)
    for axes in column.values():
        axes.set_xlim(0.5, longest + 0.5)
    known = [study for study in studies if study.table.known]
    if known:
        column["regret"].autoscale(axis="y")
        if all(regret_panel(study).starts_at_zero for study in known):
            column["regret"].set_ylim(bottom=0)


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
