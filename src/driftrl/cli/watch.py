"""``driftrl watch``: what is running, how far, how well."""

import math
import os
import sys
import textwrap
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from driftrl.cli.options import parse, print_json, print_table
from driftrl.cli.progress import duration
from driftrl.config.run import EnvironmentConfig
from driftrl.config.toml import from_dict, read_toml, to_dict, toml_text
from driftrl.errors import DriftrlError, InputError, positive, require
from driftrl.presets.tasks import TASKS
from driftrl.records import CONFIG_FILE
from driftrl.results.progress import RunProgress, State, Watcher, study_seconds_left
from driftrl.training.calibration_study import is_calibration_study
from driftrl.training.study import read_study

_ORDER: tuple[State, ...] = ("failed", "running", "stopped", "waiting", "finished")
_COLUMNS = ("run", "state", "episode", "θ", "return", "J*", "s/episode", "left")
_DISPENSABLE = ("s/episode", "left", "θ", "J*", "return", "episode")  # these first
_LEAST_NAME = 20  # cells for names, before a column is left out for them
_STYLES = {"failed": "red", "running": "bold", "waiting": "dim", "finished": "green"}
_COMPARED = 10  # runs whose settings tell with which preset a study was begun
_SAID = 5  # failures whose reason is shown while the table is refreshed
_ROOM = 6  # lines of a terminal that are not rows of the table


@dataclass(frozen=True)
class Arguments:
    """What to watch, and how."""

    directory: Annotated[Path, tyro.conf.Positional]
    """Directory of a study or of a single run."""
    once: bool = False
    """Print one table and end, as where there is no terminal."""
    json: bool = False
    """Print one JSON document and end."""
    every: float = 2.0
    """Seconds between two looks."""


def main(argv: list[str]) -> int:
    """Show how far runs are until all have ended; 1 if one has failed."""
    summary = (
        "Show how far the runs of a study are, how well they do, and what failed. "
        "Ends when all have ended; Ctrl-C leaves them alone."
    )
    arguments = parse(Arguments, argv, "watch", summary)
    positive("--every", arguments.every)
    watcher = Watcher(arguments.directory, planned_runs(arguments.directory))
    optima = _Optima()
    console = Console(highlight=False)
    if arguments.json:
        runs = watcher.look()
        print_json(_document(arguments.directory, runs, optima))
    elif arguments.once or not console.is_terminal:
        runs = watcher.look()
        print_table(_COLUMNS, [_cells(run, optima) for run in runs])
        print("\n" + "\n".join([_summary(runs), *_failures(runs)]))
    else:
        runs = _refreshed(watcher, optima, console, arguments.every)
    return 1 if any(run.state == "failed" for run in runs) else 0


