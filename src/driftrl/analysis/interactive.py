"""The report's interactive figures, as Plotly figures.

Traces that hold data say in ``meta`` which method they belong to, so that the page can
hide it, and how their columns are named in the CSV file of the figure.
"""

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import polars as pl
from plotly import graph_objects as go

from driftrl.analysis.compare import Aggregates
from driftrl.analysis.panels import (
    Panel,
    Reference,
    longest_run,
    score_difference,
    score_of,
    soft_reset_ticks,
    theta_changes,
)
from driftrl.analysis.regret import ProblemSummary
from driftrl.analysis.statistics import Estimate, mean, standard_error
from driftrl.analysis.style import (
    DASHES,
    INK,
    MUTED,
    MethodStyle,
    method_name,
    translucent,
)

STACKED = ("theta", "regret", "returns")
"""Panels of the first figure, from the top; they share the axis of episodes."""
RUN_STRIPS: dict[str, dict[str, str]] = {
    "θ": {"theta": "θ"},
    "return": {
        "optimal_return": "J*(θ), optimum",
        "return_executed": "executed",
        "return_eval": "evaluated",
    },
    "error": {"model_error": "model error"},
    "coverage": {"coverage": "coverage"},
    "λ": {"optimism": "λ"},
    "α": {"temperature": "α"},
    "retained": {"span": "episodes retained"},
}
"""Strips of the figure of one run: the axis, and each column with its name."""
_PANEL_PIXELS, _STRIP_PIXELS, _GAP_PIXELS = 250, 70, 22
_MARGIN = {"l": 76, "r": 14, "t": 10, "b": 44}
_MOST_DOTS = 100  # seeds of a method beyond which dots hide each other
_MOST_BANDS = 5  # more would hide each other
_DIGITS = 7

Styles = Mapping[str, MethodStyle]


def rounded(values: np.ndarray | Sequence[Any]) -> list[float | None]:
    """Return numbers with seven digits, and None for NaN."""
    numbers = np.asarray(values, dtype=float).tolist()
    return [float(f"{v:.{_DIGITS}g}") if math.isfinite(v) else None for v in numbers]


def _axis(**style: Any) -> dict[str, Any]:
    look = {"gridcolor": "#E9E9E9", "zeroline": False, "linecolor": INK}
    return look | {"ticks": "outside", "automargin": True} | style


def _title(text: str) -> dict[str, Any]:
    return {"text": text, "standoff": 6}


