"""Run the runs of a study on an engine: start, follow, restart, report.

An engine knows one thing: *run this configuration in this directory, resuming what is
there*.  Everything else is here and the same for every engine.
"""

import time
from collections.abc import Callable, Sequence
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


@dataclass(frozen=True)
class Failure:
    """A run that did not finish."""

    name: str
    status: int
    """Exit status; negative is the signal that killed it."""
    reason: str
    """Last line that it printed, or what happened to it."""
    log: Path


@dataclass(frozen=True)
class Ended:
    """How a job ended."""

    failure: Failure | None = None
    """None if the run is finished."""
    is_lost: bool = False
    """Whether it was taken away, for example with its machine, and may be restarted."""


@dataclass(frozen=True)
class Status:
    """How far a study is."""

    episodes_done: int
    episodes_total: int
    running: tuple[str, ...]
    runs_done: int
    runs_total: int
    failures: tuple[Failure, ...]


@runtime_checkable
class Job(Protocol):
    """A run that was handed to an engine."""

    @property
    def is_running(self) -> bool:
        """False while it waits in a queue."""
        ...

    def ended(self) -> Ended | None:
        """Return how it ended, or None while it has not."""
        ...

    def stop(self) -> None:
        """End it at once; its run stays resumable."""
        ...


@runtime_checkable
class Engine(Protocol):
    """Starts runs."""

    @property
    def max_jobs(self) -> int:
        """Jobs it accepts at a time; those it can't run yet wait in its queue."""
        ...

    @property
    def restarts_lost(self) -> bool:
        """Whether lost jobs are restarted."""
        ...

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Start runs in their directories, in this order."""
        ...

    def shutdown(self, jobs: Sequence[Job]) -> None:
        """Release the engine; there are unfinished jobs if the user stops a study."""
        ...


def make_engine(
    name: EngineName, config: EngineConfig, workers: int, options: tuple[str, ...] = ()
) -> Engine:
    """Return the engine of this name.

    Args:
        name: ``local``, ``ray`` or ``slurm``.
        config: What runs need, and where the cluster is.
        workers: Runs at once on this machine; clusters ignore it.
        options: Further options of the worker.
    """
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
    names = (path.name for path in (directory / "checkpoint").glob("[0-9]*"))
    return max((int(name) for name in names if name.isdecimal()), default=0)


def resumable_after(directory: Path) -> int:
    """Return the episodes that have both a checkpoint and all their rows."""
    return min(episodes_done(directory), complete_rows(directory / RECORDS_FILE))


def last_log_line(log: Path) -> str:
    """Return the last line that a process printed, which says why it ended."""
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "It printed nothing."


def failure_of(name: str, status: int, log: Path) -> Failure | None:
    """Return why a worker failed, or None if its exit status is 0."""
    if status == 0:
        return None
    reason = f"Killed by signal {-status}." if status < 0 else last_log_line(log)
    return Failure(name, status, reason, log)


@dataclass(eq=False)
class _ActiveRun:
    """A run whose job has not ended."""

    config: RunConfig
    directory: Path
    job: Job
    since: float
    """When its last episode ended, or when it began."""
    episodes: int
    losses: int = 0

    def update(self, now: float) -> None:
        """Count its episodes; time in a queue does not count as time without one."""
        done = episodes_done(self.directory)
        if done != self.episodes:
            self.losses = 0
        if done != self.episodes or not self.job.is_running:
            self.episodes, self.since = done, now


def run_all(
    runs: Sequence[RunConfig],
    out: Path,
    engine: Engine,
    *,
    patience_minutes: float = 60.0,
    on_status: Callable[[Status], None],
) -> tuple[Failure, ...]:
    """Run what is unfinished, each in ``out/<its name>``, and return what failed.

    A run that fails, hangs or is killed does not affect the others.  After Ctrl-C the
    engine decides what happens to jobs under way; their runs stay resumable.
    """
    done = {run.name: resumable_after(out / run.name) for run in runs}
    waiting = [run for run in runs if done[run.name] < run.episodes]
    active: list[_ActiveRun] = []
    failures: list[Failure] = []
    try:
        while waiting or active:
            free = max(0, engine.max_jobs - len(active))
            batch, waiting = waiting[:free], waiting[free:]
            active += _start(engine, batch, out)
            time.sleep(_POLL_SECONDS)
            for run in tuple(active):
                ended = _poll(engine, run, patience_minutes)
                done[run.config.name] = run.episodes
                if ended is not None:
                    active.remove(run)
                    failures += [_logged(ended.failure)] if ended.failure else []
            on_status(
                Status(
                    sum(min(done[run.name], run.episodes) for run in runs),
                    sum(run.episodes for run in runs),
                    tuple(run.config.name for run in active if run.job.is_running),
                    len(runs) - len(waiting) - len(active) - len(failures),
                    len(runs),
                    tuple(failures),
                )
            )
    finally:
        engine.shutdown([run.job for run in active])
    return tuple(failures)


def _start(engine: Engine, batch: Sequence[RunConfig], out: Path) -> list[_ActiveRun]:
    if not batch:
        return []
    directories = [out / config.name for config in batch]
    for directory in directories:
        directory.mkdir(parents=True, exist_ok=True)
    jobs = engine.start(list(zip(batch, directories, strict=True)))
    now = time.monotonic()
    return [
        _ActiveRun(config, directory, job, now, episodes_done(directory))
        for config, directory, job in zip(batch, directories, jobs, strict=True)
    ]


def _poll(engine: Engine, run: _ActiveRun, patience_minutes: float) -> Ended | None:
    """Return how a run ended; None while it goes on, perhaps restarted."""
    now = time.monotonic()
    ended = run.job.ended()
    run.update(now)
    if ended is None:
        if now - run.since <= 60 * patience_minutes:
            return None
        run.job.stop()
        reason = f"No episode ended in {patience_minutes:g} min, so it was stopped."
        return Ended(Failure(run.config.name, -9, reason, run.directory / LOG))
    if ended.is_lost and engine.restarts_lost and run.losses < _MAX_LOSSES:
        (run.job,) = engine.start([(run.config, run.directory)])
        run.since, run.losses = now, run.losses + 1
        return None
    return ended


def _logged(failure: Failure) -> Failure:
    """Append the reason to the run's log unless it is there, and return the failure."""
    if last_log_line(failure.log) != failure.reason:
        with open(failure.log, "a") as log:
            print(failure.reason, file=log)
    return failure
