"""One run at a time: everything that its records say, over the same episodes.

The page holds the numbers of all runs once, and puts those of the chosen run into the
figure that is made here.
"""

import math
from dataclasses import dataclass, field
from html import escape
from typing import Any

from plotly import graph_objects

from driftrl.errors import counted
from driftrl.figures.part import Part
from driftrl.figures.plotly_style import axis_style, base_layout
from driftrl.figures.style import INK, MUTED, method_name
from driftrl.figures.wording import number
from driftrl.records import COLUMNS
from driftrl.results.curves import minutes_a_run
from driftrl.results.packed import DIGITS, OPTIMUM, PackedRecords

_SPAN = "span"  # n − m(n), which the page computes
_ROW_PIXELS, _FIRST_PIXELS, _GAP_PIXELS = 92, 170, 16


@dataclass(frozen=True)
class _Row:
    """One strip of the figure: its axis, and what is drawn in it."""

    axis: str
    columns: dict[str, str]
    """Each column with the name of its line."""
    said: str
    """What the caption says of it; nothing where the axis says it all."""
    style: dict[str, Any] = field(default_factory=dict)
    pixels: int = _ROW_PIXELS


_ROWS = (
    _Row("θ", {"theta": "θ"}, ""),
    _Row(
        "return",
        {
            OPTIMUM: "J*(θ), optimum",
            "return_executed": "executed",
            "return_eval": "evaluated",
        },
        "its return while it learned and, where that was measured, the mean return of "
        "its policy",
        pixels=_FIRST_PIXELS,
    ),
    _Row(
        "error",
        {"model_error": "model error"},
        "the model’s one-step error before it learned from the episode",
    ),
    _Row(
        "coverage",
        {"coverage": "coverage"},
        "the share of outcomes that then lay within μ ± 2σ",
        {"tickformat": ".0%"},
    ),
    _Row("λ", {"optimism": "λ"}, "the weight λ of uncertainty"),
    _Row("α", {"temperature": "α"}, "the temperature α of SAC"),
    _Row(
        "retained",
        {_SPAN: "episodes retained"},
        "the number of past episodes that were learned from",
        {"rangemode": "tozero"},
    ),
)


def _rows(packed: PackedRecords) -> list[_Row]:
    """Return the strips that have something to show."""
    return [row for row in _ROWS if {*packed.columns, _SPAN} & row.columns.keys()]


def run_figure(part: Part, packed: PackedRecords) -> graph_objects.Figure:
    """Return the figure of a run without its numbers: a strip for what is recorded."""
    known, rows = {*packed.columns, _SPAN}, _rows(packed)
    inner = sum(row.pixels for row in rows) + _GAP_PIXELS * (len(rows) - 1)
    layout = base_layout()
    figure = graph_objects.Figure(
        layout=layout
        | {
            "height": inner + 74,
            "margin": layout["margin"] | {"t": 30},
            "hovermode": "x unified",
            "showlegend": True,
            "xaxis": axis_style()
            | {
                "title": {"text": "episode", "standoff": 6},
                "anchor": f"y{len(rows)}",
            },
        }
    )
    top = float(inner)
    for place, row in enumerate(rows, 1):
        axis = str(place) if place > 1 else ""
        domain = [max(0.0, (top - row.pixels) / inner), top / inner]
        top -= row.pixels + _GAP_PIXELS
        figure.layout[f"yaxis{axis}"] = (
            axis_style()
            | {"title": {"text": row.axis}, "domain": domain, "nticks": 5}
            | row.style
            | (_error_scale(part) if "model_error" in row.columns else {})
        )
        for column, name in row.columns.items():
            if column in known:
                line = _line(column, name, beside="return_eval" in known)
                figure.add_trace(line.update(yaxis=f"y{axis}"))
    return figure


def _error_scale(part: Part) -> dict[str, Any]:
    """Return a logarithmic axis with few ticks, if the errors need one."""
    ticks = [
        tick
        for one in part.panels
        if one.key == "model_error"
        for tick in one.log_ticks
    ]
    powers = [tick for tick in ticks if math.log10(tick).is_integer()]
    if not ticks:
        return {}
    shown = powers if len(powers) > 1 else ticks
    return {"type": "log", "tickvals": shown, "tickformat": "~g"}