def _figure(height: int, **layout: Any) -> go.Figure:
    shared: dict[str, Any] = {
        "template": "none",
        "height": height,
        "margin": _MARGIN,
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "showlegend": False,
        "xaxis": _axis(),
        "yaxis": _axis(),
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": MUTED, "activecolor": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }
    return go.Figure(layout=shared | layout)


def _stack(heights: Sequence[int]) -> tuple[int, list[list[float]]]:
    """Return the height of figures below each other, and the domain of each axis."""
    inner = sum(heights) + _GAP_PIXELS * (len(heights) - 1)
    domains, top = [], float(inner)
    for height in heights:
        domains.append([max(0.0, (top - height) / inner), top / inner])
        top -= height + _GAP_PIXELS
    return inner + _MARGIN["t"] + _MARGIN["b"], domains


def panel_figure(
    panels: Sequence[Panel], frame: pl.DataFrame, styles: Styles, every: int = 1
) -> go.Figure:
    """Draw panels below each other over the same episodes.

    Args:
        panels: From the top.
        frame: Rows of the problem.
        styles: Look of each method.
        every: Draw one of so many episodes, the last among them.
    """
    # θ without methods is a slim strip, as above the printed regret.
    heights = [_PANEL_PIXELS if one.curves else _STRIP_PIXELS for one in panels]
    height, domains = _stack(heights)
    longest, last = longest_run(frame), len(panels)
    axis = _axis(
        title=_title("episode"),
        range=[0.5, longest + 0.5],
        anchor=f"y{last}" if last > 1 else "y",
        **({"dtick": 1} if longest < 10 else {}),
    )
    figure = _figure(height, hovermode="x unified", xaxis=axis)
    for place, (panel, domain) in enumerate(zip(panels, domains, strict=True), 1):
        name = f"y{place}" if place > 1 else "y"
        figure.layout[f"yaxis{name[1:]}"] = _panel_axis(panel) | {"domain": domain}
        if panel.reference:
            figure.add_traces(_reference_traces(panel, panel.reference, name, every))
        for method, rows in panel.curves.items():
            figure.add_traces(
                _method_traces(method, rows, styles[method], panel, name, every)
            )
        if panel.curves:
            _mark_soft_resets(figure, frame, styles, name)
    for start in theta_changes(frame):
        dotted = {"color": MUTED, "width": 1, "dash": "dot"}
        place = {"x0": start - 0.5, "x1": start - 0.5, "y0": 0, "y1": 1}
        figure.add_shape(type="line", xref="x", yref="paper", line=dotted, **place)
    return figure


def _panel_axis(panel: Panel) -> dict[str, Any]:
    style = _axis(title=_title(panel.axis))
    if panel.log_ticks:
        style |= {"type": "log", "tickvals": panel.log_ticks, "tickformat": "~g"}
    elif panel.starts_at_zero:
        style |= {"rangemode": "tozero"}
    return style | ({"tickformat": ".0%"} if panel.as_percent else {})


def _kept(count: int, every: int) -> np.ndarray:
    """Return the indices of every k-th of ``count`` values, the last among them."""
    return np.arange((count - 1) % every, count, every)


def _method_traces(
    method: str,
    rows: np.ndarray,
    style: MethodStyle,
    panel: Panel,
    axis: str,
    every: int,
) -> list[go.Scatter]:
    kept = _kept(rows.shape[1], every)
    centre, error = mean(rows)[kept], standard_error(rows)[kept]
    form = ":.1%" if panel.as_percent else ":.4~g"
    known = np.isfinite(centre) & np.isfinite(error)
    template = f"%{{y{form}}}" + (f" ± %{{customdata{form}}}" if known.any() else "")
    line = go.Scatter(
        x=(kept + 1).tolist(),
        y=rounded(centre),
        customdata=rounded(error),
        yaxis=axis,
        name=escape(style.name),
        mode="lines+markers" if len(kept) == 1 else "lines",
        line={"color": style.colour, "width": 2.2, "dash": DASHES[style.dash]},
        hovertemplate=template,
        meta={
            "method": method,
            "row": {"quantity": panel.key, "method": method},
            **{"x": "episode", "y": "mean", "others": ["standard_error"]},
        },
    )
    x, low, high = kept[known] + 1, (centre - error)[known], (centre + error)[known]
    return [_band(x, low, high, style.colour, axis, method), line] if len(x) else [line]


def _band(
    x: np.ndarray,
    low: np.ndarray,
    high: np.ndarray,
    colour: str,
    axis: str = "y",
    method: str = "",
) -> go.Scatter:
    return go.Scatter(
        x=rounded([*x, *x[::-1]]),
        y=rounded([*high, *low[::-1]]),
        yaxis=axis,
        fill="toself",
        fillcolor=translucent(colour),
        line={"width": 0},
        mode="lines",
        hoverinfo="skip",
        meta={"method": method},
    )


def _reference_traces(
    panel: Panel, reference: Reference, axis: str, every: int
) -> list[go.Scatter]:
    kept = _kept(len(reference.values), every)
    line = go.Scatter(
        x=(kept + 1).tolist(),
        y=rounded(reference.values[kept]),
        yaxis=axis,
        name=reference.label,
        mode="lines" if len(kept) > 1 else "markers",
        line={"color": INK, "width": 1.4, "shape": "hvh"},
        hovertemplate="%{y:.1%}" if panel.as_percent else "%{y:.4~g}",
        meta={
            "row": {"quantity": panel.key, "method": reference.label},
            **{"x": "episode", "y": "mean"},
        },
    )
    if reference.range is None:
        return [line]
    low, high = reference.range[:, kept]
    return [_band(kept + 1, low, high, INK, axis), line]


def _mark_soft_resets(
    figure: go.Figure, frame: pl.DataFrame, styles: Styles, axis: str
) -> None:
    for row in soft_reset_ticks(frame):
        colour = styles[row.methods[0]].colour if len(row.methods) == 1 else INK
        # One path for all ticks: hundreds of shapes would take seconds to draw.
        ticks = [f"M{n - 0.5},{row.low:.4g}V{row.high:.4g}" for n in row.episodes]
        where = {"type": "path", "xref": "x", "yref": f"{axis} domain"}
        line = {"color": colour, "width": 1}
        figure.add_shape(path="".join(ticks), line=line, **where)


def seed_figures(summary: ProblemSummary, styles: Styles) -> dict[str, go.Figure]:
    """Draw the score of each seed, and its paired difference to the baseline's.

    A diamond is the mean with its 95 % t interval.  A figure without two seeds is left
    out.
    """
    known = summary.is_known
    score = f"R<sub>{summary.episodes}</sub>" if known else "mean return"
    column = "regret" if known else "mean_return"
    finals, differences = {}, {}
    for method in summary.methods:
        finals[method.method] = method.seeds, score_of(summary, method)
        if method.difference:
            difference = score_difference(summary, method)
            differences[method.method] = method.difference.seeds, difference
    figures = {}
    if any(len(method.seeds) > 1 for method in summary.methods):
        figures["finals"] = _draw_seeds(finals, styles, column)
        figures["finals"].update_xaxes(title=_title(score))
    if differences:
        figure = _draw_seeds(differences, styles, f"{column}_difference")
        figure.add_vline(0, line={"color": INK, "width": 1.2})
        title = f"difference in {score}<br>to {escape(method_name(summary.baseline))}"
        figure.update_xaxes(title=_title(title), rangemode="tozero")
        figures["differences"] = figure
    return figures


def _draw_seeds(
    estimates: Mapping[str, tuple[Sequence[int], Estimate]], styles: Styles, column: str
) -> go.Figure:
    figure = _dot_figure(len(estimates))
    for method, (seeds, estimate) in estimates.items():
        style = styles[method]
        opacity = 0.55 if len(seeds) <= _MOST_DOTS else 0.2
        row = {"method": method, "of": "one seed"}
        figure.add_scatter(
            x=rounded(estimate.values),
            y=[escape(style.name)] * len(seeds),
            customdata=list(seeds),
            mode="markers",
            marker={"color": style.colour, "size": 8, "opacity": opacity},
            hovertemplate="seed %{customdata}: %{x:.4~g}<extra></extra>",
            meta={"row": row, "x": column, "others": ["seed"]},
        )
        low, high = float(estimate.student.low), float(estimate.student.high)
        mark = _interval_mark(style, estimate.mean, low, high)
        mark.meta = {
            "row": {"method": method, "of": "mean"},
            **{"x": column, "others": ["lower", "upper"]},
        }
        figure.add_trace(mark)
    return figure


def _dot_figure(count: int) -> go.Figure:
    """Return an empty figure with a line for each method, the first on top."""
    pixels = 46 if count <= 6 else 30
    lines = _axis(range=[count - 0.5, -0.5], showgrid=False, ticks="")
    return _figure(80 + pixels * count, hovermode="closest", yaxis=lines)


def _interval_mark(
    style: MethodStyle, value: float, low: float, high: float, form: str = ":.4~g"
) -> go.Scatter:
    known = math.isfinite(low)
    bar = {"color": style.colour, "thickness": 2, "width": 6}
    reach = {"type": "data", "array": [high - value], "arrayminus": [value - low]}
    interval = f" (%{{customdata[0]{form}}} to %{{customdata[1]{form}}})" * known
    return go.Scatter(
        x=[value],
        y=[escape(style.name)],
        customdata=[rounded([low, high])],
        error_x=reach | bar | {"symmetric": False} if known else None,
        mode="markers",
        marker={
            **{"color": "white", "size": 12, "symbol": "diamond"},
            "line": {"color": style.colour, "width": 2},
        },
        hovertemplate=f"%{{x{form}}}{interval}<extra></extra>",
    )


def run_figure(columns: Iterable[str], panels: Iterable[Panel]) -> go.Figure:
    """Return the figure of one run without its numbers, which the page fills in.

    Args:
        columns: Columns that some run has recorded.
        panels: Panels of all problems, for the scale of the model error.
    """
    known = set(columns)
    strips = {
        axis: {column: name for column, name in lines.items() if column in known}
        for axis, lines in RUN_STRIPS.items()
    }
    strips = {axis: lines for axis, lines in strips.items() if lines}
    heights = [170 if axis == "return" else 92 for axis in strips]
    height, domains = _stack(heights)
    axis = _axis(title=_title("episode"), anchor=f"y{len(strips)}")
    legend = {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"}
    figure = _figure(
        height + 20,
        **{"hovermode": "x unified", "showlegend": True, "legend": legend},
        **{"xaxis": axis, "margin": _MARGIN | {"t": 30}},
    )
    scales = [one.log_ticks for one in panels if one.key == "model_error"]
    powers = [t for ticks in scales for t in ticks if math.log10(t).is_integer()]
    styles: dict[str, dict[str, Any]] = {
        "coverage": {"tickformat": ".0%"},
        "retained": {"rangemode": "tozero"},
        "error": {"type": "log", "tickvals": powers, "tickformat": "~g"}
        if len(powers) > 1
        else {},
    }
    for place, (title, lines) in enumerate(strips.items(), 1):
        name = f"y{place}" if place > 1 else "y"
        style = {"title": {"text": title}, "domain": domains[place - 1], "nticks": 5}
        figure.layout[f"yaxis{name[1:]}"] = _axis(**(style | styles.get(title, {})))
        for column, label in lines.items():
            reference = column in ("theta", "optimal_return")
            # What was executed while exploring is drawn as dots beside the evaluation.
            dots = column == "return_executed" and "return_eval" in known
            look = {"color": INK if reference else MUTED, "width": 1.6}
            figure.add_scatter(
                yaxis=name,
                name=label,
                showlegend=title == "return",
                mode="markers" if dots else "lines",
                marker={"color": MUTED, "size": 4, "opacity": 0.6},
                line=look | ({"shape": "hvh"} if reference else {}),
                hovertemplate="%{y:.1%}" if column == "coverage" else "%{y:.4~g}",
                meta={
                    **{"x": "episode", "y": column},
                    "coloured": not reference and not dots,
                },
            )
    return figure


def aggregate_figures(aggregates: Aggregates, styles: Styles) -> dict[str, go.Figure]:
    """Draw performance profiles, and the probability of beating the baseline."""
    measure = aggregates.measure
    score = re.sub(r"\bR_(\w+)", r"R<sub>\1</sub>", measure.name)
    side = "above" if measure.higher_is_better else "below"
    profiles = _figure(
        330,
        hovermode="x unified",
        xaxis=_axis(title=_title(f"τ, {score}"), hoverformat=".4~g"),
        yaxis=_axis(
            title=_title(f"share of runs {side} τ"),
            **{"tickformat": ".0%", "range": [-0.03, 1.03]},
        ),
    )
    taus = aggregates.thresholds
    for method, one in aggregates.methods.items():
        style = styles[method]
        low, high = one.profile.interval.low, one.profile.interval.high
        if len(aggregates.methods) <= _MOST_BANDS:
            profiles.add_trace(_band(taus, low, high, style.colour, method=method))
        profiles.add_scatter(
            x=rounded(taus),
            y=rounded(one.profile.value),
            customdata=[rounded(pair) for pair in zip(low, high, strict=True)],
            name=escape(style.name),
            mode="lines",
            line={"color": style.colour, "width": 2.2, "dash": DASHES[style.dash]},
            hovertemplate="%{y:.0%} (%{customdata[0]:.0%} to %{customdata[1]:.0%})",
            meta={
                **{"method": method, "row": {"method": method}, "x": "threshold"},
                **{"y": "share_of_runs", "others": ["lower", "upper"]},
            },
        )
    if aggregates.baseline is None:
        return {"profile": profiles}
    chances = {
        method: one.improvement
        for method, one in aggregates.methods.items()
        if one.improvement is not None
    }
    figure = _dot_figure(len(chances))
    for method, chance in chances.items():
        # With every pair alike, no interval is known.
        ends = chance.interval.low, chance.interval.high
        alike = float(chance.value) in (0.0, 1.0)
        low, high = (math.nan, math.nan) if alike else map(float, ends)
        mark = _interval_mark(styles[method], float(chance.value), low, high, ":.0%")
        mark.meta = {
            **{"method": method, "row": {"method": method}, "x": "probability"},
            "others": ["lower", "upper"],
        }
        figure.add_trace(mark)
    figure.add_vline(0.5, line={"color": INK, "width": 1.2})
    title = f"probability of beating {escape(method_name(aggregates.baseline))}"
    figure.update_xaxes(title=_title(title), tickformat=".0%", range=[-0.03, 1.03])
    return {"profile": profiles, "improvement": figure}
