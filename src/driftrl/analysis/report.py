"""One HTML page that holds a study, and its printed figures beside it.

The page is one file: Plotly's code is embedded, a content security policy forbids every
request, and the template escapes whatever comes from a file.  Figures and records lie
in it compressed; a very large study is thinned, and the page says so.
"""

import base64
import gzip
import json
import math
import re
import shlex
import tomllib
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from importlib import resources
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import polars as pl
from matplotlib.figure import Figure
from plotly.offline import get_plotlyjs

import driftrl
from driftrl.analysis import plots
from driftrl.analysis.compare import Aggregates, aggregate
from driftrl.analysis.interactive import (
    RUN_STRIPS,
    STACKED,
    aggregate_figures,
    panel_figure,
    run_figure,
    seed_figures,
)
from driftrl.analysis.load import (
    STUDY_FILE,
    Oracle,
    Progress,
    Results,
    flattened,
    read_results,
    study_names,
)
from driftrl.analysis.panels import Panel, panels_of, score_difference, score_of
from driftrl.analysis.regret import (
    LAST_EPISODES,
    MethodSummary,
    ProblemSummary,
    summarize,
)
from driftrl.analysis.statistics import Estimate
from driftrl.analysis.style import (
    UNKNOWN,
    MethodStyle,
    method_name,
    method_styles,
    number,
    percent,
    problem_name,
)
from driftrl.errors import CorruptFile, counted, require
from driftrl.io import write_atomically
from driftrl.records import COLUMNS, Run

MOST_PROBLEMS = 8
"""Problems up to which each has printed figures unless all are asked for."""
_MOST_METHODS = 8  # that one printed figure names side by side
_CURVE_NUMBERS = 800_000  # in all curves of a page
_EXACT_ROWS = 25_000  # records up to which a page holds every number
_MOST_ROWS = 120_000
_MOST_OPTIMA = 100  # rows of the oracle's table
_MOST_NAMED = 6  # names in one sentence
_DIGITS = 5  # of the numbers of a study that is too large to be kept exactly
_TEXT = ("study", "problem", "task", "method", "run")


def report(
    paths: str | Path | Iterable[str | Path],
    out: str | Path | None = None,
    *,
    oracle: Oracle = None,
    progress: Progress | None = None,
    all_figures: bool = False,
) -> list[Path]:
    """Write an HTML page about recorded runs, and figures as PNG and PDF beside it.

    Args:
        paths: Directory of a run or of a study, or several of them.
        out: Directory to write to; ``report`` in the directory if there is one alone.
        oracle: J*(θ), see ``driftrl.load``; ``"none"`` shows returns only.
        progress: Called with the finished and the total number of optima to compute.
        all_figures: Print figures of each problem even if there are more than eight.

    Returns:
        The written files, the page last.
    """
    paths = [paths] if isinstance(paths, str | Path) else list(paths)
    directories = [Path(path) for path in paths]
    target = report_directory(directories, out)
    results = read_results(directories, oracle=oracle, progress=progress)
    for note in results.notes:
        warnings.warn(note, stacklevel=2)
    return write_report(results, directories, target, all_figures=all_figures)


def report_directory(directories: Sequence[Path], out: str | Path | None) -> Path:
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


def write_report(
    results: Results,
    directories: Sequence[Path],
    target: Path,
    *,
    all_figures: bool = False,
    command: str = "",
) -> list[Path]:
    """Write the page and the figures of results that have been read.

    Args:
        results: From ``read_results``.
        directories: Which directories they were read from.
        target: Directory to write to.
        all_figures: Print figures of each problem even if there are more than eight.
        command: What the page says it was made by.

    Returns:
        The written files, the page last.
    """
    sources = [Source(*named) for named in study_names(directories).items()]
    summaries = summarize(results.frame)
    aggregates = aggregate(summaries)
    target.mkdir(parents=True, exist_ok=True)
    pages = [_page(index, one, results) for index, one in enumerate(summaries, 1)]
    written, shown = [], []
    if all_figures or len(pages) <= MOST_PROBLEMS:
        written, shown = _print_figures(results.frame, pages, target)
    if aggregates is not None:
        figure = plots.aggregate_figure(aggregates)
        written += plots.save(figure, target / "aggregate")
    page = target / "report.html"
    text = _render(results, pages, aggregates, sources, shown, command)
    write_atomically(page, text.encode())
    return [*written, page]


