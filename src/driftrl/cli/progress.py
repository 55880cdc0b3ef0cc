"""Progress of a run and of a study, in a terminal and in a log file."""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from driftrl.config.run import RunConfig
from driftrl.types import EpisodeRecord

if TYPE_CHECKING:
    from driftrl.engines.launcher import Status

_LOG_SECONDS = 30.0  # between two lines where there is no terminal


def duration(seconds: float) -> str:
    """Return seconds as a person says them: 42 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole == 0 and seconds > 0:
        return "less than 1 s"
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


class _RunProgress:
    """Prints a line an episode and keeps the time left."""

    def __init__(self, config: RunConfig, quiet: bool) -> None:
        self._episodes = config.episodes
        self._quiet = quiet
        self._times: list[float] = []

    def show(self, record: EpisodeRecord) -> None:
        """Print one finished episode."""
        self._times.append(record.wall_s)
        if self._quiet:
            return
        recent = self._times[-5:]
        left = (self._episodes - record.episode) * sum(recent) / len(recent)
        remaining = f"{duration(left)} left" if left else "done"
        if len(self._times) == 1:
            print("episode        θ     return  data from  model error  coverage")
        theta, error, coverage = (
            "–" if value is None or math.isnan(value) else f"{value:.3f}"
            for value in (record.theta, record.model_error, record.coverage)
        )
        print(
            f"{record.episode:4d}/{self._episodes:<4d} {theta:>7} "
            f"{record.return_executed:10.1f} {record.first_retained:10d} "
            f"{error:>11} {coverage:>9}  {remaining}",
            flush=True,
        )

    def warn(self, message: str) -> None:
        """Print what a user should know."""
        print(f"driftrl: {message}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def run_progress(config: RunConfig, *, quiet: bool) -> Iterator[_RunProgress]:
    """Show the episodes of one run."""
    yield _RunProgress(config, quiet)


class _StudyProgress:
    """A bar with the time left; without a terminal, a line now and then."""

    def __init__(self, progress: Progress | None) -> None:
        self._progress = progress
        self._task = progress.add_task("", total=None) if progress else None
        self._first: tuple[float, int] | None = None
        self._last_line = 0.0
        self._failed = 0

    def show(self, status: "Status") -> None:
        """Show how far the study is."""
        now = time.monotonic()
        self._first = self._first or (now, status.episodes_done)
        for failure in status.failures[self._failed :]:
            print(f"driftrl: {failure.name} failed: {failure.reason}", file=sys.stderr)
        self._failed = len(status.failures)
        text = f"{status.runs_done}/{status.runs_total} runs, {self._left(status, now)}"
        if self._progress is not None and self._task is not None:
            self._progress.update(
                self._task,
                total=status.episodes_total,
                completed=status.episodes_done,
                description=text,
            )
        elif now - self._last_line >= _LOG_SECONDS:
            self._last_line = now
            print(f"{status.episodes_done}/{status.episodes_total} episodes, {text}")

    def _left(self, status: "Status", now: float) -> str:
        """Estimate from the pace so far, once there is one."""
        assert self._first is not None
        since, done_then = self._first
        done = status.episodes_done - done_then
        if done < 3:
            return "time left not known yet"
        left = (now - since) / done * (status.episodes_total - status.episodes_done)
        return f"{duration(left)} left"


@contextlib.contextmanager
def study_progress() -> Iterator[_StudyProgress]:
    """Show the runs of a study."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _StudyProgress(None)
        return
    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("episodes, {task.description}"),
    )
    with Progress(*columns, console=console) as progress:
        yield _StudyProgress(progress)


@contextlib.contextmanager
def oracle_progress() -> Iterator[Callable[[int, int], None]]:
    """Say on standard error how many oracle values are still being computed."""
    started = time.monotonic()

    def tell(done: int, total: int) -> None:
        text = f"computing J*(θ): {done} of {total}"
        if done:
            left = (time.monotonic() - started) / done * (total - done)
            text += f", {duration(left)} left"
        print(text, file=sys.stderr, flush=True)

    yield tell
