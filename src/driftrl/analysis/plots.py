"""Figures for print from a frame of episodes, as Matplotlib figures to change at will.

Lines are means over seeds, bands one standard error to either side, and a dotted line
marks where θ begins to change.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import (
    MaxNLocator,
    NullLocator,
    PercentFormatter,
    ScalarFormatter,
)
from scipy.optimize import isotonic_regression

from driftrl.analysis import compare
from driftrl.analysis.names import sweep_point
from driftrl.analysis.panels import (
    Panel,
    has_optimum,
    longest_run,
    method_runs,
    methods_of,
    panels_of,
    problem_frames,
    score_of,
    smoothing_width,
    soft_reset_ticks,
    theta_changes,
    theta_courses,
)
from driftrl.analysis.regret import ProblemSummary, known_summaries, summarize
from driftrl.analysis.statistics import Estimate, mean, standard_error
from driftrl.analysis.style import (
    COLUMN_INCHES,
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_name,
    method_styles,
    printed_style,
    problem_name,
    render,
    setting_colour,
    setting_dash,
    setting_name,
    shade,
)
from driftrl.errors import require
from driftrl.io import write_atomically

_LONG_NUMBER = 10_000
_LABEL_POINTS = 8.5  # least distance of two line labels, a little over their height
_LETTER_INCHES = 0.058  # width of an average letter of a label
_MOST_LETTERS = 28  # of a name beside a panel
_MOST_ACROSS = 5  # names that fit beside each other under half a page
_AXIS_LABELS = {
    "theta": r"$\theta_n$",
    "returns": r"Return $J(\pi_n)$",
    "regret": r"Cumulative regret $R_n$",
}
Styles = Mapping[str, MethodStyle]


def save(figure: Figure, path: str | Path) -> list[Path]:
    """Write a figure as PNG and as PDF beside it, and return both paths.

    The same figure gives the same bytes: no date is written into the files.
    """
    paths = [Path(f"{path}.{kind}") for kind in ("png", "pdf")]
    for target in paths:
        write_atomically(target, render(figure, target.suffix[1:]))
    return paths


# ---- parts of figures ----------------------------------------------------------------


class _ShortNumbers(ScalarFormatter):
    """Writes 20k for 20000 and 3M for 3000000, where numbers are that long."""

    def format_ticks(self, values: Iterable[float]) -> list[str]:
        values = list(values)
        largest = max(map(abs, values), default=0.0)
        if largest < _LONG_NUMBER:
            return super().format_ticks(values)
        unit, name = (1e6, "M") if largest >= 1e6 else (1e3, "k")
        labels = [f"{value / unit:g}{name}" if value else "0" for value in values]
        return [label.replace("-", "−") for label in labels]


def seed_counts(frame: pl.DataFrame) -> str:
    """Return what lines and bands are, with the number of seeds."""
    groups = frame.group_by("problem", "method").agg(pl.col("seed").n_unique())
    counts = groups["seed"].unique().sort().to_list()
    if counts == [1]:
        return "one seed"
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    return f"mean ± standard error, {seeds} seeds"


def draw_band(axes: Axes, rows: Float[np.ndarray, "K N"], style: MethodStyle) -> None:
    """Draw the mean over seeds and one standard error to either side of it."""
    episodes = np.arange(1, rows.shape[1] + 1)
    centre, error = mean(rows), standard_error(rows)
    # A line through one episode has no length; a dot can be seen.
    marker = "o" if len(episodes) == 1 else ""
    look: dict[str, Any] = {"color": style.colour, "linestyle": style.dash}
    look["label"] = style.name
    axes.plot(episodes, centre, marker=marker, markersize=3, **look)
    band = {"color": style.colour, "alpha": 0.2, "linewidth": 0}
    axes.fill_between(episodes, centre - error, centre + error, **band)


def draw_panel(axes: Axes, panel: Panel, styles: Styles) -> None:
    """Draw the reference as steps, each method's mean with its band, and the scale."""
    if panel.reference is not None:
        # θ belongs to whole episodes: a step, not a slope between two of them.
        values, limits = panel.reference.values, panel.reference.range
        edges = np.arange(len(values) + 1) + 0.5
        axes.stairs(values, edges, baseline=None, color=INK, linewidth=0.9)
        if limits is not None:
            low, high = limits
            axes.stairs(high, edges, baseline=low, fill=True, color=INK, alpha=0.15)
    for method, rows in panel.curves.items():
        draw_band(axes, rows, styles[method])
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
    elif not panel.log_ticks:
        axes.yaxis.set_major_formatter(_ShortNumbers())
    if panel.is_empty:
        axes.set_yticks([])
        _note(axes, panel.missing.rstrip(".").lower(), (0.4, 0.55))


