"""The trade-off of the regret bound over the span p, drawn."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from driftrl.analysis.style import (
    COLUMN_INCHES,
    INK,
    MUTED,
    method_styles,
    printed_style,
)

_LEARNING, _DRIFT = "#0072B2", "#D55E00"


@dataclass(frozen=True)
class MeasuredSweep:
    """The regret of a method whose span was swept."""

    method: str
    spans: np.ndarray
    regret: np.ndarray
    """Mean over seeds at each span."""
    error: np.ndarray
    """Its standard error."""


def tradeoff_figure(
    spans: np.ndarray,
    learning: np.ndarray,
    drift: np.ndarray,
    chosen: int,
    sweeps: Sequence[MeasuredSweep] = (),
) -> Figure:
    """Draw the learning term, the drift term and their sum over p, and the choice.

    The bound has no unit that a regret could be compared with: both are drawn in their
    own smallest values.

    Args:
        spans: p = 1 … N.
        learning: N·√(γ³/p).
        drift: γ·p^{3/2}·P_N.
        chosen: The recommended p.
        sweeps: What was measured at some of the spans.
    """
    total = learning + drift
    unit = float(total.min())
    top = min(4.0, 1.1 * float(total.max()) / unit)
    with printed_style():
        figure = Figure(figsize=(COLUMN_INCHES, 2.4), layout="constrained")
        axes = figure.subplots()
        axes.plot(spans, total / unit, color=INK, label="sum")
        axes.plot(spans, learning / unit, "--", color=_LEARNING, label="learning")
        axes.plot(spans, drift / unit, "-.", color=_DRIFT, label="drift")
        axes.axvline(chosen, color=MUTED, linewidth=0.8, zorder=0)
        axes.annotate(
            f"$p = {chosen}$",
            (chosen, top),
            xytext=(3, -9),
            textcoords="offset points",
            color=MUTED,
        )
        styles = method_styles(one.method for one in sweeps)
        for one in sweeps:
            axes.errorbar(
                one.spans,
                one.regret / one.regret.min(),
                one.error / one.regret.min(),
                color=styles[one.method].colour,
                linestyle="none",
                marker="o",
                markersize=3.5,
                capsize=2,
                label=f"{styles[one.method].name}, measured",
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_ylim(0, top)
        axes.set_xlabel("span $p$ ($H$ or $w$), episodes")
        what = "bound and regret, each" if sweeps else "bound,"
        axes.set_ylabel(f"{what} over its minimum")
        figure.legend(loc="outside upper center", ncols=3, fontsize=7)
    return figure
