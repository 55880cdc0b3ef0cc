"""Read from their files how far runs are, without disturbing them.

Only the tail of a record is read, and only when it has changed, so that hundreds of
runs with thousands of episodes can be watched.
"""

import json
import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

from driftrl.config.run import RunConfig
from driftrl.config.toml import to_dict
from driftrl.errors import require
from driftrl.records import CONFIG_FILE, RECORDS_FILE, is_running

State = Literal["running", "waiting", "stopped", "finished", "failed"]
"""A process runs it; not begun; begun but not running; done; ended by an error."""

_TAIL = 16_384  # bytes: some twenty rows
_RECENT = 5  # rows that tell how long an episode takes
# What the state of a cluster's job says about the run.
_JOB_STATES: dict[str, State] = {
    **dict.fromkeys(("RUNNING", "COMPLETING"), "running"),
    **dict.fromkeys(
        ("PENDING", "CONFIGURING", "REQUEUED", "PREEMPTED", "SUSPENDED"), "waiting"
    ),
    **dict.fromkeys(
        ("FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL"), "failed"
    ),
    "CANCELLED": "stopped",
}
_Stamp = tuple[int, int, int]


@dataclass(frozen=True)
class Job:
    """What an engine wrote about a run's job, in ``job.json``."""

    engine: str
    id: str
    state: str


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
    job: Job | None = None
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

    Args:
        directory: Of one run, or of a study.
        planned: Configurations of the runs that the study will have, by name.
    """
    require(directory.is_dir(), f"There is no directory {directory}.")
    planned = planned or {}
    if (directory / CONFIG_FILE).is_file():
        places = {directory.resolve().name: directory}
    else:
        begun = sorted(path.parent.name for path in directory.glob(f"*/{CONFIG_FILE}"))
        places = {name: directory / name for name in (*planned, *begun)}
    require(
        bool(places),
        f"There are no runs in {directory}: neither it nor a directory in it holds a "
        f"{CONFIG_FILE}. Name the directory of a run or of a study.",
    )
    return [
        _progress(path, name, planned.get(name, {})) for name, path in places.items()
    ]


def study_seconds_left(runs: Sequence[RunProgress]) -> float | None:
    """Return the seconds until all runs are done, with as many at once as run now.

    A run without an episode is taken to be as fast as the others of its task.  None if
    nothing is running, or if no pace is known yet.
    """
    unfinished = [r for r in runs if r.state in ("running", "waiting", "stopped")]
    running = [run.state == "running" for run in unfinished]
    known = [run for run in runs if run.seconds is not None]
    if not unfinished:
        return 0.0
    if not any(running) or not known:
        return None
    left = [_seconds_left(run, known) for run in unfinished]
    alone = [s for s, is_active in zip(left, running, strict=True) if is_active]
    return max(sum(left) / sum(running), *alone)


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
    """Estimate what runs take, by the pace of those that have begun, or else expected.

    Args:
        runs: Runs of tasks that come with driftrl.
        directory: Where they are, or will be.
        workers: Runs at once.
    """
    from driftrl.training.speed import expected_bytes, expected_minutes, product_rate

    begun: dict[str, RunProgress] = {}
    if directory.is_dir():
        planned = {run.name: to_dict(run) for run in runs}
        begun = {run.name: run for run in read_progress(directory, planned)}
    rate, seconds = product_rate(), []
    for run in runs:
        paces = [b.seconds for b in begun.values() if b.task == run.task and b.seconds]
        pace = fmean(paces or [60 * expected_minutes(run, rate) / run.episodes])
        done = begun[run.name].episodes if run.name in begun else 0
        seconds.append(max(0, run.episodes - done) * pace)
    return Cost(
        finished=sum(run.state == "finished" for run in begun.values()),
        # Side by side, but no sooner than the longest run.
        seconds=max(sum(seconds) / workers, *seconds),
        size=sum(map(expected_bytes, runs)),
    )


def _seconds_left(run: RunProgress, known: Sequence[RunProgress]) -> float:
    if run.seconds_left is not None:
        return run.seconds_left
    alike = [other for other in known if other.task == run.task] or known
    return (run.planned or 0) * fmean(other.seconds or 0.0 for other in alike)


def _progress(path: Path, name: str, planned: Mapping[str, Any]) -> RunProgress:
    # The heartbeat first: a run that ends in between then counts as finished.
    is_active = is_running(path)
    stamps = {
        file: _stamp(path / file)
        for file in (CONFIG_FILE, RECORDS_FILE, "job.json", "log.txt")
    }
    config, fault = _read_config(path / CONFIG_FILE, stamps[CONFIG_FILE])
    rows, damage = _read_rows(path / RECORDS_FILE, stamps[RECORDS_FILE])
    job = _read_job(path / "job.json", stamps["job.json"])
    error = fault or damage
    # A failed process prints why at its end; after a warning further episodes follow.
    if not error and stamps["log.txt"] >= stamps[RECORDS_FILE]:
        error = _read_last_line(path / "log.txt", stamps["log.txt"])
    config = config or planned
    newest = rows[-1] if rows else {}
    seconds = [row["wall_s"] for row in rows if _number(row, "wall_s") is not None]
    episodes = newest.get("episode", 0)
    goal = config.get("episodes")
    if isinstance(goal, int) and episodes >= goal:
        state: State = "finished"
    elif is_active:
        state = "running"
    elif job is not None and job.state in _JOB_STATES:
        state = _JOB_STATES[job.state]
    elif error:
        state = "failed"
    else:
        state = "stopped" if episodes else "waiting"
    evaluated = _number(newest, "return_eval")
    return RunProgress(
        name=name,
        state=state,
        config=config,
        episodes=episodes,
        theta=_number(newest, "theta"),
        last_return=_number(newest, "return_executed")
        if evaluated is None
        else evaluated,
        # The median: the machine may have been asleep during one episode.
        seconds=median(seconds) if seconds else None,
        job=job,
        error=error if state == "failed" else "",
    )


def _stamp(path: Path) -> _Stamp:
    """Return what differs between two states of a file; zeros if it is missing."""
    try:
        status = path.stat()
    except OSError:
        return (0, 0, 0)
    return (status.st_mtime_ns, status.st_size, status.st_ino)


@lru_cache(maxsize=10_000)
def _tail(path: Path, stamp: _Stamp) -> bytes:
    """Return the end of a file, whose first line may be cut; nothing if missing."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read()
    except OSError:
        return b""


