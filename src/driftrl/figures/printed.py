"""Figures for print: regret over episodes, the overview, and final regret by seed."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, NullLocator, PercentFormatter
from matplotlib.transforms import Transform
from scipy.optimize import isotonic_regression

from driftrl.figures.panels import (
    Panel,
    regret_panel,
    study_changes,
    study_panels,
    theta_panel,
)
from driftrl.figures.style import (
    COLUMN_INCHES,
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_styles,
    printed_style,
)
from driftrl.regret import PairedDifference, StudyRegret
from driftrl.results import statistics
from driftrl.results.curves import theta_sequences

_LABEL_POINTS = 8.5  # least distance of two line labels, a little over their height


def regret_figure(study: StudyRegret) -> Figure:
    """Draw cumulative dynamic regret over episodes, with θ_n above it.

    Lines are means over seeds, bands one standard error to either side; the beginning
    of a change of θ is marked.  One column wide.
    """
    styles = method_styles(one.method for one in study.methods)
    with printed_style():
        figure = Figure(figsize=(COLUMN_INCHES, 2.55))
        top, bottom = figure.subplots(
            2, 1, sharex=True, height_ratios=[1, 3.6], gridspec_kw={"hspace": 0.16}
        )
        figure.subplots_adjust(left=0.145, right=0.80, top=0.975, bottom=0.145)
        _draw_panel(top, theta_panel(study), styles)
        _draw_panel(bottom, regret_panel(study), styles)
        top.set_ylabel(r"$\theta_n$")
        _tick_extremes(top, study)
        bottom.set_ylabel(r"Cumulative regret $R_n$")
        bottom.set_xlabel(r"Episode $n$")
        for axes in (top, bottom):
            _draw_episodes(axes, study)
        for start in study_changes(study)[:1]:
            _note(top, "change", (start - 0.5, 0.9), top.get_xaxis_transform())
        _note(bottom, _what_is_drawn(study), (0.0, 0.97), bottom.transAxes)
        figure.align_ylabels([top, bottom])
        _label_lines(bottom, study, styles)
    return figure


def overview_figure(study: StudyRegret) -> Figure:
    """Draw θ_n, returns, regret, buffer span, model error and coverage over episodes.

    Lines are means over seeds, bands one standard error to either side.  Two columns
    wide.
    """
    styles = method_styles(one.method for one in study.methods)
    with printed_style():
        figure = Figure(figsize=(PAGE_INCHES, 6.0))
        grid = figure.subplots(3, 2, sharex=True)
        figure.subplots_adjust(
            left=0.085, right=0.985, top=0.915, bottom=0.07, hspace=0.3, wspace=0.24
        )
        for axes, panel in zip(grid.flat, study_panels(study), strict=True):
            _draw_panel(axes, panel, styles)
            _draw_episodes(axes, study)
            axes.set_title(panel.title, loc="left", fontweight="bold")
            axes.set_ylabel(panel.axis)
            if panel.curves and panel.references:
                _label_reference(axes, panel.references[0].label)
        grid[0, 0].yaxis.label.set(rotation=0, va="center")
        for axes in grid[-1]:
            axes.set_xlabel(r"Episode $n$")
        figure.align_ylabels(grid)
        handles, labels = grid[1, 0].get_legend_handles_labels()
        figure.legend(
            handles,
            labels,
            loc="upper left",
            ncols=len(labels),
            bbox_to_anchor=(0.07, 1),
        )
        figure.text(
            0.985, 0.972, _what_is_drawn(study), ha="right", va="center", color=MUTED
        )
    return figure


def final_regret_figure(study: StudyRegret) -> Figure:
    """Draw R_N of every seed, and its paired difference to the baseline.

    On the left a dot is a run, a grey line joins the runs of one seed, and the mark
    beside them is the mean with its standard error.  On the right a dot is the
    difference on one seed, the mark their mean with its 95 % t interval.
    """
    styles = method_styles(one.method for one in study.methods)
    with printed_style():
        figure = Figure(figsize=(PAGE_INCHES, 2.5))
        if study.differences:
            left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.32})
            figure.subplots_adjust(left=0.09, right=0.985, top=0.89, bottom=0.12)
            _draw_differences(right, study.differences, styles)
        else:
            left = figure.subplots()
            figure.subplots_adjust(left=0.3, right=0.7, top=0.89, bottom=0.12)
        _draw_final(left, study, styles)
    return figure


def _what_is_drawn(study: StudyRegret) -> str:
    counts = sorted({len(one.seeds) for one in study.methods})
    if counts == [1]:
        return "one seed"
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    return f"mean ± standard error, {seeds} seeds"


def _draw_panel(axes: Axes, panel: Panel, styles: dict[str, MethodStyle]) -> None:
    for reference in panel.references:
        # θ is a property of whole episodes: a step, not a slope between two of them.
        edges = np.arange(len(reference.values) + 1) + 0.5
        axes.stairs(reference.values, edges, baseline=None, color=INK, linewidth=0.9)
    for method, curves in panel.curves.items():
        _draw_band(axes, curves, styles[method])
    if panel.log_ticks:
        axes.set_yscale("log")
        limits = axes.get_ylim()
        axes.set_yticks(panel.log_ticks, [f"{tick:g}" for tick in panel.log_ticks])
        axes.yaxis.set_minor_locator(NullLocator())
        axes.set_ylim(limits)
    elif panel.starts_at_zero:
        axes.set_ylim(bottom=0)
    if panel.as_percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    if panel.is_empty:
        axes.set_yticks([])
        _note(axes, "not recorded", (0.4, 0.55), axes.transAxes)


def _draw_band(
    axes: Axes, curves: Float[np.ndarray, "K N"], style: MethodStyle
) -> None:
    episodes = np.arange(1, curves.shape[1] + 1)
    centre, error = statistics.mean(curves), statistics.standard_error(curves)
    axes.plot(
        episodes,
        centre,
        color=style.colour,
        linestyle=style.dash,
        # A line through one episode has no length; a dot can be seen.
        marker="o" if len(episodes) == 1 else "",
        markersize=3,
        label=style.name,
    )
    axes.fill_between(
        episodes,
        centre - error,
        centre + error,
        color=style.colour,
        alpha=0.2,
        linewidth=0,
    )


def _note(
    axes: Axes, text: str, place: tuple[float, float], transform: Transform
) -> None:
    axes.annotate(
        text,
        place,
        xycoords=transform,
        xytext=(3, 0),
        textcoords="offset points",
        va="top",
        fontsize=7,
        color=MUTED,
        bbox={"facecolor": "white", "linewidth": 0, "pad": 1},
    )


def _tick_extremes(axes: Axes, study: StudyRegret) -> None:
    """Put ticks at the smallest and largest θ, which a slim panel has room for."""
    thetas = np.concatenate(theta_sequences(study.runs))
    ticks = sorted({float(thetas.min()), float(thetas.max())})
    axes.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])
    axes.margins(y=0.18)


def _draw_episodes(axes: Axes, study: StudyRegret) -> None:
    """Fit the horizontal axis to the longest run and mark where θ begins to change."""
    axes.set_xlim(0.5, max(len(run.records) for run in study.runs) + 0.5)
    ticks = MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
    axes.xaxis.set_major_locator(ticks)
    for start in study_changes(study):
        # Half an episode earlier: between the last old θ and the first new one.
        axes.axvline(start - 0.5, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)))


def _label_reference(axes: Axes, label: str) -> None:
    axes.plot([], [], color=INK, linewidth=0.9, label=label)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[-1:], labels[-1:], loc="best", fontsize=7)


def _label_lines(
    axes: Axes, study: StudyRegret, styles: dict[str, MethodStyle]
) -> None:
    """Write each method's name where its curve ends, apart enough to be read."""
    low, high = axes.get_ylim()
    figure = axes.get_figure(root=True)
    assert figure is not None
    points = 72 * figure.get_figheight() * axes.get_position().height
    separation = _LABEL_POINTS / points * (high - low)
    ends = np.array([one.mean[-1] for one in study.methods])
    for one, height in zip(study.methods, spread_apart(ends, separation), strict=True):
        axes.annotate(
            styles[one.method].name,
            (len(one.mean), height),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            color=styles[one.method].colour,
            annotation_clip=False,
        )


