"""Figures for print: regret or returns over episodes, overview, final regret."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.optimize import isotonic_regression

from driftrl.figures.axes import (
    draw_episodes,
    draw_panel,
    draw_soft_resets,
    label_reference,
    note,
    what_is_drawn,
)
from driftrl.figures.panels import (
    Panel,
    regret_panel,
    return_panel,
    smoothing_width,
    soft_resets,
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
    method_name,
    method_styles,
    printed_style,
)
from driftrl.results.curves import theta_is_known, theta_sequences
from driftrl.results.regret import PairedDifference, StudyRegret
from driftrl.results.statistics import mean

_LABEL_POINTS = 8.5  # least distance of two line labels, a little over their height
_LETTER_INCHES = 0.058  # width of an average letter of a label
_MOST_ACROSS = 5  # names that fit beside each other under half a page


def regret_figure(study: StudyRegret) -> Figure:
    """Draw cumulative dynamic regret over episodes, with θ_n above it.

    Lines are means over seeds, bands one standard error to either side; the beginning
    of a change of θ is marked.  One column wide.
    """
    with printed_style():
        figure = _result_figure(
            study, regret_panel(study), r"Cumulative regret $R_n$", head=0.06
        )
        lowest = figure.axes[-1]
        note(lowest, what_is_drawn(study), (0.0, 0.97), lowest.transAxes)
    return figure


def returns_figure(study: StudyRegret) -> Figure:
    """Draw the return over episodes, where no optimum is known to compare it with.

    Lines are means over seeds, bands one standard error to either side; θ_n is above
    it where that is known.  One column wide.
    """
    with printed_style():
        figure = _result_figure(
            study, return_panel(study), r"Return $J(\pi_n)$", head=0.19
        )
        # Above the panel: returns may be anywhere in it.
        said = what_is_drawn(study)
        figure.axes[0].set_title(said, loc="right", fontsize=7, color=MUTED)
    return figure


def _result_figure(
    study: StudyRegret, panel: Panel, label: str, *, head: float
) -> Figure:
    """Draw one panel, below θ_n if that is known, and leave ``head`` inches above."""
    styles = method_styles(one.method for one in study.methods)
    longest = max(len(style.name) for style in styles.values())
    right = 1 - _LETTER_INCHES * (longest + 2) / COLUMN_INCHES
    shares = [1, 3.6] if theta_is_known(study.runs) else [1]
    height = 2.55 if len(shares) > 1 else 2.2
    figure = Figure(figsize=(COLUMN_INCHES, height))
    grid = figure.subplots(
        len(shares), 1, sharex=True, squeeze=False, height_ratios=shares
    )
    figure.subplots_adjust(
        left=0.145,
        right=min(0.80, right),
        top=1 - head / height,
        bottom=0.37 / height,
        hspace=0.16,
    )
    *strips, main = grid[:, 0]
    draw_panel(main, panel, styles)
    main.set_ylabel(label)
    main.set_xlabel(r"Episode $n$")
    draw_episodes(main, study)
    for strip in strips:
        _draw_theta(strip, study, styles)
    figure.align_ylabels(grid)
    _label_lines(main, panel, styles)
    return figure


def _draw_theta(
    axes: Axes, study: StudyRegret, styles: Mapping[str, MethodStyle]
) -> None:
    """Draw θ_n as a slim strip in which the beginning of its change is named."""
    draw_panel(axes, theta_panel(study), styles)
    draw_episodes(axes, study)
    axes.set_ylabel(r"$\theta_n$")
    _tick_extremes(axes, study)
    for start in study_changes(study)[:1]:
        place = (start - 0.5, _free_height(study, start))
        note(axes, "change", place, axes.get_xaxis_transform())


def overview_figure(study: StudyRegret) -> Figure:
    """Draw every panel over episodes: θ_n, returns, regret, and what the model knew.

    θ_n and regret are left out where they are not known.  Lines are means over seeds,
    bands one standard error to either side; ticks along the lower edge mark soft
    resets.  What is noisy is smoothed where there are many episodes, and the panel says
    so.  Two columns wide.
    """
    styles = method_styles(one.method for one in study.methods)
    panels = [panel.over(smoothing_width(study)) for panel in study_panels(study)]
    columns = 2 if len(panels) <= 8 else 3
    rows = math.ceil(len(panels) / columns)
    across = min(len(styles), 6 if max(map(_name_length, styles.values())) < 16 else 4)
    is_short = len(styles) <= 4  # so that a note fits beside the legend
    # Inches for the legend, and for the note where it has a line of its own.
    head = 0.2 + 0.15 * math.ceil(len(styles) / across) + 0.12 * (not is_short)
    height = head + 1.86 * rows + 0.05
    with printed_style():
        figure = Figure(figsize=(PAGE_INCHES, height))
        grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
        figure.subplots_adjust(
            left=0.085,
            right=0.985,
            top=1 - (head + 0.14) / height,
            bottom=0.42 / height,
            hspace=0.3,
            wspace=0.24 if columns == 2 else 0.34,
        )
        for axes, panel in zip(grid.flat, panels, strict=False):
            draw_panel(axes, panel, styles)
            draw_episodes(axes, study)
            axes.set_title(panel.title, loc="left", fontweight="bold")
            axes.set_ylabel(panel.axis)
            if panel.curves:
                draw_soft_resets(axes, study, styles)
                if panel.references:
                    label_reference(axes, panel.references[0].label)
            if panel.key == "theta":  # one upright letter
                axes.yaxis.label.set(rotation=0, va="center")
        _finish_columns(grid, len(panels))
        figure.align_ylabels(grid)
        methods_only = [bool(one.curves) and not one.references for one in panels]
        axes = grid.flat[methods_only.index(True)]
        handles, labels = axes.get_legend_handles_labels()
        figure.legend(
            handles, labels, loc="upper left", ncols=across, bbox_to_anchor=(0.07, 1)
        )
        said = what_is_drawn(study)
        if soft_resets(study):
            said += "; ticks: soft resets"
        line = 0.17 if is_short else head - 0.14
        figure.text(
            0.985, 1 - line / height, said, ha="right", va="center", color=MUTED
        )
    return figure


def _name_length(style: MethodStyle) -> int:
    return len(style.name)


def _finish_columns(grid: np.ndarray, drawn: int) -> None:
    """Number the lowest panel of each column, and hide the places left over."""
    for axes in grid.flat[drawn:]:
        axes.set_visible(False)
    for column in range(grid.shape[1]):
        lowest = (drawn - 1 - column) // grid.shape[1]
        axes = grid[lowest, column]
        axes.set_xlabel(r"Episode $n$")
        axes.tick_params(labelbottom=True)


def final_regret_figure(study: StudyRegret) -> Figure:
    """Draw R_N of every seed, and its paired difference to the baseline.

    On the left a dot is a run, a grey line joins the runs of one seed, and the mark
    beside them is the mean with its standard error.  On the right a dot is the
    difference on one seed, the mark their mean with its 95 % t interval.
    """
    styles = method_styles(one.method for one in study.methods)
    # Many names do not fit beside each other and are written upwards, below the axis.
    names = [style.name for style in styles.values()]
    is_wide = len(names) > _MOST_ACROSS
    foot = 0.15 + _LETTER_INCHES * max(map(len, names)) if is_wide else 0.3
    height = 2.2 + foot
    edges = {"top": 1 - 0.275 / height, "bottom": foot / height}
    with printed_style():
        figure = Figure(figsize=(PAGE_INCHES, height))
        if study.differences:
            left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.32})
            figure.subplots_adjust(left=0.09, right=0.985, **edges)
            _draw_differences(right, study.differences, styles)
        else:
            left = figure.subplots()
            figure.subplots_adjust(left=0.3, right=0.7, **edges)
        _draw_final(left, study, styles)
    return figure


def _free_height(study: StudyRegret, start: int) -> float:
    """Return the height, as a share of the panel's, at which a note misses θ_n."""
    course = theta_sequences(study.runs)[0]
    soon = course[start - 1 : start + len(course) // 10]
    return 0.34 if soon.mean() > (course.min() + course.max()) / 2 else 0.9


def _tick_extremes(axes: Axes, study: StudyRegret) -> None:
    """Put ticks at the smallest and largest θ, which a slim panel has room for."""
    thetas = np.concatenate(theta_sequences(study.runs))
    ticks = sorted({float(thetas.min()), float(thetas.max())})
    axes.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])
    axes.margins(y=0.18)


def _label_lines(axes: Axes, panel: Panel, styles: Mapping[str, MethodStyle]) -> None:
    """Write each method's name where its curve ends, apart enough to be read."""
    low, high = axes.get_ylim()
    figure = axes.get_figure(root=True)
    assert figure is not None
    points = 72 * figure.get_figheight() * axes.get_position().height
    separation = _LABEL_POINTS / points * (high - low)
    ends = np.array([mean(curves)[-1] for curves in panel.curves.values()])
    heights = spread_apart(ends, separation)
    for (method, curves), height in zip(panel.curves.items(), heights, strict=True):
        axes.annotate(
            styles[method].name,
            (curves.shape[1], height),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            color=styles[method].colour,
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


def _draw_final(
    axes: Axes, study: StudyRegret, styles: Mapping[str, MethodStyle]
) -> None:
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
    styles: Mapping[str, MethodStyle],
) -> None:
    baseline = method_name(differences[0].baseline)
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
    rotation = 90 if len(names) > _MOST_ACROSS else 0
    axes.set_xticks(range(len(names)), names, fontsize=8, rotation=rotation)
    axes.set_xlim(-0.5, len(names) - 0.2)
    axes.grid(visible=False, axis="x")