# ---- where the runs come from --------------------------------------------------------


@dataclass(frozen=True)
class Source:
    """One directory of results, and what its study file says."""

    name: str
    directory: Path

    @cached_property
    def text(self) -> str:
        """The study file; empty without one."""
        path = self.directory / STUDY_FILE
        return path.read_bytes().decode(errors="replace") if path.is_file() else ""

    @cached_property
    def table(self) -> dict[str, Any]:
        """The study file as a table."""
        try:
            return tomllib.loads(self.text)
        except ValueError as error:
            path = self.directory / STUDY_FILE
            raise CorruptFile(f"{path} is not valid TOML: {error}.") from error

    @property
    def title(self) -> str:
        """Heading of the page."""
        return str(self.table.get("title", self.name))

    @property
    def description(self) -> str:
        """What was studied, in a sentence or two."""
        return str(self.table.get("summary", ""))

    @property
    def command(self) -> str:
        """The command that makes the study's runs."""
        name = self.directory.resolve().name
        return shlex.join(["driftrl", "study", STUDY_FILE, "--out", f"runs/{name}"])


# ---- one problem ---------------------------------------------------------------------


@dataclass(frozen=True)
class MethodRow:
    """One method in the tables of a problem."""

    method: MethodSummary
    style: MethodStyle
    score: Estimate
    difference: Estimate | None
    late: str
    """Shortfall from J* in the last episodes, or their mean return."""
    late_outside: str
    """The same without the episodes after a reset, where it differs."""


@dataclass(frozen=True)
class Card:
    """A figure of the page; ``missing`` is shown if there is nothing to draw."""

    key: str
    title: str
    caption: str
    wide: bool = True
    missing: str = ""


@dataclass(frozen=True)
class Image:
    """A printed figure that is part of the page."""

    title: str
    caption: str
    png: bytes

    @property
    def width(self) -> int:
        """Pixels on the page: half of the PNG's, which is sharp on any screen."""
        return int.from_bytes(self.png[16:20]) // 2

    @property
    def base64(self) -> str:
        """The PNG for a data URL."""
        return base64.b64encode(self.png).decode()


