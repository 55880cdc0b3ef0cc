"""The report's interactive figures, as Plotly figures.

Traces say in ``meta`` which method they belong to, so that the page can hide it.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import numpy as np
import polars as pl
from plotly import graph_objects as go

from driftrl.analysis.panels import Panel, longest_run, theta_changes, unit_of
from driftrl.analysis.statistics import mean, standard_error
from driftrl.analysis.style import DASHES, INK, MUTED, MethodStyle, translucent

_RUN_STRIPS: dict[str, dict[str, str]] = {
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
    "retained": {
        "span": "episodes retained",
        "since_change": "since the last located change",
    },
    "change?": {"change_log_odds": "log odds of a change"},
}
"""Strips of the figure of one run: the axis, and each column with its name."""
_PANEL_PIXELS, _STRIP_PIXELS, _GAP_PIXELS = 250, 70, 22
_MARGIN = {"l": 76, "r": 14, "t": 10, "b": 44}
_DIGITS = 7

Styles = Mapping[str, MethodStyle]


def _rounded(values: np.ndarray | Sequence[Any]) -> list[float | None]:
    """Return numbers with seven digits, and None for NaN."""
    numbers = np.asarray(values, dtype=float).tolist()
    return [float(f"{v:.{_DIGITS}g}") if math.isfinite(v) else None for v in numbers]


def _axis(title: str = "", **style: Any) -> dict[str, Any]:
    look = {"gridcolor": "#E9E9E9", "zeroline": False, "linecolor": INK}
    named = {"title": {"text": title, "standoff": 6}} if title else {}
    return look | {"ticks": "outside", "automargin": True} | named | style


def _stacked_figure(
    strips: Sequence[tuple[int, dict[str, Any]]],
    top: int = 10,
    unit: str = "episode",
    **episodes: Any,
) -> go.Figure:
    """Return an empty figure of axes below each other over the same episodes.

    ``strips`` are height in pixels and style of each vertical axis, from the top.
    """
    inner = sum(height for height, _ in strips) + _GAP_PIXELS * (len(strips) - 1)
    last = f"y{len(strips)}" if len(strips) > 1 else "y"
    layout: dict[str, Any] = {
        "template": "none",
        "height": inner + top + _MARGIN["b"],
        "margin": _MARGIN | {"t": top},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "showlegend": False,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": MUTED, "activecolor": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "x unified",
        "xaxis": _axis(unit, anchor=last, **episodes),
    }
    figure = go.Figure(layout=layout)
    upper = inner
    for place, (height, style) in enumerate(strips, 1):
        domain = [max(0.0, (upper - height) / inner), upper / inner]
        figure.layout[f"yaxis{place if place > 1 else ''}"] = style | {"domain": domain}
        upper -= height + _GAP_PIXELS
    return figure


def panel_figure(
    panels: Sequence[Panel], frame: pl.DataFrame, styles: Styles
) -> go.Figure:
    """Draw panels of a problem below each other over the same episodes."""
    # θ without methods is a slim strip, as above the printed regret.
    strips = [
        (_PANEL_PIXELS if panel.curves else _STRIP_PIXELS, _panel_axis(panel))
        for panel in panels
    ]
    longest = longest_run(frame)
    ticks = {"dtick": 1} if longest < 10 else {}
    figure = _stacked_figure(
        strips, unit=unit_of(frame), range=[0.5, longest + 0.5], **ticks
    )
    for place, panel in enumerate(panels, 1):
        axis = f"y{place}" if place > 1 else "y"
        _draw_reference(figure, panel, axis)
        for method, rows in panel.curves.items():
            _draw_method(figure, method, rows, styles[method], panel, axis)
    for start in theta_changes(frame):
        dotted = {"color": MUTED, "width": 1, "dash": "dot"}
        place = {"x0": start - 0.5, "x1": start - 0.5, "y0": 0, "y1": 1}
        figure.add_shape(type="line", xref="x", yref="paper", line=dotted, **place)
    return figure


def _panel_axis(panel: Panel) -> dict[str, Any]:
    style = _axis(panel.axis)
    if panel.is_log:
        style |= {"type": "log", "tickformat": "~g"}
    elif panel.starts_at_zero:
        style |= {"rangemode": "tozero"}
    return style | ({"tickformat": ".0%"} if panel.as_percent else {})


def _draw_method(
    figure: go.Figure,
    method: str,
    rows: np.ndarray,
    style: MethodStyle,
    panel: Panel,
    axis: str,
) -> None:
    episodes = np.arange(1, rows.shape[1] + 1)
    centre, error = mean(rows), standard_error(rows)
    form = ":.1%" if panel.as_percent else ":.4~g"
    known = np.isfinite(centre) & np.isfinite(error)
    if known.any():
        x = episodes[known]
        low, high = (centre - error)[known], (centre + error)[known]
        figure.add_scatter(
            x=_rounded([*x, *x[::-1]]),
            y=_rounded([*high, *low[::-1]]),
            yaxis=axis,
            fill="toself",
            fillcolor=translucent(style.colour),
            line={"width": 0},
            mode="lines",
            hoverinfo="skip",
            meta={"method": method},
        )
    figure.add_scatter(
        x=episodes.tolist(),
        y=_rounded(centre),
        customdata=_rounded(error),
        yaxis=axis,
        name=escape(style.name),
        mode="lines+markers" if len(episodes) == 1 else "lines",
        line={"color": style.colour, "width": 2.2, "dash": DASHES[style.dash]},
        hovertemplate=f"%{{y{form}}}" + f" ± %{{customdata{form}}}" * bool(known.any()),
        meta={"method": method, "quantity": panel.key},
    )


def _draw_reference(figure: go.Figure, panel: Panel, axis: str) -> None:
    if panel.reference is None:
        return
    label, values = panel.reference.label, panel.reference.values
    figure.add_scatter(
        x=list(range(1, len(values) + 1)),
        y=_rounded(values),
        yaxis=axis,
        name=label,
        mode="lines" if len(values) > 1 else "markers",
        line={"color": INK, "width": 1.4, "shape": "hvh"},
        hovertemplate="%{y:.1%}" if panel.as_percent else "%{y:.4~g}",
        meta={"quantity": panel.key},
    )


def run_figure(columns: Iterable[str]) -> go.Figure:
    """Return the figure of one run without its numbers, which the page fills in.

    ``columns`` are those that some run has recorded.
    """
    known = set(columns)
    strips = {
        axis: {column: name for column, name in lines.items() if column in known}
        for axis, lines in _RUN_STRIPS.items()
        if not known.isdisjoint(lines)
    }
    styles: dict[str, dict[str, Any]] = {
        "coverage": {"tickformat": ".0%"},
        "retained": {"rangemode": "tozero"},
        "error": {"type": "log", "tickformat": "~g"},
    }
    figure = _stacked_figure(
        [
            (
                170 if axis == "return" else 92,
                _axis(axis, nticks=5, **styles.get(axis, {})),
            )
            for axis in strips
        ]
    )
    legend = {"orientation": "h", "x": 0, "y": 1.0, "yanchor": "bottom"}
    figure.update_layout(showlegend=True, legend=legend)
    for place, (axis, lines) in enumerate(strips.items(), 1):
        for column, label in lines.items():
            reference = column in ("theta", "optimal_return")
            # What was executed while exploring is drawn as dots beside the evaluation.
            dots = column == "return_executed" and "return_eval" in known
            look = {"color": INK if reference else MUTED, "width": 1.6}
            figure.add_scatter(
                yaxis=f"y{place}" if place > 1 else "y",
                name=label,
                showlegend=axis == "return",
                mode="markers" if dots else "lines",
                marker={"color": MUTED, "size": 4, "opacity": 0.6},
                line=look | ({"shape": "hvh"} if reference else {}),
                hovertemplate="%{y:.1%}" if column == "coverage" else "%{y:.4~g}",
                meta={"column": column, "coloured": not reference and not dots},
            )
    return figure
