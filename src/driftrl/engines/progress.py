"""Read from their files how far runs are, without disturbing them.

Only the tail of a record is read, so that hundreds of runs with thousands of episodes
can be watched.
"""

import os
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal

import msgspec

from driftrl.config.run import RunConfig
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


class _Row(msgspec.Struct):
    """What is looked at of a row."""

    episode: int
    theta: float | None = None
    return_executed: float | None = None
    return_eval: float | None = None
    first_retained: int | None = None
    last_change: int | None = None
    wall_s: float | None = None


@dataclass(frozen=True)
class RunProgress:
    """How far one run is, and how well it does."""

    name: str
    state: State
    task: str = ""
    planned: int | None = None
    """Episodes of the finished run."""
    episodes: int = 0
    """Recorded episodes."""
    theta: float | None = None
    """θ of the newest episode."""
    last_return: float | None = None
    """Its evaluated return, or the executed one without an evaluation."""
    first_retained: int | None = None
    """m(n) of the newest episode: data from there on were learned from."""
    last_change: int | None = None
    """First episode after the last change that the forgetting rule has located."""
    seconds: float | None = None
    """Seconds of a recent episode."""
    job: Mapping[str, Any] | None = None
    """Contents of ``job.json``."""
    error: str = ""
    """Of a failed run: the last line it printed, or why its files can't be read."""

    @property
    def seconds_left(self) -> float | None:
        """Seconds until the run is finished, at its recent pace."""
        if self.state == "finished":
            return 0.0
        if self.planned is None or self.seconds is None:
            return None
        return max(0, self.planned - self.episodes) * self.seconds


def read_progress(
    directory: Path, planned: Sequence[RunConfig] = ()
) -> list[RunProgress]:
    """Return how far a run, or the runs of a study, are: planned ones first, in order.

    ``planned`` are the runs that the study will have.
    """
    runs = {run.name: _read_run(directory / run.name, run) for run in planned}
    if not planned or any(directory.glob(f"*/{CONFIG_FILE}")):
        for path in sorted(path.resolve() for path in run_directories(directory)):
            if path.name not in runs:
                runs[path.name] = _read_run(path)
    return [*runs.values()]


def study_seconds_left(runs: Sequence[RunProgress]) -> float | None:
    """Return the seconds until all runs are done, with as many at once as run now.

    A run without an episode is taken to be as fast as the others of its task.  None if
    nothing is running, or if no pace is known yet.
    """
    unfinished = [run for run in runs if run.state not in ("finished", "failed")]
    if not unfinished:
        return 0.0
    left = [_seconds_left(run, runs) for run in unfinished]
    pairs = zip(unfinished, left, strict=True)
    running = [seconds for run, seconds in pairs if run.state == "running"]
    if not running or all(run.seconds is None for run in runs):
        return None
    return max(sum(left) / len(running), *running)


def _seconds_left(run: RunProgress, runs: Sequence[RunProgress]) -> float:
    if run.seconds_left is not None:
        return run.seconds_left
    known = [other for other in runs if other.seconds is not None]
    alike = [other for other in known if other.task == run.task] or known
    pace = fmean([other.seconds or 0.0 for other in alike] or [0.0])
    return (run.planned or 0) * pace


def expected_seconds(
    runs: Sequence[RunConfig], directory: Path, workers: int
) -> tuple[int, float]:
    """Return how many runs are finished, and about how long the others take.

    ``directory`` is where they are, or will be; ``workers`` are runs at once.  The pace
    is that of runs that have begun, else that of the task on this machine.
    """
    from driftrl.training.speed import expected_minutes, product_rate

    progress = {run.name: run for run in read_progress(directory, runs)}
    rate, seconds = product_rate(), []
    for run in runs:
        begun = [other for other in progress.values() if other.task == run.task]
        paces = [other.seconds for other in begun if other.seconds]
        pace = fmean(paces or [60 * expected_minutes(run, rate) / run.episodes])
        seconds.append(max(0, run.episodes - progress[run.name].episodes) * pace)
    finished = sum(run.state == "finished" for run in progress.values())
    # Side by side, but no sooner than the longest run.
    return finished, max(sum(seconds) / workers, *seconds)


def _read_run(path: Path, planned: RunConfig | None = None) -> RunProgress:
    # The heartbeat first: a run that ends in between then counts as finished.
    is_active = is_running(path)
    config: dict[str, Any] = {}
    rows: list[_Row] = []
    error = ""
    try:
        if planned is not None:
            config = vars(planned)
        else:
            config = tomllib.loads((path / CONFIG_FILE).read_text())
        for line in _text(path / RECORDS_FILE).split("\n")[:-1][-_RECENT:]:
            rows.append(msgspec.json.decode(line, type=_Row))
    except (ValueError, RecursionError, msgspec.MsgspecError):
        file = RECORDS_FILE if config else CONFIG_FILE
        error = f"The end of {file} can't be read."
    # A failed process prints why at its end; after a warning further episodes follow.
    if not error and _changed(path / LOG) >= _changed(path / RECORDS_FILE):
        error = last_line(_text(path / LOG), "").strip()
    job = read_job(path) or None
    newest = rows[-1] if rows else _Row(episode=0)
    episodes, goal = newest.episode, config.get("episodes")
    if isinstance(goal, int) and episodes >= goal:
        state: State = "finished"
    elif is_active:
        state = "running"
    else:
        state = "failed" if error else "stopped" if episodes else "waiting"
        for of_run, of_job in _JOB_STATES.items():
            state = of_run if job and job["state"] in of_job else state
    evaluated = newest.return_eval
    seconds = [row.wall_s for row in rows if row.wall_s is not None]
    return RunProgress(
        name=path.name,
        state=state,
        task=str(config.get("task", "")),
        planned=goal if isinstance(goal, int) else None,
        episodes=episodes,
        theta=newest.theta,
        last_return=newest.return_executed if evaluated is None else evaluated,
        first_retained=newest.first_retained,
        last_change=newest.last_change,
        # The median: the machine may have been asleep during one episode.
        seconds=median(seconds) if seconds else None,
        job=job,
        error=error if state == "failed" else "",
    )


def read_job(directory: Path) -> dict[str, Any]:
    """Return what is written about a run's job; nothing if that can't be read."""
    try:
        job = msgspec.json.decode(_text(directory / JOB_FILE), type=dict[str, Any])
    except (ValueError, RecursionError, msgspec.MsgspecError):
        return {}
    is_whole = all(isinstance(job.get(name), str) for name in ("engine", "id", "state"))
    return job if is_whole else {}


def _changed(path: Path) -> int:
    """Return when a file was last written, in nanoseconds; 0 if it is missing."""
    return path.stat().st_mtime_ns if path.exists() else 0


def _text(path: Path) -> str:
    """Return the end of a file, whose first line may be cut; nothing if missing."""
    try:
        with open(path, "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            return file.read().decode(errors="replace")
    except OSError:
        return ""
