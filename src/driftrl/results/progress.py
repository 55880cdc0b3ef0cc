"""How far runs are, read from their files without disturbing who writes them.

Of a record only the tail is read, and only when the file has changed, so that hundreds
of runs with thousands of episodes can be looked at every second.  A lock is never
taken, not even for a moment: a run that starts just then would be refused.  Who holds
it is read in the system's own list of locks.
"""

import json
import os
import time
import tomllib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median
from typing import Any, Literal, TypeVar

from driftrl.errors import require
from driftrl.records import CONFIG_FILE, RECORDS_FILE

State = Literal["running", "waiting", "stopped", "finished", "failed"]
"""Held by a living process; not begun; begun and left; done; ended by an error."""

T = TypeVar("T")
_LOCKS = Path("/proc/locks")
_JOB_FILE = "job.json"
_LOG_FILE = "log.txt"
_TAIL = 16_384  # bytes: some twenty rows
_RECENT = 5  # rows that tell how long an episode takes
_GRACE = 60.0  # seconds that a run may be silent where locks can't be seen
# What an engine elsewhere says of a job, as far as it says something about the run.
_JOB_STATES: dict[str, State] = {
    **dict.fromkeys(("RUNNING", "COMPLETING"), "running"),
    **dict.fromkeys(
        ("PENDING", "CONFIGURING", "REQUEUED", "PREEMPTED", "SUSPENDED"), "waiting"
    ),
    **dict.fromkeys(
        (*("FAILED", "TIMEOUT", "OUT_OF_MEMORY"), *("NODE_FAIL", "BOOT_FAIL")), "failed"
    ),
    "CANCELLED": "stopped",
}


@dataclass(frozen=True)
class Job:
    """What the engine that a run was given to says of it, in ``job.json``."""

    engine: str
    id: str
    state: str


@dataclass(frozen=True)
class RunProgress:
    """How far one run is, and how well it does."""

    name: str
    state: State
    config: Mapping[str, Any]
    """Contents of ``config.toml``, or what the study plans; empty if neither is."""
    episodes: int = 0
    """Episodes that are recorded."""
    theta: float | None = None
    """θ of the newest, if it is known."""
    achieved: float | None = None
    """Its return on the frozen system, or the executed one without an evaluation."""
    seconds: float | None = None
    """Seconds an episode takes, of late."""
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
        """Seconds until the run is finished, if it goes on as of late."""
        if self.state == "finished":
            return 0.0
        if self.planned is None or self.seconds is None:
            return None
        return max(0, self.planned - self.episodes) * self.seconds


def study_seconds_left(runs: Sequence[RunProgress]) -> float | None:
    """Return the seconds until all runs are done that can be, by as many as run now.

    A run without an episode is taken to be as fast as the others of its task.  None if
    nobody is running, or if no pace is known yet.
    """
    busy = [run for run in runs if run.state == "running"]
    still = [run for run in runs if run.state in ("running", "waiting", "stopped")]
    if not still:
        return 0.0
    known = [run for run in runs if run.seconds is not None]
    if not busy or not known:
        return None
    left = [_left(run, known) for run in still]
    if None in left:
        return None
    work = [seconds for seconds in left if seconds is not None]
    alone = [s for s, run in zip(work, still, strict=True) if run.state == "running"]
    return max(sum(work) / len(busy), *alone)


def _left(run: RunProgress, known: Sequence[RunProgress]) -> float | None:
    if run.seconds_left is not None or run.planned is None:
        return run.seconds_left
    alike = [other for other in known if other.task == run.task] or known
    pace = fmean(other.seconds for other in alike if other.seconds is not None)
    return run.planned * pace