def spread_apart(
    positions: Float[np.ndarray, " N"], separation: float
) -> Float[np.ndarray, " N"]:
    """Move positions as little as possible until neighbours keep a distance.

    Least squares with y_{i+1} − y_i ≥ d is isotonic regression of y_i − i·d.
    """
    order = np.argsort(positions, kind="stable")
    steps = separation * np.arange(len(positions))
    moved = np.empty_like(positions)
    moved[order] = isotonic_regression(positions[order] - steps).x + steps
    return moved


def _draw_final(axes: Axes, study: StudyRegret, styles: dict[str, MethodStyle]) -> None:
    places = {one.method: index for index, one in enumerate(study.methods)}
    for seed in sorted({seed for one in study.methods for seed in one.seeds}):
        pairs = [
            (places[one.method], one.final.values[one.seeds.index(seed)])
            for one in study.methods
            if seed in one.seeds
        ]
        axes.plot(*zip(*pairs, strict=True), color=MUTED, linewidth=0.5, alpha=0.6)
    for one in study.methods:
        style, place = styles[one.method], places[one.method]
        _draw_dots(axes, place, one.final.values, style)
        reach = np.full((2, 1), one.final.stderr)
        _draw_mean(axes, place, one.final.mean, reach, style)
    _name_methods(axes, [styles[one.method].name for one in study.methods])
    if all((one.final.values >= 0).all() for one in study.methods):
        axes.set_ylim(bottom=0)
    axes.set_ylabel(f"Regret $R_{{{study.episodes}}}$")
    _title(axes, "Final regret by seed", "◇ mean ± standard error")


