"""The growth of regret with the number of episodes, beside the order of the bound."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from driftrl.analysis.style import COLUMN_INCHES, MUTED, method_styles, printed_style
from driftrl.results.growth import Growth, growth_of
from driftrl.results.regret import StudyRegret
from driftrl.results.statistics import Estimate, mean, standard_error

PREDICTED = 0.75
"""Exponent of the bound for a variation that grows as log N, with H and w ∝ √N."""


def growth_figure(study: StudyRegret) -> Figure:
    """Draw R_N over N on logarithmic axes, with the slope of each method."""
    found = growth_of(study)
    styles = method_styles(one.method for one in found)
    with printed_style():
        figure = Figure(figsize=(COLUMN_INCHES, 2.9), layout="constrained")
        axes = figure.subplots()
        for one in found:
            style = styles[one.method]
            axes.errorbar(
                one.lengths,
                mean(one.regrets),
                standard_error(one.regrets),
                color=style.colour,
                linestyle=style.dash,
                marker="o",
                markersize=3,
                capsize=2,
                label=f"{style.name}: {_slope(one.exponent)}, "
                f"at the end {_slope(one.late_exponent)}",
            )
        _draw_slope(axes, found)
        lengths = sorted({n for one in found for n in one.lengths.tolist()})
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xticks(lengths, [f"{n}" for n in lengths])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set_xlabel("Episodes $N$")
        axes.set_ylabel("Cumulative regret $R_N$")
        figure.legend(loc="outside upper center", fontsize=7)
    return figure


def _slope(exponent: Estimate) -> str:
    """Say an exponent with its interval, if seeds give one."""
    interval = exponent.student
    known = float(interval.low) == float(interval.low)  # NaN with a single seed
    reach = f" [{interval.low:.2f}, {interval.high:.2f}]" if known else ""
    return f"$N^{{{exponent.mean:.2f}}}${reach}"


def _draw_slope(axes: Axes, found: Sequence[Growth]) -> None:
    """Draw N^¾ from the lowest regret at the shortest length on."""
    first = min(int(one.lengths[0]) for one in found)
    last = max(int(one.lengths[-1]) for one in found)
    low = 0.85 * min(float(mean(one.regrets).min()) for one in found)
    high = low * (last / first) ** PREDICTED
    axes.plot([first, last], [low, high], color=MUTED, linewidth=0.8, zorder=0)
    axes.annotate(
        "$N^{3/4}$, the bound",
        (last, high),
        xytext=(-22, 0),
        textcoords="offset points",
        ha="right",
        va="center",
        color=MUTED,
        fontsize=7,
    )
