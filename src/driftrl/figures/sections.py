"""The sections of the page about one problem: methods, figures, oracle, runs, data.

Whatever comes from a file is escaped.
"""

import base64
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

from driftrl.figures.panels import soft_resets, study_panels
from driftrl.figures.style import method_name, method_styles
from driftrl.figures.wording import (
    UNKNOWN,
    counted,
    mean_and_error,
    number,
    percent,
    span,
)
from driftrl.regret import GapStatistics, StudyRegret
from driftrl.results.curves import minutes_a_run
from driftrl.results.problems import flattened
from driftrl.results.statistics import LEVEL
from driftrl.results.table import csv_text, records_table

_WIDE_PANELS = ("theta", "regret", "differences")  # the result; details are smaller


@dataclass(frozen=True)
class Picture:
    """A printed figure that is part of the page."""

    title: str
    caption: str
    png: bytes


@dataclass(frozen=True)
class Part:
    """One problem’s part of a page."""

    study: StudyRegret
    drawn: frozenset[str]
    """Keys of the interactive figures that are on the page."""
    pictures: tuple[Picture, ...] = ()
    prefix: str = ""
    """What tells this part’s figures from those of others."""
    level: int = 2
    """Level of the headings of its sections."""

    def heading(self, text: str) -> str:
        """Return the heading of one section."""
        return f"<h{self.level}>{text}</h{self.level}>"


def part_sections(part: Part) -> list[str]:
    """Return all sections of a part, in reading order."""
    return [
        _warning_box(part.study),
        _method_section(part),
        "".join(picture_figure(one, part.level + 1) for one in part.pictures),
        _figure_section(part),
        _oracle_section(part),
        _run_section(part),
        _data_section(part),
    ]


def picture_figure(picture: Picture, level: int) -> str:
    """Return a printed figure with title and caption."""
    encoded = base64.b64encode(picture.png).decode()
    title = escape(picture.title)
    # A PNG says how wide it is in bytes 16 to 19; half of that is sharp on any screen.
    width = int.from_bytes(picture.png[16:20]) // 2
    return (
        f'<figure class="picture"><h{level}>{title}</h{level}>'
        f'<img alt="{title}" width="{width}" src="data:image/png;base64,{encoded}">'
        f"<figcaption>{escape(picture.caption)}</figcaption></figure>"
    )


def _warning_box(study: StudyRegret) -> str:
    if not study.warnings:
        return ""
    items = "".join(f"<li>{escape(warning)}</li>" for warning in study.warnings)
    return f'<div class="warning"><strong>Oracle</strong><ul>{items}</ul></div>'


def _method_section(part: Part) -> str:
    study = part.study
    differences = {one.method: one.estimate for one in study.differences}
    outside = {gap.method: gap for gap in study.gaps_outside_resets}
    baseline = escape(method_name(study.baseline))
    styles = method_styles(one.method for one in study.methods)
    rows = []
    for one, gap in zip(study.methods, study.gaps, strict=True):
        style = styles[one.method]
        swatch = f'<span class="swatch" style="background:{style.colour}"></span>'
        difference = differences.get(one.method)
        rows.append(
            [
                swatch + escape(style.name),
                f"{len(one.seeds)}",
                mean_and_error(one.final),
                _intervals(span(one.final.student), span(one.final.bootstrap)),
                number(difference.mean) if difference else UNKNOWN,
                _intervals(span(difference.student), span(difference.bootstrap))
                if difference
                else UNKNOWN,
                _gap_cell(gap, outside[one.method]),
                number(minutes_a_run(study.runs_of(one.method))),
            ]
        )
    interval = f"{percent(LEVEL)} interval<small>t, then bootstrap</small>"
    header = [
        "Method",
        "Seeds",
        f"Regret R<sub>{study.episodes}</sub><small>mean ± standard error</small>",
        interval,
        f"Minus {baseline}<small>mean, same seeds</small>",
        interval,
        f"Short of J*<small>last {counted(study.gaps[0].last, 'episode')}</small>",
        "Minutes<small>a run</small>",
    ]
    return (
        part.heading("Methods")
        + _table(header, rows)
        + "<p>The t interval pays for the small number of seeds and is the one to "
        "decide with; the percentile bootstrap is too narrow with few seeds.</p>"
    )


def _intervals(student: str, bootstrap: str) -> str:
    return UNKNOWN if student == UNKNOWN else f"{student}<small>{bootstrap}</small>"


def _gap_cell(gap: GapStatistics, outside: GapStatistics) -> str:
    if gap.estimate is None:
        return UNKNOWN
    cell = percent(gap.estimate.mean)
    if outside.estimate is not None and outside.estimate.mean != gap.estimate.mean:
        cell += f"<small>{percent(outside.estimate.mean)} outside resets</small>"
    return cell


