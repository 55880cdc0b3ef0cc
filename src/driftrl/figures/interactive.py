"""The same panels as interactive Plotly figures, for the page."""

from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from plotly import graph_objects

from driftrl.figures.panels import (
    Panel,
    Reference,
    soft_reset_rows,
    study_changes,
    study_panels,
)
from driftrl.figures.style import INK, MUTED, MethodStyle, method_name, method_styles
from driftrl.figures.wording import percent, span
from driftrl.regret import StudyRegret
from driftrl.results import statistics
from driftrl.results.scores import scores_of

_FEW_EPISODES = 10  # below this, Plotly would put ticks between episodes
_DASHES = {"solid": "solid", "dashed": "dash", "dashdot": "dashdot", "dotted": "dot"}


def interactive_figures(study: StudyRegret) -> dict[str, graph_objects.Figure]:
    """Return a figure for each panel that has something to draw, by the panel's key.

    Where methods can be compared, ``differences`` shows how.
    """
    styles = method_styles(one.method for one in study.methods)
    figures = {
        panel.key: draw_panel(panel, study, styles)
        for panel in study_panels(study)
        if not panel.is_empty
    }
    if study.differences:
        figures["differences"] = draw_differences(study, styles)
    return figures


def draw_panel(
    panel: Panel, study: StudyRegret, styles: dict[str, MethodStyle]
) -> graph_objects.Figure:
    """Draw the mean of each method over episodes, with a band of one standard error."""
    figure = graph_objects.Figure(layout=_layout(panel))
    for reference in panel.references:
        if reference.spread is not None:
            episodes = np.arange(1, len(reference.values) + 1)
            low, high = reference.spread
            figure.add_trace(_area(episodes, low, high, INK, reference.label))
        figure.add_trace(_reference_line(reference, panel))
    for method, curves in panel.curves.items():
        figure.add_trace(_band(curves, styles[method]))
        figure.add_trace(_line(curves, styles[method], panel))
    longest = max(len(run.records) for run in study.runs)
    figure.update_xaxes(range=[0.5, longest + 0.5])
    if longest < _FEW_EPISODES:
        figure.update_xaxes(dtick=1)
    for start in study_changes(study):
        figure.add_vline(start - 0.5, line={"color": MUTED, "width": 1, "dash": "dot"})
    if panel.curves:
        _mark_soft_resets(figure, study, styles)
    return figure


def _mark_soft_resets(
    figure: graph_objects.Figure, study: StudyRegret, styles: dict[str, MethodStyle]
) -> None:
    """Mark soft resets by thin ticks along the lower edge, as in print."""
    for row in soft_reset_rows(study):
        colour = styles[row.methods[0]].colour if len(row.methods) == 1 else INK
        for episode in row.episodes:
            figure.add_shape(
                type="line",
                yref="paper",
                x0=episode - 0.5,
                x1=episode - 0.5,
                y0=row.low,
                y1=row.high,
                line={"color": colour, "width": 1},
            )


def draw_differences(
    study: StudyRegret, styles: dict[str, MethodStyle]
) -> graph_objects.Figure:
    """Draw R_N minus the baseline's for each seed, with mean and 95 % t interval.

    It is the mean return where no R_N is known.
    """
    differences = scores_of(study).differences
    count = len(differences)
    figure = graph_objects.Figure(layout=_base_layout() | {"height": 70 + 55 * count})
    for one in differences:
        style, estimate = styles[one.method], one.estimate
        name, colour = escape(style.name), style.colour
        figure.add_trace(
            graph_objects.Scatter(
                x=estimate.values.tolist(),
                y=[name] * len(one.seeds),
                text=[f"seed {seed}" for seed in one.seeds],
                mode="markers",
                marker={"color": colour, "size": 8, "opacity": 0.55},
                hovertemplate="%{text}: %{x:.4~g}<extra></extra>",
            )
        )
        figure.add_trace(_interval_mark(estimate, name, colour))
    figure.add_vline(0, line={"color": INK, "width": 1.2})
    baseline = escape(method_name(study.baseline))
    what = f"R<sub>{study.episodes}</sub>" if study.table.known else "mean return"
    title = f"difference in {what} to {baseline}"
    figure.update_xaxes(title={"text": title, "standoff": 6}, rangemode="tozero")
    # The first method on top, half a line of room on either side.
    figure.update_yaxes(range=[count - 0.5, -0.5], showgrid=False, ticks="")
    return figure


