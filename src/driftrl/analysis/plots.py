"""Figures for print from a frame of episodes, as Matplotlib figures to change at will.

Lines are means over seeds, bands one standard error to either side, and a dotted line
marks where θ begins to change.
"""

import io
import math
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from jaxtyping import Float
from matplotlib import style as matplotlib_style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from driftrl.analysis.panels import (
    Panel,
    first_episode,
    has_optimum,
    longest_run,
    panels_of,
    theta_changes,
    unit_of,
)
from driftrl.analysis.regret import methods_of
from driftrl.analysis.statistics import mean, standard_error
from driftrl.analysis.style import (
    COLUMN_INCHES,
    INK,
    MUTED,
    PAGE_INCHES,
    TEMPLATES,
    MethodStyle,
    method_styles,
    natural_key,
    problem_name,
)
from driftrl.io import write_atomically

_PNG_DPI = 300
_LETTER_INCHES = 0.058  # width of an average letter of a legend
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
    for target, metadata in zip(paths, (None, {"CreationDate": None}), strict=True):
        buffer = io.BytesIO()
        with printed_style():
            kind = target.suffix[1:]
            figure.savefig(buffer, format=kind, dpi=_PNG_DPI, metadata=metadata)
        write_atomically(target, buffer.getvalue())
    return paths


def printed_style() -> AbstractContextManager[None]:
    """Draw with the settings of a printed figure, then restore Matplotlib's."""
    # "default" first: the user's own settings must not change a figure.
    return matplotlib_style.context(["default", TEMPLATES / "printed.mplstyle"])


# ---- parts of figures ----------------------------------------------------------------


def seed_counts(frame: pl.DataFrame) -> str:
    """Return what lines and bands are, with the number of seeds."""
    groups = frame.group_by("problem", "method").agg(pl.col("seed").n_unique())
    counts = groups["seed"].unique().sort().to_list()
    if counts == [1]:
        return "one seed"
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    return f"mean ± standard error, {seeds} seeds"


def draw_band(
    axes: Axes, rows: Float[np.ndarray, "K N"], style: MethodStyle, first: int
) -> None:
    """Draw the mean over seeds and one standard error to either side of it."""
    episodes = np.arange(first, first + rows.shape[1])
    centre, error = mean(rows), standard_error(rows)
    # A line through one episode has no length; a dot can be seen.
    marker = "o" if len(episodes) == 1 else ""
    look: dict[str, Any] = {"color": style.colour, "linestyle": style.dash}
    axes.plot(episodes, centre, marker=marker, ms=3, label=style.name, **look)
    band = {"color": style.colour, "alpha": 0.2, "linewidth": 0}
    axes.fill_between(episodes, centre - error, centre + error, **band)


def draw_panel(axes: Axes, panel: Panel, styles: Styles) -> None:
    """Draw each method's mean with its band, the reference as steps, and the scale."""
    for method, rows in panel.curves.items():
        draw_band(axes, rows, styles[method], panel.first)
    if panel.reference is not None:
        # θ belongs to whole episodes: a step, not a slope between two of them.
        values = panel.reference.values
        edges = np.arange(len(values) + 1) + panel.first - 0.5
        label = panel.reference.label if panel.curves else None
        look = {"color": INK, "linewidth": 0.9}
        axes.stairs(values, edges, baseline=None, label=label, **look)
    if panel.is_log:
        axes.set_yscale("log")
    elif panel.starts_at_zero:
        axes.set_ylim(bottom=0)
    if panel.as_percent:
        axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))


def draw_episodes(axes: Axes, frame: pl.DataFrame) -> None:
    """Fit the horizontal axis to the longest run and mark where θ begins to change."""
    axes.set_xlim(first_episode(frame) - 0.5, longest_run(frame) + 0.5)
    ticks = MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
    axes.xaxis.set_major_locator(ticks)
    for start in theta_changes(frame):
        # Half an episode earlier: between the last old θ and the first new one.
        axes.axvline(start - 0.5, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)))


def draw_legend(figure: Figure, axes: Iterable[Axes], **options: Any) -> None:
    """Name the lines of some axes above all panels, each name once."""
    known = {}
    for drawn in axes:
        handles, labels = drawn.get_legend_handles_labels()
        known |= dict(zip(labels, handles, strict=True))
    inches = 0.5 + _LETTER_INCHES * max(map(len, known))
    across = max(1, int(figure.get_figwidth() / inches))
    place = {"loc": "outside upper left", "ncols": min(across, len(known))}
    figure.legend([*known.values()], [*known], **(place | options))


def _styles(frame: pl.DataFrame) -> dict[str, MethodStyle]:
    return method_styles(methods_of(frame))


# ---- one problem ---------------------------------------------------------------------


