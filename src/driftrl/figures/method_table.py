"""The table of methods: what each came to, how sure that is, and what it took."""

from collections.abc import Callable
from html import escape

from driftrl.errors import counted
from driftrl.figures.markup import named, table
from driftrl.figures.part import Part
from driftrl.figures.style import method_name
from driftrl.figures.wording import UNKNOWN, mean_and_error, number, percent, span
from driftrl.results.curves import minutes_a_run
from driftrl.results.late import AFTER_RESET
from driftrl.results.regret import StudyRegret
from driftrl.results.scores import late_returns
from driftrl.results.statistics import LEVEL, Estimate

_INTERVAL = f"{percent(LEVEL)} interval<small>t, then bootstrap</small>"


def method_section(part: Part) -> str:
    """Return the table of methods, with the intervals of what they came to."""
    study = part.study
    columns = _method_columns(part)
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
    return part.heading("Methods") + table(header, rows) + said


def _method_columns(part: Part) -> list[tuple[str, list[str]]]:
    """Return the title of each column and its cells, a method each."""
    study, scores = part.study, part.scores
    names = list(scores.finals)
    finals = list(scores.finals.values())
    known = {one.method: one.estimate for one in scores.differences}
    differences = [known.get(name) for name in names]
    return [
        ("Method", [named(part.styles[name]) for name in names]),
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
