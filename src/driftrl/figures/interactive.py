"""The same panels as interactive Plotly figures, for the page.

Data is sent once.  A line carries mean and standard error, from which the page draws
the band around it; its ``meta`` names the columns of the table that a reader may
download.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from jaxtyping import Float
from plotly import graph_objects

from driftrl.figures.embedded import compact
from driftrl.figures.panels import (
    Panel,
    Reference,
    TickRow,
    soft_reset_rows,
    study_changes,
)
from driftrl.figures.part import Part
from driftrl.figures.plotly_style import (
    DASHES,
    INTERVAL,
    base_layout,
    number_format,
    translucent,
    vertical_axis,
)
from driftrl.figures.seed_marks import draw_differences, draw_finals
from driftrl.figures.style import INK, MUTED, MethodStyle
from driftrl.results import statistics
from driftrl.results.regret import StudyRegret

STACKED = ("theta", "regret", "returns")
"""Panels of the figure that shows the result, from the top; they share an axis."""
_FEW_EPISODES = 10  # below this, Plotly would put ticks between episodes
_MOST_NAMES = 5  # more would take the room of a small figure's curves
_PANEL_PIXELS, _STRIP_PIXELS, _GAP_PIXELS = 250, 70, 22
# Above the panels, with a row of names and without.
_NAMES_PIXELS, _HEAD_PIXELS = 30, 10


@dataclass(frozen=True)
class Marks:
    """What is marked in every figure over episodes, and how they are drawn."""

    longest: int
    """Episodes of the longest run."""
    changes: tuple[int, ...]
    """Episodes at which θ begins to change."""
    soft_resets: tuple[TickRow, ...]
    every: int = 1
    """Of how many episodes one is drawn; the last of a curve always is."""


def marks_of(study: StudyRegret, every: int = 1) -> Marks:
    """Return what is marked in the figures of a study."""
    return Marks(
        longest=max(len(run.records) for run in study.runs),
        changes=tuple(study_changes(study)),
        soft_resets=tuple(soft_reset_rows(study)),
        every=every,
    )


def interactive_figures(part: Part, every: int = 1) -> dict[str, graph_objects.Figure]:
    """Return the figures of a problem that have something to draw, by their keys.

    ``curves`` has the panels of ``STACKED`` below each other.  Where there are several
    seeds, ``finals`` shows what each came to, and ``differences`` how it differs from
    the baseline on that seed.  Every other panel has a figure of its own.

    Args:
        part: Whose figures.
        every: Of how many episodes one is drawn.
    """
    study, styles = part.study, part.styles
    marks = marks_of(study, every)
    shown = {panel.key: panel for panel in part.panels if not panel.is_empty}
    stack = [shown[key] for key in STACKED if key in shown]
    figures = {"curves": draw_stack(stack, marks, styles)}
    if any(len(one.seeds) > 1 for one in study.methods):
        figures["finals"] = draw_finals(study, part.scores, styles)
    if study.differences:
        figures["differences"] = draw_differences(study, part.scores, styles)
    details = {key: panel for key, panel in shown.items() if key not in STACKED}
    return figures | {
        key: draw_panel(panel, marks, styles) for key, panel in details.items()
    }


def draw_panel(
    panel: Panel, marks: Marks, styles: Mapping[str, MethodStyle]
) -> graph_objects.Figure:
    """Draw the mean of each method over episodes, with a band of one standard error."""
    figure = draw_stack([panel], marks, styles)
    if len(panel.curves) + len(panel.references) <= _MOST_NAMES:
        return figure
    # Their colours are those of the figure above, and so are their names.
    height = figure.layout.height - _NAMES_PIXELS + _HEAD_PIXELS
    return figure.update_layout(
        showlegend=False, height=height, margin={"t": _HEAD_PIXELS}
    )


def draw_stack(
    panels: Sequence[Panel], marks: Marks, styles: Mapping[str, MethodStyle]
) -> graph_objects.Figure:
    """Draw panels below each other, over the same episodes."""
    # θ alone is a slim strip, as above the printed regret.
    heights = [_PANEL_PIXELS if one.curves else _STRIP_PIXELS for one in panels]
    layout, gaps = base_layout(), _GAP_PIXELS * (len(panels) - 1)
    margin = layout["margin"] | {"t": _NAMES_PIXELS}
    inner = sum(heights) + gaps
    figure = graph_objects.Figure(
        layout=layout
        | {
            "height": inner + margin["t"] + margin["b"],
            "margin": margin,
            "hovermode": "x unified",
            "showlegend": True,
            "meta": {"grows_with_names": True},
            "xaxis": layout["xaxis"] | _episode_axis(marks, len(panels)),
        }
    )
    top = float(inner)
    for place, (panel, height) in enumerate(zip(panels, heights, strict=True), 1):
        axis = f"y{place}" if place > 1 else "y"
        domain = [max(0.0, (top - height) / inner), top / inner]
        top -= height + _GAP_PIXELS
        figure.layout[f"yaxis{axis[1:]}"] = vertical_axis(panel) | {"domain": domain}
        _draw_curves(
            figure, panel, marks, styles, axis, named_here=place == len(panels)
        )
        if panel.curves:
            _mark_soft_resets(figure, marks, styles, axis)
    for start in marks.changes:
        figure.add_shape(
            **_line_across(start - 0.5),
            line={"color": MUTED, "width": 1, "dash": "dot"},
        )
    return figure


def _episode_axis(marks: Marks, panels: int) -> dict[str, Any]:
    return {
        "title": {"text": "episode", "standoff": 6},
        "range": [0.5, marks.longest + 0.5],
        "anchor": f"y{panels}" if panels > 1 else "y",
        "domain": [0.0, 1.0],
        **({"dtick": 1} if marks.longest < _FEW_EPISODES else {}),
    }


def _draw_curves(
    figure: graph_objects.Figure,
    panel: Panel,
    marks: Marks,
    styles: Mapping[str, MethodStyle],
    axis: str,
    *,
    named_here: bool,
) -> None:
    """Draw references and methods; methods are named by the lowest panel alone."""
    for reference in panel.references:
        if reference.spread is not None:
            figure.add_trace(_range_area(reference, axis))
        line = _reference_line(reference, panel, marks, axis)
        line.showlegend = bool(panel.curves)
        figure.add_trace(line)
    for method, curves in panel.curves.items():
        line = _line(method, curves, styles[method], panel, marks)
        line.yaxis, line.showlegend = axis, named_here
        figure.add_trace(line)


def _line(
    method: str,
    curves: Float[np.ndarray, "K N"],
    style: MethodStyle,
    panel: Panel,
    marks: Marks,
) -> graph_objects.Scatter:
    centre, error = statistics.mean(curves), statistics.standard_error(curves)
    value = number_format(panel)
    has_error = bool(np.isfinite(error).any())
    template = f"%{{y{value}}}" + (f" ± %{{customdata{value}}}" if has_error else "")
    columns = {"episode": "x", "mean": "y", "standard_error": "customdata"}
    return graph_objects.Scatter(
        **_thinned(centre, marks),
        customdata=compact(error[_first(error, marks) :: marks.every]),
        name=escape(style.name),
        legendgroup=escape(style.name),
        mode="lines+markers" if curves.shape[1] == 1 else "lines",
        line={"color": style.colour, "width": 2.2, "dash": DASHES[style.dash]},
        hovertemplate=template,
        meta={
            "band": translucent(style.colour),
            "labels": {"quantity": panel.key, "method": method},
            "columns": columns,
        },
    )


def _thinned(values: Float[np.ndarray, " N"], marks: Marks) -> dict[str, Any]:
    """Return the values over episodes, of which only first and distance are said."""
    first = _first(values, marks)
    return {
        "x0": first + 1,
        "dx": marks.every,
        "y": compact(values[first :: marks.every]),
    }


def _first(values: Float[np.ndarray, " N"], marks: Marks) -> int:
    """Return the place from which every k-th value includes the last."""
    return (len(values) - 1) % marks.every


def _range_area(reference: Reference, axis: str) -> graph_objects.Scatter:
    assert reference.spread is not None
    low, high = reference.spread
    episodes = list(range(1, len(low) + 1))
    # Out along the upper edge and back along the lower one.
    return graph_objects.Scatter(
        x=[*episodes, *episodes[::-1]],
        y=compact([*high, *low[::-1]]),
        yaxis=axis,
        fill="toself",
        fillcolor=translucent(INK),
        line={"width": 0},
        mode="lines",
        legendgroup=reference.label,
        showlegend=False,
        hoverinfo="skip",
    )


def _reference_line(
    reference: Reference, panel: Panel, marks: Marks, axis: str
) -> graph_objects.Scatter:
    columns, pairs = {"episode": "x", "mean": "y"}, None
    if reference.spread is not None:
        first = _first(reference.values, marks)
        edges = np.transpose(reference.spread)[first :: marks.every]
        pairs = [compact(pair) for pair in edges]
        columns |= INTERVAL
    return graph_objects.Scatter(
        **_thinned(reference.values, marks),
        customdata=pairs,
        yaxis=axis,
        name=reference.label,
        mode="lines" if len(reference.values) > 1 else "markers",
        line={"color": INK, "width": 1.4, "shape": "hvh"},
        legendgroup=reference.label,
        hovertemplate=f"%{{y{number_format(panel)}}}",
        meta={
            "labels": {"quantity": panel.key, "method": reference.label},
            "columns": columns,
        },
    )


def _mark_soft_resets(
    figure: graph_objects.Figure,
    marks: Marks,
    styles: Mapping[str, MethodStyle],
    axis: str,
) -> None:
    """Mark soft resets by thin ticks along a panel's lower edge, as in print."""
    for row in marks.soft_resets:
        colour = styles[row.methods[0]].colour if len(row.methods) == 1 else INK
        # One path for all ticks: hundreds of shapes would take seconds to draw.
        ticks = [
            f"M{episode - 0.5},{row.low:.4g}V{row.high:.4g}" for episode in row.episodes
        ]
        figure.add_shape(
            type="path",
            path="".join(ticks),
            xref="x",
            yref=f"{axis} domain",
            line={"color": colour, "width": 1},
        )


def _line_across(place: float) -> dict[str, Any]:
    """Return the shape of a vertical line through all panels."""
    return {
        **{"type": "line", "xref": "x", "yref": "paper"},
        **{"x0": place, "x1": place, "y0": 0, "y1": 1},
    }
