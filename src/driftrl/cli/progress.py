"""Progress of runs, studies and oracles, in a terminal and in a log file."""

import math
import sys
import time
from collections.abc import Callable, Sequence

from driftrl.engines.progress import RunProgress, study_seconds_left
from driftrl.types import EpisodeRecord

STATES = ("failed", "running", "stopped", "waiting", "finished")


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


def study_summary(runs: Sequence[RunProgress]) -> str:
    """Return how many runs are how far, and how long the rest will take."""
    counts = {state: sum(run.state == state for run in runs) for state in STATES}
    parts = [f"{count} {state}" for state, count in reversed(counts.items()) if count]
    done = sum(run.episodes for run in runs)
    total = sum(run.planned or run.episodes for run in runs)
    left, end = study_seconds_left(runs), "; nothing is running"
    if counts["running"]:
        end = "; unknown time left" if left is None else f"; {duration(left)} left"
    elif counts["failed"] + counts["finished"] == len(runs):
        end = ""
    return f"{', '.join(parts)}; {done} of {total} episodes{end}"


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
            f"{f'{duration(left)} left' if left else 'done'}"
            f"{f'; change located at {record.last_change}' * record.change_alarm}",
            flush=True,
        )

    return show


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
