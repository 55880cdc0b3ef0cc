"""What a page with several problems begins with: studies, problems, findings."""

from collections.abc import Sequence
from html import escape

from driftrl.errors import counted
from driftrl.figures.markup import named, table
from driftrl.figures.part import Part
from driftrl.figures.style import method_styles, problem_name
from driftrl.figures.wording import UNKNOWN, comparison_summary, mean_and_error
from driftrl.records import Run
from driftrl.results.comparison import Comparison
from driftrl.results.origin import Source

_MOST_COLUMNS = 6  # methods that a table on a page has room for


def summary_box(sentences: Sequence[str], notes: Sequence[str] = ()) -> str:
    """Return findings in a box: the first as it is, the others as a list.

    Args:
        sentences: The findings.
        notes: What has to be known of the runs before they are believed.
    """
    first, *others = (escape(sentence) for sentence in sentences)
    items = "".join(f"<li>{sentence}</li>" for sentence in others)
    rest = f"<ul>{items}</ul>" if items else ""
    return f'<div class="summary"><p>{first}</p>{rest}{_warnings(notes)}</div>'


def _warnings(notes: Sequence[str]) -> str:
    return "".join(f'<p class="warning">{escape(note)}</p>' for note in notes)


def findings_box(comparison: Comparison) -> str:
    """Return what was found on each of several problems."""
    sentences = [f"<p>{escape(one)}</p>" for one in comparison_summary(comparison)]
    warnings = _warnings(comparison.notes)
    return f'<div class="summary">{"".join(sentences)}{warnings}</div>'


def navigation(parts: Sequence[Part]) -> str:
    """Return links to the problems of a page."""
    links = " ".join(
        f'<a href="#problem-{place}">{escape(problem_name(part.study.problem))}</a>'
        for place, part in enumerate(parts, start=1)
    )
    return f"<nav>Problems: {links}</nav>"


def source_section(sources: Sequence[Source], runs: Sequence[Run]) -> str:
    """Return what each of several studies was about."""
    rows = []
    for source in sources:
        rows.append(
            [
                escape(source.name),
                f"{escape(source.title)}<small>{escape(source.description)}</small>",
                f"{len(source.runs_among(runs))}",
            ]
        )
    content = table(["Name", "Study", "Runs"], rows)
    return f'<h2>{len(sources)} studies</h2><div class="studies">{content}</div>'


def problem_section(parts: Sequence[Part]) -> str:
    """Return what methods came to on every problem, in one table.

    There is a column for each method; of many, only the best and the baseline.
    """
    methods = list(
        dict.fromkeys(one.method for part in parts for one in part.study.methods)
    )
    styles = method_styles(methods)
    if len(methods) <= _MOST_COLUMNS:
        header = [named(styles[method]) for method in methods]
        cells = [[_score(part, method) for method in methods] for part in parts]
        note = "Means over seeds with their standard error; the best is bold."
    else:
        header = ["Best", "Baseline"]
        cells = [
            [
                f"{named(styles[method])}<small>{_score(part, method)}</small>"
                if method in part.scores.finals
                else UNKNOWN
                for method in (part.scores.best, part.study.baseline)
            ]
            for part in parts
        ]
        note = "Means over seeds with their standard error."
    links = [_link(place, part) for place, part in enumerate(parts, start=1)]
    rows = [[link, *row] for link, row in zip(links, cells, strict=True)]
    return (
        f"<h2>Problem by problem</h2>{table(['Problem', *header], rows)}<p>{note}</p>"
    )


def _link(place: int, part: Part) -> str:
    name = escape(problem_name(part.study.problem))
    score = "regret" if part.study.table.known else "mean return"
    judged = f"{score}, {counted(part.study.episodes, 'episode')}"
    return f'<a href="#problem-{place}">{name}</a><small>{judged}</small>'


def _score(part: Part, method: str) -> str:
    estimate = part.scores.finals.get(method)
    if estimate is None:
        return UNKNOWN
    said = mean_and_error(estimate)
    leaders = part.scores.leaders
    is_best = method in leaders and len(leaders) < len(part.scores.finals)
    return f"<strong>{said}</strong>" if is_best else said
