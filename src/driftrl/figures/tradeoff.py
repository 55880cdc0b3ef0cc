"""The trade-off of the regret bound over the span p, drawn."""

import numpy as np
from matplotlib.figure import Figure

from driftrl.figures.style import COLUMN_INCHES, INK, MUTED, printed_style

_LEARNING, _DRIFT = "#0072B2", "#D55E00"


def tradeoff_figure(
    spans: np.ndarray, learning: np.ndarray, drift: np.ndarray, chosen: int
) -> Figure:
    """Draw the learning term, the drift term and their sum over p, and the choice.

    Args:
        spans: p = 1 … N.
        learning: N·√(γ³/p).
        drift: γ·p^{3/2}·P_N.
        chosen: The recommended p.
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
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.set_ylim(0, top)
        axes.set_xlabel("span $p$ ($H$ or $w$), episodes")
        axes.set_ylabel("bound, in its minimum")
        figure.legend(loc="outside upper center", ncols=3)
    return figure
