"""Was a run's uncertainty calibrated?  An audit from its records alone.

Before the model learned from episode n it predicted that episode; the record has the
share of predictions within μ ± 2σ, the error, and σ.  Stale data show as a pattern: the
error grows, σ does not, and the retained data reach back to before a change of θ.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from statistics import fmean, median
from typing import Any

import numpy as np
from scipy.stats import binomtest, norm

from driftrl.errors import InputError
from driftrl.types import EpisodeRecord

NOMINAL = math.erf(math.sqrt(2.0))
"""Share of a Gaussian within ± 2σ, 95.4 %."""
BROKEN = 1.0 - 4.0 * (1.0 - NOMINAL)
"""Coverage below which an episode counts as broken: four times the nominal misses."""


@dataclass(frozen=True)
class PredictedEpisode:
    """One episode as predicted by the model before it learned from it."""

    episode: int
    coverage: float
    """Share of predictions within μ ± 2σ, σ with the noise."""
    broken: bool
    """Whether ± 2σ missed at least four times as often as it should, beyond chance."""
    error: float
    """Root mean square error, in standard deviations of the true changes."""
    sigma: float
    """Epistemic σ of one output in the same unit: ‖σ‖₂/√S."""
    ratio: float
    """Error in units of σ."""
    span: int
    """Retained episodes, n − m(n)."""
    theta: float
    """θ_n, NaN if unknown."""
    distance: float
    """Largest |θ_s − θ_n| over the retained episodes s, NaN if unknown."""


@dataclass(frozen=True)
class Break:
    """Consecutive broken episodes, compared with the unbroken ones just before.

    "Before" are the unbroken episodes since the last break, at most five.
    """

    first: int
    last: int
    coverage: float
    """Lowest coverage among them."""
    error: float
    """Largest error among them."""
    error_before: float
    """Median error before; NaN if there was none."""
    sigma: float
    """σ at the first of them."""
    sigma_before: float
    oldest: int
    """m of the first of them."""
    stale: bool | None
    """Whether θ had moved since the oldest retained data; None if unknown."""
    recovered: int | None
    """First unbroken episode after it; None if the run ends broken."""


@dataclass(frozen=True)
class Staleness:
    """Episodes whose retained data held a distant θ, against the others.

    Distant is more than a tenth of the range of θ over the run.
    """

    stale_episodes: int
    fresh_episodes: int
    stale_coverage: float
    """Mean coverage."""
    fresh_coverage: float


@dataclass(frozen=True)
class Audit:
    """Calibration of a run's uncertainty."""

    episodes: int
    """Recorded episodes."""
    predicted: tuple[PredictedEpisode, ...]
    """Those that a model had predicted."""
    coverage: float
    """Mean over the predicted episodes."""
    low: float
    """95 % interval of the mean, with neighbouring episodes taken as dependent."""
    high: float
    inflation: float
    """Factor on σ that would give ± 2σ its 95 % for Gaussian errors (median)."""
    sigma: float
    """Median σ of one output, in standard deviations of the true changes."""
    ratio: float
    """Median error in units of σ."""
    breaks: tuple[Break, ...]
    staleness: Staleness | None
    """None where θ is unknown, or all episodes are stale, or none is."""

    @property
    def broken(self) -> int:
        """Number of broken episodes."""
        return sum(one.broken for one in self.predicted)

    def summary(self) -> list[str]:
        """Return at most three sentences: coverage, the deepest break, stale data."""
        count = len(self.predicted)
        lines = [
            f"± 2σ covered {self.coverage:.0%} ({self.low:.0%} to {self.high:.0%}; "
            f"{NOMINAL:.0%} if calibrated) over {count} predicted episodes, "
            f"{self.broken} of them broken; σ should be {self.inflation:.1f} times as "
            "wide."
        ]
        if self.breaks:
            one = min(self.breaks, key=lambda one: one.coverage)
            cause = {True: "stale data", False: "too little data", None: "θ unknown"}
            before = [one.error_before, one.sigma_before]
            error, sigma = (f"{x:.2g} → " if math.isfinite(x) else "" for x in before)
            lines.append(
                f"The deepest of {len(self.breaks)} breaks was at episodes {one.first} "
                f"to {one.last}: coverage {one.coverage:.0%}, error {error}"
                f"{one.error:.2g}, σ {sigma}{one.sigma:.2g}, with data from episode "
                f"{one.oldest} on ({cause[one.stale]})."
            )
        if self.staleness:
            stale = self.staleness
            lines.append(
                f"Coverage was {stale.stale_coverage:.0%} with a distant θ in the data "
                f"({stale.stale_episodes} episodes) and {stale.fresh_coverage:.0%} "
                f"without ({stale.fresh_episodes})."
            )
        return lines

    def document(self) -> dict[str, Any]:
        """Return everything as JSON types, with null for what is not finite."""
        extra = {"broken": self.broken, "summary": self.summary()}
        return _finite(asdict(self) | extra)


