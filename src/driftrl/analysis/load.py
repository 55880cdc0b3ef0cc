"""Recorded runs as one polars frame: a row per episode, with J*(θ) and the regret.

Runs that share task, environment and drift face the same *problem*; only those can be
compared.  Anything else that differs between two runs is part of their method.
"""

import json
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars

from driftrl.analysis.style import first_few, natural_key
from driftrl.errors import DriftrlError, counted, require
from driftrl.oracles.table import Oracle, Progress, optimal_returns_of_runs
from driftrl.records import (
    BESIDE_SETTINGS,
    COLUMNS,
    CONFIG_FILE,
    RECORDS_FILE,
    Run,
    load_run,
    run_directories,
)

_SYSTEM = (
    *("task", "environment", "drift", "extra_drifts", "clock", "drift_every"),
    *("continuing", "recovery", "event_cost"),
)
_NOT_SETTINGS = {"task", "method", "seed", "variant", *BESIDE_SETTINGS}
_POLARS_TYPE: dict[Any, Any] = {
    int: polars.Int64,
    int | None: polars.Int64,
    bool: polars.Boolean,
    tuple[float, ...] | None: polars.List(polars.Float64),
}


@dataclass(frozen=True)
class Results:
    """A frame, and what it cannot hold: configurations, notes, origin of J*."""

    frame: polars.DataFrame
    runs: tuple[Run, ...]
    """In the order of the frame; also runs without an episode."""
    notes: tuple[str, ...] = ()
    """A sentence for each run that was left out, and for anything else unusual."""
    oracles: Mapping[str, str] = field(default_factory=dict)
    """How J* of each problem was obtained, or why it is unknown."""
    not_started: tuple[str, ...] = ()
    """Problems without a recorded episode."""


def load(
    paths: str | Path | Iterable[str | Path], *, oracle: Oracle | None = None
) -> polars.DataFrame:
    """Read recorded runs into a frame with one row per episode.

    Damaged runs are left out with a warning; unfinished ones have the rows so far.

    Args:
        paths: Directory of a run or of a study, or several of them.
        oracle: J*(θ) as a function, ``"module:function"`` or CSV file (columns theta
            and value).  By default the package's oracle, which computes what is not
            in its tables and may take long; ``"stored"`` computes nothing and takes the
            best return that a run has achieved instead; ``"none"`` leaves J* out.

    Returns:
        The columns study, problem, task, method (with its variant), variant, seed, run
        and directory; then those of ``EpisodeRecord``; achieved_return (evaluated
        where the run did, else executed), optimal_return (J*, null where unknown) with
        its error and standard deviation, regret and cumulative_regret; then every
        setting that differs between the runs, under its dotted name.
    """
    results = read_results(paths, oracle=oracle, progress=_announce)
    for note in results.notes:
        warnings.warn(note, stacklevel=2)
    return results.frame


def _announce(done: int, total: int) -> None:
    if done == 0 and total:
        warnings.warn(
            f"J*(θ) is being computed at {total} values of θ, which may take minutes; "
            "oracle='none' reads the returns alone.",
            stacklevel=2,
        )


def read_results(
    paths: str | Path | Iterable[str | Path],
    *,
    oracle: Oracle | None = None,
    progress: Progress | None = None,
) -> Results:
    """Like ``load``, but return the notes and configurations beside the frame."""
    if isinstance(paths, str | Path):
        paths = [paths]
    directories = [Path(path) for path in paths]
    require(bool(directories), "Name at least one directory of a run or a study.")
    runs: list[_Loaded] = []
    notes: list[str] = []
    for name, directory in study_names(directories).items():
        found, remarks = _read_directory(directory)
        runs += [_Loaded(run, name) for run in found]
        several = len(directories) > 1
        notes += [f"{name}: {note}" if several else note for note in remarks]
    notes += _version_notes([loaded.run for loaded in runs])
    runs = _with_problems(runs)
    started = {loaded.problem for loaded in runs if loaded.run.records}
    named = ", ".join(map(str, directories))
    require(bool(started), f"No run in {named} has recorded an episode yet.")
    frame, origins = _with_optimum(_frame(runs), runs, oracle, progress)
    known = dict.fromkeys(loaded.problem for loaded in runs)
    return Results(
        frame=frame,
        runs=tuple(loaded.run for loaded in runs),
        notes=tuple(notes),
        oracles=origins,
        not_started=tuple(problem for problem in known if problem not in started),
    )


# Reading directories.


