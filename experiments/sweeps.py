"""Regret and returns over the settings that variants named ``setting=value`` sweep.

    python experiments/sweeps.py runs/soft_reset_ablation-laptop

draws figure 5 of the paper, ``sweep`` and ``sweep_returns``, as PNG and PDF.
"""

import argparse
import functools
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
import polars as pl
from matplotlib.figure import Figure

import driftrl
from driftrl.analysis.panels import panels_of, require_one_problem, unit_of
from driftrl.analysis.plots import (
    draw_episodes,
    draw_panel,
    printed_style,
    save,
    seed_counts,
)
from driftrl.analysis.regret import methods_of, summarize
from driftrl.analysis.style import (
    COLUMN_INCHES,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_name,
    method_styles,
    setting_look,
    setting_name,
    shade,
    sweep_point,
)
from driftrl.errors import require

Sweeps = dict[tuple[str, str], dict[float, str]]
"""For each method and swept setting, the name of the variant at each value."""
SOFT_RESETS = {"alpha": "both", "model": "model only", "policy": "policy only"}
LENGTH = "N"  # the length of a run is no setting of the method


def sweeps_of(methods: Iterable[str]) -> Sweeps:
    """Return the settings that variants named ``setting=value`` sweep, values sorted.

    With a rate of zero nothing is reset: the point ``alpha=0`` also begins the sweeps
    of the model's and of the policy's rate.
    """
    sweeps: Sweeps = {}
    for name in methods:
        point = sweep_point(name)
        if point and point.setting != LENGTH:
            sweeps.setdefault((point.method, point.setting), {})[point.value] = name
    for (method, setting), points in sweeps.items():
        none_reset = sweeps.get((method, "alpha"), {}).get(0.0)
        if setting in SOFT_RESETS and none_reset:
            points.setdefault(0.0, none_reset)
    return {key: dict(sorted(p.items())) for key, p in sweeps.items() if len(p) > 1}


def sweep(frame: pl.DataFrame) -> Figure:
    """Draw the final regret, ± one standard error, over each swept setting.

    It is the mean return where J* is not known.  Settings of different kinds have a
    panel each.
    """
    sweeps = _sweeps(frame)
    require_one_problem(frame)
    (summary,) = summarize(frame)
    finals = {one.method: one.score for one in summary.methods}
    quantities = list(dict.fromkeys(_quantity(setting) for _, setting in sweeps))
    width = COLUMN_INCHES if len(quantities) < 2 else PAGE_INCHES
    styles = _sweep_styles(sweeps)
    with printed_style():
        figure = Figure(figsize=(width, 2.5), layout="constrained")
        grid = figure.subplots(1, len(quantities), sharey=True, squeeze=False)[0]
        for axes, quantity in zip(grid, quantities, strict=True):
            if summary.baseline in finals and sweep_point(summary.baseline) is None:
                final = finals[summary.baseline]
                style = method_styles([summary.baseline])[summary.baseline]
                look = {"color": style.colour, "label": f"{style.name}, all data"}
                axes.axhline(final.mean, **look)
                edges = final.mean - final.stderr, final.mean + final.stderr
                axes.axhspan(*edges, color=style.colour, alpha=0.15)
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
    sweeps = _sweeps(frame)
    panel, styles = panels_of(frame)["returns"], _sweep_styles(sweeps)
    width = max(COLUMN_INCHES, min(PAGE_INCHES, 2.6 * len(sweeps)))
    with printed_style():
        figure = Figure(figsize=(width, 2.7), layout="constrained")
        grid = figure.subplots(1, len(sweeps), sharey=True, squeeze=False)[0]
        for axes, (key, points) in zip(grid, sweeps.items(), strict=True):
            shares = np.linspace(0.0, 1.0, len(points)).tolist()
            tint = functools.partial(shade, styles[key].colour)
            looks = {
                name: MethodStyle(f"{value:g}", tint(share), "solid")
                for (value, name), share in zip(points.items(), shares, strict=True)
            }
            curves = {name: panel.curves[name] for name in looks}
            draw_panel(axes, replace(panel, curves=curves), looks)
            draw_episodes(axes, frame)
            # Above the panel: dips after resets leave no corner of it free.
            place = {"loc": "lower left", "bbox_to_anchor": (-0.02, 0.98)}
            look = {"ncols": 3, "fontsize": 7, "handlelength": 1, "columnspacing": 0.9}
            axes.legend(title=styles[key].name, alignment="left", **place, **look)
        grid[0].set_ylabel(r"Return $J(\pi_n)$")
        figure.supxlabel(f"{unit_of(frame).title()} $n$ ({seed_counts(frame)})")
    return figure


def _sweeps(frame: pl.DataFrame) -> Sweeps:
    sweeps = sweeps_of(methods_of(frame))
    require(
        bool(sweeps),
        "Nothing is swept in this frame: no method has two variants named "
        "'setting=value', such as 'w=5' and 'w=10'.",
    )
    return sweeps


def _quantity(setting: str) -> str:
    if setting in SOFT_RESETS:
        return "soft reset rate α"
    return "episodes" if setting in ("H", "w") else setting_name(setting)


def _sweep_styles(sweeps: Sweeps) -> dict[tuple[str, str], MethodStyle]:
    """Return the look of each sweep: its method's, unless a method has several."""
    methods = [method for method, _ in sweeps]
    styles = {}
    for place, (method, setting) in enumerate(sweeps):
        style = method_styles([method])[method]
        name = SOFT_RESETS.get(setting, f"${setting}$")
        if len(set(methods)) > 1 or setting not in SOFT_RESETS:
            name = f"{style.name}, {name}"
        several = methods.count(method) > 1
        look = setting_look(place) if several else (style.colour, style.dash)
        styles[method, setting] = MethodStyle(name, *look)
    return styles


def main(words: list[str] | None = None) -> None:
    """Parse the arguments and draw both figures."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study", type=Path, help="a study with swept variants")
    parser.add_argument("--out", type=Path, help="directory (default: STUDY/report)")
    arguments = parser.parse_args(words)
    out = arguments.out or arguments.study / "report"
    out.mkdir(parents=True, exist_ok=True)
    frame = driftrl.load(arguments.study)
    for draw in (sweep, sweep_returns):
        print(*save(draw(frame), out / draw.__name__), sep="\n")


if __name__ == "__main__":
    main()
