"""The seam between a study and whatever carries out its runs.

An engine knows one thing: *run this configuration in this directory, resuming what is
there*.  All else is here and the same for every engine: what is still to be run, how
far it is, what failed and why, what hangs, what was lost and is started again.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol, Self, runtime_checkable

from driftrl.config.run import RunConfig
from driftrl.records import RECORDS_FILE, complete_rows

_POLL_SECONDS = 0.3
_MOST_LOSSES = 3  # in a row, without an episode between them
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
    """Whether it was taken away and did not fail by itself: a machine that is gone."""


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
    """A run that an engine has taken on."""

    @property
    def is_running(self) -> bool:
        """Whether it has begun, and does not wait for a place."""
        ...

    def ended(self) -> Ended | None:
        """Return how it ended, or None while it has not."""
        ...

    def stop(self) -> None:
        """End it at once; the files of its run stay resumable."""
        ...


@runtime_checkable
class Engine(Protocol):
    """What carries out runs.  A context manager, left when no run is under way."""

    @property
    def most_at_once(self) -> int:
        """Jobs that it takes at a time; those beyond what it can run wait there."""
        ...

    @property
    def restarts_lost(self) -> bool:
        """Whether a lost job is started again without being asked."""
        ...

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Take on runs, each with its directory, in this order."""
        ...

    def leave(self, jobs: Sequence[Job]) -> None:
        """Do with unfinished jobs what this engine does when its user leaves."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...


def episodes_done(directory: Path) -> int:
    """Return the number of episodes that a run can be resumed after."""
    # Brings JAX, which a node that starts a worker has no use for.
    from driftrl.training.checkpoint import saved_checkpoints

    return max(saved_checkpoints(directory / "checkpoint"), default=0)


def resumable_after(directory: Path) -> int:
    """Return the episodes that have both a checkpoint and all their rows.

    A last row that was torn by a power cut is written again by who goes on.
    """
    done = episodes_done(directory)
    return min(done, complete_rows(directory / RECORDS_FILE))


def last_words(log: Path) -> str:
    """Return the last line that a process printed, which says why it ended."""
    text = log.read_text(errors="replace") if log.exists() else ""
    lines = text.strip().splitlines()
    return lines[-1] if lines else "It printed nothing."


@dataclass
class _Underway:
    """A job, and what is needed to see that it gets on."""

    config: RunConfig
    directory: Path
    job: Job
    since: float
    """When its last episode ended, or when it began."""
    episodes: int
    losses: int = 0

    def note_progress(self, now: float) -> None:
        """Note how far it is."""
        done = episodes_done(self.directory)
        if done != self.episodes or not self.job.is_running:
            self.losses = 0 if done != self.episodes else self.losses
            self.episodes, self.since = done, now

    def failure(self, reason: str) -> Failure:
        return Failure(self.config.name, -9, reason, self.directory / LOG)


def run_all(
    runs: Sequence[RunConfig],
    out: Path,
    engine: Engine,
    *,
    patience_minutes: float = 60.0,
    on_status: Callable[[Status], None],
) -> tuple[Failure, ...]:
    """Run what is unfinished, each in ``out/<its name>``, and return what failed.

    A run that fails, hangs or is killed leaves the others alone.  When this function is
    left by an exception (Ctrl-C), the engine decides what becomes of the jobs under
    way; their files stay resumable in any case.
    """
    begun = {run.name: resumable_after(out / run.name) for run in runs}
    waiting = [run for run in runs if begun[run.name] < run.episodes]
    finished = [run for run in runs if begun[run.name] >= run.episodes]
    active: list[_Underway] = []
    failures: list[Failure] = []
    settled = sum(run.episodes for run in finished)
    status = Status(settled, sum(run.episodes for run in runs), (), 0, len(runs), ())
    with engine:
        try:
            while waiting or active:
                free = max(0, engine.most_at_once - len(active))
                batch, waiting = waiting[:free], waiting[free:]
                active += _start(engine, batch, out)
                time.sleep(_POLL_SECONDS)
                active, over = _sort_out(engine, active, patience_minutes)
                for one, failure in over:
                    failures += [_logged(failure)] if failure else []
                    finished += [] if failure else [one.config]
                    settled += min(one.episodes, one.config.episodes)
                on_status(
                    replace(
                        status,
                        episodes_done=settled
                        + sum(one.episodes for one in active)
                        + sum(begun[run.name] for run in waiting),
                        running=tuple(
                            one.config.name for one in active if one.job.is_running
                        ),
                        runs_done=len(finished),
                        failures=tuple(failures),
                    )
                )
        except BaseException:
            engine.leave([one.job for one in active])
            raise
    return tuple(failures)


def _start(engine: Engine, batch: Sequence[RunConfig], out: Path) -> list[_Underway]:
    if not batch:
        return []
    places = [out / config.name for config in batch]
    for place in places:
        place.mkdir(parents=True, exist_ok=True)
    jobs = engine.start(list(zip(batch, places, strict=True)))
    now = time.monotonic()
    return [
        _Underway(config, place, job, now, episodes_done(place))
        for config, place, job in zip(batch, places, jobs, strict=True)
    ]


def _logged(failure: Failure) -> Failure:
    """Return the failure, once its log tells the reason to whoever looks later."""
    if last_words(failure.log) != failure.reason:
        with open(failure.log, "a") as log:
            print(failure.reason, file=log)
    return failure


def _sort_out(
    engine: Engine, active: Sequence[_Underway], patience_minutes: float
) -> tuple[list[_Underway], list[tuple[_Underway, Failure | None]]]:
    """Tell jobs that go on from those that are over, and how these ended."""
    going: list[_Underway] = []
    over: list[tuple[_Underway, Failure | None]] = []
    for one in active:
        now = time.monotonic()
        ended = one.job.ended()
        one.note_progress(now)
        if ended is None:
            if now - one.since <= 60 * patience_minutes:
                going.append(one)
                continue
            one.job.stop()
            reason = f"No episode ended in {patience_minutes:g} min, so it was stopped."
            over.append((one, one.failure(reason)))
        elif ended.is_lost and engine.restarts_lost and one.losses < _MOST_LOSSES:
            (again,) = engine.start([(one.config, one.directory)])
            going.append(replace(one, job=again, since=now, losses=one.losses + 1))
        else:
            over.append((one, ended.failure))
    return going, over
