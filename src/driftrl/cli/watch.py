"""``driftrl watch``: what is running, how far, how well."""

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from driftrl.cli.options import parse, print_json, warn
from driftrl.cli.progress import STATES, duration, number, study_summary
from driftrl.config.run import EnvironmentConfig
from driftrl.config.toml import from_dict
from driftrl.engines.progress import (
    RunProgress,
    planned_runs,
    read_progress,
    study_seconds_left,
)
from driftrl.errors import DriftrlError, InputError, positive
from driftrl.presets.tasks import TASKS

_STYLES = {"failed": "red", "running": "bold", "waiting": "dim", "finished": "green"}
_COLUMNS = ("run", "state", "episode", "θ", "return", "J*", "s/episode", "left")


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
        console.print(_screen(runs))
    else:
        # What does not fit the terminal is cut at the end.
        with Live(_screen(runs), console=console, auto_refresh=False) as live:
            try:
                while not all(run.state in ("finished", "failed") for run in runs):
                    time.sleep(arguments.every)
                    runs = read_progress(directory, planned)
                    live.update(_screen(runs), refresh=True)
            except KeyboardInterrupt:
                pass
    return 1 if any(run.state == "failed" for run in runs) else 0


def _screen(runs: Sequence[RunProgress]) -> Group:
    """Return a summary, the reasons of failures, and a table with failures first."""
    ordered = sorted(runs, key=lambda run: STATES.index(run.state))
    failures = [
        f"Failed: {run.name}: {run.error or 'it printed nothing.'}"
        for run in ordered
        if run.state == "failed"
    ]
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column in _COLUMNS:
        # In a narrow terminal names are broken, numbers and states are not.
        table.add_column(column, no_wrap=column != "run", overflow="fold")
    for run in ordered:
        table.add_row(*_cells(run), style=_STYLES.get(run.state))
    return Group(Text("\n".join([study_summary(runs), *failures, ""])), table)


def _cells(run: RunProgress) -> list[str]:
    state = run.state
    if run.job is not None and state != "finished":
        state = f"{run.job['engine']} {run.job['state'].lower()}"
    left = run.seconds_left if run.state not in ("finished", "failed") else None
    return [
        run.name,
        state,
        f"{run.episodes}/{'?' if run.planned is None else run.planned}",
        number(run.theta, ".3f"),
        number(run.last_return, ".1f"),
        number(_optimum(run), ".1f"),
        number(run.seconds, ".2f"),
        "–" if left is None else duration(left),
    ]


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


def _document(directory: Path, runs: Sequence[RunProgress]) -> dict[str, Any]:
    rows = []
    for run in runs:
        row = asdict(run) | {"planned": run.planned, "seconds_left": run.seconds_left}
        del row["config"]
        rows.append(row | {"optimum": _optimum(run)})
    left = study_seconds_left(runs)
    return {"directory": str(directory), "seconds_left": left, "runs": rows}
