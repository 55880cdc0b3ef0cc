"""One number a seed, method by method: final scores and paired differences."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np
from plotly import graph_objects

from driftrl.figures.embedded import compact
from driftrl.figures.plotly_style import INTERVAL, base_layout
from driftrl.figures.style import INK, MethodStyle, method_name
from driftrl.figures.wording import percent, span
from driftrl.results.regret import StudyRegret
from driftrl.results.scores import Scores
from driftrl.results.statistics import LEVEL, Estimate

_SHORT_NAME = 10  # letters
_MOST_DOTS = 100  # seeds of a method beyond which dots hide each other
_LINE_PIXELS, _MANY_LINE_PIXELS, _MANY_LINES = 46, 30, 6


def score_name(study: StudyRegret) -> str:
    """Return what methods are judged by, as HTML."""
    return f"R<sub>{study.episodes}</sub>" if study.table.known else "mean return"


def draw_finals(
    study: StudyRegret, scores: Scores, styles: Mapping[str, MethodStyle]
) -> graph_objects.Figure:
    """Draw R_N of each seed, or its mean return, with mean and 95 % t interval."""
    figure = _lines(len(scores.finals))
    seeds = {one.method: one.seeds for one in study.methods}
    for method, estimate in scores.finals.items():
        labels = {"method": method}
        value = "regret" if study.table.known else "mean_return"
        table = _Table(labels, value, seeds[method])
        _draw_seeds(figure, styles[method], estimate, table)
    figure.update_xaxes(title={"text": score_name(study), "standoff": 6})
    return figure


def draw_differences(
    study: StudyRegret, scores: Scores, styles: Mapping[str, MethodStyle]
) -> graph_objects.Figure:
    """Draw R_N minus the baseline's for each seed, with mean and 95 % t interval.

    It is the mean return where no R_N is known.
    """
    figure = _lines(len(scores.differences))
    for one in scores.differences:
        labels = {"method": one.method, "baseline": one.baseline}
        value = "regret_difference" if study.table.known else "mean_return_difference"
        table = _Table(labels, value, one.seeds)
        _draw_seeds(figure, styles[one.method], one.estimate, table)
    figure.add_vline(0, line={"color": INK, "width": 1.2})
    name = method_name(study.baseline)
    # On a phone, a long name needs a line of its own.
    space = " " if len(name) <= _SHORT_NAME else "<br>"
    title = f"difference in {score_name(study)}{space}to {escape(name)}"
    figure.update_xaxes(title={"text": title, "standoff": 6}, rangemode="tozero")
    if not any(one.estimate.values.any() for one in scores.differences):
        figure.update_xaxes(range=[-1, 1])  # the line of zero would be the axis itself
    return figure


def _lines(count: int) -> graph_objects.Figure:
    """Return an empty figure with room for a line of dots for each method."""
    pixels = _LINE_PIXELS if count <= _MANY_LINES else _MANY_LINE_PIXELS
    figure = graph_objects.Figure(
        layout=base_layout() | {"height": 70 + pixels * count, "hovermode": "closest"}
    )
    # The first method on top, half a line of room on either side.
    figure.update_yaxes(range=[count - 0.5, -0.5], showgrid=False, ticks="")
    return figure


@dataclass(frozen=True)
class _Table:
    """How the numbers of a method are called in the table that a reader downloads."""

    labels: Mapping[str, str]
    value: str
    seeds: Sequence[int]

    def meta(self, what: str, columns: Mapping[str, str]) -> dict[str, Any]:
        """Return what a trace says of itself."""
        labels = {**self.labels, "of": what}
        return {"labels": labels, "columns": {**columns, self.value: "x"}}


def _draw_seeds(
    figure: graph_objects.Figure, style: MethodStyle, estimate: Estimate, table: _Table
) -> None:
    name, colour, seeds = escape(style.name), style.colour, table.seeds
    opacity = 0.55 if len(seeds) <= _MOST_DOTS else 0.2
    figure.add_trace(
        graph_objects.Scatter(
            x=compact(estimate.values),
            y=[name] * len(seeds),
            customdata=list(seeds),
            mode="markers",
            marker={"color": colour, "size": 8, "opacity": opacity},
            hovertemplate="seed %{customdata}: %{x:.4~g}<extra></extra>",
            meta=table.meta("one seed", {"seed": "customdata"}),
        )
    )
    mark = _interval_mark(estimate, name, colour)
    figure.add_trace(mark.update(meta=table.meta("mean", INTERVAL)))


def _interval_mark(estimate: Estimate, name: str, colour: str) -> graph_objects.Scatter:
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
    said = f", {percent(LEVEL)} t interval {span(estimate.student)}"
    bounds = said if is_known else ""
    return graph_objects.Scatter(
        x=[estimate.mean],
        y=[name],
        customdata=[compact([low, high])],
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