@dataclass
class ProblemPage:
    """Everything that the page shows of one problem."""

    index: int
    summary: ProblemSummary
    name: str
    oracle: str
    baseline: str
    last: int
    """Number of episodes that final performance is measured over."""
    styles: dict[str, MethodStyle]
    panels: dict[str, Panel]
    methods: dict[str, MethodRow]
    best: MethodRow
    all_runs: list[tuple[Run, pl.DataFrame]]
    """Each run with its rows, in the order of the methods."""
    runs: list[dict[str, Any]]
    """The table of runs."""
    different: list[list[str]]
    """Settings in which methods differ: name, then a value for each."""
    common: list[list[str]]
    optima: list[list[str]]
    """Up to a hundred rows of θ, J*(θ) and its error."""
    pictures: list[Image]

    @property
    def stacked(self) -> list[Panel]:
        """The panels of the first figure."""
        return [self.panels[key] for key in STACKED if key in self.panels]

    @property
    def figures(self) -> list[Card]:
        """The interactive figures, the result first."""
        captions = [f"{panel.title}: {panel.caption}" for panel in self.stacked]
        known = self.summary.is_known
        title = "Regret and returns over episodes" if known else "Returns"
        cards = [Card("curves", title, " ".join(captions))]
        score, side = ("Final regret", "Left") if known else ("Mean return", "Right")
        dots = "a dot is a seed, a diamond their mean with its 95 % t interval."
        if any(len(row.method.seeds) > 1 for row in self.methods.values()):
            cards.append(Card("finals", score, f"{score}: {dots}"))
        if any(row.difference for row in self.methods.values()):
            caption = (
                f"{score} minus the baseline’s on the same seed: {dots} {side} of "
            )
            caption += "of the line is better than the baseline."
            cards.append(Card("differences", "Paired differences", caption))
        for key, panel in self.panels.items():
            if key not in STACKED:
                missing = panel.missing if panel.is_empty else ""
                cards.append(Card(key, panel.title, panel.caption, False, missing))
        return [replace(card, key=f"{self.index}-{card.key}") for card in cards]

    def drawn(self, every: int) -> dict[str, Any]:
        """Return the interactive figures by their keys."""
        frame, styles = self.summary.frame, self.styles
        figures = {"curves": panel_figure(self.stacked, frame, styles, every)}
        figures |= seed_figures(self.summary, styles)
        for key, panel in self.panels.items():
            if key not in STACKED and not panel.is_empty:
                figures[key] = panel_figure([panel], frame, styles, every)
        return {f"{self.index}-{key}": figure for key, figure in figures.items()}


def _page(index: int, summary: ProblemSummary, results: Results) -> ProblemPage:
    styles = method_styles(method.method for method in summary.methods)
    methods = {
        method.method: MethodRow(
            method,
            styles[method.method],
            score_of(summary, method),
            score_difference(summary, method),
            *_late(summary, method),
        )
        for method in summary.methods
    }
    sign = 1 if summary.is_known else -1
    runs = {str(run.directory.resolve()): run for run in results.runs}
    parts = summary.frame.partition_by("directory", maintain_order=True)
    order = [*methods]
    parts.sort(key=lambda part: (order.index(part["method"][0]), part["seed"][0]))
    all_runs = [(runs[part["directory"][0]], part) for part in parts]
    different, common = _settings(all_runs)
    return ProblemPage(
        index=index,
        summary=summary,
        name=problem_name(summary.problem),
        oracle=results.oracles[summary.problem],
        baseline=method_name(summary.baseline),
        last=min(LAST_EPISODES, summary.episodes),
        styles=styles,
        panels=panels_of(summary.frame),
        methods=methods,
        best=min(methods.values(), key=lambda row: sign * row.score.mean),
        all_runs=all_runs,
        runs=[_run_row(run, rows, methods) for run, rows in all_runs],
        different=different,
        common=common,
        optima=_optima(summary) if summary.is_known else [],
        pictures=[],
    )


def _late(summary: ProblemSummary, method: MethodSummary) -> tuple[str, str]:
    if summary.is_known:
        late, outside, show = method.gap, method.gap_outside_resets, percent
    else:
        late, outside = method.final_return, method.final_return_outside_resets
        show = number
    if late is None:
        return UNKNOWN, ""
    differs = outside is not None and outside.mean != late.mean
    return show(late.mean), show(outside.mean) if outside and differs else ""


def _run_row(
    run: Run, rows: pl.DataFrame, methods: Mapping[str, MethodRow]
) -> dict[str, Any]:
    row = methods[rows["method"][0]]
    return {
        "label": run.label,
        "episodes": len(rows),
        "planned": run.planned_episodes,
        "score": row.score.values[row.method.seeds.index(rows["seed"][0])],
        "minutes": rows["wall_s"].sum() / 60,
        "unfinished": ""
        if run.is_finished
        else f"{run.label} ({len(rows)} of {run.planned_episodes})",
    }


