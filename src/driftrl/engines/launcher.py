"""Run the runs of a study on an engine: start, follow, restart, report.

An engine knows one thing: *run this configuration in this directory, resuming what is
there*.  Everything else is here and the same for every engine.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from driftrl.config.engine import EngineConfig, EngineName
from driftrl.config.run import RunConfig
from driftrl.records import RECORDS_FILE, complete_rows

_POLL_SECONDS = 0.3
_MAX_LOSSES = 3  # in a row, without an episode between them
LOG = "log.txt"
"""File in a run's directory to which its process prints."""


Failures = Mapping[str, str]
"""Why runs did not finish, by their names: the last line that one printed, or what
happened to it."""


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    reason: str = ""
    """Why it failed; empty if the run is finished."""
    is_lost: bool = False
    """Whether it was taken away, for example with its machine: it is restarted."""


@runtime_checkable
class Job(Protocol):
    """A run that was handed to an engine."""

    @property
    def is_running(self) -> bool:
        """False while it waits in a queue."""
        ...

    def ended(self) -> Ended | None:
        """Return how it ended, or None while it has not."""

    def stop(self) -> None:
        """End it at once; its run stays resumable."""


@runtime_checkable
class Engine(Protocol):
    """Starts runs."""

    @property
    def max_jobs(self) -> int:
        """Jobs it accepts at a time; those it can't run yet wait in its queue."""
        ...

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Start runs in their directories, in this order."""
        ...

    def shutdown(self, jobs: Sequence[Job]) -> None:
        """Release the engine; there are unfinished jobs if the user stops a study."""


def make_engine(
    name: EngineName,
    config: EngineConfig,
    workers: int | None = None,
    options: tuple[str, ...] = (),
) -> Engine:
    """Return an engine; ``workers`` are runs at once on this machine."""
    if name == "local":
        from driftrl.engines.local import LocalEngine

        return LocalEngine(workers, options)
    if name == "ray":
        from driftrl.engines.ray import RayEngine

        return RayEngine(config, options)
    from driftrl.engines.slurm import SlurmEngine

    return SlurmEngine(config, options)


def episodes_done(directory: Path) -> int:
    """Return the number of the newest checkpoint of a run."""
    # Not by training.checkpoint, which imports JAX: cluster nodes call this as well.
    names = (path.stem for path in (directory / "checkpoint").glob("[0-9]*"))
    return max((int(name) for name in names if name.isdecimal()), default=0)


def last_line(text: str, otherwise: str = "It printed nothing.") -> str:
    """Return the last line of what a program printed, which says why it ended."""
    return (text.strip().splitlines() or [otherwise])[-1]


def last_log_line(log: Path) -> str:
    """Return the last line of a log."""
    return last_line(log.read_text(errors="replace") if log.exists() else "")


def ended_with(status: int, log: Path) -> Ended:
    """Return how a worker ended that had this exit status; negative is a signal."""
    if status < 0:
        return Ended(f"Killed by signal {-status}.", is_lost=True)
    return Ended(last_log_line(log) if status else "")


@dataclass(eq=False)
class _ActiveRun:
    """A run whose job has not ended."""

    config: RunConfig
    directory: Path
    job: Job
    since: float  # When its last episode ended, or when it began
    episodes: int
    losses: int = 0

    def ended(self, engine: Engine, patience_minutes: float) -> Ended | None:
        """Return how it ended; None while it goes on, perhaps restarted."""
        now, ended = time.monotonic(), self.job.ended()
        done = episodes_done(self.directory)
        if done != self.episodes:
            self.losses = 0
        if done != self.episodes or not self.job.is_running:
            self.episodes, self.since = done, now
        if ended is None and now - self.since > 60 * patience_minutes:
            self.job.stop()
            return Ended(f"No episode ended in {patience_minutes:g} min: stopped.")
        if ended is not None and ended.is_lost and self.losses < _MAX_LOSSES:
            (self.job,) = engine.start([(self.config, self.directory)])
            self.since, self.losses = now, self.losses + 1
            return None
        return ended


def run_all(
    runs: Sequence[RunConfig],
    out: Path,
    engine: Engine,
    *,
    patience_minutes: float = 60.0,
    on_poll: Callable[[Failures], None] = lambda failures: None,
) -> Failures:
    """Run what is unfinished, each in ``out/<its name>``, and return what failed.

    A run that fails, hangs or is killed does not affect the others.  After Ctrl-C the
    engine decides what happens to jobs under way; their runs stay resumable.
    ``on_poll`` is called several times a second with what has failed so far.
    """
    waiting = [run for run in runs if _resumable_after(out / run.name) < run.episodes]
    active: list[_ActiveRun] = []
    failures: dict[str, str] = {}
    try:
        while waiting or active:
            free = max(0, engine.max_jobs - len(active))
            batch, waiting = waiting[:free], waiting[free:]
            active += _start(engine, batch, out)
            time.sleep(_POLL_SECONDS)
            for run in tuple(active):
                ended = run.ended(engine, patience_minutes)
                if ended is not None:
                    active.remove(run)
                if ended is not None and ended.reason:
                    failures[run.config.name] = ended.reason
                    if last_log_line(run.directory / LOG) != ended.reason:
                        with open(run.directory / LOG, "a") as file:
                            print(ended.reason, file=file)
            on_poll(failures)
    finally:
        engine.shutdown([run.job for run in active])
    return failures


def _resumable_after(directory: Path) -> int:
    """Return the episodes that have both a checkpoint and all their rows.

    Published records have no checkpoints: there, rows count.
    """
    rows = complete_rows(directory / RECORDS_FILE)
    if not (directory / "checkpoint").is_dir():
        return rows
    return min(episodes_done(directory), rows)


def _start(engine: Engine, batch: Sequence[RunConfig], out: Path) -> list[_ActiveRun]:
    runs = [(config, out / config.name) for config in batch]
    for _, directory in runs:
        directory.mkdir(parents=True, exist_ok=True)
    jobs = engine.start(runs) if runs else []
    now = time.monotonic()
    return [
        _ActiveRun(*run, job, now, episodes_done(run[1]))
        for run, job in zip(runs, jobs, strict=True)
    ]
