"""Calibration under drift at a glance: how often bounds hold, and one draw to see why.

Left, the last function of one draw with the data of older ones: a band that trusts all
of them, and one from a window that knows about drift.  Right, the share of draws that
each bound covered everywhere, under each scheme, with its width.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from driftrl.analysis.style import (
    INK,
    MUTED,
    PAGE_INCHES,
    MethodStyle,
    method_styles,
    printed_style,
    render,
    shade,
)
from driftrl.io import write_atomically
from driftrl.results.calibration import (
    BOUNDS,
    SCHEMES,
    CalibrationRecords,
    Coverage,
    coverage_table,
)

_METHODS = {"keep_all": "sombrl", "reset": "r-ombrl", "window": "sw-ombrl"}
_SCHEME_NAMES = {"keep_all": "keep all", "reset": "reset", "window": "window"}
_MARKERS = {"keep_all": "o", "reset": "s", "window": "D"}
_BOUND_NAMES = {
    "two_sigma": r"$2\sigma$",
    "stationary_printed": "stationary,\nprinted",
    "stationary_corrected": "stationary,\ncorrected",
    "drift_printed": "drift-aware,\nprinted",
    "drift_corrected": "drift-aware,\ncorrected",
    "drift_sharp": "drift-aware,\ngiven the data",
}
_STILL = ("two_sigma", "stationary_printed", "stationary_corrected")
"""Without drift, a bound that adds a drift term is the same as the one without."""
_APART = 0.24  # between the marks of two schemes


def calibration_figure(records: CalibrationRecords) -> Figure:
    """Draw one example and the coverage of every bound; two columns wide."""
    table = coverage_table(records.verdicts)
    looks = method_styles(_METHODS.values())
    styles = {scheme: looks[method] for scheme, method in _METHODS.items()}
    with printed_style():
        figure = Figure(figsize=(PAGE_INCHES, 4.3))
        grid = figure.add_gridspec(
            2, 3, height_ratios=[1, 1.05], hspace=0.5, wspace=0.25
        )
        figure.subplots_adjust(left=0.075, right=0.98, top=0.945, bottom=0.115)
        drifting = figure.add_subplot(grid[1, :2])
        still = figure.add_subplot(grid[1, 2], sharey=drifting)
        target = 1 - float(records.settings["failure_probability"])
        _draw_coverage(drifting, table, styles, BOUNDS, drifting=True)
        _draw_coverage(still, table, styles, _STILL, drifting=False)
        for axes in (drifting, still):
            axes.axhline(target, color=INK, linewidth=0.8, linestyle="dotted")
        drifting.set_ylabel("Share of draws covered")
        still.tick_params(labelleft=False)
        draws = max(one.draws for one in table)
        _title(drifting, "With drift", f"{draws} draws, Wilson 95 %")
        _title(still, "Without drift", rf"dotted: $1-\delta={target:g}$")
        drifting.legend(loc="lower right", bbox_to_anchor=(1.0, 0.06))
        if records.example is not None:
            top = figure.add_subplot(grid[0, :])
            _draw_example(top, records.example, styles)
    return figure


def _title(axes: Axes, title: str, key: str) -> None:
    axes.set_title(title, loc="left", fontweight="bold")
    axes.set_title(key, loc="right", fontsize=7, color=MUTED)


def _draw_coverage(
    axes: Axes,
    table: Sequence[Coverage],
    styles: Mapping[str, MethodStyle],
    bounds: Sequence[str],
    *,
    drifting: bool,
) -> None:
    found = {(c.scheme, c.bound): c for c in table if c.drifting == drifting}
    for offset, scheme in zip((-_APART, 0.0, _APART), SCHEMES, strict=True):
        rows = [found[scheme, bound] for bound in bounds if (scheme, bound) in found]
        places = np.arange(len(rows)) + offset
        rates = np.array([one.rate for one in rows])
        low = rates - [float(one.interval.low) for one in rows]
        high = np.array([float(one.interval.high) for one in rows]) - rates
        axes.errorbar(
            places,
            rates,
            np.maximum(np.stack([low, high]), 0.0),
            fmt=_MARKERS[scheme],
            markersize=4,
            color=styles[scheme].colour,
            capsize=2,
            linewidth=1,
            label=_SCHEME_NAMES[scheme],
        )
        for place, one in zip(places, rows, strict=True):
            _write_width(axes, float(place), one)
    axes.set_xticks(
        range(len(bounds)), [_BOUND_NAMES[bound] for bound in bounds], fontsize=6.5
    )
    axes.set_xlim(-0.5, len(bounds) - 0.5)
    axes.set_ylim(-0.04, 1.16)
    axes.set_yticks(np.linspace(0, 1, 6))
    axes.grid(visible=False, axis="x")


def _write_width(axes: Axes, place: float, one: Coverage) -> None:
    """Write the mean half-width over a mark: a bound that holds may be useless."""
    text = f"±{one.half_width:.2g}" if one.half_width < 100 else _power(one.half_width)
    axes.annotate(
        text,
        (place, 1.05),
        ha="center",
        va="bottom",
        fontsize=5.2,
        rotation=35,
        color=MUTED,
    )


def _power(value: float) -> str:
    exponent = int(np.floor(np.log10(value)))
    return rf"±{value / 10**exponent:.0f}·$10^{exponent}$"


def _draw_example(
    axes: Axes, example: Mapping[str, Any], styles: Mapping[str, MethodStyle]
) -> None:
    points, truth = np.array(example["points"]), np.array(example["truth"])
    seen = np.concatenate([truth, np.ravel(example["targets"])])
    room = seen.max() - seen.min()
    for scheme, words in (
        ("keep_all", "keep all, stationary bound"),
        ("window", "window, drift-aware bound given the data"),
    ):
        belief, colour = example[scheme], styles[scheme].colour
        mean, half = np.array(belief["mean"]), np.array(belief["half_width"])
        axes.fill_between(
            points, mean - half, mean + half, color=colour, alpha=0.2, linewidth=0
        )
        axes.plot(
            points, mean, color=colour, linestyle=styles[scheme].dash, label=words
        )
    axes.plot(points, truth, color=INK, label=r"$f_n$, the function now")
    axes.plot(
        points,
        np.array(example["first_truth"]),
        color=MUTED,
        linewidth=0.8,
        linestyle="dotted",
        label=r"$f_1$",
    )
    inputs = np.array(example["inputs"])
    for age, (x, y) in enumerate(zip(inputs, example["targets"], strict=True)):
        share = (age + 1) / len(inputs)
        axes.scatter(x, y, s=5, color=shade(MUTED, 0.9 * share), linewidth=0, zorder=3)
    # The legend is above all that matters; a band may be cut off.
    axes.set_ylim(seen.min() - 0.35 * room, seen.max() + 0.45 * room)
    axes.set_xlim(-1, 1)
    axes.set_xlabel(r"$z$", labelpad=1)
    axes.set_ylabel(r"$f(z)$")
    where = f"before episode {example['episode']}; dots are data, darker is newer"
    _title(axes, "One draw", where)
    axes.legend(loc="upper center", ncols=4, fontsize=6.5, handlelength=1.6)


def write_calibration_figure(
    records: CalibrationRecords, directory: Path
) -> list[Path]:
    """Write the figure as PNG and PDF, atomically; return the files."""
    directory.mkdir(parents=True, exist_ok=True)
    figure = calibration_figure(records)
    paths = [directory / f"calibration.{kind}" for kind in ("png", "pdf")]
    for path in paths:
        write_atomically(path, render(figure, path.suffix[1:]))
    return paths