def _settings(
    runs: Sequence[tuple[Run, pl.DataFrame]],
) -> tuple[list[list[str]], list[list[str]]]:
    """Return settings with a value for each method, and those with one for all."""
    tables: dict[str, list[dict[str, Any]]] = {}
    for run, rows in runs:
        skipped = ("method", "seed", "versions", "changes")
        kept = {k: value for k, value in run.config.items() if k not in skipped}
        tables.setdefault(rows["method"][0], []).append(flattened(kept))
    different, common = [], []
    for key in dict.fromkeys(k for group in tables.values() for c in group for k in c):
        cells = []
        for group in tables.values():
            values = {str(config.get(key, "")) for config in group}
            several = len(values) > 1
            cells.append("differs by seed" if several else values.pop() or UNKNOWN)
        if len(set(cells)) > 1:
            different.append([key, *cells])
        else:
            common.append([key, cells[0]])
    return different, common


def _optima(summary: ProblemSummary) -> list[list[str]]:
    table = summary.frame.unique("theta").sort("theta")
    places = np.linspace(0, len(table) - 1, min(len(table), _MOST_OPTIMA))
    columns = ("theta", "optimal_return", "optimal_error")
    rows = table[np.round(places).astype(int)].select(columns).iter_rows()
    return [[f"{theta:.6g}", f"{j:.6g}", f"{error:.3g}"] for theta, j, error in rows]


def _cut(names: Sequence[str]) -> list[str]:
    rest = len(names) - _MOST_NAMED
    return [*names[:_MOST_NAMED], *([f"{rest} more"] if rest > 0 else [])]


# ---- printed figures -----------------------------------------------------------------

_SWEEP_CAPTIONS = {
    "sweep": (
        "The swept setting",
        "Final regret, or mean return where J* is unknown: mean over seeds ± standard "
        "error.",
    ),
    "sweep_returns": (
        "Return of an episode, by value of the swept setting",
        "Means over seeds ± standard error; darker is a larger value.",
    ),
}


