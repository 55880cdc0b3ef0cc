"""One HTML page that holds a study, and its printed figures beside it.

The page is one file: Plotly's code is embedded, a content security policy forbids every
request, and the template escapes whatever comes from a file.  Figures and records lie
in it compressed.
"""

import base64
import gzip
import json
import re
import shlex
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import jinja2
import polars as pl
from plotly import graph_objects as go
from plotly.offline import get_plotlyjs

import driftrl
from driftrl.analysis import plots
from driftrl.analysis.compare import Comparison, aggregate
from driftrl.analysis.interactive import panel_figure, run_figure
from driftrl.analysis.load import Results, flattened, read_results, study_names
from driftrl.analysis.panels import Panel, panels_of
from driftrl.analysis.regret import (
    LAST_EPISODES,
    MethodSummary,
    ProblemSummary,
    summarize,
)
from driftrl.analysis.style import (
    TEMPLATES,
    UNKNOWN,
    MethodStyle,
    first_few,
    method_name,
    method_styles,
    number,
    percent,
    problem_name,
)
from driftrl.config.toml import read_toml
from driftrl.errors import counted, require
from driftrl.io import write_atomically
from driftrl.oracles.table import Oracle, Progress
from driftrl.records import COLUMNS, Run

MOST_PROBLEMS = 8
"""Problems up to which each has printed figures."""
_MOST_METHODS = 8  # that one printed figure names side by side
STUDY_FILE = "study.toml"
_TEXT = ("study", "problem", "task", "method", "run", "seed")
_NUMBERS = (
    *(name for name in COLUMNS if name != "span_losses"),
    *("optimal_return", "regret", "cumulative_regret", "span", "since_change"),
)
_NOT_SHOWN = ("method", "seed", "changes")
_STACKED = ("theta", "regret", "returns")  # the first figure, from the top


def report(
    paths: str | Path | Iterable[str | Path],
    out: str | Path | None = None,
    *,
    oracle: Oracle | None = None,
    progress: Progress | None = None,
    warn: Callable[[str], None] = warnings.warn,
) -> list[Path]:
    """Write an HTML page about recorded runs, and figures as PNG and PDF beside it.

    Returns the written files, the page last.

    Args:
        paths: Directory of a run or of a study, or several of them.
        out: Directory to write to; ``report`` in the directory if there is one alone.
        oracle: J*(θ), see ``driftrl.load``; ``"none"`` shows returns only.
        progress: Called with the finished and the total number of optima to compute.
        warn: Called with a sentence for each run that is left out.
    """
    paths = [paths] if isinstance(paths, str | Path) else list(paths)
    directories = [Path(path) for path in paths]
    target = _target(directories, out)
    results = read_results(directories, oracle=oracle, progress=progress)
    for note in results.notes:
        warn(note)
    sources = [_source(*named) for named in study_names(directories).items()]
    summaries = summarize(results.frame)
    target.mkdir(parents=True, exist_ok=True)
    sections = [
        _section(index, summary, results, len(summaries) > 1)
        for index, summary in enumerate(summaries, 1)
    ]
    written = []
    if len(sections) <= MOST_PROBLEMS:
        written = _print_figures(results.frame, sections, target)
    page = target / "report.html"
    text = _render(results, sections, sources)
    write_atomically(page, text.encode())
    return [*written, page]


def _target(directories: Sequence[Path], out: str | Path | None) -> Path:
    """Return where a report on some directories is written, unless a file is there."""
    require(
        len(directories) == 1 or out is not None,
        "A report on several studies needs a directory to write to: give --out.",
    )
    target = Path(out or directories[0] / "report")
    blocked = [path for path in (target, *target.parents) if path.is_file()]
    require(
        not blocked,
        f"Cannot write a report to {target}: {', '.join(map(str, blocked))} is a file.",
    )
    return target


def _source(name: str, directory: Path) -> dict[str, str]:
    """Return what the study file of a directory of results says."""
    path = directory / STUDY_FILE
    text = path.read_bytes().decode(errors="replace") if path.is_file() else ""
    table = read_toml(path) if text else {}
    out = f"runs/{directory.resolve().name}"
    return {
        "name": name,
        "title": str(table.get("title", name)),
        "description": str(table.get("summary", "")),
        "text": text,
        "command": shlex.join(["driftrl", "study", STUDY_FILE, "--out", out]),
    }


