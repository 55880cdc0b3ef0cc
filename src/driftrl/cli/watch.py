"""``driftrl watch``: what is running, how far, how well."""

import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from driftrl.cli.options import LEAST_WIDTH, plain_table, print_json, warn
from driftrl.cli.progress import STATES, duration, number, study_summary
from driftrl.engines.progress import RunProgress, read_progress, study_seconds_left
from driftrl.errors import DriftrlError
from driftrl.training.study import read_study

_EVERY_SECONDS = 2.0
_STYLES = {"failed": "red", "running": "bold", "waiting": "dim", "finished": "green"}


def main(
    directory: Annotated[Path, tyro.conf.Positional],
    *,
    once: bool = False,
    json: bool = False,
) -> int:
    """Show how far the runs of a study are, how well they do, and what failed.

    Ends when all have ended; Ctrl-C ends the display, not the runs.

    Args:
        directory: Directory of a study or of a single run.
        once: Print one table and end, as without a terminal.
        json: Print one JSON document and end.
    """
    planned = ()
    study = directory / "study.toml"
    try:
        planned = read_study(study).runs() if study.is_file() else ()
    except DriftrlError as error:
        warn(f"only runs that have begun are shown: {error}")
    runs = read_progress(directory, planned)
    console = Console(highlight=False)
    if json:
        rows = [asdict(run) | {"seconds_left": run.seconds_left} for run in runs]
        print_json({"seconds_left": study_seconds_left(runs), "runs": rows})
    elif once or not console.is_terminal:
        console.width = max(console.width, LEAST_WIDTH)
        console.print(_screen(runs))
    else:
        # What does not fit the terminal is cut at the end.
        with Live(_screen(runs), console=console, auto_refresh=False) as live:
            try:
                while not all(run.state in ("finished", "failed") for run in runs):
                    time.sleep(_EVERY_SECONDS)
                    runs = read_progress(directory, planned)
                    live.update(_screen(runs), refresh=True)
            except KeyboardInterrupt:
                pass
    return 1 if any(run.state == "failed" for run in runs) else 0


def _screen(runs: Sequence[RunProgress]) -> Group:
    """Return a summary, the reasons of failures, and a table with failures first."""
    ordered = sorted(runs, key=lambda run: STATES.index(run.state))
    lines = [study_summary(runs)]
    lines += [f"Failed: {run.name}: {run.error}" for run in ordered if run.error]
    columns = ("run", "state", "episode", "θ", "return", "data", "s/episode", "left")
    table = plain_table(columns, map(_cells, ordered))
    for row, run in zip(table.rows, ordered, strict=True):
        row.style = _STYLES.get(run.state)
    for column in table.columns[1:]:  # in a narrow terminal only names are broken
        column.no_wrap = True
    return Group(Text("\n".join([*lines, ""])), table)


def _data(run: RunProgress) -> str:
    """Return from which episode on data are learned from, and any located change."""
    if run.first_retained is None:
        return "–"
    changed = f", changed at {run.last_change}" if (run.last_change or 1) > 1 else ""
    return f"from {run.first_retained}{changed}"


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
        _data(run),
        number(run.seconds, ".2f"),
        "–" if left is None else duration(left),
    ]
