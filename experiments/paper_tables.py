"""The paper's comparison as tables and one figure, from recorded runs alone.

    python experiments/paper_tables.py docs/records/mujoco_decay_rates.tar.gz
    python experiments/paper_tables.py --write docs/*.md
    python experiments/paper_tables.py --figure docs/figures/paper docs/records/*.tar.gz

Records are directories of studies or their archives.  A problem is a task and a variant
of it; on each, methods are judged from the onset of the drift on, as many episodes as
every run has had since then, and compared with SOMBRL seed by seed.

``--write`` updates pages: a table stands between ``<!-- table: NAME … -->`` and
``<!-- end -->``, where NAME is an archive of docs/records or NAME:TASK a part of it.
NAME/FILE.json is a list of rows in an archive, such as those of ``car_models.py``: rows
that differ in numbers alone become one, with mean ± standard error and the seeds.
J*(θ) is what is stored; where nothing is, the best return that a run has shown.
"""

import argparse
import json
import re
import tarfile
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import polars as pl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from driftrl.analysis.load import read_results
from driftrl.analysis.plots import printed_style
from driftrl.analysis.regret import MethodSummary, change_starts, summarize
from driftrl.analysis.statistics import Estimate, estimate_mean
from driftrl.analysis.style import (
    INK,
    MUTED,
    PAGE_INCHES,
    UNKNOWN,
    method_name,
    method_styles,
    number,
    percent,
    problem_name,
)
from driftrl.cli.progress import duration
from driftrl.errors import require
from driftrl.oracles.table import STORED

RECORDS = Path(__file__).parents[1] / "docs" / "records"
TEST_SET = "common_test_set.json"
"""In the directory of a study: what ``common_test_set.py`` writes."""
_MARKED = re.compile(r"(<!-- table: (.+?) -->\n).*?(<!-- end -->)", re.DOTALL)
_SPREAD = 0.22  # of the methods of a problem, in its row of the figure
_NAMES = {
    "pendulum": "pendulum (Gaussian process)",
    "pendulum-decay": "pendulum (ensemble)",
    "humanoid-standup": "humanoid standing up",
    "double-pendulum": "double pendulum",
    "walker2d": "walker",
    "rccar": "RC car, simulated",
}


class Row(NamedTuple):
    """One method on one problem."""

    problem: str
    method: str
    seeds: int
    episodes: int
    """From the onset on, as many as every run has had."""
    regret: Estimate
    """R over those episodes."""
    difference: Estimate | None
    """Of it to SOMBRL's, on the seeds of both."""
    reached: float
    """Mean of 1 − (J* − J)/|J*| over the last ten of them."""
    coverage: tuple[float | None, float | None]
    """Mean share within μ ± 2σ, of the episodes before and after the onset."""
    model_error: float | None
    """Mean over runs of the median after the onset."""
    test_error: Estimate | None
    """One-step error on the common test set, a number per seed."""
    seconds: float
    """Of all runs together, before the onset too."""
    is_shown: bool
    """Whether J* is no more than the best that a run has shown."""


@contextmanager
def unpacked(source: Path) -> Iterator[Path]:
    """Give the directory of a study, whose records are there or in an archive."""
    if source.is_dir():
        yield source
        return
    with tempfile.TemporaryDirectory() as directory, tarfile.open(source) as archive:
        archive.extractall(directory, filter="data")
        yield next(Path(directory).iterdir())


@cache
def rows_of(source: Path) -> tuple[Row, ...]:
    """Return every method on every problem of a study."""
    with unpacked(source) as directory:
        return tuple(_rows(directory))


def _rows(directory: Path) -> list[Row]:
    results = read_results(directory, oracle=STORED)
    # A variant is a problem, also where all variants have the same drift.
    variant = pl.concat_str("task", "variant", separator=" ").str.strip_chars_end()
    shown = [name for name, why in results.oracles.items() if "not computed" in why]
    frame = results.frame.with_columns(
        is_shown=pl.col("problem").is_in(shown),
        problem=variant,
        method=pl.col("method").str.split(" ").list.first(),
    )
    path = directory / TEST_SET
    tested = pl.DataFrame(json.loads(path.read_bytes())) if path.exists() else None
    return [
        row
        for part in frame.partition_by("problem", maintain_order=True)
        for row in _of_problem(part, tested)
    ]


def after_onset(frame: pl.DataFrame) -> pl.DataFrame:
    """Return the episodes of each run from the first new θ on."""
    runs = frame.partition_by("directory", maintain_order=True)
    starts = [change_starts(run["theta"].to_numpy())[:1] for run in runs]
    pairs = zip(runs, starts, strict=True)
    return pl.concat([run[first[0] - 1 :] for run, first in pairs if first])