def study_names(directories: Sequence[Path]) -> dict[str, Path]:
    """Name each directory by its last parts, as many as make the names unique."""
    whole = {path.resolve(): path for path in directories}
    require(
        len(whole) == len(directories), "A directory is named twice. Name each once."
    )
    names = {path: path.name for path in whole}
    for length in range(2, max(len(path.parts) for path in whole) + 1):
        counts = Counter(names.values())
        names |= {
            path: "/".join(path.parts[-length:])
            for path, name in names.items()
            if counts[name] > 1
        }
    return {names[path]: directory for path, directory in whole.items()}


def _read_directory(directory: Path) -> tuple[list[Run], list[str]]:
    """Return the runs that can be read, and a note on each that cannot."""
    places = run_directories(directory)
    if places == [directory]:
        return [load_run(directory)], []
    recorded = {path.parent.name for path in directory.glob(f"*/{RECORDS_FILE}")}
    begun = {place.name for place in places}
    reasons = dict.fromkeys(recorded - begun, f"no {CONFIG_FILE}")
    runs = []
    for place in places:
        try:
            runs.append(load_run(place))
        except DriftrlError as error:
            reasons[place.name] = str(error).rstrip(".")
    notes = [f"Left out: {name}: {reasons[name]}." for name in sorted(reasons)]
    require(bool(runs), f"No run in {directory} can be read. {' '.join(notes)}")
    return runs, notes


def _version_notes(runs: Sequence[Run]) -> list[str]:
    from driftrl import __version__

    versions = Counter(
        run.config.get("versions", {}).get("driftrl", __version__) for run in runs
    )
    if set(versions) <= {__version__}:
        return []
    counts = [f"{version} ({counted(n, 'run')})" for version, n in versions.items()]
    return [
        f"This is driftrl {__version__}; the runs were made by "
        f"{', '.join(first_few(counts))}. Numbers of different versions may not be "
        "comparable."
    ]


# Problems.


@dataclass(frozen=True)
class _Loaded:
    run: Run
    study: str
    method: str = ""
    problem: str = ""


def _with_problems(runs: Sequence[_Loaded]) -> list[_Loaded]:
    """Label each run's problem and name its method, in the order of the frame.

    Where each problem of a task has a variant of its own, the variant names the
    problem and is no part of the method's name.  Otherwise the label lists the
    settings in which problems differ.  On a problem that several studies share, the
    study is part of the method's name.
    """
    systems = {_system(loaded.run): loaded.run.config for loaded in runs}
    columns = [
        (_system(one.run), one.run.task, one.study, one.run.variant) for one in runs
    ]
    system, study, variant = map(polars.col, ("system", "study", "variant"))
    table = polars.DataFrame(
        columns, schema=["system", "task", "study", "variant"], orient="row"
    ).with_columns(
        names_problem=(len(systems) > 1)
        & (variant.n_unique().over("system", "study") == 1)
        & (system.n_unique().over("study", "task", "variant") == 1),
        is_shared=study.n_unique().over("system") > 1,
    )
    task = polars.concat_str("task", "variant", separator=" ").str.strip_chars_end()
    own = table.group_by("system", maintain_order=True).agg(
        is_named=(variant.n_unique() == 1) & polars.col("names_problem").all(),
        label=(task if table["task"].n_unique() > 1 else variant).first(),
    )
    labels = dict(own.select("system", "label").iter_rows())
    if len(systems) == 1:
        labels = dict(table.select("system", "task").iter_rows())
    elif not own["is_named"].all() or len({*labels.values()} - {""}) < len(systems):
        labels = _descriptions(systems)
    named = []
    for loaded, row in zip(runs, table.iter_rows(named=True), strict=True):
        parts = [loaded.study] * row["is_shared"]
        parts += [] if row["names_problem"] else [row["variant"]]
        suffix = ", ".join(filter(None, parts))
        method = f"{loaded.run.config['method']} {suffix}".strip()
        named.append(replace(loaded, method=method, problem=labels[row["system"]]))
    studies = list(dict.fromkeys(loaded.study for loaded in runs))
    return sorted(
        named,
        key=lambda one: (
            natural_key(one.problem),
            studies.index(one.study),
            natural_key(one.method),
            one.run.seed,
        ),
    )


def _system(run: Run) -> str:
    """Return everything that two runs must share to be comparable."""
    # Settings that did not exist yet are those that are off.
    table = {section: run.config.get(section) or None for section in _SYSTEM}
    if not table["continuing"]:
        table["recovery"] = None
    return json.dumps(table, sort_keys=True, default=str)


def _descriptions(configs: Mapping[str, Mapping[str, Any]]) -> dict[str, str]:
    """Describe each problem by the settings in which any two of them differ."""
    flat = {
        key: flattened({section: config.get(section, {}) for section in _SYSTEM})
        for key, config in configs.items()
    }
    names = dict.fromkeys(name for settings in flat.values() for name in settings)
    differ = [
        name
        for name in names
        if len({str(settings.get(name)) for settings in flat.values()}) > 1
    ]
    short = {name: name.rpartition(".")[2].replace("_", " ") for name in differ}
    return {
        key: ", ".join(
            [f"{short[name]} = {settings[name]}" for name in differ if name in settings]
            or [f"no {short[name]}" for name in differ]
        )
        for key, settings in flat.items()
    }


