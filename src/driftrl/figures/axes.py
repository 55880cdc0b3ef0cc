"""Drawing panels on Matplotlib axes, as all printed figures do it."""

from collections.abc import Iterable, Mapping

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.ticker import (
    MaxNLocator,
    NullLocator,
    PercentFormatter,
    ScalarFormatter,
)
from matplotlib.transforms import Transform

from driftrl.figures.panels import Panel, soft_reset_rows, study_changes
from driftrl.figures.style import INK, MUTED, MethodStyle
from driftrl.results import statistics
from driftrl.results.regret import StudyRegret

_LONG_NUMBER = 10_000


class _ShortNumbers(ScalarFormatter):
    """Writes 20k for 20000 and 3M for 3000000, where numbers are as long as that."""

    def format_ticks(self, values: Iterable[float]) -> list[str]:
        """Return the labels of all ticks."""
        values = list(values)
        largest = max(map(abs, values), default=0.0)
        if largest < _LONG_NUMBER:
            return super().format_ticks(values)
        unit, name = (1e6, "M") if largest >= 1e6 else (1e3, "k")
        labels = [f"{value / unit:g}{name}" if value else "0" for value in values]
        return [label.replace("-", "−") for label in labels]


def what_is_drawn(*studies: StudyRegret) -> str:
    """Say what lines and bands are, over how many seeds."""
    counts = sorted({len(one.seeds) for study in studies for one in study.methods})
    if counts == [1]:
        return "one seed"
    seeds = f"{counts[0]} to {counts[-1]}" if len(counts) > 1 else f"{counts[0]}"
    return f"mean ± standard error, {seeds} seeds"


def draw_panel(axes: Axes, panel: Panel, styles: Mapping[str, MethodStyle]) -> None:
    """Draw references as steps, and each method's mean with its band."""
    for reference in panel.references:
        # θ is a property of whole episodes: a step, not a slope between two of them.
        edges = np.arange(len(reference.values) + 1) + 0.5
        axes.stairs(reference.values, edges, baseline=None, color=INK, linewidth=0.9)
        if reference.spread is not None:
            low, high = reference.spread
            axes.stairs(high, edges, baseline=low, fill=True, color=INK, alpha=0.15)
    for method, curves in panel.curves.items():
        draw_band(axes, curves, styles[method])
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
        note(axes, panel.missing.rstrip(".").lower(), (0.4, 0.55), axes.transAxes)


def draw_band(axes: Axes, curves: Float[np.ndarray, "K N"], style: MethodStyle) -> None:
    """Draw the mean over seeds, and one standard error to either side of it."""
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


def draw_episodes(axes: Axes, study: StudyRegret) -> None:
    """Fit the horizontal axis to the longest run and mark where θ begins to change."""
    axes.set_xlim(0.5, max(len(run.records) for run in study.runs) + 0.5)
    ticks = MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
    axes.xaxis.set_major_locator(ticks)
    for start in study_changes(study):
        # Half an episode earlier: between the last old θ and the first new one.
        axes.axvline(start - 0.5, color=MUTED, linewidth=0.7, linestyle=(0, (2, 2)))


def draw_soft_resets(
    axes: Axes, study: StudyRegret, styles: Mapping[str, MethodStyle]
) -> None:
    """Mark soft resets by thin ticks along the lower edge.

    Methods that are reset together share a row of ticks, in black.
    """
    for row in soft_reset_rows(study):
        axes.vlines(
            # Between the policy that was reset and the one that was learned then.
            np.array(row.episodes) - 0.5,
            row.low,
            row.high,
            transform=axes.get_xaxis_transform(),
            color=styles[row.methods[0]].colour if len(row.methods) == 1 else INK,
            linewidth=0.8,
            zorder=4,
        )


def label_reference(axes: Axes, label: str) -> None:
    """Name the reference curve in a legend of its own."""
    axes.plot([], [], color=INK, linewidth=0.9, label=label)
    handles, labels = axes.get_legend_handles_labels()
    axes.legend(handles[-1:], labels[-1:], loc="best", fontsize=7)


def note(
    axes: Axes, text: str, place: tuple[float, float], transform: Transform
) -> None:
    """Write a few words that should be seen second."""
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