# ---- one problem ---------------------------------------------------------------------


@dataclass(frozen=True)
class Card:
    """An interactive figure of the page."""

    key: str
    title: str
    caption: str
    figure: go.Figure
    wide: bool = True


@dataclass(frozen=True)
class Section:
    """Everything that the page shows of one problem."""

    summary: ProblemSummary
    oracle: str
    styles: dict[str, MethodStyle]
    methods: dict[str, MethodSummary]
    best: MethodSummary
    cards: list[Card]
    runs: list[dict[str, Any]]
    different: list[list[str]]
    """Settings in which methods differ: name, then a value for each."""
    common: list[list[str]]


def _section(
    index: int, summary: ProblemSummary, results: Results, several: bool
) -> Section:
    methods = {method.method: method for method in summary.methods}
    styles = method_styles(methods)
    prefix = f"{problem_name(summary.problem)}: " if several else ""
    sign = 1 if summary.is_known else -1
    runs = {str(run.directory.resolve()): run for run in results.runs}
    parts = summary.frame.partition_by("directory", maintain_order=True)
    order = [*methods]
    parts.sort(key=lambda part: (order.index(part["method"][0]), part["seed"][0]))
    here = [(runs[part["directory"][0]], part) for part in parts]
    different, common = _settings(here, methods)
    return Section(
        summary=summary,
        oracle=results.oracles[summary.problem],
        styles=styles,
        methods=methods,
        best=min(methods.values(), key=lambda one: sign * one.score.mean),
        cards=_cards(index, summary, styles),
        runs=[
            _run(run, rows, summary)
            | {"group": prefix + style.name, "colour": style.colour}
            for run, rows in here
            for style in [styles[rows["method"][0]]]
        ],
        different=different,
        common=common,
    )


def _cards(
    index: int, summary: ProblemSummary, styles: Mapping[str, MethodStyle]
) -> list[Card]:
    """Return the interactive figures, the result first."""
    frame, known = summary.frame, summary.is_known
    panels = panels_of(frame)
    stacked: list[Panel] = [panels[key] for key in _STACKED if key in panels]
    caption = " ".join(f"{panel.title}: {panel.caption}" for panel in stacked)
    title = "Regret and returns over episodes" if known else "Returns"
    curves = panel_figure(stacked, frame, styles)
    cards = [Card("curves", title, caption, curves)]
    for key, panel in panels.items():
        if key not in _STACKED:
            figure = panel_figure([panel], frame, styles)
            cards.append(Card(key, panel.title, panel.caption, figure, wide=False))
    return [replace(card, key=f"{index}-{card.key}") for card in cards]


def _run(run: Run, rows: pl.DataFrame, summary: ProblemSummary) -> dict[str, Any]:
    """Return what the page shows of one run, with its records."""
    (method,) = [one for one in summary.methods if one.method == rows["method"][0]]
    score = method.score.values[method.seeds.index(rows["seed"][0])]
    minutes = float(rows["wall_s"].sum()) / 60
    name = "R" if summary.is_known else "mean return"
    progress = f"{len(rows)} of {run.planned_episodes}"
    facts = (
        f"{run.label}: {name} = {number(score)} after "
        f"{counted(summary.episodes, 'episode')}, {number(minutes)} minutes"
    )
    unfinished = len(rows) < run.planned_episodes
    episode = pl.col("episode")
    shown = rows.with_columns(
        span=episode - pl.col("first_retained"),
        since_change=episode - pl.col("last_change"),
    )
    return {
        "label": rows["run"][0],
        "episodes": progress,
        "score": score,
        "minutes": minutes,
        "unfinished": "" if run.is_finished else f"{run.label} ({progress})",
        "facts": f"{facts}, {progress} episodes" if unfinished else facts,
        "text": rows.select(_TEXT).row(0, named=True),
        "columns": shown.select(_NUMBERS).to_dict(as_series=False),
        "resets": rows.filter("soft_reset")["episode"].to_list(),
    }