def planned_runs(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the configurations of the runs that a study in a directory will have.

    A study may have been begun with another preset than its own: it is the one with
    which most of the runs agree that have begun.
    """
    path = directory / "study.toml"
    if (directory / CONFIG_FILE).is_file() or not path.is_file():
        return {}
    table = read_toml(path)
    require(
        not is_calibration_study(table),
        f"{directory} holds a study of calibration, which has draws and no runs; "
        "`driftrl study` shows how far it is.",
    )
    try:
        plans = [
            {run.name: to_dict(run) for run in read_study(path, preset).runs()}
            for preset in (None, *table.get("presets", {}))
        ]
    except DriftrlError as error:
        said = f"runs that have not begun are not shown: {error}"
        print(f"driftrl: {said}", file=sys.stderr)
        return {}
    begun = [name for name in plans[0] if (directory / name / CONFIG_FILE).is_file()]
    stored = {name: directory / name / CONFIG_FILE for name in begun[:_COMPARED]}
    return max(plans, key=lambda plan: _agreeing(plan, stored))


def _agreeing(plan: Mapping[str, dict[str, Any]], stored: Mapping[str, Path]) -> int:
    """Return how many of the stored configurations are as planned."""
    agreeing = 0
    for name, path in stored.items():
        found = read_toml(path)
        # As it would be stored: without what is None, and with lists for tuples.
        wanted = tomllib.loads(toml_text(plan[name]))
        agreeing += all(found.get(key) == value for key, value in wanted.items())
    return agreeing


class _Optima:
    """J*(θ) for runs, where a table is there that needs no training."""

    def __init__(self) -> None:
        self._environments: dict[str, EnvironmentConfig | None] = {}

    def of(self, run: RunProgress) -> float | None:
        """Return J* at the run's newest θ, if it is known."""
        if run.theta is None or run.task not in TASKS or run.config.get("extra_drifts"):
            return None
        if run.name not in self._environments:
            self._environments[run.name] = _environment(run.config)
        environment = self._environments[run.name]
        if environment is None:
            return None
        from driftrl.oracles import known_optimal_return

        return known_optimal_return(run.task, run.theta, environment)


def _environment(config: Mapping[str, Any]) -> EnvironmentConfig | None:
    try:
        return from_dict(EnvironmentConfig, config.get("environment", {}))
    except InputError:  # of another version: the run is shown all the same
        return None


def _refreshed(
    watcher: Watcher, optima: _Optima, console: Console, every: float
) -> list[RunProgress]:
    """Show the runs again and again until all have ended, or the user has seen enough.

    Returns:
        The runs as they were last.
    """
    runs = watcher.look()
    shown = _screen(runs, optima, console)
    with Live(shown, console=console, auto_refresh=False) as live:
        try:
            while not _are_over(runs):
                time.sleep(every)
                runs = watcher.look()
                live.update(_screen(runs, optima, console), refresh=True)
        except KeyboardInterrupt:
            pass  # that is how one leaves; the runs don't notice
    return runs


def _are_over(runs: Sequence[RunProgress]) -> bool:
    return all(run.state in ("finished", "failed") for run in runs)


def _screen(
    runs: Sequence[RunProgress], optima: _Optima, console: Console
) -> RenderableType:
    """Return the table as far as the terminal has room, what needs a look first."""
    said = _failures(runs)
    more = [f"… and {len(said) - _SAID} more failures"] if len(said) > _SAID else []
    said = [*said[:_SAID], *more]
    summary = textwrap.wrap(_summary(runs), console.width)
    room = max(3, console.height - _ROOM - len(said) - len(summary) + 1)
    ordered = sorted(runs, key=lambda run: _ORDER.index(run.state))
    shown = ordered[:room]
    columns, rows = fitted([_cells(run, optima) for run in shown], console.width)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in columns:
        table.add_column(column, no_wrap=True)
    for run, row in zip(shown, rows, strict=True):
        table.add_row(*row, style=_STYLES.get(run.state))
    hidden = len(ordered) - room
    below = [f"… and {hidden} more runs; --once shows all"] if hidden > 0 else []
    lines = [*below, "", *summary, *said]
    return Group(table, Text("\n".join(lines), overflow="ellipsis", no_wrap=True))


def fitted(
    rows: Sequence[Sequence[str]], width: int
) -> tuple[list[str], list[list[str]]]:
    """Return columns and rows that fit a terminal, with every number and state whole.

    Names are shortened in the middle; where that leaves too little of them, columns
    are left out, the least important first.
    """
    widths = {
        column: max(cell_len(cell) for cell in (column, *(row[n] for row in rows)))
        for n, column in enumerate(_COLUMNS)
    }
    columns: list[str] = list(_COLUMNS)
    dispensable = list(_DISPENSABLE)

    def room() -> int:
        return width - sum(2 + widths[column] for column in columns[1:])

    while room() < min(_LEAST_NAME, widths["run"]) and dispensable:
        columns.remove(dispensable.pop(0))
    kept = [_COLUMNS.index(column) for column in columns[1:]]
    most = max(2, room())
    return columns, [
        [_shortened(row[0], most), *(row[n] for n in kept)] for row in rows
    ]


def _shortened(name: str, most: int) -> str:
    """Return a name with its middle left out: method and seed stand at its end."""
    if len(name) <= most:
        return name
    begin = (most - 1) // 3
    return f"{name[:begin]}…{name[len(name) - (most - 1 - begin) :]}"


def _cells(run: RunProgress, optima: _Optima) -> list[str]:
    planned = "?" if run.planned is None else str(run.planned)
    left = run.seconds_left if run.state not in ("finished", "failed") else None
    return [
        run.name,
        _state_in_words(run),
        f"{run.episodes}/{planned}",
        _number(run.theta, ".3f"),
        _number(run.achieved, ".1f"),
        _number(optima.of(run), ".1f"),
        _number(run.seconds, ".2f"),
        "–" if left is None else duration(left),
    ]


def _state_in_words(run: RunProgress) -> str:
    if run.job is None or run.state == "finished":
        return run.state
    return f"{run.job.engine} {run.job.state.lower()}"


def _number(value: float | None, form: str) -> str:
    return "–" if value is None or not math.isfinite(value) else format(value, form)


def _summary(runs: Sequence[RunProgress]) -> str:
    """Say in a line how many runs are how far, and how long the rest will take."""
    counts = {state: sum(run.state == state for run in runs) for state in _ORDER}
    many = [f"{count} {state}" for state, count in reversed(counts.items()) if count]
    done = sum(run.episodes for run in runs)
    total = sum(run.planned or run.episodes for run in runs)
    line = f"{', '.join(many)}; {done} of {total} episodes"
    if _are_over(runs):
        return line
    if not counts["running"]:
        return f"{line}; nothing is running"
    left = study_seconds_left(runs)
    told = "time left not known yet" if left is None else f"{duration(left)} left"
    return f"{line}; {told}"


def _failures(runs: Sequence[RunProgress]) -> list[str]:
    return [
        f"Failed: {run.name}: {run.error or 'it printed nothing.'}"
        for run in runs
        if run.state == "failed"
    ]


def _document(
    directory: Path, runs: Sequence[RunProgress], optima: _Optima
) -> dict[str, Any]:
    return {
        "directory": os.fspath(directory),
        "seconds_left": study_seconds_left(runs),
        "runs": [
            {
                "name": run.name,
                "state": run.state,
                "job": None if run.job is None else vars(run.job),
                "episodes": run.episodes,
                "planned": run.planned,
                "theta": run.theta,
                "return": run.achieved,
                "optimum": optima.of(run),
                "seconds_an_episode": run.seconds,
                "seconds_left": run.seconds_left,
                "error": run.error,
            }
            for run in runs
        ],
    }
