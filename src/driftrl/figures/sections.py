"""The sections of the page about one problem: methods, figures, oracle, runs, data.

Whatever comes from a file is escaped.
"""

import base64
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from html import escape

import numpy as np

from driftrl.errors import counted
from driftrl.figures.panels import soft_resets, study_panels
from driftrl.figures.style import method_name, method_styles
from driftrl.figures.wording import (
    UNKNOWN,
    mean_and_error,
    number,
    percent,
    span,
)
from driftrl.regret import StudyRegret
from driftrl.results.curves import minutes_a_run, theta_is_known
from driftrl.results.late import AFTER_RESET
from driftrl.results.problems import flattened
from driftrl.results.scores import late_returns, scores_of
from driftrl.results.statistics import LEVEL, Estimate
from driftrl.results.table import csv_text, records_table

# The result; details are smaller.
_WIDE_PANELS = ("theta", "regret", "differences")
_WIDE_RETURN_PANELS = ("theta", "returns", "differences")
_MOST_OPTIMA = 100  # rows of the oracle’s table
_INTERVAL = f"{percent(LEVEL)} interval<small>t, then bootstrap</small>"


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

    @property
    def wide(self) -> tuple[str, ...]:
        """Keys of the figures that show the result."""
        return _WIDE_PANELS if self.study.table.known else _WIDE_RETURN_PANELS

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
        _oracle_section(part) if part.study.table.known else "",
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
    columns = _method_columns(study)
    if not study.table.known:  # of a single run, most would say nothing
        columns = [one for one in columns if {*one[1]} != {UNKNOWN}]
    header = [title for title, _ in columns]
    rows = zip(*(cells for _, cells in columns), strict=True)
    said = "" if study.table.known else f"<p>{escape(study.table.provenance)}</p>"
    if _INTERVAL in header:
        said += (
            "<p>The t interval pays for the small number of seeds and is the one to "
            "decide with; the percentile bootstrap is too narrow with few seeds.</p>"
        )
    return part.heading("Methods") + _table(header, rows) + said


def _method_columns(study: StudyRegret) -> list[tuple[str, list[str]]]:
    """Return the title of each column and its cells, a method each."""
    scores = scores_of(study)
    names = list(scores.finals)
    styles = method_styles(names)
    finals = list(scores.finals.values())
    known = {one.method: one.estimate for one in scores.differences}
    differences = [known.get(name) for name in names]
    swatch = '<span class="swatch" style="background:{}"></span>'
    return [
        ("Method", [swatch.format(s.colour) + escape(s.name) for s in styles.values()]),
        ("Seeds", [f"{len(one.values)}" for one in finals]),
        (_score_title(study), [mean_and_error(one) for one in finals]),
        (_INTERVAL, [_intervals(one) for one in finals]),
        (
            f"Minus {escape(method_name(study.baseline))}"
            "<small>mean, same seeds</small>",
            [number(one.mean) if one else UNKNOWN for one in differences],
        ),
        (_INTERVAL, [_intervals(one) for one in differences]),
        _late_column(study),
        (
            "Minutes<small>a run</small>",
            [number(minutes_a_run(study.runs_of(name))) for name in names],
        ),
    ]


def _score_title(study: StudyRegret) -> str:
    if study.table.known:
        score = f"Regret R<sub>{study.episodes}</sub>"
        return f"{score}<small>mean ± standard error</small>"
    error = any(len(one.seeds) > 1 for one in study.methods)
    over = counted(study.episodes, "episode") + ", ± standard error" * error
    return f"Mean return<small>{over}</small>"


def _late_column(study: StudyRegret) -> tuple[str, list[str]]:
    """Return how far from the optimum the last episodes are, or what they returned."""
    last = counted(study.gaps[0].last, "episode")
    if study.table.known:
        pairs = zip(study.gaps, study.gaps_outside_resets, strict=True)
        cells = [_late_cell(one.estimate, two.estimate, percent) for one, two in pairs]
        return f"Short of J*<small>last {last}</small>", cells
    late, outside = late_returns(study), late_returns(study, after_reset=AFTER_RESET)
    cells = [_late_cell(late[name], outside[name], number) for name in late]
    return f"Mean return<small>last {last}</small>", cells


