"""Columns of the records as curves over episodes, and what can be read off them."""

import math
import warnings
from collections.abc import Callable, Sequence
from itertools import zip_longest

import numpy as np
from jaxtyping import Bool, Float

from driftrl.records import Run
from driftrl.types import EpisodeRecord

Measure = Callable[[EpisodeRecord], float | None]


def stack_curves(runs: Sequence[Run], measure: Measure) -> Float[np.ndarray, "K N"]:
    """Return one row a run, up to the episode that all of them have reached.

    Cutting at the common length keeps every seed in every mean: a mean over whichever
    seeds got that far would jump where one of them ends.  None becomes NaN.
    """
    episodes = min(len(run.records) for run in runs)
    # NumPy reads None as NaN when it is told to make floats.
    rows = [[measure(record) for record in run.records[:episodes]] for run in runs]
    return np.array(rows, dtype=float).reshape(len(runs), episodes)


def running(
    curves: Float[np.ndarray, "K N"], width: int, *, by_median: bool = False
) -> Float[np.ndarray, "K N"]:
    """Return the mean, or the median, of the ``width`` episodes around each one.

    ``width`` is odd, so that as many are before it as after.  Near the ends there are
    fewer.  NaN is left out; where all of them are, it stays.
    """
    reach = width // 2
    assert width == 2 * reach + 1, width
    padded = np.pad(curves, ((0, 0), (reach, reach)), constant_values=np.nan)
    around = np.lib.stride_tricks.sliding_window_view(padded, width, axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of all being NaN
        return (np.nanmedian if by_median else np.nanmean)(around, axis=-1)


def minutes_a_run(runs: Sequence[Run]) -> float:
    """Return the mean over runs of the minutes that their episodes took."""
    seconds = [sum(record.wall_s for record in run.records) for run in runs]
    return float(np.mean(seconds)) / 60


def buffer_span(record: EpisodeRecord) -> float:
    """Return n − m(n), the number of episodes that the policy was learned from."""
    return record.episode - record.first_retained


def theta_is_known(runs: Sequence[Run]) -> bool:
    """Whether every row says what θ was; a machine of one's own does not."""
    return all(math.isfinite(row.theta) for run in runs for row in run.records)


def theta_sequences(runs: Sequence[Run]) -> list[Float[np.ndarray, " N"]]:
    """Return the different courses of θ_n, longest first.

    Runs of one problem share one where θ follows the episodes; an unfinished run's
    course is the beginning of another's and is left out.  Where θ follows the decisions
    and episodes may end early, every run has its own.
    """
    courses = [
        np.array([row.theta for row in run.records], dtype=float) for run in runs
    ]
    distinct: list[np.ndarray] = []
    for course in sorted(courses, key=len, reverse=True):
        if not any(np.array_equal(known[: len(course)], course) for known in distinct):
            distinct.append(course)
    return distinct


def change_starts(thetas: Float[np.ndarray, " N"]) -> list[int]:
    """Return the episodes at which θ begins to change after it was constant.

    The episode of the first new value counts.  A θ that has changed from the first
    episode on never was constant, so that start is not one.
    """
    changed = np.diff(thetas) != 0
    begins = changed[1:] & ~changed[:-1]
    return [int(index) + 3 for index in np.flatnonzero(begins)]


def first_changes(runs: Sequence[Run]) -> list[int]:
    """Return the episodes at which θ begins to change, in the run where it does first.

    Before the first of them θ was constant in every run.
    """
    starts = [change_starts(course) for course in theta_sequences(runs)]
    earliest = [
        min(start for start in one if start is not None)
        for one in zip_longest(*starts, fillvalue=None)
    ]
    return sorted(set(earliest))


def reset_episodes(records: Sequence[EpisodeRecord]) -> list[int]:
    """Return the episodes whose policy is the first to be learned after a reset.

    A sliding window moves m(n) up by one an episode; a larger jump is a reset.
    """
    retained = np.array([record.first_retained for record in records])
    return [int(index) + 2 for index in np.flatnonzero(np.diff(retained) > 1)]


def soon_after_reset(
    records: Sequence[EpisodeRecord], episodes: int
) -> Bool[np.ndarray, " N"]:
    """Mark the first ``episodes`` episodes that follow each reset."""
    marked = np.zeros(len(records), dtype=bool)
    for start in reset_episodes(records):
        marked[start - 1 : start - 1 + episodes] = True
    return marked
