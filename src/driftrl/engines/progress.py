"""Read from their files how far runs are, without disturbing them.

Only the tail of a record is read, so that hundreds of runs with thousands of episodes
can be watched.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

from driftrl.config.run import RunConfig
from driftrl.config.toml import to_dict
from driftrl.engines.launcher import LOG, last_line
from driftrl.records import CONFIG_FILE, RECORDS_FILE, is_running, run_directories

State = Literal["running", "waiting", "stopped", "finished", "failed"]
"""A process runs it; not begun; begun but not running; done; ended by an error."""
JOB_FILE = "job.json"
"""In a run's directory: engine, id and last known state of its job on a cluster."""
_TAIL = 16_384  # bytes: some twenty rows
_RECENT = 5  # rows that tell how long an episode takes
# What the state of a cluster's job says about the run.
_JOB_STATES: dict[State, tuple[str, ...]] = {
    "running": ("RUNNING", "COMPLETING"),
    "waiting": ("PENDING", "CONFIGURING", "REQUEUED", "PREEMPTED", "SUSPENDED"),
    "failed": ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL"),
    "stopped": ("CANCELLED",),
}


@dataclass(frozen=True)
class RunProgress:
    """How far one run is, and how well it does."""

    name: str
    state: State
    config: Mapping[str, Any]
    """Contents of ``config.toml``, or of the study's plan."""
    episodes: int = 0
    """Recorded episodes."""
    theta: float | None = None
    """θ of the newest episode."""
    last_return: float | None = None
    """Its evaluated return, or the executed one without an evaluation."""
    seconds: float | None = None
    """Seconds of a recent episode."""
    job: Mapping[str, Any] | None = None
    """Contents of ``job.json``."""
    error: str = ""
    """Of a failed run: the last line it printed, or why its files can't be read."""

    @property
    def task(self) -> str:
        """Name of the task, empty if it is not known."""
        return str(self.config.get("task", ""))

    @property
    def planned(self) -> int | None:
        """Number of episodes that the finished run will have."""
        planned = self.config.get("episodes")
        return planned if isinstance(planned, int) else None

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the run is finished, at its recent pace."""
        if self.state == "finished":
            return 0.0
        if self.planned is None or self.seconds is None:
            return None
        return max(0, self.planned - self.episodes) * self.seconds


def planned_runs(directory: Path) -> dict[str, dict[str, Any]]:
    """Return the configurations of all runs of the study in a directory, by name."""
    from driftrl.training.study import read_study

    path = directory / "study.toml"
    if (directory / CONFIG_FILE).is_file() or not path.is_file():
        return {}
    return {run.name: to_dict(run) for run in read_study(path).runs()}


def read_progress(
    directory: Path, planned: Mapping[str, Mapping[str, Any]] | None = None
) -> list[RunProgress]:
    """Return how far a run, or the runs of a study, are: planned ones first, in order.

    ``planned`` are the configurations of the runs that the study will have, by name.
    """
    planned = planned or {}
    paths = {name: directory / name for name in planned}
    if not planned or any(directory.glob(f"*/{CONFIG_FILE}")):
        begun = sorted(path.resolve() for path in run_directories(directory))
        paths |= {path.name: path for path in begun}
    return [
        _read_run(path, name, planned.get(name, {})) for name, path in paths.items()
    ]


def study_seconds_left(runs: Sequence[RunProgress]) -> float | None:
    """Return the seconds until all runs are done, with as many at once as run now.

    A run without an episode is taken to be as fast as the others of its task.  None if
    nothing is running, or if no pace is known yet.
    """
    known = [run for run in runs if run.seconds is not None]
    left: dict[State, list[float]] = {"running": [], "waiting": [], "stopped": []}
    for run in runs:
        if run.state in left:
            alike = [other for other in known if other.task == run.task] or known
            pace = fmean([other.seconds or 0.0 for other in alike] or [0.0])
            seconds = run.seconds_left
            seconds = (run.planned or 0) * pace if seconds is None else seconds
            left[run.state].append(seconds)
    if not any(left.values()):
        return 0.0
    if not left["running"] or not known:
        return None
    return max(sum(map(sum, left.values())) / len(left["running"]), *left["running"])


@dataclass(frozen=True)
class Cost:
    """What the runs of a study take."""

    finished: int
    """Finished runs."""
    seconds: float
    """Time that the other runs take."""
    size: int
    """Bytes of all runs."""


def expected_cost(runs: Sequence[RunConfig], directory: Path, workers: int) -> Cost:
    """Estimate what runs of shipped tasks take, by the pace of those that have begun.

    ``directory`` is where they are, or will be; ``workers`` are runs at once.
    """
    from driftrl.training.speed import expected_bytes, expected_minutes, product_rate

    planned = {run.name: to_dict(run) for run in runs}
    progress = {run.name: run for run in read_progress(directory, planned)}
    rate, seconds = product_rate(), []
    for run in runs:
        begun = [other for other in progress.values() if other.task == run.task]
        paces = [other.seconds for other in begun if other.seconds]
        pace = fmean(paces or [60 * expected_minutes(run, rate) / run.episodes])
        seconds.append(max(0, run.episodes - progress[run.name].episodes) * pace)
    return Cost(
        finished=sum(run.state == "finished" for run in progress.values()),
        # Side by side, but no sooner than the longest run.
        seconds=max(sum(seconds) / workers, *seconds),
        size=sum(map(expected_bytes, runs)),
    )


def _read_run(path: Path, name: str, planned: Mapping[str, Any]) -> RunProgress:
    # The heartbeat first: a run that ends in between then counts as finished.
    is_active = is_running(path)
    config, error = (planned, "") if planned else _read_config(path / CONFIG_FILE)
    rows, damage = _read_rows(path / RECORDS_FILE)
    error = error or damage
    # A failed process prints why at its end; after a warning further episodes follow.
    if not error and _changed(path / LOG) >= _changed(path / RECORDS_FILE):
        error = last_line(_tail(path / LOG).decode(errors="replace"), "").strip()
    try:
        job = json.loads(_tail(path / JOB_FILE))
    except ValueError:
        job = None
    newest = rows[-1] if rows else {}
    episodes, goal = newest.get("episode", 0), config.get("episodes")
    if isinstance(goal, int) and episodes >= goal:
        state: State = "finished"
    elif is_active:
        state = "running"
    else:
        state = "failed" if error else "stopped" if episodes else "waiting"
        for of_run, of_job in _JOB_STATES.items():
            state = of_run if job and job["state"] in of_job else state
    evaluated = newest.get("return_eval")
    seconds = [row["wall_s"] for row in rows if row.get("wall_s") is not None]
    return RunProgress(
        name=name,
        state=state,
        config=config,
        episodes=episodes,
        theta=newest.get("theta"),
        last_return=newest.get("return_executed") if evaluated is None else evaluated,
        # The median: the machine may have been asleep during one episode.
        seconds=median(seconds) if seconds else None,
        job=job,
        error=error if state == "failed" else "",
    )


def _changed(path: Path) -> int:
    """Return when a file was last written, in nanoseconds; 0 if it is missing."""
    return path.stat().st_mtime_ns if path.exists() else 0


def _tail(path: Path) -> bytes:
    """Return the end of a file, whose first line may be cut; nothing if missing."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read()
    except OSError:
        return b""


def _read_config(path: Path) -> tuple[Mapping[str, Any], str]:
    try:
        return tomllib.loads(path.read_text()), ""
    except OSError:
        return {}, ""
    except ValueError as error:
        return {}, f"{CONFIG_FILE} is not valid TOML: {error}."


def _read_rows(path: Path) -> tuple[list[Mapping[str, Any]], str]:
    """Return the newest complete rows, oldest first, and what is wrong with them."""
    rows: list[Mapping[str, Any]] = []
    for line in _tail(path).split(b"\n")[:-1][-_RECENT:]:
        try:
            row = json.loads(line)
            int(row["episode"])  # a row is a table with the number of its episode
        except (ValueError, KeyError, TypeError, RecursionError):
            return rows, f"The newest rows of {RECORDS_FILE} can't be read."
        rows.append(row)
    return rows, ""