def draw_episodes(axes: Axes, frame: pl.DataFrame) -> None:
    """Fit the horizontal axis to the longest run and mark where θ begins to change."""
    axes.set_xlim(0.5, longest_run(frame) + 0.5)
    ticks = MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
    axes.xaxis.set_major_locator(ticks)
    for start in theta_changes(frame):
        # Half an episode earlier: between the last old θ and the first new one.
        axes.axvline(start - 0.5, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)))


def _draw_soft_resets(axes: Axes, frame: pl.DataFrame, styles: Styles) -> None:
    for row in soft_reset_ticks(frame):
        shared = len(row.methods) > 1
        axes.vlines(
            np.array(row.episodes) - 0.5,
            row.low,
            row.high,
            transform=axes.get_xaxis_transform(),
            color=INK if shared else styles[row.methods[0]].colour,
            linewidth=0.8,
            zorder=4,
        )


def _note(
    axes: Axes, text: str, position: tuple[float, float], coordinates: Any = None
) -> None:
    axes.annotate(
        text,
        position,
        xycoords=coordinates or axes.transAxes,
        xytext=(3, 0),
        textcoords="offset points",
        va="top",
        fontsize=7,
        color=MUTED,
        bbox={"facecolor": "white", "linewidth": 0, "pad": 1},
    )


def draw_legend(
    figure: Figure, axes: Sequence[Axes], left: float, optimum: str = "", **options: Any
) -> None:
    """Name the methods of some axes above all panels, and the optimum beside them."""
    known = {}
    for drawn in axes:
        handles, labels = drawn.get_legend_handles_labels()
        known |= dict(zip(labels, handles, strict=True))
    if optimum:
        (known[optimum],) = axes[0].plot([], [], color=INK, linewidth=0.9)
    place = {"loc": "upper left", "bbox_to_anchor": (left, 1), "borderaxespad": 0.2}
    options = {"ncols": len(known)} | options
    figure.legend([*known.values()], [*known], **(place | options))


def _styles(frame: pl.DataFrame) -> dict[str, MethodStyle]:
    return method_styles(methods_of(frame))


# ---- one problem ---------------------------------------------------------------------


def regret(frame: pl.DataFrame) -> Figure:
    """Draw cumulative dynamic regret over episodes with θ_n above it, one column wide.

    Where J* is not known, the returns are drawn instead.
    """
    if not has_optimum(frame):
        return returns(frame)
    with printed_style():
        figure = _curve_figure(frame, "regret", head=0.06)
        _note(figure.axes[-1], seed_counts(frame), (0.0, 0.97))
    return figure


def returns(frame: pl.DataFrame) -> Figure:
    """Draw the return over episodes with θ_n above it, one column wide."""
    with printed_style():
        figure = _curve_figure(frame, "returns", head=0.19)
        text = seed_counts(frame)
        figure.axes[0].set_title(text, loc="right", fontsize=7, color=MUTED)
    return figure


