"""One look for all interactive figures, as ``style`` is for the printed ones."""

from typing import Any

from driftrl.figures.panels import Panel
from driftrl.figures.style import INK, MUTED

INTERVAL = {"lower": "customdata[0]", "upper": "customdata[1]"}
"""Columns of a table for an interval, which a trace holds as a pair for each point."""
DASHES = {"solid": "solid", "dashed": "dash", "dashdot": "dashdot", "dotted": "dot"}
"""Matplotlib’s names of dashes, and Plotly’s."""


def axis_style() -> dict[str, Any]:
    """Return what all axes share."""
    return {
        "gridcolor": "#E9E9E9",
        "zeroline": False,
        "linecolor": INK,
        "ticks": "outside",
        "automargin": True,
    }


def base_layout() -> dict[str, Any]:
    """Return what all figures share."""
    return {
        "template": "none",
        # Wide enough for every axis, so that figures below each other line up.
        "margin": {"l": 76, "r": 14, "t": 8, "b": 44},
        "font": {"family": "system-ui, sans-serif", "size": 13, "color": INK},
        "showlegend": False,
        "legend": {"orientation": "h", "x": 0, "y": 1.02, "yanchor": "bottom"},
        "xaxis": axis_style(),
        "yaxis": axis_style(),
        "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": MUTED, "activecolor": INK},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
    }


def vertical_axis(panel: Panel) -> dict[str, Any]:
    """Return the vertical axis of a panel: its name, its scale and its numbers."""
    style = axis_style() | {"title": {"text": panel.axis, "standoff": 6}}
    if panel.log_ticks:
        style |= {"type": "log", "tickvals": panel.log_ticks, "tickformat": "~g"}
    elif panel.starts_at_zero:
        style |= {"rangemode": "tozero"}
    if panel.as_percent:
        style |= {"tickformat": ".0%"}
    return style


def number_format(panel: Panel) -> str:
    """Return how a number of a panel is written where a pointer is."""
    return ":.1%" if panel.as_percent else ":.4~g"


def translucent(colour: str) -> str:
    """Return the colour of an area behind lines."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},0.18)"
