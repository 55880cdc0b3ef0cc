"""Progress of runs, studies and oracles, in a terminal and in a log file."""

import contextlib
import math
import sys
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from driftrl.cli.options import warn
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


def number(value: float | None, form: str) -> str:
    """Return a number in a format; a dash if it is unknown."""
    return "–" if value is None or not math.isfinite(value) else format(value, form)


def episode_printer(episodes: int) -> Callable[[EpisodeRecord], None]:
    """Return what prints a line an episode, with the time left of so many."""
    times: list[float] = []

    def show(record: EpisodeRecord) -> None:
        if not times:
            print("episode        θ     return  data from  model error  coverage")
        times.append(record.wall_s)
        recent = times[-5:]
        left = (episodes - record.episode) * sum(recent) / len(recent)
        print(
            f"{record.episode:4d}/{episodes:<4d} {number(record.theta, '.3f'):>7} "
            f"{record.return_executed:10.1f} {record.first_retained:10d} "
            f"{number(record.model_error, '.3f'):>11} "
            f"{number(record.coverage, '.3f'):>9}  "
            f"{f'{duration(left)} left' if left else 'done'}",
            flush=True,
        )

    return show


@contextlib.contextmanager
def study_progress() -> Iterator[Callable[["Status"], None]]:
    """Show a bar with the time left; without a terminal, a line now and then."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    bar = Progress(*columns, console=console, disable=not console.is_terminal)
    job = bar.add_task("", total=None)
    first: tuple[float, int] | None = None
    last_line, failed = 0.0, 0

    def show(status: "Status") -> None:
        nonlocal first, last_line, failed
        for failure in status.failures[failed:]:
            warn(f"{failure.name} failed: {failure.reason}")
        failed = len(status.failures)
        now, done, total = time.monotonic(), status.episodes_done, status.episodes_total
        first = first or (now, done)
        new, left = done - first[1], "time left not known yet"
        if new >= 3:
            left = f"{duration((now - first[0]) / new * (total - done))} left"
        text = f"episodes, {status.runs_done}/{status.runs_total} runs, {left}"
        bar.update(job, total=total, completed=done, description=text)
        if bar.disable and now - last_line >= _LOG_SECONDS:
            last_line = now
            print(f"{done}/{total} {text}")

    with bar:
        yield show


def oracle_progress() -> Callable[[int, int], None]:
    """Return what prints how many oracle values are still being computed."""
    started = time.monotonic()

    def show(done: int, total: int) -> None:
        text = f"computing J*(θ): {done} of {total}"
        if done:
            left = (time.monotonic() - started) / done * (total - done)
            text += f", {duration(left)} left"
        print(text, file=sys.stderr, flush=True)

    return show
