"""A swept setting: final regret over its value, and the returns that it makes.

A study's variants named ``setting=value`` are sweeps.  For the length of the memory the
paper's bound predicts a valley: too short a one has too little data, too long a one too
much that is no longer true.  For the rate of soft resets the paper reports one, too.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftrl.figures.axes import (
    draw_band,
    draw_episodes,
    draw_panel,
    what_is_drawn,
)
from driftrl.figures.panels import return_panel
from driftrl.figures.style import (
    COLUMN_INCHES,
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_name,
    method_styles,
    printed_style,
    setting_colours,
    setting_name,
    shade,
)
from driftrl.results.growth import LENGTH
from driftrl.results.regret import MethodRegret, StudyRegret
from driftrl.results.scores import scores_of
from driftrl.results.variants import sweep_point

Points = list[tuple[float, MethodRegret]]
Sweeps = dict[tuple[str, str], Points]

_SOFT_RESETS = {"alpha": "both", "model": "model only", "policy": "policy only"}
"""Which parameters are softly reset at the rate that is swept."""
_EPISODES = ("H", "w")
_SOFT_RESET_AXIS, _EPISODES_AXIS = "soft reset rate α", "episodes"
_DASHES = ("solid", "dashed", "dashdot", "dotted")


def sweeps_of(study: StudyRegret) -> Sweeps:
    """Return, for each method and setting, the values swept and their regret.

    Lengths of runs are no settings of them: ``driftrl.results.growth`` reads those.
    With a rate of zero nothing is reset, whatever the rate is of: the point ``alpha=0``
    also begins the sweeps of the model's and of the policy's rate.
    """
    found: dict[tuple[str, str], dict[float, MethodRegret]] = defaultdict(dict)
    for one in study.methods:
        point = sweep_point(one.method)
        if point and point.setting != LENGTH:
            found[point.method, point.setting][point.value] = one
    for (method, setting), points in found.items():
        none_reset = found.get((method, "alpha"), {}).get(0.0)
        if setting in _SOFT_RESETS and none_reset:
            points.setdefault(0.0, none_reset)
    return {
        key: sorted(points.items(), key=lambda point: point[0])
        for key, points in found.items()
        if len(points) > 1
    }


def sweep_figure(study: StudyRegret) -> Figure:
    """Draw the mean final regret, ± one standard error, over each swept setting.

    It is the mean return of an episode where no regret is known.
    Settings that are different things have a panel each.
    """
    sweeps = sweeps_of(study)
    quantities = list(dict.fromkeys(_quantity(setting) for _, setting in sweeps))
    width = COLUMN_INCHES if len(quantities) < 2 else PAGE_INCHES
    styles = _sweep_styles(sweeps)
    with printed_style():
        figure = Figure(figsize=(width, 2.5), layout="constrained")
        grid = figure.subplots(1, max(1, len(quantities)), sharey=True, squeeze=False)
        for axes, quantity in zip(grid[0], quantities, strict=False):
            _draw_baseline(axes, study)
            shown = {
                key: sweeps[key] for key in sweeps if _quantity(key[1]) == quantity
            }
            for key, points in shown.items():
                _draw_sweep(axes, study, points, styles[key])
            axes.set_xlabel(_axis_label([setting for _, setting in shown]))
            if study.table.known:
                axes.set_ylim(bottom=0)
            axes.legend()
        regret = f"Regret $R_{{{study.episodes}}}$"
        grid[0, 0].set_ylabel(regret if study.table.known else "Mean return")
        said = what_is_drawn(study)
        grid[0, -1].set_title(said, loc="right", fontsize=7, color=MUTED)
        if len({method for method, _ in sweeps}) == 1:
            name = method_name(next(iter(sweeps))[0])
            grid[0, 0].set_title(name, loc="left", fontweight="bold")
    return figure


def sweep_returns_figure(study: StudyRegret) -> Figure:
    """Draw the return over episodes for each value, a panel for each sweep."""
    sweeps = sweeps_of(study)
    styles = _sweep_styles(sweeps)
    width = max(COLUMN_INCHES, min(PAGE_INCHES, 2.6 * len(sweeps)))
    with printed_style():
        figure = Figure(figsize=(width, 2.5), layout="constrained")
        grid = figure.subplots(1, max(1, len(sweeps)), sharey=True, squeeze=False)[0]
        for axes, (key, points) in zip(grid, sweeps.items(), strict=False):
            _draw_returns(axes, study, points, styles[key])
        grid[0].set_ylabel(r"Return $J(\pi_n)$")
        said = what_is_drawn(study)
        figure.text(0.995, 0.985, said, ha="right", va="top", fontsize=7, color=MUTED)
    return figure


def _quantity(setting: str) -> str:
    if setting in _SOFT_RESETS:
        return _SOFT_RESET_AXIS
    return _EPISODES_AXIS if setting in _EPISODES else setting_name(setting)


def _axis_label(settings: Sequence[str]) -> str:
    quantity = _quantity(settings[0])
    if quantity != _EPISODES_AXIS:
        return quantity
    names = " or ".join(f"${setting}$" for setting in dict.fromkeys(settings))
    return f"{names}, {quantity}"


def _sweep_styles(sweeps: Sweeps) -> dict[tuple[str, str], MethodStyle]:
    """Return how each line looks: as its method, unless several are of one method."""
    methods = [method for method, _ in sweeps]
    colours = setting_colours(setting for _, setting in sweeps)
    styles = {}
    for place, (method, setting) in enumerate(sweeps):
        look = method_styles([method])[method]
        name = _SOFT_RESETS.get(setting, f"${setting}$")
        if len(set(methods)) > 1 or setting not in _SOFT_RESETS:
            name = f"{look.name}, {name}"
        if methods.count(method) > 1:
            look = MethodStyle(name, colours[setting], _DASHES[place % len(_DASHES)])
        styles[method, setting] = MethodStyle(name, look.colour, look.dash)
    return styles


def _draw_sweep(
    axes: Axes, study: StudyRegret, points: Points, style: MethodStyle
) -> None:
    finals = scores_of(study).finals
    axes.errorbar(
        [value for value, _ in points],
        [finals[one.method].mean for _, one in points],
        yerr=[finals[one.method].stderr for _, one in points],
        label=style.name,
        color=style.colour,
        linestyle=style.dash,
        marker="o",
        markersize=3.5,
        capsize=2,
    )


def _draw_baseline(axes: Axes, study: StudyRegret) -> None:
    for one in study.methods:
        if one.method == study.baseline and sweep_point(one.method) is None:
            style = method_styles([one.method])[one.method]
            final = scores_of(study).finals[one.method]
            mean, reach = final.mean, final.stderr
            axes.axhline(mean, color=style.colour, label=f"{style.name}, all data")
            axes.axhspan(mean - reach, mean + reach, color=style.colour, alpha=0.15)


def _draw_returns(
    axes: Axes, study: StudyRegret, points: Points, style: MethodStyle
) -> None:
    panel = return_panel(study)
    if panel.references:
        draw_panel(axes, replace(panel, curves={}), {})
    shares = np.linspace(0.0, 1.0, len(points)).tolist()
    for (value, one), share in zip(points, shares, strict=True):
        look = MethodStyle(f"{value:g}", shade(style.colour, share), "solid")
        draw_band(axes, panel.curves[one.method], look)
    if panel.references:
        axes.plot([], [], color=INK, linewidth=0.9, label="J*(θ)")
    draw_episodes(axes, study)
    axes.set_xlabel(r"Episode $n$")
    axes.legend(
        title=style.name,
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