def _of_problem(frame: pl.DataFrame, tested: pl.DataFrame | None) -> list[Row]:
    late = after_onset(frame)
    early = frame.join(late, on=["directory", "episode"], how="anti")
    (summary,) = summarize(late)
    require(summary.is_known, f"J* of {summary.problem} is not known.")
    rows = []
    for method in summary.methods:
        before, after, whole = (
            part.filter(method=method.method) for part in (early, late, frame)
        )
        errors = after.group_by("directory").agg(pl.col("model_error").median())
        rows.append(
            Row(
                problem=summary.problem,
                method=method.method,
                seeds=len(method.seeds),
                episodes=summary.episodes,
                regret=method.score,
                difference=method.difference,
                reached=1.0 - method.late.mean if method.late else float("nan"),
                coverage=(_mean(before["coverage"]), _mean(after["coverage"])),
                model_error=_mean(errors["model_error"]),
                test_error=_test_error(tested, summary.problem, method),
                seconds=float(whole["wall_s"].sum()),
                is_shown=frame["is_shown"][0],
            )
        )
    return rows


def _test_error(
    tested: pl.DataFrame | None, problem: str, method: MethodSummary
) -> Estimate | None:
    """Return the error on the common test set: the mean over its episodes, per seed."""
    if tested is None:
        return None
    rows = tested.filter(problem=problem, method=method.method)
    seeds = rows.group_by("seed").agg(pl.col("model_error").mean())
    return estimate_mean(seeds["model_error"].to_numpy()) if len(seeds) else None


def _mean(values: pl.Series) -> float | None:
    mean = values.mean()
    return mean if isinstance(mean, float) else None


# ---- tables --------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    """Return the rows as a table in Markdown, without columns that are empty."""
    cells = [{name: cell(row) for name, cell in _COLUMNS.items()} for row in rows]
    names = [name for name in _COLUMNS if {cell[name] for cell in cells} != {UNKNOWN}]
    return _markdown(names, [[cell[name] for name in names] for cell in cells])


def table_of_means(source: Path, file: str) -> str:
    """Return the rows of a file in a study, as means over those of the same names."""
    with unpacked(source) as directory:
        frame = pl.DataFrame(json.loads((directory / file).read_bytes()))
    names = frame.select(pl.col(pl.String)).columns
    numbers = [name for name in frame.columns if name not in (*names, "seed")]
    lines = []
    for key, rows in frame.group_by(names, maintain_order=True):
        means = [_with_error(estimate_mean(rows[name].to_numpy())) for name in numbers]
        lines.append([*map(str, key), str(rows["seed"].n_unique()), *means])
    return _markdown([*names, "seeds", *numbers], lines)


