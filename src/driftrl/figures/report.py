"""One page that holds a study: findings, figures, oracle, configuration and data.

The page is one file.  Plotly's code is embedded once, a content security policy forbids
every request, and whatever comes from a file is escaped.
"""

import json
from collections.abc import Mapping, Sequence
from html import escape
from importlib import resources

from plotly.graph_objects import Figure
from plotly.offline import get_plotlyjs

from driftrl.figures.interactive import interactive_figures
from driftrl.figures.sections import Part, Picture, part_sections, picture_figure
from driftrl.figures.style import problem_name
from driftrl.figures.wording import comparison_summary, study_summary
from driftrl.regret import StudyRegret
from driftrl.results.comparison import Comparison

# Nothing may be fetched: not by this page, and not by the code embedded in it.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:"
)


def report_page(
    comparison: Comparison,
    title: str,
    description: str,
    pictures: Mapping[str, Sequence[Picture]] | None = None,
) -> str:
    """Return the whole page as HTML; the same study gives the same text.

    Args:
        comparison: What the page is about.
        title: Heading of the page.
        description: What was studied, in a sentence or two.
        pictures: Printed figures for the problem of each label; those for all of
            several problems under ``ALL``.
    """
    pictures = pictures or {}
    figures: dict[str, Figure] = {}
    parts = []
    for place, study in enumerate(comparison.studies, start=1):
        drawn = interactive_figures(study)
        prefix, level = ("", 2) if comparison.has_one_problem else (f"{place}-", 3)
        shown = tuple(pictures.get(study.problem, ()))
        parts.append(Part(study, frozenset(drawn), shown, prefix, level))
        figures |= {f"{prefix}{key}": figure for key, figure in drawn.items()}
    head = [
        f"<h1>{escape(title)}</h1>",
        f'<p class="description">{escape(description)}</p>',
    ]
    if comparison.has_one_problem:
        body = [
            *head,
            _summary(study_summary(parts[0].study)),
            *part_sections(parts[0]),
        ]
    else:
        body = [
            *head,
            _navigation(comparison.studies),
            _findings(comparison),
            *(picture_figure(one, 2) for one in pictures.get(ALL, ())),
            *(_problem_section(place, part) for place, part in enumerate(parts, 1)),
        ]
    return _document(title, "\n".join(body), figures)


ALL = "all problems"
"""Where the pictures of a page are that show all of its problems."""


def _summary(sentences: Sequence[str]) -> str:
    return f'<p class="summary">{escape(" ".join(sentences))}</p>'


def _findings(comparison: Comparison) -> str:
    sentences = [f"<p>{escape(one)}</p>" for one in comparison_summary(comparison)]
    return f'<div class="summary">{"".join(sentences)}</div>'


def _navigation(studies: Sequence[StudyRegret]) -> str:
    links = " ".join(
        f'<a href="#problem-{place}">{escape(problem_name(study.problem))}</a>'
        for place, study in enumerate(studies, start=1)
    )
    return f"<nav>Problems: {links}</nav>"


def _problem_section(place: int, part: Part) -> str:
    name = escape(problem_name(part.study.problem))
    content = "\n".join([_summary(study_summary(part.study)), *part_sections(part)])
    return f'<section id="problem-{place}"><h2>{name}</h2>\n{content}</section>'


def _document(title: str, body: str, figures: Mapping[str, Figure]) -> str:
    data = json.dumps({key: one.to_plotly_json() for key, one in figures.items()})
    # Bodies of script elements end at "</", wherever that stands.
    data = data.replace("<", "\\u003c")
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
{body}
</main>
<script>{get_plotlyjs()}</script>
<script type="application/json" id="figures">{data}</script>
<script>
{_asset("report.js")}</script>
</body>
</html>
"""


def _asset(name: str) -> str:
    return resources.files("driftrl.figures").joinpath(name).read_text(encoding="utf-8")