def _late_cell(
    late: Estimate | None, outside: Estimate | None, say: Callable[[float], str]
) -> str:
    if late is None:
        return UNKNOWN
    cell = say(late.mean)
    if outside is not None and outside.mean != late.mean:
        cell += f"<small>{say(outside.mean)} outside resets</small>"
    return cell


def _intervals(estimate: Estimate | None) -> str:
    if estimate is None or span(estimate.student) == UNKNOWN:
        return UNKNOWN
    return f"{span(estimate.student)}<small>{span(estimate.bootstrap)}</small>"


def _figure_section(part: Part) -> str:
    panels = study_panels(part.study)
    captions = {panel.key: (panel.title, panel.caption) for panel in panels}
    missing = {panel.key: panel.missing for panel in panels if panel.is_empty}
    if "differences" in part.drawn:
        what, side = ("Final regret", "Left")
        if not part.study.table.known:
            what, side = ("Mean return of an episode", "Right")
        captions["differences"] = (
            "Paired differences",
            f"{what} minus that of the baseline on the same seed: a dot is a "
            f"seed, a diamond their mean with its {percent(LEVEL)} t interval. {side} "
            "of the line is better than the baseline.",
        )
    order = [*(key for key in part.wide if key in captions)]
    order += [key for key in captions if key not in order]
    cards = "".join(_card(part, key, *captions[key], missing.get(key)) for key in order)
    ticks = (
        " Ticks along the lower edge mark soft resets."
        if soft_resets(part.study)
        else ""
    )
    change = "; the dotted line marks where θ begins to change"
    if not theta_is_known(part.study.runs):
        change = ""
    lines = "Lines are means over seeds, bands one standard error to either side"
    if all(len(one.seeds) == 1 for one in part.study.methods):
        lines = "A line is one run"
    note = f"<p>{lines}{change}.{ticks} Click a name to hide it.</p>"
    return f'{part.heading("Figures")}{note}<div class="figures">{cards}</div>'


def _card(part: Part, key: str, title: str, caption: str, missing: str | None) -> str:
    kind = ' class="wide"' if key in part.wide else ""
    plot = f'<div class="plot" id="plot-{part.prefix}{key}"></div>'
    if missing is not None:
        plot = missing
    level = part.level + 1
    return (
        f"<figure{kind}><h{level}>{title}</h{level}>{plot}"
        f"<figcaption>{caption}</figcaption></figure>"
    )


def _oracle_section(part: Part) -> str:
    study = part.study
    used = {record.theta for run in study.runs for record in run.records}
    entries = [study.table.lookup(theta) for theta in sorted(used)]
    # Where every run has its own course of θ there are thousands.
    places = np.linspace(0, len(entries) - 1, min(len(entries), _MOST_OPTIMA))
    shown = [entries[place] for place in np.round(places).astype(int)]
    rows = [
        [f"{one.theta:.6g}", f"{one.value:.6g}", f"{one.error:.3g}"] for one in shown
    ]
    title = "J*(θ) for every θ that occurs"
    if len(shown) < len(entries):
        title = f"J*(θ) for {len(shown)} of the {len(entries)} θ that occur"
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
        + _folded(title, _table(["θ", "J*(θ)", "Error"], rows))
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
    scores = scores_of(study).finals
    finals = {
        (one.method, seed): value
        for one in study.methods
        for seed, value in zip(one.seeds, scores[one.method].values, strict=True)
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
    score = f"R<sub>{study.episodes}</sub>" if study.table.known else "Mean return"
    return _table(["Run", "Episodes", score, "Minutes"], rows)


def _shared_value(values: Sequence[str | None]) -> str:
    known = set(values)
    if len(known) > 1:
        return "differs between seeds"
    return next(iter(known)) or UNKNOWN


def _data_section(part: Part) -> str:
    study = part.study
    table = records_table(study.runs)
    encoded = base64.b64encode(csv_text(table).encode()).decode()
    task = study.task.replace(":", ".")
    name = escape("-".join([task, *study.problem.split(), "episodes.csv"]))
    oracle = " and the oracle" if study.table.known else ""
    return (
        f'<div class="download">{part.heading("Data")}<p>Every number here is '
        f"computed from {counted(table.height, 'recorded episode')}{oracle}: "
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
