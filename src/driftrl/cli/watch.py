"""``driftrl watch``: what is running, how far, how well."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from driftrl.cli.options import parse, print_json, warn
from driftrl.cli.progress import duration, number
from driftrl.config.run import EnvironmentConfig
from driftrl.config.toml import from_dict
from driftrl.engines.progress import (
    RunProgress,
    State,
    planned_runs,
    read_progress,
    study_seconds_left,
)
from driftrl.errors import DriftrlError, InputError, positive
from driftrl.presets.tasks import TASKS

_ORDER: tuple[State, ...] = ("failed", "running", "stopped", "waiting", "finished")
_DISPENSABLE = ("s/episode", "left", "θ", "J*", "return", "episode")  # in this order
_MIN_NAME = 20  # cells for names; columns are left out before names get shorter
_STYLES = {"failed": "red", "running": "bold", "waiting": "dim", "finished": "green"}
_MAX_FAILURES = 5  # whose reason is shown in a refreshed table


@dataclass(frozen=True)
class Arguments:
    """What to watch, and how."""

    directory: Annotated[Path, tyro.conf.Positional]
    """Directory of a study or of a single run."""
    once: bool = False
    """Print one table and end, as without a terminal."""
    json: bool = False
    """Print one JSON document and end."""
    every: float = 2.0
    """Seconds between two looks."""


def main(argv: list[str]) -> int:
    """Show how far runs are until all have ended; 1 if one has failed."""
    summary = (
        "Show how far the runs of a study are, how well they do, and what failed. "
        "Ends when all have ended; Ctrl-C ends the display, not the runs."
    )
    arguments = parse(Arguments, argv, "watch", summary)
    positive("--every", arguments.every)
    directory, planned = arguments.directory, {}
    try:
        planned = planned_runs(directory)
    except DriftrlError as error:
        warn(f"only runs that have begun are shown: {error}")
    runs = read_progress(directory, planned)
    console = Console(highlight=False)
    if arguments.json:
        print_json(_document(directory, runs))
    elif arguments.once or not console.is_terminal:
        console.width = max(console.width, 132)
        console.print(_table(runs, console.width))
        console.print(
            "\n" + "\n".join([_summary(runs), *_failures(runs)]), soft_wrap=True
        )
    else:
        with Live(_screen(runs, console), console=console, auto_refresh=False) as live:
            try:
                while not _all_ended(runs):
                    time.sleep(arguments.every)
                    runs = read_progress(directory, planned)
                    live.update(_screen(runs, console), refresh=True)
            except KeyboardInterrupt:
                pass
    return 1 if any(run.state == "failed" for run in runs) else 0


def _all_ended(runs: Sequence[RunProgress]) -> bool:
    return all(run.state in ("finished", "failed") for run in runs)


def _screen(runs: Sequence[RunProgress], console: Console) -> RenderableType:
    """Return as much of the table as fits the terminal, failures first."""
    failures = _failures(runs)
    if (more := len(failures) - _MAX_FAILURES) > 0:
        failures[_MAX_FAILURES:] = [f"… and {more} more failures"]
    summary = Text(_summary(runs)).wrap(console, console.width)
    room = max(3, console.height - 5 - len(failures) - len(summary))
    ordered = sorted(runs, key=lambda run: _ORDER.index(run.state))
    hidden = len(ordered) - room
    below = [f"… and {hidden} more runs; --once shows all"] if hidden > 0 else []
    lines = [*below, "", *map(str, summary), *failures]
    text = Text("\n".join(lines), overflow="ellipsis", no_wrap=True)
    return Group(_table(ordered[:room], console.width), text)


def _table(runs: Sequence[RunProgress], width: int) -> Table:
    """Return a table that fits the width, with every number and state complete.

    Names are shortened in the middle; if they would get too short, columns are left
    out, the least important first.
    """
    rows = [_cells(run) for run in runs]
    widths = {
        column: max(cell_len(cell) for cell in (column, *(row[column] for row in rows)))
        for column in rows[0]
    }
    name_width = widths.pop("run")
    for column in _DISPENSABLE:
        if width - sum(widths.values()) - 2 * len(widths) >= min(_MIN_NAME, name_width):
            break
        del widths[column]
    room = max(2, width - sum(widths.values()) - 2 * len(widths))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("run", *widths):
        table.add_column(column, no_wrap=True)
    for run, row in zip(runs, rows, strict=True):
        cells = [_shortened(run.name, room), *(row[column] for column in widths)]
        table.add_row(*cells, style=_STYLES.get(run.state))
    return table


def _shortened(name: str, length: int) -> str:
    """Return a name without its middle: method and seed stand at its end."""
    if len(name) <= length:
        return name
    begin = (length - 1) // 3
    return f"{name[:begin]}…{name[len(name) - (length - 1 - begin) :]}"


def _cells(run: RunProgress) -> dict[str, str]:
    state = run.state
    if run.job is not None and state != "finished":
        state = f"{run.job.engine} {run.job.state.lower()}"
    left = run.seconds_left if run.state not in ("finished", "failed") else None
    return {
        "run": run.name,
        "state": state,
        "episode": f"{run.episodes}/{'?' if run.planned is None else run.planned}",
        "θ": number(run.theta, ".3f"),
        "return": number(run.last_return, ".1f"),
        "J*": number(_optimum(run), ".1f"),
        "s/episode": number(run.seconds, ".2f"),
        "left": "–" if left is None else duration(left),
    }


def _optimum(run: RunProgress) -> float | None:
    """Return J* at the run's newest θ, if no training is needed to know it."""
    if run.theta is None or run.task not in TASKS or run.config.get("extra_drifts"):
        return None
    from driftrl.oracles import known_optimal_return

    try:
        environment = from_dict(EnvironmentConfig, run.config["environment"])
    except InputError:  # settings of another version
        return None
    return known_optimal_return(run.task, run.theta, environment)


def _summary(runs: Sequence[RunProgress]) -> str:
    """Return how many runs are how far, and how long the rest will take."""
    counts = {state: sum(run.state == state for run in runs) for state in _ORDER}
    parts = [f"{count} {state}" for state, count in reversed(counts.items()) if count]
    done = sum(run.episodes for run in runs)
    total = sum(run.planned or run.episodes for run in runs)
    left, end = study_seconds_left(runs), ""
    if not _all_ended(runs):
        end = "; unknown time left" if left is None else f"; {duration(left)} left"
        end = end if counts["running"] else "; nothing is running"
    return f"{', '.join(parts)}; {done} of {total} episodes{end}"


def _failures(runs: Sequence[RunProgress]) -> list[str]:
    return [
        f"Failed: {run.name}: {run.error or 'it printed nothing.'}"
        for run in runs
        if run.state == "failed"
    ]


def _document(directory: Path, runs: Sequence[RunProgress]) -> dict[str, Any]:
    rows = [asdict(run) for run in runs]
    for row, run in zip(rows, runs, strict=True):
        del row["config"]
        row |= {"planned": run.planned, "optimum": _optimum(run)}
        row["seconds_left"] = run.seconds_left
    left = study_seconds_left(runs)
    return {"directory": str(directory), "seconds_left": left, "runs": rows}