def _print_figures(
    frame: pl.DataFrame,
    pages: Sequence[ProblemPage],
    target: Path,
) -> tuple[list[Path], list[Image]]:
    """Write the figures of all problems and of each; return those of all problems."""
    written: list[Path] = []
    shown = []
    if len(pages) > 1 and frame["method"].n_unique() <= _MOST_METHODS:
        written += plots.save(plots.problems(frame), target / "problems")
        caption = (
            "A column for each problem: the drift θ, the return of each policy with "
            "the best possible J*(θ), and cumulative dynamic regret, as far as they "
            "are known. Returns of long runs are running means."
        )
        shown = [Image("All problems", caption, written[-2].read_bytes())]
    endings = file_endings([page.summary.problem for page in pages])
    for page, ending in zip(pages, endings, strict=True):
        rows = page.summary.frame
        draw: dict[str, Callable[[pl.DataFrame], Figure]] = (
            {"regret": plots.regret, "final_regret": plots.final_regret}
            if page.summary.is_known
            else {"returns": plots.returns}
        )
        for name, function in {**draw, "overview": plots.overview}.items():
            written += plots.save(function(rows), target / f"{name}{ending}")
        if plots.sweeps_of(page.methods):
            for name, words in _SWEEP_CAPTIONS.items():
                figure = getattr(plots, name)(rows)
                written += plots.save(figure, target / f"{name}{ending}")
                page.pictures.append(Image(*words, written[-2].read_bytes()))
    return written, shown


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
    results: Results,
    pages: Sequence[ProblemPage],
    aggregates: Aggregates | None,
    sources: Sequence[Source],
    pictures: Sequence[Image],
    command: str,
) -> str:
    numbers = sum(
        4 * curves.shape[1]  # mean, error and both edges of the band
        for page in pages
        for panel in page.panels.values()
        for curves in panel.curves.values()
    )
    every = math.ceil(numbers / _CURVE_NUMBERS) or 1
    styles = method_styles(
        dict.fromkeys(method for page in pages for method in page.methods)
    )
    records, keep = _records(pages)
    figures = {key: one for page in pages for key, one in page.drawn(every).items()}
    panels = [panel for page in pages for panel in page.panels.values()]
    recorded = [name for name in records.columns if records[name].count()]
    figures["run"] = run_figure(recorded, panels)
    if aggregates is not None:
        drawn = aggregate_figures(aggregates, styles)
        figures |= {f"all-{key}": figure for key, figure in drawn.items()}
    document = {
        "figures": {key: one.to_plotly_json() for key, one in figures.items()},
        "runs": _run_list(pages, records),
    }
    text = json.dumps(document, allow_nan=False, separators=(",", ":"))
    single = sources[0] if len(sources) == 1 else None
    context = {
        "title": single.title if single else ", ".join(one.name for one in sources),
        "description": single.description if single else "",
        "sources": [
            {
                **{"name": one.name, "title": one.title, "text": one.text},
                "description": one.description,
                "command": one.command,
                "runs": results.frame.filter(study=one.name)["directory"].n_unique(),
            }
            for one in sources
        ],
        "problems": pages,
        "styles": styles,
        "notes": results.notes,
        "not_started": _cut(
            [*results.not_started, *(r.label for r in results.runs if not r.records)]
        ),
        "pictures": pictures,
        "aggregate": aggregates and _aggregate_table(aggregates, styles),
        "every": every,
        "keep": keep,
        "rows": len(records),
        "is_thinned": len(records.columns) < len(results.frame.columns) // 2,
        "file": f"{results.frame['task'][0].replace(':', '.')}-episodes.csv",
        "version": driftrl.__version__,
        "versions": _versions(results.runs),
        "command": command,
        "figures": _packed(text),
        "episodes": _packed(records.write_csv()),
        "css": _asset("report.css"),
        "js": _asset("report.js"),
        "plotly": get_plotlyjs(),
    }
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("driftrl.analysis"),
        autoescape=True,
        trim_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
    environment.filters |= {
        # Ends of intervals are arrays without an axis.
        "number": lambda value: number(float(value)),
        "percent": lambda value: percent(float(value)),
        "counted": counted,
        "cut": _cut,
    }
    return environment.get_template("report.html").render(context)


def _asset(name: str) -> str:
    files = resources.files("driftrl.analysis").joinpath("templates")
    return files.joinpath(name).read_text(encoding="utf-8")


def _packed(text: str) -> str:
    """Return text as base64 of gzip; the same text gives the same letters."""
    return base64.b64encode(gzip.compress(text.encode(), 6, mtime=0)).decode()


def _records(pages: Sequence[ProblemPage]) -> tuple[pl.DataFrame, int]:
    """Return the rows that the page holds, and of how many episodes it keeps one.

    Text comes first and numbers last.  Up to 25,000 rows are exact; of more, only the
    columns that are drawn are kept, rounded, and of very many not every episode.
    """
    rows = pl.concat([part for page in pages for _, part in page.all_runs])
    rows = rows.with_columns(
        pl.col(_TEXT).str.replace_all(r"\s", " "),
        (pl.col("episode") - pl.col("first_retained")).alias("span"),
    )
    results = ("optimal_return", "regret", "cumulative_regret", "span")
    if len(rows) <= _EXACT_ROWS:
        return rows.select(*_TEXT, "seed", *COLUMNS, *results), 1
    every = math.ceil(len(rows) / _MOST_ROWS)
    drawn = [column for lines in RUN_STRIPS.values() for column in lines]
    last = pl.col("episode").max().over("directory")
    kept = rows.filter((last - pl.col("episode")) % every == 0)
    kept = kept.select(*_TEXT[1:], "seed", "episode", *drawn)
    rounded = pl.selectors.float().round_sig_figs(_DIGITS)
    return kept.with_columns(rounded), every