def _line(column: str, name: str, *, beside: bool) -> graph_objects.Scatter:
    is_reference = column in ("theta", OPTIMUM)
    is_beside = column == "return_executed" and beside
    style = {"color": INK if is_reference else MUTED, "width": 1.6}
    return graph_objects.Scatter(
        name=name,
        showlegend=column in (OPTIMUM, "return_executed", "return_eval"),
        mode="markers" if is_beside else "lines",
        marker={"color": MUTED, "size": 4, "opacity": 0.6},
        line=style | ({"shape": "hvh"} if is_reference else {}),
        hovertemplate="%{y:.1%}" if column == "coverage" else "%{y:.4~g}",
        meta={
            "column": column,
            # Whether the line takes the colour of the run's method.
            "own": not is_reference and not is_beside,
            "columns": {"episode": "x", "value": "y"},
            "labels": {"quantity": column},
        },
    )


def run_header(part: Part, packed: PackedRecords) -> dict[str, Any]:
    """Return what the page must know to read the numbers, and to speak of each run."""
    study = part.study
    finals = {
        (one.method, seed): value
        for one in study.methods
        for seed, value in zip(
            one.seeds, part.scores.finals[one.method].values, strict=True
        )
    }
    score = "R" if study.table.known else "mean return"
    runs = [
        {
            "label": run.label,
            "task": run.task,
            "method": run.method,
            "name": method_name(run.method),
            "seed": run.seed,
            "episodes": len(run.records),
            "planned": run.planned_episodes,
            "colour": part.styles[run.method].colour,
            "resets": [one.episode for one in run.records if one.soft_reset],
            "facts": f"{score} = {number(finals[run.method, run.seed])} after "
            f"{counted(study.episodes, 'episode')}, "
            f"{number(minutes_a_run([run]))} minutes",
        }
        for run in study.runs
    ]
    return {
        "columns": list(packed.columns),
        "flags": [name for name in packed.columns if COLUMNS.get(name) is bool],
        "rows": list(packed.rows),
        "width": packed.width,
        "every": packed.every,
        "file": data_file(part),
        "runs": runs,
    }


def data_file(part: Part) -> str:
    """Return the name under which a problem's records are downloaded."""
    task = part.study.task.replace(":", ".")
    return "-".join([task, *part.study.problem.split(), "episodes.csv"])


def one_run_section(part: Part, packed: PackedRecords) -> str:
    """Return the section in which a run is chosen and looked at."""
    soft = any(one.soft_reset for run in part.study.runs for one in run.records)
    marks = " Dotted lines mark soft resets." if soft else ""
    said = "; ".join(row.said for row in _rows(packed) if row.said)
    level = part.level + 1
    return (
        f'<div class="one-run" data-part="{part.prefix}">{part.heading("One run")}'
        '<p class="choice"><label>Run <select></select></label> '
        '<button type="button" value="-1">previous</button> '
        '<button type="button" value="1">next</button></p>'
        f'<figure class="wide"><h{level} class="facts"></h{level}>'
        f'<div class="plot" id="plot-{part.prefix}run"></div>'
        f"<figcaption>What the run recorded of every episode: {said}."
        f"{marks}{_precision_words(packed)}</figcaption></figure></div>"
    )


def _precision_words(packed: PackedRecords) -> str:
    if packed.is_exact:
        return ""
    digits = f" Numbers are rounded to {counted(DIGITS, 'digit')}"
    if packed.every == 1:
        return f"{digits}."
    thinned = f"one of {counted(packed.every, 'episode')} is kept"
    return f"{digits} and {thinned}, for the page would be too large otherwise."


def data_section(part: Part, packed: PackedRecords) -> str:
    """Return where the records of a problem can be downloaded."""
    total = sum(len(run.records) for run in part.study.runs)
    oracle = " and the oracle" if part.study.table.known else ""
    rest = ""
    if not packed.is_exact:
        rest = (
            f" The table has {sum(packed.rows)} rows with the columns that are drawn "
            "above, rounded; the complete records are the files episodes.jsonl of the "
            "runs."
        )
    name = escape(data_file(part))
    return (
        f'<div class="download">{part.heading("Data")}<p>Every number here is '
        f"computed from {counted(total, 'recorded episode')}{oracle}: "
        f'<button type="button" class="records" data-part="{part.prefix}" '
        f'title="{name}">download them as CSV</button>.{rest} Below each figure is the '
        "data that is drawn in it.</p></div>"
    )