def _curve_figure(frame: pl.DataFrame, key: str, *, head: float) -> Figure:
    """Draw one panel, below θ_n if that is known, and leave ``head`` inches above."""
    styles, panels = _styles(frame), panels_of(frame)
    letters = max(len(style.name) for style in styles.values())
    # Long names take at most half of the width.
    right = max(0.5, 1 - _LETTER_INCHES * (letters + 2) / COLUMN_INCHES)
    shares = [1, 3.6] if "theta" in panels else [1]
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
    draw_panel(main, panels[key], styles)
    main.set(xlabel=r"Episode $n$", ylabel=_AXIS_LABELS[key])
    draw_episodes(main, frame)
    for strip in strips:
        _draw_theta(strip, panels["theta"], frame, styles)
    figure.align_ylabels(grid)
    _label_lines(main, panels[key], styles)
    return figure


def _draw_theta(axes: Axes, panel: Panel, frame: pl.DataFrame, styles: Styles) -> None:
    """Draw θ_n as a slim strip with ticks at its extremes and a note at its change."""
    draw_panel(axes, panel, styles)
    draw_episodes(axes, frame)
    axes.set_ylabel(r"$\theta_n$")
    courses = theta_courses(frame)
    thetas = np.concatenate(courses)
    ticks = sorted({float(thetas.min()), float(thetas.max())})
    axes.set_yticks(ticks, [f"{tick:.3g}" for tick in ticks])
    axes.margins(y=0.18)
    for start in theta_changes(frame)[:1]:
        course = courses[0]
        soon = course[start - 1 : start + len(course) // 10]
        height = 0.34 if soon.mean() > (course.min() + course.max()) / 2 else 0.9
        _note(axes, "change", (start - 0.5, height), axes.get_xaxis_transform())


def _label_lines(axes: Axes, panel: Panel, styles: Styles) -> None:
    """Write each method's name where its curve ends, far enough apart to be read."""
    low, high = axes.get_ylim()
    figure = axes.get_figure(root=True)
    assert figure is not None
    points = 72 * figure.get_figheight() * axes.get_position().height
    ends = np.array([mean(rows)[-1] for rows in panel.curves.values()])
    heights = spread_apart(ends, _LABEL_POINTS / points * (high - low))
    for (method, rows), height in zip(panel.curves.items(), heights, strict=True):
        axes.annotate(
            shortened(styles[method].name),
            (rows.shape[1], height),
            xytext=(3, 0),
            textcoords="offset points",
            va="center",
            color=styles[method].colour,
            annotation_clip=False,
        )


def shortened(name: str) -> str:
    """Return a name that fits beside a panel."""
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"


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


def overview(frame: pl.DataFrame) -> Figure:
    """Draw every panel over episodes: θ_n, returns, regret and the model's side.

    Ticks along the lower edge mark soft resets.  Noise is smoothed in long runs, and
    the panel's title says so.  Two columns wide.
    """
    styles, width = _styles(frame), smoothing_width(frame)
    panels = [panel.smoothed(width) for panel in panels_of(frame).values()]
    columns = 2 if len(panels) <= 8 else 3
    rows = math.ceil(len(panels) / columns)
    letters = max(len(style.name) for style in styles.values())
    across = min(len(styles), 6 if letters < 16 else 4 if letters < 24 else 2)
    has_note_beside = len(styles) <= 4
    # Inches for the legend, and for the note where it needs a line.
    head = 0.2 + 0.15 * math.ceil(len(styles) / across) + 0.12 * (not has_note_beside)
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
            draw_episodes(axes, frame)
            axes.set_title(panel.title, loc="left", fontweight="bold")
            axes.set_ylabel(panel.axis)
            if panel.curves:
                _draw_soft_resets(axes, frame, styles)
            if panel.curves and panel.reference:
                look = {"color": INK, "linewidth": 0.9}
                (line,) = axes.plot([], [], **look)
                axes.legend([line], [panel.reference.label], loc="best", fontsize=7)
            if panel.key == "theta":  # one upright letter
                axes.yaxis.label.set(rotation=0, va="center")
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes in grid.flat[max(0, len(panels) - columns) : len(panels)]:
            axes.set_xlabel(r"Episode $n$")
            axes.tick_params(labelbottom=True)
        figure.align_ylabels(grid)
        named = next(axes for axes in grid.flat if axes.get_legend_handles_labels()[0])
        draw_legend(figure, [named], 0.07, ncols=across, borderaxespad=0.5)
        text = seed_counts(frame)
        if soft_reset_ticks(frame):
            text += "; ticks: soft resets"
        line = 0.17 if has_note_beside else head - 0.14
        place: dict[str, Any] = {"ha": "right", "va": "center", "color": MUTED}
        figure.text(0.985, 1 - line / height, text, **place)
    return figure


# ---- several problems ----------------------------------------------------------------


def problems(frame: pl.DataFrame) -> Figure:
    """Draw θ_n, J(π_n) beside J*(θ_n), and R_n, a column for each problem.

    Problems of one task share their axes, so that they can be compared by eye.
    """
    styles, frames = _styles(frame), problem_frames(frame)
    drawn = [
        {
            key: panel.smoothed(smoothing_width(rows))
            for key, panel in panels_of(rows).items()
            if key in _AXIS_LABELS
        }
        for rows in frames.values()
    ]
    keys = [key for key in _AXIS_LABELS if any(key in panels for panels in drawn)]
    groups: dict[tuple[str, ...], list[int]] = {}
    for column, (panels, rows) in enumerate(zip(drawn, frames.values(), strict=True)):
        groups.setdefault((rows["task"][0], *panels), []).append(column)
    shares = [1 if key == "theta" else 2 for key in keys]
    width = max(PAGE_INCHES, 2.2 * len(frames))
    height = 0.94 + 0.752 * sum(shares)
    with printed_style():
        figure = Figure(figsize=(width, height))
        grid = figure.subplots(
            len(keys), len(frames), sharex="col", squeeze=False, height_ratios=shares
        )
        figure.subplots_adjust(
            left=0.62 / width,
            right=1 - 0.1 / width,
            top=1 - 0.52 / height,
            bottom=0.42 / height,
            hspace=0.12,
            wspace=0.08 if len(groups) == 1 else 0.26,
        )
        for columns in groups.values():
            _share_axes(grid[:, columns])
        for column, panels, rows in zip(grid.T, drawn, frames.values(), strict=True):
            _draw_column(dict(zip(keys, column, strict=True)), panels, rows, styles)
        lengths = [longest_run(rows) for rows in frames.values()]
        for columns in groups.values():
            shared = dict(zip(keys, grid[:, columns[0]], strict=True))
            longest = max(lengths[column] for column in columns)
            _fit_axes(shared, longest, [drawn[column] for column in columns])
        for axes, label in zip(grid[0], frames, strict=True):
            axes.set_title(problem_name(label), fontweight="bold")
        for axes, key in zip(grid[:, 0], keys, strict=True):
            axes.set_ylabel(_AXIS_LABELS[key])
        figure.align_ylabels(grid[:, 0])
        returned = list(grid[keys.index("returns")])
        optimum = next((p["returns"].reference for p in drawn if "regret" in p), None)
        left = float(returned[0].get_position().x0) - 0.01
        draw_legend(figure, returned, left, optimum.label if optimum else "")
        place: dict[str, Any] = {"ha": "right", "va": "center", "color": MUTED}
        right = returned[-1].get_position().x1
        figure.text(right, 1 - 0.14 / height, seed_counts(frame), **place)
    return figure


def _share_axes(columns: np.ndarray) -> None:
    """Give columns the axes of the first of them, and numbers at that one alone."""
    first, others = columns[:, 0], columns[:, 1:]
    for column in others.T:
        column[0].sharex(first[0])  # the column's other panels follow
        for axes, leader in zip(column, first, strict=True):
            axes.sharey(leader)
            axes.tick_params(labelleft=False)


def _draw_column(
    column: Mapping[str, Axes],
    panels: Mapping[str, Panel],
    frame: pl.DataFrame,
    styles: Styles,
) -> None:
    width = smoothing_width(frame)
    for key, axes in column.items():
        if key in panels:
            draw_panel(axes, panels[key], styles)
            if panels[key].is_noisy and width > 1:
                _note(axes, f"mean of {width}", (0.03, 0.88))
        else:
            axes.set_yticks([])
            _note(axes, "not known", (0.4, 0.55))
        draw_episodes(axes, frame)
    [*column.values()][-1].set_xlabel(r"Episode $n$")


def _fit_axes(
    shared: Mapping[str, Axes], longest: int, drawn: Sequence[Mapping[str, Panel]]
) -> None:
    """Fit shared axes to all their problems; each has fitted them to itself."""
    for axes in shared.values():
        axes.set_xlim(0.5, longest + 0.5)
    if "regret" in drawn[0]:
        shared["regret"].autoscale(axis="y")
        if all(panels["regret"].starts_at_zero for panels in drawn):
            shared["regret"].set_ylim(bottom=0)


# ---- one number a seed ---------------------------------------------------------------


def final_regret(frame: pl.DataFrame) -> Figure:
    """Draw R_N of every seed, and its paired difference to the baseline.

    On the left a dot is a run, a grey line joins the runs of one seed, and the mark
    beside them is the mean with its standard error.  On the right a dot is the
    difference on one seed, the mark their mean with its 95 % t interval.
    """
    (summary,) = known_summaries(_one_summary(frame))
    styles, methods = _styles(frame), summary.methods
    # Many names do not fit beside each other and are written upwards, below the axis.
    letters = max(len(style.name) for style in styles.values())
    rotated = len(styles) > _MOST_ACROSS or letters * len(styles) > 50
    foot = 0.15 + _LETTER_INCHES * min(letters, _MOST_LETTERS) if rotated else 0.3
    height = 2.2 + foot
    edges = {"top": 1 - 0.275 / height, "bottom": foot / height}
    with printed_style():
        figure = Figure(figsize=(PAGE_INCHES, height))
        compared = [method for method in methods if method.difference]
        if compared:
            left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.32})
            figure.subplots_adjust(left=0.09, right=0.985, **edges)
            right.axhline(0, color=INK, linewidth=0.8)
            for place, method in enumerate(compared):
                assert method.difference is not None
                estimate = method.difference.estimate
                reach = (estimate.mean - estimate.student.low) * np.ones((2, 1))
                _draw_seeds(right, place, estimate, reach, styles[method.method])
            _name_methods(right, [styles[one.method].name for one in compared], rotated)
            right.set_ylabel(f"Difference to {method_name(summary.baseline)}")
            _titles(right, "Paired by seed", "◇ mean and 95 % t interval")
        else:
            left = figure.subplots()
            figure.subplots_adjust(left=0.3, right=0.7, **edges)
        for seed in sorted({seed for method in methods for seed in method.seeds}):
            pairs = [
                (place, method.final.values[method.seeds.index(seed)])
                for place, method in enumerate(methods)
                if seed in method.seeds
            ]
            left.plot(*zip(*pairs, strict=True), color=MUTED, linewidth=0.5, alpha=0.6)
        for place, method in enumerate(methods):
            reach = np.full((2, 1), method.final.stderr)
            _draw_seeds(left, place, method.final, reach, styles[method.method])
        _name_methods(left, [styles[one.method].name for one in methods], rotated)
        if all((method.final.values >= 0).all() for method in methods):
            left.set_ylim(bottom=0)
        left.set_ylabel(f"Regret $R_{{{summary.episodes}}}$")
        _titles(left, "Final regret by seed", "◇ mean ± standard error")
    return figure