@lru_cache(maxsize=10_000)
def _read_config(path: Path, stamp: _Stamp) -> tuple[Mapping[str, Any], str]:
    try:
        return tomllib.loads(path.read_text()), ""
    except OSError:
        return {}, ""
    except ValueError as error:
        return {}, f"{CONFIG_FILE} is not valid TOML: {error}."


@lru_cache(maxsize=10_000)
def _read_rows(path: Path, stamp: _Stamp) -> tuple[list[Mapping[str, Any]], str]:
    """Return the newest complete rows, oldest first, and what is wrong with them."""
    rows: list[Mapping[str, Any]] = []
    for line in _tail(path, stamp).split(b"\n")[:-1][-_RECENT:]:
        try:
            row = json.loads(line)
            int(row["episode"])  # a row is a table with the number of its episode
        except (ValueError, KeyError, TypeError, RecursionError):
            return rows, f"The newest rows of {RECORDS_FILE} can't be read."
        rows.append(row)
    return rows, ""


@lru_cache(maxsize=10_000)
def _read_job(path: Path, stamp: _Stamp) -> Job | None:
    try:
        table = json.loads(_tail(path, stamp))
        return Job(*(str(table[key]) for key in ("engine", "id", "state")))
    except (ValueError, KeyError, TypeError):
        return None


def _read_last_line(path: Path, stamp: _Stamp) -> str:
    lines = _tail(path, stamp).decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else None