class Watcher:
    """Looks at a run, or at all runs of a study, again and again."""

    def __init__(
        self,
        directory: Path,
        planned: Mapping[str, Mapping[str, Any]] | None = None,
        *,
        locks: Path = _LOCKS,
    ) -> None:
        """Watch a directory.

        Args:
            directory: Of one run, or of a study.
            planned: Configurations of the runs that a study will have, by name.
            locks: The system's list of locks; without it, a run that has written of
                late counts as running.
        """
        require(directory.exists(), f"There is no directory {directory}.")
        require(directory.is_dir(), f"{directory} is a file, not a directory of runs.")
        self._directory = directory
        self._planned = dict(planned or {})
        self._locks = locks
        self._remembered: dict[Path, tuple[tuple[int, ...], Any]] = {}

    def look(self) -> list[RunProgress]:
        """Return the runs as they are now: those planned, in order, then any others."""
        places = self._places()
        require(
            bool(places),
            f"There are no runs in {self._directory}: neither it nor a directory in it "
            f"holds a {CONFIG_FILE}. Name the directory of a run or of a study.",
        )
        # Locks first: a run that ends in between is then seen as finished.
        held = held_locks(
            {name: place / "lock" for name, place in places.items()}, self._locks
        )
        return [
            self._run(name, place, None if held is None else name in held)
            for name, place in places.items()
        ]

    def _places(self) -> dict[str, Path]:
        if (self._directory / CONFIG_FILE).is_file():
            return {self._directory.resolve().name: self._directory}
        found = sorted(
            entry.name
            for entry in os.scandir(self._directory)
            if entry.is_dir() and os.path.exists(os.path.join(entry.path, CONFIG_FILE))
        )
        return {name: self._directory / name for name in (*self._planned, *found)}

    def _run(self, name: str, place: Path, held: bool | None) -> RunProgress:
        """Look at one run; ``held`` is None where locks can't be seen."""
        planned = self._planned.get(name, {})
        config, fault = self._recall(place / CONFIG_FILE, _config, (planned, ""))
        rows, damage = self._recall(place / RECORDS_FILE, _newest_rows, ([], ""))
        job = self._recall(place / _JOB_FILE, _job, None)
        newest: Mapping[str, Any] = rows[-1] if rows else {}
        seconds = [_number(row, "wall_s") for row in rows[-_RECENT:]]
        known = [value for value in seconds if value is not None]
        # The median: a machine may have been asleep for one of them.
        pace = median(known) if known else None
        episodes = int(_number(newest, "episode") or 0)
        said = fault or damage or self._last_words(place)
        if held is None:
            held = _wrote_of_late(place, pace or 0.0)
        state = _state(config.get("episodes"), episodes, held, job, bool(said))
        return RunProgress(
            name=name,
            state=state,
            config=config,
            episodes=episodes,
            theta=_number(newest, "theta"),
            achieved=_first_known(newest, ("return_eval", "return_executed")),
            seconds=pace,
            job=job,
            error=said if state == "failed" else "",
        )

    def _last_words(self, place: Path) -> str:
        """Return the last line of the log, if it came after the newest episode.

        A process that fails says so at its end; what it only warned of is followed by
        further episodes.
        """
        said = self._recall(place / _LOG_FILE, _last_line, "")
        if said and _changed(place / _LOG_FILE) >= _changed(place / RECORDS_FILE):
            return said
        return ""

    def _recall(self, path: Path, read: Callable[[Path], T], missing: T) -> T:
        """Return what a file holds, reading it only if it has changed."""
        try:
            about = path.stat()
            signature = (about.st_ino, about.st_size, about.st_mtime_ns)
            before = self._remembered.get(path)
            if before is None or before[0] != signature:
                before = self._remembered[path] = (signature, read(path))
        except OSError:
            return missing
        return before[1]


def held_locks(paths: Mapping[str, Path], locks: Path = _LOCKS) -> set[str] | None:
    """Return the names of the files that a living process has locked (``flock``).

    None if the system has no list of locks.
    """
    try:
        lines = locks.read_text().splitlines()
    except OSError:
        return None
    # "1: FLOCK  ADVISORY  WRITE 5242 fe:00:3424494 0 EOF": process, device and inode.
    words = [line.split() for line in lines if " FLOCK " in line and "->" not in line]
    holders: dict[int, list[int]] = {}
    for word in words:
        holders.setdefault(int(word[5].rpartition(":")[2]), []).append(int(word[4]))
    held = set()
    for name, path in paths.items():
        try:
            about = path.stat()
        except OSError:
            continue
        if any(_has_open(one, about) for one in holders.get(about.st_ino, [])):
            held.add(name)
    return held


def _has_open(process: int, about: os.stat_result) -> bool:
    """Say whether a process has a file open; of others' processes believe it.

    The list of locks names devices as the kernel knows them, which some file systems
    show otherwise; and two devices may use one inode.
    """
    try:
        with os.scandir(f"/proc/{process}/fd") as entries:
            return any(os.path.samestat(os.stat(entry), about) for entry in entries)
    except OSError:
        return True


def _wrote_of_late(place: Path, seconds: float) -> bool:
    newest = max(_changed(place / name) for name in ("lock", RECORDS_FILE, "pending"))
    return time.time() - newest < _GRACE + 3 * seconds


def _changed(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0


def _state(
    planned: Any, episodes: int, held: bool, job: Job | None, failed: bool
) -> State:
    if isinstance(planned, int) and episodes >= planned:
        return "finished"
    if held:
        return "running"
    if job is not None and job.state in _JOB_STATES:
        return _JOB_STATES[job.state]
    if failed:
        return "failed"
    return "stopped" if episodes else "waiting"


def _config(path: Path) -> tuple[Mapping[str, Any], str]:
    try:
        return tomllib.loads(path.read_text()), ""
    except ValueError as error:
        return {}, f"{CONFIG_FILE} is not valid TOML: {error}."


def _newest_rows(path: Path) -> tuple[list[Mapping[str, Any]], str]:
    """Return the last complete rows, oldest first, and what is wrong with them."""
    lines = _tail(path).split(b"\n")[:-1]
    rows = [_row(line) for line in lines[-_RECENT:]]
    readable = [row for row in rows if row is not None]
    fault = f"The newest row of {RECORDS_FILE} can't be read."
    return readable, fault if rows and rows[-1] is None else ""


def _tail(path: Path) -> bytes:
    """Return the end of a file; its first line may be cut."""
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
        return file.read()


def _row(line: bytes) -> Mapping[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return (
        row if isinstance(row, dict) and isinstance(row.get("episode"), int) else None
    )


def _last_line(path: Path) -> str:
    lines = _tail(path).decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _job(path: Path) -> Job | None:
    """Return what an engine has written; None while it is not what it should be."""
    try:
        told = json.loads(path.read_bytes())
        return Job(*(str(told[key]) for key in ("engine", "id", "state")))
    except (ValueError, KeyError, TypeError):
        return None


def _number(row: Mapping[str, Any], name: str) -> float | None:
    value = row.get(name)
    return float(value) if isinstance(value, int | float) else None


def _first_known(row: Mapping[str, Any], names: Iterable[str]) -> float | None:
    known = (_number(row, name) for name in names)
    return next((value for value in known if value is not None), None)