def _run_list(
    pages: Sequence[ProblemPage], records: pl.DataFrame
) -> list[dict[str, Any]]:
    """Return what the page's code needs to show each run."""
    texts = sum(records[name].dtype == pl.String for name in records.columns)
    kept = records.group_by("problem", "run", "method", "seed").len()
    counts = {tuple(key): count for *key, count in kept.iter_rows()}
    entries, first = [], 0
    for page in pages:
        score = "R" if page.summary.is_known else "mean return"
        for (_, rows), row in zip(page.all_runs, page.runs, strict=True):
            name, method, seed = rows["run"][0], rows["method"][0], rows["seed"][0]
            label = re.sub(r"\s", " ", name)
            count = counts[page.summary.problem, label, method, seed]
            facts = (
                f"{row['label']}: {score} = {number(row['score'])} after "
                f"{counted(page.summary.episodes, 'episode')}, "
                f"{number(row['minutes'])} minutes"
            )
            if row["episodes"] < row["planned"]:
                facts += f", {row['episodes']} of {row['planned']} episodes"
            style = page.styles[method]
            problem = f"{page.name}: " if len(pages) > 1 else ""
            entries.append(
                {
                    **{"label": name, "group": problem + style.name, "facts": facts},
                    **{"colour": style.colour, "first": first, "rows": count},
                    "numbers": len(records.columns) - texts,
                    "resets": rows.filter("soft_reset")["episode"].to_list(),
                }
            )
            first += count
    return entries


def _aggregate_table(
    aggregates: Aggregates, styles: Mapping[str, MethodStyle]
) -> dict[str, Any]:
    has_gap, baseline = aggregates.measure.target is not None, aggregates.baseline
    columns = ["iqm", "mean", "median", *["optimality_gap"] * has_gap]

    def value(one: Any) -> dict[str, float]:
        ends = {"low": float(one.interval.low), "high": float(one.interval.high)}
        return {"value": float(one.value), **ends}

    rows = [
        {
            "style": styles[name],
            "runs": method.runs,
            "numbers": [value(getattr(method, column)) for column in columns],
            "improvement": method.improvement and value(method.improvement),
        }
        for name, method in aggregates.methods.items()
    ]
    side = "more than" if aggregates.measure.higher_is_better else "less than"
    cards = [
        Card(
            "all-profile",
            "Performance profile",
            f"Share of a method’s runs with a {aggregates.measure.name} of {side} τ. A "
            "higher curve is better; bands are 95 % bootstrap intervals.",
            wide=False,
        )
    ]
    if baseline is not None:
        caption = (
            "Probability that a run of the method beats one of the baseline on the "
            "same problem; equal runs count half. It says how often a method is "
            "better, not by how much."
        )
        title = f"Probability of beating {method_name(baseline)}"
        cards.append(Card("all-improvement", title, caption, wide=False))
    names = [
        *map(problem_name, aggregates.problems_left_out),
        *map(method_name, aggregates.methods_left_out),
    ]
    left_out = (
        "Every method is judged by the same problems and seeds, at least two seeds a "
        f"problem; {counted(aggregates.runs_left_out, 'run')} without a counterpart "
        f"left out{': ' * bool(names)}{', '.join(_cut(names))}."
    )
    return {
        **{"rows": rows, "figures": cards, "has_gap": has_gap},
        "measure": aggregates.measure.name,
        "meaning": aggregates.measure.meaning,
        "baseline": None if baseline is None else method_name(baseline),
        "left_out": left_out if names or aggregates.runs_left_out else "",
    }


def _versions(runs: Sequence[Run]) -> list[list[str]]:
    """Return the versions of each library, with the number of runs if they differ."""
    tables = [run.config.get("versions", {}) for run in runs]
    rows = []
    for name in dict.fromkeys(name for table in tables for name in table):
        counts = Counter(str(table.get(name, UNKNOWN)) for table in tables)
        several = [f"{one} ({counted(n, 'run')})" for one, n in counts.items()]
        rows.append([name, ", ".join(several if len(several) > 1 else counts)])
    return rows