def _draw_differences(
    axes: Axes,
    differences: Sequence[PairedDifference],
    styles: dict[str, MethodStyle],
) -> None:
    baseline = method_styles([differences[0].baseline])[differences[0].baseline].name
    axes.axhline(0, color=INK, linewidth=0.8)
    for place, one in enumerate(differences):
        style, estimate = styles[one.method], one.estimate
        _draw_dots(axes, place, estimate.values, style)
        student = estimate.student
        reach = np.array(
            [[estimate.mean - student.low], [student.high - estimate.mean]]
        )
        _draw_mean(axes, place, estimate.mean, reach, style)
    _name_methods(axes, [styles[one.method].name for one in differences])
    axes.set_ylabel(f"Difference to {baseline}")
    _title(axes, "Paired by seed", "◇ mean and 95 % t interval")


def _title(axes: Axes, title: str, key: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_title(key, loc="right", fontsize=7, color=MUTED)


def _draw_dots(
    axes: Axes, place: float, values: Float[np.ndarray, " K"], style: MethodStyle
) -> None:
    places = np.full(len(values), place)
    axes.scatter(places, values, s=12, color=style.colour, linewidth=0, zorder=3)


def _draw_mean(
    axes: Axes,
    place: float,
    mean: float,
    reach: Float[np.ndarray, "2 1"],
    style: MethodStyle,
) -> None:
    axes.errorbar(
        [place + 0.2],
        [mean],
        reach,
        fmt="D",
        markersize=4,
        color=style.colour,
        markerfacecolor="white",
        capsize=3,
        linewidth=1,
    )


def _name_methods(axes: Axes, names: Sequence[str]) -> None:
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.set_xlim(-0.5, len(names) - 0.2)
    axes.grid(visible=False, axis="x")
