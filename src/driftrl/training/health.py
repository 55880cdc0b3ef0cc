"""Does the controller still work?  A verdict from the rows of a run.

The newest five episodes are compared with up to twenty before them:

- *returns*: a one-sided rank test (Mann and Whitney's) asks whether the newest are
  worse; evaluated returns where there are some, since they are of comparable starts.
  Of returns that do not change, at most one check in 10,000 raises a false alarm;
- *model*: coverage of its stated 95 % intervals, and its error, each on episodes that
  it had not learned from;
- *changes* that the forgetting rule has located, before the newest episode.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import Literal

import numpy as np

from driftrl.types import EpisodeRecord

NEWEST, PAST = 5, 20
LEAST_PAST = 14  # with fewer, not even the worst returns would be below FALSE_ALARMS
FALSE_ALARMS = 1e-4
"""Of one check."""
LEAST_COVERAGE = 0.8
MOST_ERROR = 2.0
"""Error of the model against its usual one."""


@dataclass(frozen=True)
class Health:
    """What the newest episodes say; None where there is nothing to say."""

    verdict: Literal["too early", "healthy", "changed", "degraded"]
    """Degraded: returns have dropped.  Changed: they have not, but a change was
    located, or the model no longer predicts what happens."""
    reasons: tuple[str, ...]
    episodes: int
    newest_return: float | None = None
    """Mean of the newest episodes."""
    past_return: float | None = None
    """Mean of those before."""
    p_value: float | None = None
    """Of the test that the newest are no worse."""
    coverage: float | None = None
    error_ratio: float | None = None
    """Median error of the model in the newest episodes, by that in those before."""
    since_change: int | None = None
    """Episodes since the last change that the forgetting rule has located."""

    @property
    def works(self) -> bool:
        """Whether the controller earns what it did."""
        return self.verdict != "degraded"


def health(records: Sequence[EpisodeRecord]) -> Health:
    """Judge a run by its rows."""
    count = len(records)
    newest, past = records[-NEWEST:], records[-NEWEST - PAST : -NEWEST]
    if len(past) < LEAST_PAST:
        needed = NEWEST + LEAST_PAST
        reason = f"{count} episodes are recorded; a verdict needs {needed}."
        return Health("too early", (reason,), count)
    now, before = _returns(newest, past)
    p_value = _worse(now, before)
    covered = [row.coverage for row in newest if row.coverage is not None]
    errors = [
        [row.model_error for row in rows if row.model_error is not None]
        for rows in (newest, past)
    ]
    coverage = fmean(covered) if covered else None
    ratio = median(errors[0]) / max(median(errors[1]), 1e-12) if all(errors) else None
    located = records[-1].last_change or 1
    since = count - located + 1 if located > 1 else None
    reasons = []
    if since is not None and since <= NEWEST:
        reasons.append(f"The machine has changed: everything before episode {located}.")
    if coverage is not None and coverage < LEAST_COVERAGE:
        reasons.append(f"The model's 95 % intervals held {coverage:.0%}.")
    if errors[1] and not errors[0]:
        reasons.append("The model's predictions are not finite.")
    if ratio is not None and ratio > MOST_ERROR:
        reasons.append(f"The model's error is {ratio:.1f} times its usual one.")
    verdict = "changed" if reasons else "healthy"
    if p_value < FALSE_ALARMS:
        verdict = "degraded"
        reasons.insert(0, f"Returns fell from {fmean(before):.4g} to {fmean(now):.4g}.")
    values = (fmean(now), fmean(before), p_value, coverage, ratio, since)
    return Health(verdict, tuple(reasons), count, *values)


def _worse(now: Sequence[float], before: Sequence[float]) -> float:
    """Return the p-value of the hypothesis that the newest returns are no worse.

    The exact test needs returns without ties: at a tie the newest count as better.
    """
    from scipy.stats import mannwhitneyu  # slow to import

    pooled = np.array([*before, *now])
    is_new = np.arange(len(pooled)) >= len(before)
    ranks = np.argsort(np.lexsort((is_new, pooled)))
    new, old = ranks[is_new], ranks[~is_new]
    return float(mannwhitneyu(new, old, alternative="less", method="exact").pvalue)


def _returns(*parts: Sequence[EpisodeRecord]) -> tuple[list[float], ...]:
    """Return the evaluated returns if every row has one, else the executed ones."""
    evaluated = all(row.return_eval is not None for rows in parts for row in rows)
    return tuple(
        [
            row.return_executed if not evaluated else float(row.return_eval or 0.0)
            for row in rows
        ]
        for rows in parts
    )