def audit(records: Sequence[EpisodeRecord], outputs: int) -> Audit:
    """Audit the uncertainty of a run with S ``outputs`` from its records.

    Raises:
        InputError: No episode was predicted with an uncertainty.
    """
    predicted = _predicted(records, outputs)
    if not predicted:
        raise InputError(
            f"None of the {len(records)} recorded episodes has a coverage and an "
            "epistemic σ: there is no uncertainty to audit."
        )
    coverages = [one.coverage for one in predicted]
    low, high = _mean_interval(coverages)
    inside = min(max(median(coverages), 0.001), 0.999)
    return Audit(
        episodes=len(records),
        predicted=tuple(predicted),
        coverage=fmean(coverages),
        low=low,
        high=high,
        inflation=2.0 / float(norm.ppf(0.5 + 0.5 * inside)),
        sigma=median(one.sigma for one in predicted),
        ratio=median(one.ratio for one in predicted),
        breaks=tuple(_breaks(predicted, records)),
        staleness=_staleness(predicted),
    )


def _predicted(
    records: Sequence[EpisodeRecord], outputs: int
) -> list[PredictedEpisode]:
    predicted = []
    for record in records:
        columns = (record.coverage, record.model_error, record.epistemic_std)
        values = [math.nan if value is None else value for value in columns]
        if not all(map(math.isfinite, values)):
            continue
        coverage, error, norm_of_sigma = values
        sigma = norm_of_sigma / math.sqrt(outputs)
        # Each transition is counted once.
        covered = binomtest(round(coverage * record.steps), record.steps)
        high = float(covered.proportion_ci(method="wilson").high)
        retained = records[record.first_retained - 1 : record.episode - 1]
        distances = [abs(one.theta - record.theta) for one in retained]
        predicted.append(
            PredictedEpisode(
                episode=record.episode,
                coverage=coverage,
                broken=coverage < BROKEN and high < NOMINAL,
                error=error,
                sigma=sigma,
                ratio=error / sigma if sigma > 0 else math.inf,
                span=record.episode - record.first_retained,
                theta=record.theta,
                distance=max(distances, default=0.0),
            )
        )
    return predicted


def _mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a mean of neighbours that resemble each other.

    With lag-one correlation ρ, K values are worth K·(1 − ρ)/(1 + ρ) independent ones.
    """
    if len(values) < 3:
        return 0.0, 1.0
    count, centre = len(values), fmean(values)
    residuals = np.asarray(values) - centre
    total = float(residuals @ residuals)
    if total == 0:
        return centre, centre
    correlation = min(0.95, max(0.0, float(residuals[1:] @ residuals[:-1]) / total))
    worth = max(2.0, count * (1 - correlation) / (1 + correlation))
    half = 1.96 * math.sqrt(total / (count - 1) / worth)
    return max(0.0, centre - half), min(1.0, centre + half)


def _breaks(
    predicted: Sequence[PredictedEpisode], records: Sequence[EpisodeRecord]
) -> list[Break]:
    groups = [[*group] for _, group in groupby(predicted, key=lambda one: one.broken)]
    breaks = []
    for before, broken, after in zip(
        [[], *groups[:-1]], groups, [*groups[1:], []], strict=True
    ):
        first, calm = broken[0], before[-5:]
        oldest = first.episode - first.span
        then = records[oldest - 1].theta
        known = math.isfinite(first.theta) and math.isfinite(then)
        if first.broken:
            breaks.append(
                Break(
                    first=first.episode,
                    last=broken[-1].episode,
                    coverage=min(one.coverage for one in broken),
                    error=max(one.error for one in broken),
                    error_before=median(one.error for one in calm)
                    if calm
                    else math.nan,
                    sigma=first.sigma,
                    sigma_before=median(one.sigma for one in calm)
                    if calm
                    else math.nan,
                    oldest=oldest,
                    stale=first.theta != then if known else None,
                    recovered=after[0].episode if after else None,
                )
            )
    return breaks


def _staleness(predicted: Sequence[PredictedEpisode]) -> Staleness | None:
    thetas = [one.theta for one in predicted]
    if not all(map(math.isfinite, thetas)):
        return None
    limit = 0.1 * (max(thetas) - min(thetas))
    stale = [one for one in predicted if limit > 0 and one.distance > limit]
    fresh = [one for one in predicted if one.distance <= limit]
    if not stale or not fresh:
        return None
    return Staleness(
        stale_episodes=len(stale),
        fresh_episodes=len(fresh),
        stale_coverage=fmean(one.coverage for one in stale),
        fresh_coverage=fmean(one.coverage for one in fresh),
    )


def _finite(value: Any) -> Any:
    """Return a document in which null stands for numbers that are not finite."""
    if isinstance(value, dict):
        return {key: _finite(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(one) for one in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