def _markdown(names: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    rows = (names, ["---"] * len(names), *lines)
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _interval(row: Row) -> str:
    """Return the difference to SOMBRL, bold where its interval excludes 0."""
    if row.difference is None:
        return UNKNOWN
    low, high = row.difference.student
    text = f"{number(row.difference.mean)} [{number(low)}, {number(high)}]"
    return f"**{text}**" if low > 0 or high < 0 else text


def _with_error(estimate: Estimate | None) -> str:
    if estimate is None:
        return UNKNOWN
    return f"{number(estimate.mean)} ± {number(estimate.stderr)}"


_COLUMNS: dict[str, Callable[[Row], str]] = {
    "problem": lambda row: row.problem + " \\*" * row.is_shown,
    "method": lambda row: method_name(row.method),
    "seeds": lambda row: str(row.seeds),
    "episodes": lambda row: str(row.episodes),
    "regret": lambda row: _with_error(row.regret),
    "minus SOMBRL's, 95 % t": _interval,
    "of J\\*, last ten": lambda row: percent(row.reached),
    "coverage before, after": lambda row: ", ".join(map(percent, row.coverage)),
    "model error": lambda row: number(row.model_error),
    "error, common test set": lambda row: _with_error(row.test_error),
    "core time": lambda row: duration(row.seconds),
}


def named_rows(names: str) -> list[Row]:
    """Return the rows of what a page names: archives of records, or tasks of them."""
    rows = []
    for name in names.split():
        archive, _, task = name.partition(":")
        found = rows_of(RECORDS / f"{archive}.tar.gz")
        rows += [row for row in found if task in ("", row.problem.split(" ")[0])]
    return rows


def named_table(names: str) -> str:
    """Return the table that a page names."""
    if not names.endswith(".json"):
        return table(named_rows(names))
    archive, _, file = names.partition("/")
    return table_of_means(RECORDS / f"{archive}.tar.gz", file)


def updated(page: str) -> str:
    """Return a page whose tables are those of the records."""
    fill = lambda found: f"{found[1]}\n{named_table(found[2])}\n{found[3]}"
    return _MARKED.sub(fill, page)


# ---- the figure ----------------------------------------------------------------------


def at_a_glance(rows: Sequence[Row]) -> Figure:
    """Draw each method's regret from the onset on relative to SOMBRL's, on one axis.

    Bars are 95 % t intervals of the difference, paired by seed, over SOMBRL's mean;
    where they hold 0 the mark is hollow.
    """
    problems = list(dict.fromkeys(row.problem for row in rows))
    base = {row.problem: row.regret.mean for row in rows if row.method == "sombrl"}
    compared = [row for row in rows if row.difference is not None]
    styles = method_styles(sorted({row.method for row in compared}, key=_reading_order))
    with printed_style():
        height = 0.9 + 0.3 * len(problems)
        figure = Figure(figsize=(PAGE_INCHES, height), layout="constrained")
        axes = figure.subplots()
        for place, (method, style) in enumerate(styles.items()):
            look: Any = {"color": style.colour, "marker": "oDs^v"[place], "ms": 4}
            shift = _SPREAD * (place - (len(styles) - 1) / 2)
            axes.plot([], [], ls="", label=style.name, **look)
            for row in compared:
                if row.method == method:
                    y = problems.index(row.problem) + shift
                    _draw_difference(axes, row, base[row.problem], y, look)
        axes.axvline(0.0, color=INK, linewidth=0.9)
        ends = [
            103.0 * row.difference.student.high / base[row.problem]
            for row in rows
            if row.difference is not None
        ]
        axes.set_xlim(-100.0, max(25.0, *ends))
        axes.set_ylim(len(problems) - 0.5, -0.5)
        axes.set_yticks(range(len(problems)), [_label(one, rows) for one in problems])
        axes.tick_params(axis="y", length=0)
        axes.xaxis.set_major_formatter(PercentFormatter(decimals=0))
        axes.set_xlabel("Regret from the onset of the drift on, relative to SOMBRL's")
        axes.grid(axis="y", visible=False)
        for edge in range(1, len(problems)):
            axes.axhline(edge - 0.5, color=MUTED, linewidth=0.3)
        for x, text in ((-100.0, "optimum"), (0.0, "SOMBRL")):
            place: Any = {"xycoords": axes.get_xaxis_transform(), "va": "bottom"}
            axes.annotate(text, (x, 1.01), color=MUTED, ha="center", **place)
        figure.legend(loc="outside upper center", ncols=len(styles))
    return figure


def _draw_difference(axes: Axes, row: Row, base: float, y: float, look: Any) -> None:
    """Draw a difference in % of SOMBRL's regret."""
    assert row.difference is not None
    ends = (row.difference.mean, *row.difference.student)
    mean, low, high = (100.0 * end / base for end in ends)
    face = "white" if low < 0 < high else look["color"]
    axes.plot([low, high], [y, y], color=look["color"], lw=1.2, zorder=2)
    axes.plot([mean], [y], markerfacecolor=face, zorder=3, clip_on=False, **look)


def _label(problem: str, rows: Sequence[Row]) -> str:
    own = [row for row in rows if row.problem == problem]
    task, _, variant = problem.partition(" ")
    name = ", ".join(filter(None, [_NAMES.get(task, task), problem_name(variant)]))
    counts = sorted({row.seeds for row in own})
    seeds = f"{' to '.join(map(str, counts))} seeds"
    return f"{name}{'*' * own[0].is_shown}, {seeds}"


def _reading_order(method: str) -> tuple[bool, str]:
    """Put the paper's methods before others."""
    return not method.endswith("ombrl"), method


def main(words: Sequence[str] | None = None) -> None:
    """Print tables, update pages, or draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("paths", type=Path, nargs="+", help="records, or pages")
    parser.add_argument("--write", action="store_true", help="update tables of pages")
    parser.add_argument("--figure", type=Path, help="draw to this file instead")
    asked = parser.parse_args(words)
    warnings.simplefilter("ignore", UserWarning)
    if asked.write:
        for path in asked.paths:
            if (text := path.read_text()) != updated(text):
                path.write_text(updated(text))
                print(f"Updated: {path}")
        return
    rows = [row for path in asked.paths for row in rows_of(path)]
    if asked.figure:
        with printed_style():
            at_a_glance(rows).savefig(asked.figure, dpi=200)
    else:
        print(table(rows), end="")


if __name__ == "__main__":
    main()
