"""By what methods are compared: R_N where J* is known, and otherwise their returns.

The mean return of an episode needs no oracle, and neither do its differences, for J*
cancels in them::

    (R_baseline − R_method) / N = mean of J(π_method) − mean of J(π_baseline)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from driftrl.results.late import late_mean
from driftrl.results.regret import PairedDifference, StudyRegret, achieved_returns
from driftrl.results.statistics import Estimate, estimate_mean


@dataclass(frozen=True)
class Scores:
    """One number a method, and how it differs from the baseline’s."""

    finals: Mapping[str, Estimate]
    """Of each method up to episode N, the baseline first."""
    differences: tuple[PairedDifference, ...]
    """Of each method to the baseline, on the seeds that both ran."""
    before_change: tuple[PairedDifference, ...]
    """The same up to the last episode before θ first changes; empty if it does not."""
    best: str
    """The method with the best mean."""

    @property
    def leaders(self) -> list[str]:
        """The best method, and those whose runs came to exactly the same as its."""
        best = self.finals[self.best].values
        return [
            name
            for name, one in self.finals.items()
            if np.array_equal(one.values, best)
        ]


def scores_of(study: StudyRegret) -> Scores:
    """Return R_N of every method; the mean return of an episode if no J* is known."""
    if study.table.known:
        finals = {one.method: one.final for one in study.methods}
        best = min(finals, key=lambda method: finals[method].mean)
        return Scores(finals, study.differences, study.differences_before_change, best)
    finals = mean_returns(study)
    best = max(finals, key=lambda method: finals[method].mean)
    return Scores(
        finals,
        return_differences(study.differences),
        return_differences(study.differences_before_change),
        best,
    )


def mean_returns(study: StudyRegret) -> dict[str, Estimate]:
    """Return the mean return of an episode of each method, over episodes 1 … N."""
    means = {
        one.method: [
            achieved_returns(run.records[: study.episodes]).mean()
            for run in study.runs_of(one.method)
        ]
        for one in study.methods
    }
    return {method: estimate_mean(np.array(values)) for method, values in means.items()}


def return_differences(
    differences: Sequence[PairedDifference],
) -> tuple[PairedDifference, ...]:
    """Turn differences in R_n into those in mean return, of which more is better."""
    return tuple(
        replace(one, estimate=estimate_mean(-one.estimate.values / one.episode))
        for one in differences
    )


def late_returns(
    study: StudyRegret, *, after_reset: int = 0
) -> dict[str, Estimate | None]:
    """Return the mean return of each method over the last episodes up to N.

    None if all of them are among the ``after_reset`` that follow a reset.
    """
    return {
        one.method: late_mean(
            [run.records[: study.episodes] for run in study.runs_of(one.method)],
            achieved_returns,
            after_reset=after_reset,
        )
        for one in study.methods
    }
