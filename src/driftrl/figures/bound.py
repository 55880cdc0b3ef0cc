"""The two terms of the regret bound beside the measured regret, episode by episode."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftrl.analysis.plots import draw_band
from driftrl.analysis.style import (
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_styles,
    printed_style,
)
from driftrl.results.curves import first_changes
from driftrl.results.regret import StudyRegret
from driftrl.results.statistics import mean

_LEARNING, _DRIFT = "#0072B2", "#D55E00"
MOST_COLUMNS = 4
"""Methods that fit beside each other."""


@dataclass(frozen=True)
class BoundColumn:
    """One method: what was measured, and what the bound says, a row a seed."""

    method: str
    regret: Float[np.ndarray, "K N"]
    """r_n = J*(θ_n) − J(π_n)."""
    uncertainty: Float[np.ndarray, "K N"]
    """Σ along the executed episode."""
    drift: Float[np.ndarray, "K N"]
    """Σ_{s=m(n)}^{n−1} ‖f_{s+1} − f_s‖, the drift within what is remembered."""
    learning_term: Float[np.ndarray, "K N"]
    """(λ̃² + 2λ̃)·Σ."""
    drift_term: Float[np.ndarray, "K N"]
    """(λ̃ + 2)·B̃."""
    most: Float[np.ndarray, " K"]
    """T·R_max, which no episode's regret exceeds."""


def bound_figure(study: StudyRegret, columns: Sequence[BoundColumn]) -> Figure:
    """Draw a column a method: regret, what the terms are made of, and the terms.

    Args:
        study: The problem, for its episodes and the change of θ.
        columns: The methods, at most ``MOST_COLUMNS``.
    """
    styles = method_styles(one.method for one in columns)
    width = min(PAGE_INCHES, 1.6 + 1.9 * len(columns))
    with printed_style():
        figure = Figure(figsize=(width, 5.6), layout="constrained")
        grid = figure.subplots(
            4,
            len(columns),
            sharex=True,
            sharey="row",
            squeeze=False,
            height_ratios=[1, 1, 1, 1.25],
        )
        for place, one in enumerate(columns):
            _draw_column(list(grid[:, place]), one, styles[one.method])
            grid[0, place].set_title(styles[one.method].name, fontweight="bold")
            for axes in grid[:, place]:
                axes.set_xlim(0.5, study.episodes + 0.5)
                for start in first_changes(study.runs):
                    axes.axvline(start - 0.5, color=MUTED, linewidth=0.7, ls=":")
            grid[-1, place].set_xlabel(r"Episode $n$")
        labels = (
            "Regret $r_n$",
            "Uncertainty met $\\Sigma$",
            "Drift in memory",
            "Cumulative,\nall constants",
        )
        for axes, label in zip(grid[:, 0], labels, strict=True):
            axes.set_ylabel(label)
        lines, names = grid[-1, 0].get_legend_handles_labels()
        figure.legend(lines, names, loc="outside lower center", ncols=4, fontsize=7)
        figure.align_ylabels(grid[:, 0])
    return figure


def _draw_column(rows: Sequence[Axes], one: BoundColumn, style: MethodStyle) -> None:
    regret, uncertainty, drift, terms = rows
    draw_band(regret, one.regret, style)
    draw_band(uncertainty, one.uncertainty, MethodStyle("Σ", _LEARNING, "solid"))
    uncertainty.set_yscale("log")
    draw_band(drift, one.drift, MethodStyle("drift", _DRIFT, "solid"))
    episodes = np.arange(1, one.regret.shape[1] + 1)
    lines = {
        "learning term": (one.learning_term, _LEARNING, "dashed"),
        "drift term": (one.drift_term, _DRIFT, "dashdot"),
        "measured regret": (one.regret, INK, "solid"),
    }
    for label, (values, colour, dash) in lines.items():
        summed = np.cumsum(mean(values))
        shown = np.where(summed > 0, summed, np.nan)  # the axis is logarithmic
        terms.plot(episodes, shown, color=colour, linestyle=dash, label=label)
    most = mean(one.most[:, None]) * episodes
    terms.plot(episodes, most, color=MUTED, linewidth=0.8, label="largest possible")
    terms.set_yscale("log")