def regret(frame: pl.DataFrame) -> Figure:
    """Draw cumulative dynamic regret over episodes with θ_n above it, one column wide.

    Where J* is not known, the returns are drawn instead.
    """
    return _curve_figure(frame, "regret" if has_optimum(frame) else "returns")


def returns(frame: pl.DataFrame) -> Figure:
    """Draw the return over episodes with θ_n above it, one column wide."""
    return _curve_figure(frame, "returns")


def _curve_figure(frame: pl.DataFrame, key: str) -> Figure:
    styles, panels = _styles(frame), panels_of(frame)
    shares = {"theta": 1.0, key: 3.6} if "theta" in panels else {key: 1.0}
    with printed_style():
        figure = Figure(figsize=(COLUMN_INCHES, 2.6), layout="constrained")
        grid = figure.subplots(
            len(shares), 1, sharex=True, squeeze=False, height_ratios=[*shares.values()]
        )[:, 0]
        for axes, name in zip(grid, shares, strict=True):
            draw_panel(axes, panels[name], styles)
            draw_episodes(axes, frame)
            axes.set_ylabel(_AXIS_LABELS[name])
        figure.align_ylabels(grid)
        figure.supxlabel(f"{unit_of(frame).title()} $n$ ({seed_counts(frame)})")
        draw_legend(figure, grid[-1:])
    return figure


def overview(frame: pl.DataFrame) -> Figure:
    """Draw every panel over episodes: θ_n, returns, regret and the model's side."""
    styles, panels = _styles(frame), [*panels_of(frame).values()]
    columns = 2 if len(panels) <= 8 else 3
    rows = math.ceil(len(panels) / columns)
    with printed_style():
        size = PAGE_INCHES, 0.6 + 1.75 * rows
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(rows, columns, sharex=True, squeeze=False)
        for axes, panel in zip(grid.flat, panels, strict=False):
            draw_panel(axes, panel, styles)
            draw_episodes(axes, frame)
            axes.set_title(panel.title, loc="left", fontweight="bold")
            axes.set_ylabel(panel.axis)
        for axes in grid.flat[len(panels) :]:
            axes.set_visible(False)
        for axes in grid.flat[max(0, len(panels) - columns) : len(panels)]:
            axes.tick_params(labelbottom=True)
        figure.supxlabel(f"{unit_of(frame).title()} $n$ ({seed_counts(frame)})")
        draw_legend(figure, grid.flat)
    return figure


# ---- several problems ----------------------------------------------------------------


def problems(frame: pl.DataFrame) -> Figure:
    """Draw θ_n, J(π_n) beside J*(θ_n), and R_n, a column for each problem.

    Problems of one task share their vertical axes, so that they can be compared by eye.
    """
    labels = sorted(frame["problem"].unique(), key=natural_key)
    styles, frames = _styles(frame), {one: frame.filter(problem=one) for one in labels}
    drawn = [panels_of(rows) for rows in frames.values()]
    keys = [key for key in _AXIS_LABELS if any(key in panels for panels in drawn)]
    shares = [1 if key == "theta" else 2 for key in keys]
    with printed_style():
        size = max(PAGE_INCHES, 2.2 * len(frames)), 0.94 + 0.752 * sum(shares)
        figure = Figure(figsize=size, layout="constrained")
        grid = figure.subplots(
            len(keys), len(frames), sharex="col", squeeze=False, height_ratios=shares
        )
        leaders: dict[tuple[str, ...], np.ndarray] = {}
        for column, panels, label in zip(grid.T, drawn, frames, strict=True):
            known = [key for key in keys if key in panels]
            leader = leaders.setdefault((frames[label]["task"][0], *known), column)
            for axes, key, first in zip(column, keys, leader, strict=True):
                axes.set_visible(key in panels)
                if key in panels:
                    draw_panel(axes, panels[key], styles)
                draw_episodes(axes, frames[label])
                if axes is not first:
                    axes.sharey(first)
                    axes.tick_params(labelleft=False)
            shown = [axes for axes in column if axes.get_visible()]
            shown[0].set_title(problem_name(label), fontweight="bold")
            shown[-1].tick_params(labelbottom=True)
        for row, key in zip(grid, keys, strict=True):
            at_zero = all(p[key].starts_at_zero for p in drawn if key in p)
            for axes in row:  # each column has fitted a shared axis to itself
                axes.autoscale(axis="y")
                if at_zero:
                    axes.set_ylim(bottom=0)
            shown = [axes for axes in row if axes.get_visible()]
            shown[0].set_ylabel(_AXIS_LABELS[key])
        figure.supxlabel(f"{unit_of(frame).title()} $n$ ({seed_counts(frame)})")
        figure.align_ylabels(grid[:, 0])
        draw_legend(figure, grid.flat)
    return figure
