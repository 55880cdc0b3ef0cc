"""Final regret against a swept setting: a study's variants named ``setting=value``.

The paper's bound predicts a valley: too short a memory has too little data, too long a
one too much that is no longer true.
"""

from collections import defaultdict

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftrl.figures.style import (
    COLUMN_INCHES,
    MUTED,
    method_name,
    method_styles,
    printed_style,
)
from driftrl.regret import MethodRegret, StudyRegret

Sweeps = dict[tuple[str, str], list[tuple[float, MethodRegret]]]


def sweeps_of(study: StudyRegret) -> Sweeps:
    """Return, for each method and setting, the values swept and their regret."""
    found: Sweeps = defaultdict(list)
    for one in study.methods:
        method, _, variant = one.method.partition(" ")
        setting, _, value = variant.partition("=")
        try:
            found[method, setting].append((float(value), one))
        except ValueError:
            continue  # not a variant, or one without a number
    return {
        key: sorted(points, key=lambda point: point[0])
        for key, points in found.items()
        if len(points) > 1
    }


def sweep_figure(study: StudyRegret) -> Figure:
    """Draw the mean final regret, ± one standard error, over each swept setting."""
    sweeps = sweeps_of(study)
    with printed_style():
        figure = Figure(figsize=(COLUMN_INCHES, 2.4), layout="constrained")
        axes = figure.subplots()
        _draw_baseline(axes, study)
        for (method, setting), points in sweeps.items():
            style = method_styles([method])[method]
            axes.errorbar(
                [value for value, _ in points],
                [one.final.mean for _, one in points],
                yerr=[one.final.stderr for _, one in points],
                label=f"{method_name(method)}, ${setting}$",
                color=style.colour,
                linestyle=style.dash,
                marker="o",
                markersize=3.5,
                capsize=2,
            )
        names = " or ".join(f"${setting}$" for _, setting in sweeps)
        axes.set_xlabel(f"{names}, episodes" if sweeps else "")
        axes.set_ylabel(f"Regret $R_{{{study.episodes}}}$")
        axes.set_ylim(bottom=0)
        axes.legend()
    return figure


def _draw_baseline(axes: Axes, study: StudyRegret) -> None:
    for one in study.methods:
        if one.method == study.baseline:
            style = method_styles([one.method])[one.method]
            mean, reach = one.final.mean, one.final.stderr
            axes.axhline(mean, color=style.colour, label=f"{style.name}, all data")
            axes.axhspan(mean - reach, mean + reach, color=style.colour, alpha=0.15)
    seeds = sorted({len(one.seeds) for one in study.methods})
    counts = " to ".join(str(count) for count in {seeds[0]: None, seeds[-1]: None})
    axes.set_title(
        f"mean ± standard error, {counts} seeds", loc="right", fontsize=7, color=MUTED
    )
