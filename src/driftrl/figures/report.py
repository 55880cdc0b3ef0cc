"""One page that holds a study: findings, figures, oracle, configuration and data.

The page is one file.  Plotly's code is embedded once, a content security policy forbids
every request, and whatever comes from a file is escaped.  What is drawn lies in it once
and compressed; a study that is too large for one page is thinned, and the page says so.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from typing import Any

from plotly.offline import get_plotlyjs

from driftrl.figures.aggregates import aggregate_section
from driftrl.figures.embedded import packed_bytes, packed_document, plain_figures
from driftrl.figures.interactive import interactive_figures
from driftrl.figures.one_run import run_figure, run_header
from driftrl.figures.overview import (
    findings_box,
    navigation,
    problem_section,
    source_section,
    summary_box,
)
from driftrl.figures.part import Part, Picture, part_of
from driftrl.figures.sections import part_sections, picture_figure
from driftrl.figures.settings import origin_section
from driftrl.figures.style import problem_name
from driftrl.figures.wording import study_summary
from driftrl.results.comparison import Comparison
from driftrl.results.origin import Source
from driftrl.results.packed import pack_records

ALL = "all problems"
"""Where the pictures of a page are that show all of its problems."""
# Nothing may be fetched: not by this page, and not by the code embedded in it.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)
_SCRIPTS = ("inflate.js", "page_data.js", "download.js", "one_run.js", "report.js")
_RECORD_BYTES = 3_400_000  # of all records together, compressed
_CURVE_NUMBERS = 600_000  # of all curves together


@dataclass(frozen=True)
class Origin:
    """Where a page comes from."""

    sources: tuple[Source, ...] = ()
    """The directories of its runs."""
    command: str = ""
    """The command that makes it."""


def report_page(
    comparison: Comparison,
    title: str,
    description: str,
    pictures: Mapping[str, Sequence[Picture]] | None = None,
    origin: Origin | None = None,
) -> str:
    """Return the whole page as HTML; the same study gives the same text.

    Args:
        comparison: What the page is about.
        title: Heading of the page.
        description: What was studied, in a sentence or two.
        pictures: Printed figures for the problem of each label; those for all of
            several problems under ``ALL``.
        origin: Which directories and which command it comes from.
    """
    pictures, origin = pictures or {}, origin or Origin()
    parts = _parts(comparison, pictures)
    every = _thinning(parts)
    together, aggregates = aggregate_section(comparison, "", 2)
    built = [
        _built(part, every, _share(part, parts), "" if part.prefix else together)
        for part in parts
    ]
    runs = [
        run for part in parts for run in (*part.study.runs, *part.study.not_started)
    ]
    body = [f"<h1>{escape(title)}</h1>"]
    if description:
        body.append(f'<p class="description">{escape(description)}</p>')
    if comparison.has_one_problem:
        findings = study_summary(parts[0].study)
        body.append(summary_box(findings, comparison.notes))
    else:
        body += [navigation(parts), findings_box(comparison), problem_section(parts)]
        body += [together, *(picture_figure(one, 2) for one in pictures.get(ALL, ()))]
    if len(origin.sources) > 1:
        body.insert(1, source_section(origin.sources, runs))
    body += [one.html for one in built]
    body.append(origin_section(runs, origin.sources, origin.command))
    figures = plain_figures(aggregates)
    for one in built:
        figures |= one.figures
    records = {one.part.prefix: one.header for one in built}
    data = [
        packed_document("page-data", {"figures": figures, "records": records}),
        *(one.records for one in built),
    ]
    return _document(title, "\n".join(body), "\n".join(data))


@dataclass(frozen=True)
class _Built:
    """One problem's part of the page, finished."""

    part: Part
    html: str
    figures: dict[str, Any]
    header: dict[str, Any]
    """How to read the records."""
    records: str
    """The element that holds them."""


def _parts(
    comparison: Comparison, pictures: Mapping[str, Sequence[Picture]]
) -> list[Part]:
    if comparison.has_one_problem:
        (study,) = comparison.studies
        return [part_of(study, pictures.get(study.problem, ()))]
    return [
        part_of(study, pictures.get(study.problem, ()), prefix=f"{place}-", level=3)
        for place, study in enumerate(comparison.studies, start=1)
    ]


def _built(part: Part, every: int, share: float, together: str) -> _Built:
    study = part.study
    drawn = interactive_figures(part, every)
    packed = pack_records(study.runs, study.table, round(share * _RECORD_BYTES))
    sections = "\n".join(part_sections(part, frozenset(drawn), every, packed, together))
    if part.prefix:
        name = escape(problem_name(study.problem))
        summary = summary_box(study_summary(study))
        sections = (
            f'<section id="problem-{part.prefix[:-1]}"><h2>{name}</h2>\n'
            f"{summary}\n{sections}</section>"
        )
    figures = plain_figures({**drawn, "run": run_figure(part, packed)})
    return _Built(
        part=part,
        html=sections,
        figures={f"{part.prefix}{key}": one for key, one in figures.items()},
        header=run_header(part, packed),
        records=packed_bytes(f"records-{part.prefix}", packed.data),
    )


def _thinning(parts: Sequence[Part]) -> int:
    """Return of how many episodes one is drawn, so that the page stays small."""
    numbers = sum(
        2 * curves.shape[1]  # a mean and its error
        for part in parts
        for panel in part.panels
        for curves in panel.curves.values()
    )
    return max(1, math.ceil(numbers / _CURVE_NUMBERS))


def _share(part: Part, parts: Sequence[Part]) -> float:
    """Return how much of the room for records belongs to a part."""
    sizes = {id(one): sum(len(run.records) for run in one.study.runs) for one in parts}
    return sizes[id(part)] / sum(sizes.values())


def _document(title: str, body: str, data: str) -> str:
    scripts = "\n".join(_asset(name) for name in _SCRIPTS)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<link rel="icon" href="data:,">
<style>
{_asset("report.css")}</style>
</head>
<body>
<main>
<noscript><p class="warning">The figures need JavaScript.</p></noscript>
<p class="warning" id="trouble" hidden>The figures need a browser of 2023 or later.</p>
{body}
</main>
{data}
<script>{get_plotlyjs()}</script>
<script>
"use strict";
{scripts}
</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return resources.files("driftrl.figures").joinpath(name).read_text(encoding="utf-8")