def _figure_section(part: Part) -> str:
    captions = {
        panel.key: (panel.title, panel.caption) for panel in study_panels(part.study)
    }
    if "differences" in part.drawn:
        captions["differences"] = (
            "Paired differences",
            "Final regret minus that of the baseline on the same seed: a dot is a "
            f"seed, a diamond their mean with its {percent(LEVEL)} t interval. Left of "
            "the line is better than the baseline.",
        )
    order = [*(key for key in _WIDE_PANELS if key in captions)]
    order += [key for key in captions if key not in order]
    cards = "".join(_card(part, key, *captions[key]) for key in order)
    ticks = (
        " Ticks along the lower edge mark soft resets."
        if soft_resets(part.study)
        else ""
    )
    note = (
        "<p>Lines are means over seeds, bands one standard error to either side; the "
        f"dotted line marks where θ begins to change.{ticks} Click a name to hide "
        "it.</p>"
    )
    return f'{part.heading("Figures")}{note}<div class="figures">{cards}</div>'


def _card(part: Part, key: str, title: str, caption: str) -> str:
    kind = ' class="wide"' if key in _WIDE_PANELS else ""
    plot = f'<div class="plot" id="plot-{part.prefix}{key}"></div>'
    if key not in part.drawn:
        plot = "Not recorded."
    level = part.level + 1
    return (
        f"<figure{kind}><h{level}>{title}</h{level}>{plot}"
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _oracle_section(part: Part) -> str:
    study = part.study
    used = {record.theta for run in study.runs for record in run.records}
    entries = [study.table.lookup(theta) for theta in sorted(used)]
    rows = [
        [f"{one.theta:.6g}", f"{one.value:.6g}", f"{one.error:.3g}"] for one in entries
    ]
    largest = max(entry.error for entry in entries)
    count = counted(len(entries), "value")
    verdict = (
        "No run beat it beyond that error and the noise of the returns."
        if not study.warnings
        else "Runs did beat it, so it is not the optimum: see the warnings above."
    )
    return (
        part.heading("Oracle")
        + f"<p>J*(θ) is the return of the best policy at a fixed θ: "
        f"{escape(study.table.provenance.rstrip('. '))}.</p>"
        f"<p>The largest stated error of the {count} used here is "
        f"{number(largest)}. {verdict}</p>"
        + _folded(
            "J*(θ) for every θ that occurs", _table(["θ", "J*(θ)", "Error"], rows)
        )
    )


def _run_section(part: Part) -> str:
    study = part.study
    everyone = [*study.runs, *study.not_started]
    flat = {run.label: flattened(run.config) for run in everyone}
    methods = list(dict.fromkeys(run.method for run in everyone))
    keys = dict.fromkeys(key for config in flat.values() for key in config)
    different, common = [], []
    for key in [key for key in keys if key not in ("method", "seed")]:
        cells = [
            _shared_value(
                [flat[run.label].get(key) for run in everyone if run.method == m]
            )
            for m in methods
        ]
        if len(set(cells)) > 1:
            different.append([key, *cells])
        else:
            common.append([key, cells[0]])
    names = [escape(method_name(method)) for method in methods]
    parts = [part.heading("Runs")]
    if different:
        parts.append("<p>The configurations of the methods differ in this alone:</p>")
        parts.append(_table(["Setting", *names], _escaped(different), code=True))
    parts.append(
        _folded(
            "What all runs share",
            _table(["Setting", "Value"], _escaped(common), code=True),
        )
    )
    parts.append(_folded(f"Each of {counted(len(everyone), 'run')}", _run_table(study)))
    return "".join(parts)


def _run_table(study: StudyRegret) -> str:
    finals = {
        (one.method, seed): value
        for one in study.methods
        for seed, value in zip(one.seeds, one.final.values, strict=True)
    }
    rows = [
        [
            escape(run.label),
            f"{len(run.records)} of {run.planned_episodes}",
            number(finals.get((run.method, run.seed), float("nan"))),
            number(minutes_a_run([run])),
        ]
        for run in [*study.runs, *study.not_started]
    ]
    return _table(["Run", "Episodes", f"R<sub>{study.episodes}</sub>", "Minutes"], rows)


def _shared_value(values: Sequence[str | None]) -> str:
    known = set(values)
    if len(known) > 1:
        return "differs between seeds"
    return next(iter(known)) or UNKNOWN


def _data_section(part: Part) -> str:
    study = part.study
    table = records_table(study.runs)
    encoded = base64.b64encode(csv_text(table).encode()).decode()
    name = escape("-".join([study.task, *study.problem.split(), "episodes.csv"]))
    return (
        f'<div class="download">{part.heading("Data")}<p>Every number here is '
        f"computed from {counted(table.height, 'recorded episode')} and the oracle: "
        f'<a download="{name}" href="data:text/csv;base64,{encoded}">'
        "download them as CSV</a>.</p></div>"
    )


def _folded(title: str, content: str) -> str:
    return f"<details><summary>{title}</summary>{content}</details>"


def _escaped(rows: Iterable[Sequence[str]]) -> list[list[str]]:
    return [[escape(cell) for cell in row] for row in rows]


def _table(
    header: Sequence[str], rows: Iterable[Sequence[str]], *, code: bool = False
) -> str:
    """Return a table from cells that are HTML already."""
    mark = ' class="code"' if code else ""
    head = "".join(f"<th>{cell}</th>" for cell in header)
    body = "".join(
        "<tr>" + "".join(f"<td{mark}>{cell}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return (
        f'<div class="scroll"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div>"
    )