def _one_summary(frame: pl.DataFrame) -> list[ProblemSummary]:
    method_runs(frame)  # refuses several problems
    return summarize(frame)


def _titles(axes: Axes, title: str, key: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_title(key, loc="right", fontsize=7, color=MUTED)


def _draw_seeds(
    axes: Axes, place: int, estimate: Estimate, reach: np.ndarray, style: MethodStyle
) -> None:
    places = np.full(len(estimate.values), place)
    dots = {"s": 12, "color": style.colour, "linewidth": 0, "zorder": 3}
    axes.scatter(places, estimate.values, **dots)
    axes.errorbar(
        [place + 0.2],
        [estimate.mean],
        reach,
        fmt="D",
        markersize=4,
        color=style.colour,
        markerfacecolor="white",
        capsize=3,
        linewidth=1,
    )


def _name_methods(axes: Axes, names: Sequence[str], rotated: bool) -> None:
    labels = [shortened(name) for name in names]
    axes.set_xticks(range(len(names)), labels, fontsize=8, rotation=90 * rotated)
    axes.set_xlim(-0.5, len(names) - 0.2)
    axes.grid(visible=False, axis="x")


# ---- sweeps --------------------------------------------------------------------------

Sweeps = dict[tuple[str, str], dict[float, str]]
"""For each method and swept setting, the name of the variant at each value."""
_SOFT_RESETS = {"alpha": "both", "model": "model only", "policy": "policy only"}
_LENGTH = "N"  # the length of a run is no setting of the method


def sweeps_of(methods: Iterable[str]) -> Sweeps:
    """Return the settings that variants named ``setting=value`` sweep, values sorted.

    With a rate of zero nothing is reset: the point ``alpha=0`` also begins the sweeps
    of the model's and of the policy's rate.
    """
    sweeps: Sweeps = {}
    for name in methods:
        point = sweep_point(name)
        if point and point.setting != _LENGTH:
            sweeps.setdefault((point.method, point.setting), {})[point.value] = name
    for (method, setting), points in sweeps.items():
        none_reset = sweeps.get((method, "alpha"), {}).get(0.0)
        if setting in _SOFT_RESETS and none_reset:
            points.setdefault(0.0, none_reset)
    return {key: dict(sorted(p.items())) for key, p in sweeps.items() if len(p) > 1}


def sweep(frame: pl.DataFrame) -> Figure:
    """Draw the final regret, ± one standard error, over each swept setting.

    It is the mean return where J* is not known.  Settings of different kinds have a
    panel each.
    """
    sweeps = _require_sweeps(frame)
    (summary,) = _one_summary(frame)
    finals = {one.method: score_of(summary, one) for one in summary.methods}
    quantities = list(dict.fromkeys(_quantity(setting) for _, setting in sweeps))
    width = COLUMN_INCHES if len(quantities) < 2 else PAGE_INCHES
    styles = _sweep_styles(sweeps)
    with printed_style():
        figure = Figure(figsize=(width, 2.5), layout="constrained")
        grid = figure.subplots(1, len(quantities), sharey=True, squeeze=False)[0]
        for axes, quantity in zip(grid, quantities, strict=True):
            if summary.baseline in finals and sweep_point(summary.baseline) is None:
                _draw_baseline(axes, summary.baseline, finals[summary.baseline])
            keys = [key for key in sweeps if _quantity(key[1]) == quantity]
            for key in keys:
                estimates = [finals[name] for name in sweeps[key].values()]
                axes.errorbar(
                    [*sweeps[key]],
                    [estimate.mean for estimate in estimates],
                    yerr=[estimate.stderr for estimate in estimates],
                    label=styles[key].name,
                    color=styles[key].colour,
                    linestyle=styles[key].dash,
                    marker="o",
                    markersize=3.5,
                    capsize=2,
                )
            names = " or ".join(f"${setting}$" for _, setting in keys)
            counted = f"{names}, episodes"
            axes.set_xlabel(counted if quantity == "episodes" else quantity)
            if summary.is_known:
                axes.set_ylim(bottom=0)
            axes.legend()
        score = f"Regret $R_{{{summary.episodes}}}$"
        grid[0].set_ylabel(score if summary.is_known else "Mean return")
        grid[-1].set_title(seed_counts(frame), loc="right", fontsize=7, color=MUTED)
        if len({method for method, _ in sweeps}) == 1:
            name = method_name(next(iter(sweeps))[0])
            grid[0].set_title(name, loc="left", fontweight="bold")
    return figure


def sweep_returns(frame: pl.DataFrame) -> Figure:
    """Draw the return over episodes for each value of a setting, a panel a sweep."""
    sweeps = _require_sweeps(frame)
    panel, styles = panels_of(frame)["returns"], _sweep_styles(sweeps)
    width = max(COLUMN_INCHES, min(PAGE_INCHES, 2.6 * len(sweeps)))
    with printed_style():
        figure = Figure(figsize=(width, 2.5), layout="constrained")
        grid = figure.subplots(1, len(sweeps), sharey=True, squeeze=False)[0]
        for axes, (key, points) in zip(grid, sweeps.items(), strict=True):
            if panel.reference:
                draw_panel(axes, replace(panel, curves={}), {})
            shares = np.linspace(0.0, 1.0, len(points)).tolist()
            for (value, name), share in zip(points.items(), shares, strict=True):
                colour = shade(styles[key].colour, share)
                look = MethodStyle(f"{value:g}", colour, "solid")
                draw_band(axes, panel.curves[name], look)
            if panel.reference:
                axes.plot([], [], color=INK, linewidth=0.9, label="J*(θ)")
            draw_episodes(axes, frame)
            axes.set_xlabel(r"Episode $n$")
            axes.legend(
                title=styles[key].name,
                title_fontproperties={"weight": "bold", "size": 8},
                alignment="left",
                # Above the panel: dips after resets leave no corner of it free.
                loc="lower left",
                bbox_to_anchor=(-0.02, 0.98),
                ncols=5,
                fontsize=7,
                handlelength=1.1,
                columnspacing=0.9,
            )
        grid[0].set_ylabel(_AXIS_LABELS["returns"])
        text = {"ha": "right", "va": "top", "fontsize": 7, "color": MUTED}
        figure.text(0.995, 0.985, seed_counts(frame), **text)
    return figure


def _require_sweeps(frame: pl.DataFrame) -> Sweeps:
    sweeps = sweeps_of(methods_of(frame))
    require(
        bool(sweeps),
        "Nothing is swept in this frame: no method has two variants named "
        "'setting=value', such as 'w=5' and 'w=10'.",
    )
    return sweeps


def _quantity(setting: str) -> str:
    if setting in _SOFT_RESETS:
        return "soft reset rate α"
    return "episodes" if setting in ("H", "w") else setting_name(setting)


def _sweep_styles(sweeps: Sweeps) -> dict[tuple[str, str], MethodStyle]:
    """Return the look of each sweep: its method's, unless a method has several."""
    methods = [method for method, _ in sweeps]
    settings = list(dict.fromkeys(setting for _, setting in sweeps))
    styles = {}
    for place, (method, setting) in enumerate(sweeps):
        look = method_styles([method])[method]
        name = _SOFT_RESETS.get(setting, f"${setting}$")
        if len(set(methods)) > 1 or setting not in _SOFT_RESETS:
            name = f"{look.name}, {name}"
        colour, dash = look.colour, look.dash
        if methods.count(method) > 1:
            colour = setting_colour(settings.index(setting))
            dash = setting_dash(place)
        styles[method, setting] = MethodStyle(name, colour, dash)
    return styles


def _draw_baseline(axes: Axes, baseline: str, final: Estimate) -> None:
    style = method_styles([baseline])[baseline]
    axes.axhline(final.mean, color=style.colour, label=f"{style.name}, all data")
    edges = final.mean - final.stderr, final.mean + final.stderr
    axes.axhspan(*edges, color=style.colour, alpha=0.15)


# ---- all problems together -----------------------------------------------------------

MOST_BANDS = 5
"""Methods up to which profiles are drawn with their intervals; more hide each other."""


def aggregate(frame: pl.DataFrame) -> Figure:
    """Draw interquartile means, probabilities of improvement and performance profiles.

    Bars and bands are 95 % stratified bootstrap intervals.  Probabilities need a
    baseline; profiles of many methods would hide each other and are left out.
    """
    aggregates = compare.aggregate(summarize(frame))
    require(
        aggregates is not None,
        "Aggregates need two methods with two shared seeds on at least one problem.",
    )
    assert aggregates is not None
    return aggregate_figure(aggregates)


def aggregate_figure(aggregates: compare.Aggregates) -> Figure:
    """Draw what ``driftrl.compare`` computes."""
    methods, baseline = aggregates.methods, aggregates.baseline
    styles = method_styles(methods)
    has_profiles = len(methods) <= MOST_BANDS
    shares = [1.0] + [1.0] * (baseline is not None) + [1.35] * has_profiles
    width = COLUMN_INCHES if len(shares) == 1 else PAGE_INCHES
    height = max(2.2, 0.9 + 0.17 * len(styles))
    score = re.sub(r"\bR_(\w+)", r"$R_{\1}$", aggregates.measure.name)
    with printed_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        grid = figure.subplots(1, len(shares), width_ratios=shares, squeeze=False)[0]
        _draw_marks(grid[0], [one.iqm for one in methods.values()], styles)
        grid[0].set_yticks(
            range(len(styles)), [shortened(style.name) for style in styles.values()]
        )
        grid[0].xaxis.set_major_locator(MaxNLocator(4, steps=[1, 2, 5, 10]))
        grid[0].set_xlabel(f"Interquartile mean, {score}")
        if baseline is not None:
            axes = grid[1]
            _draw_marks(axes, [one.improvement for one in methods.values()], styles)
            axes.axvline(0.5, color=INK, linewidth=0.8, zorder=1)
            axes.set_yticks(range(len(styles)), [""] * len(styles))
            axes.set_xlim(-0.04, 1.04)
            axes.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
            axes.set_xticks([0, 0.5, 1])
            text = {"va": "center", "fontsize": 7, "color": MUTED}
            offset = {"xytext": (4, 0), "textcoords": "offset points"}
            place = (0.5, [*methods].index(baseline))
            axes.annotate("baseline", place, **offset, **text)
            axes.set_xlabel(f"Probability of beating {method_name(baseline)}")
        if has_profiles:
            _draw_profiles(grid[-1], aggregates, styles)
            grid[-1].set_xlabel(rf"$\tau$, {score}")
        text = aggregate_counts(aggregates)
        grid[0].set_title(text, loc="left", fontsize=7, color=MUTED)
    return figure


def aggregate_counts(aggregates: compare.Aggregates) -> str:
    """Return over how many problems and seeds scores are aggregated."""
    seeds = {len(one) for strata in aggregates.scores.values() for one in strata}
    counts = " to ".join(str(count) for count in sorted({min(seeds), max(seeds)}))
    several = f"{len(aggregates.problems)} problems × "
    problems = several if len(aggregates.problems) > 1 else ""
    return f"{problems}{counts} seeds, 95\u00a0% bootstrap intervals"


def _draw_marks(
    axes: Axes, aggregates: Sequence[compare.Aggregate | None], styles: Styles
) -> None:
    """Draw a number and its interval for each method, the first on top."""
    for place, (one, style) in enumerate(zip(aggregates, styles.values(), strict=True)):
        if one is not None:
            ends = one.interval.low, one.interval.high
            axes.hlines(place, *ends, color=style.colour, linewidth=4, alpha=0.35)
            axes.plot(one.value, place, "D", color=style.colour, markersize=4)
    axes.set_ylim(len(styles) - 0.5, -0.5)
    axes.grid(visible=False, axis="y")
    axes.tick_params(axis="y", length=0)


def _draw_profiles(axes: Axes, aggregates: compare.Aggregates, styles: Styles) -> None:
    taus = aggregates.thresholds
    for name, one in aggregates.methods.items():
        style, interval = styles[name], one.profile.interval
        axes.plot(taus, one.profile.value, color=style.colour, linestyle=style.dash)
        band = {"color": style.colour, "alpha": 0.15, "linewidth": 0}
        axes.fill_between(taus, interval.low, interval.high, **band)
    side = "above" if aggregates.measure.higher_is_better else "below"
    axes.set(xlim=(taus[0], taus[-1]), ylim=(-0.02, 1.02))
    axes.xaxis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.set_ylabel(rf"Share of runs {side} $\tau$")