def flattened(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return nested tables as one, with dotted keys."""
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, Mapping):
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


# The frame.


_SCHEMA: dict[str, Any] = {
    **dict.fromkeys(("study", "problem", "task", "method", "variant"), polars.String),
    **{"seed": polars.Int64, "run": polars.String, "directory": polars.String},
    **{name: _POLARS_TYPE.get(kind, polars.Float64) for name, kind in COLUMNS.items()},
}


def _frame(runs: Sequence[_Loaded]) -> polars.DataFrame:
    rows = []
    for loaded in runs:
        run, path = loaded.run, loaded.run.directory.resolve()
        names = (loaded.study, loaded.problem, run.task, loaded.method, run.variant)
        known = (*names, run.seed, path.name, str(path))
        for record in run.records:
            rows.append((*known, *(getattr(record, name) for name in COLUMNS)))
    frame = polars.DataFrame(rows, schema=_SCHEMA, orient="row")
    achieved = polars.coalesce("return_eval", "return_executed")
    paths = [one.run.directory for one in runs if one.run.config.get("continuing")]
    if paths:
        in_segments = polars.col("directory").is_in([str(p.resolve()) for p in paths])
        unit = polars.when(in_segments).then(polars.lit("segment"))
        frame = frame.with_columns(unit=unit.otherwise(polars.lit("episode")))
    return frame.with_columns(
        polars.selectors.float().fill_nan(None), achieved_return=achieved.fill_nan(None)
    ).join(_settings(runs), on="directory", how="left", maintain_order="left")


def _settings(runs: Sequence[_Loaded]) -> polars.DataFrame:
    """Return the settings that differ between the runs, one row per run."""
    tables = [flattened(loaded.run.config) for loaded in runs]
    columns: dict[str, Any] = {
        "directory": [str(loaded.run.directory.resolve()) for loaded in runs]
    }
    for name in dict.fromkeys(name for table in tables for name in table):
        values = [table.get(name) for table in tables]
        if name.split(".")[0] in _NOT_SETTINGS or len(set(map(str, values))) == 1:
            continue
        kinds = {type(value) for value in values if value is not None}
        if kinds == {int, float}:
            values = [None if value is None else float(value) for value in values]
        elif len(kinds) > 1 or not kinds <= {int, float, bool, str}:
            values = [None if value is None else str(value) for value in values]
        columns[name] = values
    return polars.DataFrame(columns)


# J*(θ).


def _with_optimum(
    frame: polars.DataFrame,
    runs: Sequence[_Loaded],
    oracle: Oracle | None,
    progress: Progress | None,
) -> tuple[polars.DataFrame, dict[str, str]]:
    """Add J*, null where it is unknown, and the regret; return also J*'s origins."""
    added = [f"optimal_{name}" for name in ("return", "error", "std")]
    numbers = np.full((3, len(frame)), np.nan)
    problems, thetas = frame["problem"].to_numpy(), frame["theta"].to_numpy()
    steps = polars.col("steps")
    clocks = frame.select(steps.cum_sum().over("directory") - steps)["steps"].to_numpy()
    lengths = frame["steps"].to_numpy()
    everyone, origins = [loaded.run for loaded in runs], {}
    for problem in frame["problem"].unique(maintain_order=True):
        if oracle == "none":
            origins[problem] = "J* was not asked for."
            continue
        table = optimal_returns_of_runs(
            [loaded.run for loaded in runs if loaded.problem == problem],
            oracle=oracle,
            others=everyone,
            progress=progress,
        )
        origins[problem] = table.provenance
        if table.entries:
            rows = problems == problem
            places = clocks if table.by_clock else thetas
            optima = [table.lookup(place) for place in places[rows].tolist()]
            found = np.array([(one.value, one.error, one.std) for one in optima]).T
            numbers[:, rows] = (lengths[rows] if table.per_step else 1.0) * found
    regret = polars.col("optimal_return") - polars.col("achieved_return")
    total = polars.col("regret").cum_sum().over("directory")
    frame = frame.with_columns(
        polars.Series(name, values).fill_nan(None)
        for name, values in zip(added, numbers, strict=True)
    )
    frame = frame.with_columns(regret=regret).with_columns(cumulative_regret=total)
    front = [*_SCHEMA, "achieved_return", *added, "regret", "cumulative_regret"]
    return frame.select(*front, polars.exclude(front)), origins