def _interval_mark(
    estimate: statistics.Estimate, name: str, colour: str
) -> graph_objects.Scatter:
    low, high = float(estimate.student.low), float(estimate.student.high)
    is_known = bool(np.isfinite(low))
    reach = {
        "type": "data",
        "symmetric": False,
        "array": [high - estimate.mean],
        "arrayminus": [estimate.mean - low],
        "color": colour,
        "thickness": 2,
        "width": 6,
    }
    level = percent(statistics.LEVEL)
    bounds = f", {level} t interval {span(estimate.student)}" if is_known else ""
    return graph_objects.Scatter(
        x=[estimate.mean],
        y=[name],
        error_x=reach if is_known else None,
        mode="markers",
        marker={
            "color": "white",
            "size": 12,
            "symbol": "diamond",
            "line": {"color": colour, "width": 2},
        },
        hovertemplate=f"mean %{{x:.4~g}}{bounds}<extra></extra>",
    )


def _line(
    curves: Float[np.ndarray, "K N"], style: MethodStyle, panel: Panel
) -> graph_objects.Scatter:
    centre, error = statistics.mean(curves), statistics.standard_error(curves)
    value = _number_format(panel)
    has_error = bool(np.isfinite(error).any())
    template = f"%{{y{value}}}" + (f" ± %{{customdata{value}}}" if has_error else "")
    return graph_objects.Scatter(
        x=_episodes(curves),
        y=_plain(centre),
        customdata=_plain(error),
        name=escape(style.name),
        legendgroup=escape(style.name),
        mode="lines+markers" if curves.shape[1] == 1 else "lines",
        line={"color": style.colour, "width": 2.2, "dash": _DASHES[style.dash]},
        hovertemplate=template,
    )


def _band(
    curves: Float[np.ndarray, "K N"], style: MethodStyle
) -> graph_objects.Scatter:
    centre, error = statistics.mean(curves), statistics.standard_error(curves)
    known = np.isfinite(error)
    episodes = np.arange(1, len(centre) + 1)[known]
    low, high = (centre - error)[known], (centre + error)[known]
    return _area(episodes, low, high, style.colour, escape(style.name))


def _area(
    episodes: Int[np.ndarray, " N"],
    low: Float[np.ndarray, " N"],
    high: Float[np.ndarray, " N"],
    colour: str,
    group: str,
) -> graph_objects.Scatter:
    # Out along the upper edge and back along the lower one.
    return graph_objects.Scatter(
        x=[*episodes.tolist(), *episodes[::-1].tolist()],
        y=[*high.tolist(), *low[::-1].tolist()],
        fill="toself",
        fillcolor=_translucent(colour),
        line={"width": 0},
        mode="lines",
        legendgroup=group,
        showlegend=False,
        hoverinfo="skip",
    )


def _reference_line(reference: Reference, panel: Panel) -> graph_objects.Scatter:
    return graph_objects.Scatter(
        x=list(range(1, len(reference.values) + 1)),
        y=_plain(reference.values),
        name=reference.label,
        mode="lines" if len(reference.values) > 1 else "markers",
        line={"color": INK, "width": 1.4, "shape": "hvh"},
        legendgroup=reference.label,
        showlegend=True,
        hovertemplate=f"%{{y{_number_format(panel)}}}",
    )


def _number_format(panel: Panel) -> str:
    return ":.1%" if panel.as_percent else ":.4~g"


def _layout(panel: Panel) -> dict[str, Any]:
    layout = _base_layout()
    vertical: dict[str, Any] = {}
    if panel.curves:
        vertical |= {"title": {"text": panel.axis, "standoff": 6}}
    if panel.log_ticks:
        vertical |= {"type": "log", "tickvals": panel.log_ticks, "tickformat": "~g"}
    elif panel.starts_at_zero:
        vertical |= {"rangemode": "tozero"}
    if panel.as_percent:
        vertical |= {"tickformat": ".0%"}
    return layout | {
        # θ alone is a slim strip, as above the printed regret.
        "height": 330 if panel.curves else 150,
        "margin": layout["margin"] | {"t": 34 if panel.curves else 8},
        "hovermode": "x unified",
        "showlegend": bool(panel.curves),
        "xaxis": layout["xaxis"] | {"title": {"text": "episode", "standoff": 6}},
        "yaxis": layout["yaxis"] | vertical,
    }


def _base_layout() -> dict[str, Any]:
    axis = {
        "gridcolor": "#E9E9E9",
        "zeroline": False,
        "linecolor": INK,
        "ticks": "outside",
        "automargin": True,
    }
    return {
        "template": "none",
        # Wide enough for every axis, so that figures below each other line up.
        "margin": {"l": 76, "r": 14, "t": 8, "b": 44},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "showlegend": False,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": axis,
        "yaxis": axis,
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": MUTED, "activecolor": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }


def _episodes(curves: Float[np.ndarray, "K N"]) -> list[int]:
    return list(range(1, curves.shape[1] + 1))


def _plain(values: Float[np.ndarray, " N"]) -> list[float | None]:
    return [float(value) if np.isfinite(value) else None for value in values]


def _translucent(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"