def _settings(
    runs: Sequence[tuple[Run, pl.DataFrame]], methods: Iterable[str]
) -> tuple[list[list[str]], list[list[str]]]:
    """Return settings that differ, with a value for each method, and all others."""
    tables: dict[str, list[dict[str, Any]]] = {method: [] for method in methods}
    for run, rows in runs:
        shown = {k: value for k, value in run.config.items() if k not in _NOT_SHOWN}
        tables[rows["method"][0]].append(flattened(shown))
    different, common = [], []
    for key in dict.fromkeys(k for group in tables.values() for c in group for k in c):
        cells = []
        for group in tables.values():
            values = {str(config.get(key, UNKNOWN)) for config in group}
            cells.append("differs by seed" if len(values) > 1 else values.pop())
        if len(set(cells)) > 1:
            different.append([key, *cells])
        else:
            common.append([key, cells[0]])
    return different, common


# ---- printed figures -----------------------------------------------------------------


def _print_figures(
    frame: pl.DataFrame, sections: Sequence[Section], target: Path
) -> list[Path]:
    """Write the figures of all problems together and of each."""
    written: list[Path] = []
    if len(sections) > 1 and frame["method"].n_unique() <= _MOST_METHODS:
        written += plots.save(plots.problems(frame), target / "problems")
    endings = file_endings([section.summary.problem for section in sections])
    for section, ending in zip(sections, endings, strict=True):
        rows = section.summary.frame
        names = ["regret" if section.summary.is_known else "returns", "overview"]
        for name in names:
            figure = getattr(plots, name)(rows)
            written += plots.save(figure, target / f"{name}{ending}")
    return written


def file_endings(labels: Sequence[str]) -> list[str]:
    """Return what to add to a file's name for each problem; nothing for one alone."""
    if len(labels) == 1:
        return [""]
    words = [re.sub(r"[^\w.=+-]+", "_", label.replace(" ", "")) for label in labels]
    if len(set(words)) < len(words) or max(map(len, words)) > 100:
        words = [str(place) for place in range(1, len(words) + 1)]
    return [f"-{word}" for word in words]


# ---- the page ------------------------------------------------------------------------


def _render(
    results: Results, sections: Sequence[Section], sources: Sequence[Mapping[str, str]]
) -> str:
    frame = results.frame
    single = sources[0] if len(sources) == 1 else None
    methods = dict.fromkeys(name for section in sections for name in section.methods)
    comparison = aggregate(frame)
    cards = [card for section in sections for card in section.cards]
    runs = [run for section in sections for run in section.runs]
    columns = [run["columns"] for run in runs]
    recorded = [n for n in _NUMBERS if any(set(one[n]) - {None} for one in columns)]
    figures = {card.key: card.figure for card in cards} | {"run": run_figure(recorded)}
    shown = ("label", "group", "facts", "colour", "text", "columns", "resets")
    document = {
        "figures": {key: figure.to_plotly_json() for key, figure in figures.items()},
        "runs": [{key: run[key] for key in shown} for run in runs],
    }
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    counts = frame.unique("directory")["study"].value_counts()
    not_started = [run.label for run in results.runs if not run.records]
    context = {
        "title": single["title"] if single else ", ".join(s["name"] for s in sources),
        "description": single["description"] if single else "",
        "sources": sources,
        "run_counts": dict(counts.iter_rows()),
        "problems": sections,
        "styles": method_styles(methods),
        "notes": results.notes,
        "not_started": first_few([*results.not_started, *not_started]),
        "comparison": comparison,
        "left_out": _left_out(comparison) if comparison else "",
        "last_episodes": LAST_EPISODES,
        "rows": sum(len(one["episode"]) for one in columns),
        "file": f"{frame['task'][0].replace(':', '.')}-episodes.csv",
        "version": driftrl.__version__,
        # Without a date: the same study gives the same page.
        "data": base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode(),
        "css": (TEMPLATES / "report.css").read_text(encoding="utf-8"),
        "js": (TEMPLATES / "report.js").read_text(encoding="utf-8"),
        "plotly": get_plotlyjs(),
    }
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        "number": number,
        "percent": percent,
        "counted": counted,
        "cut": first_few,
        "method_name": method_name,
        "problem_name": problem_name,
    }
    return environment.get_template("report.html").render(context)


def _left_out(comparison: Comparison) -> str:
    if not comparison.runs_left_out:
        return ""
    problems, methods = comparison.problems_left_out, comparison.methods_left_out
    names = first_few([*map(problem_name, problems), *map(method_name, methods)])
    return (
        "Every method is judged by the same problems and seeds, at least two seeds a "
        f"problem; {counted(comparison.runs_left_out, 'run')} without a counterpart "
        f"left out{': ' * bool(names)}{', '.join(names)}."
    )
