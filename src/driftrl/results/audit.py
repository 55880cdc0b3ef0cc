"""Was a run's uncertainty right?  An audit from its records alone.

Before the model learned from episode n it predicted that episode, and the record says
how that went: the share of predictions within μ ± 2σ, the error, and σ.  The paper's
stale-data problem is a pattern in these three: the error grows, σ does not, and the
memory reaches back to before the change.

``driftrl.results.audit_wording`` says in words what is found here.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean, median

from driftrl.errors import InputError
from driftrl.results.statistics import wilson_interval
from driftrl.types import EpisodeRecord

PROMISED = math.erf(math.sqrt(2.0))
"""Share of a Gaussian within ± 2σ, 95.4 %."""
BROKEN = 1.0 - 4.0 * (1.0 - PROMISED)
"""Coverage below which an episode counts as broken: four times the promised misses."""
GROWN = 1.5
"""Factor by which an error or σ must rise to be called grown."""

_NORMAL = NormalDist()


@dataclass(frozen=True)
class JudgedEpisode:
    """One episode, as the model that had not seen it foresaw it."""

    episode: int
    coverage: float
    """Share of predictions within μ ± 2σ, σ with the noise."""
    low: float
    """Wilson interval (95 %) of the coverage, with each transition counted once ..."""
    high: float
    """... for the outputs of a transition err together; it is still too narrow."""
    error: float
    """Root mean square error, in units of the spread of the true changes."""
    sigma: float
    """Epistemic σ of one output in the same units: ‖σ‖₂/√S."""
    span: int
    """Episodes in memory, n − m(n)."""
    theta: float
    """θ_n, NaN if nobody knows."""
    stale: float
    """Largest |θ_s − θ_n| over the episodes s in memory, NaN if nobody knows."""

    @property
    def ratio(self) -> float:
        """Error in units of its own epistemic σ."""
        return self.error / self.sigma if self.sigma > 0 else math.inf

    @property
    def broken(self) -> bool:
        """Whether ± 2σ missed at least four times as often as it promises."""
        return self.coverage < BROKEN and self.high < PROMISED


@dataclass(frozen=True)
class Break:
    """Consecutive broken episodes, and what was before and after them.

    "Before" are the unbroken episodes since the last break, at most five: a model that
    has learned is the measure, and not one that is learning.
    """

    first: int
    last: int
    lowest: float
    """Lowest coverage among them."""
    span: int
    """Episodes in memory at the first of them."""
    error: float
    """Largest error among them."""
    error_before: float
    """Median error before; NaN if nothing was."""
    sigma: float
    """σ at the first of them."""
    sigma_before: float
    theta: float
    theta_oldest: float
    """θ of the oldest episode in memory at the first of them; NaN if unknown."""
    recovered: int | None
    """First episode after it that is not broken; None if the run ends broken."""
    oldest_then: int | None
    """m of that episode."""
    error_then: float
    """Error of that episode, NaN if there is none."""

    @property
    def follows_change(self) -> bool | None:
        """Whether θ had moved since the oldest data; None if nobody knows."""
        if not math.isfinite(self.theta) or not math.isfinite(self.theta_oldest):
            return None
        return self.theta != self.theta_oldest

    @property
    def error_grew(self) -> bool:
        """Whether the error was larger than the run's own before."""
        return self.error > GROWN * self.error_before

    @property
    def sigma_grew(self) -> bool:
        """Whether σ had announced it."""
        return self.sigma > GROWN * self.sigma_before


@dataclass(frozen=True)
class Staleness:
    """Memories that held a θ far from the episode's own, against the others."""

    stale_episodes: int
    fresh_episodes: int
    stale_coverage: float
    """Mean coverage of the episodes whose memory was stale."""
    fresh_coverage: float
    stale_ratio: float
    """Median error in units of σ, likewise."""
    fresh_ratio: float


@dataclass(frozen=True)
class Audit:
    """What a run's records say about its uncertainty."""

    episodes: int
    """Episodes of the run so far."""
    judged: tuple[JudgedEpisode, ...]
    """Those that a model had foreseen."""
    coverage: float
    """Mean over the judged episodes."""
    low: float
    """95 % interval of the mean, episodes as units, neighbours taken as dependent."""
    high: float
    inflation: float
    """Factor on σ that would give ± 2σ its 95 %, were errors Gaussian (median)."""
    sharpness: float
    """Median σ of one output, in units of the spread of the true changes."""
    error: float
    """Median error in the same units."""
    ratio: float
    """Median error in units of its own σ."""
    breaks: tuple[Break, ...]
    """Where it broke, in order."""
    staleness: Staleness | None
    """None where θ is unknown, or never far from what the memory holds, or always."""

    @property
    def broken(self) -> int:
        """Number of broken episodes."""
        return sum(one.broken for one in self.judged)

    @property
    def always_broken(self) -> bool:
        """Whether most episodes were broken, so that breaks mark nothing."""
        return 2 * self.broken > len(self.judged)


def audit(records: Sequence[EpisodeRecord], outputs: int) -> Audit:
    """Judge the uncertainty of a run.

    Args:
        records: Its rows so far.
        outputs: Numbers S of an observation.

    Raises:
        InputError: No episode was foreseen with an uncertainty.
    """
    judged = _judged(records, outputs)
    if not judged:
        raise InputError(
            f"None of the {len(records)} recorded episodes has a coverage and an "
            "epistemic σ: an agent without a model, or one that has not learned yet, "
            "has no uncertainty to audit."
        )
    coverages = [one.coverage for one in judged]
    low, high = _mean_interval(coverages)
    return Audit(
        episodes=len(records),
        judged=tuple(judged),
        coverage=fmean(coverages),
        low=low,
        high=high,
        inflation=_inflation(median(coverages)),
        sharpness=median(one.sigma for one in judged),
        error=median(one.error for one in judged),
        ratio=median(one.ratio for one in judged),
        breaks=tuple(_breaks(judged, records)),
        staleness=_staleness(judged),
    )


def _judged(records: Sequence[EpisodeRecord], outputs: int) -> list[JudgedEpisode]:
    found = []
    for record in records:
        seen = (record.coverage, record.model_error, record.epistemic_std)
        values = [math.nan if value is None else value for value in seen]
        if not all(map(math.isfinite, values)):
            continue
        coverage, error, sigma = values
        low, high = wilson_interval(coverage, record.steps)
        held = records[record.first_retained - 1 : record.episode - 1]
        found.append(
            JudgedEpisode(
                episode=record.episode,
                coverage=coverage,
                low=low,
                high=high,
                error=error,
                sigma=sigma / math.sqrt(outputs),
                span=record.episode - record.first_retained,
                theta=record.theta,
                stale=max((abs(one.theta - record.theta) for one in held), default=0.0),
            )
        )
    return found


def _mean_interval(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % interval of a mean of neighbours that resemble each other.

    With lag-one correlation ρ, K values are worth K·(1 − ρ)/(1 + ρ) independent ones.
    """
    count, centre = len(values), fmean(values)
    residuals = [value - centre for value in values]
    total = sum(one**2 for one in residuals)
    if count < 3 or total == 0:
        return (0.0, 1.0) if count < 3 else (centre, centre)
    pairs = zip(residuals[1:], residuals[:-1], strict=True)
    correlation = min(0.95, max(0.0, sum(a * b for a, b in pairs) / total))
    worth = max(2.0, count * (1 - correlation) / (1 + correlation))
    half = 1.96 * math.sqrt(total / (count - 1) / worth)
    return max(0.0, centre - half), min(1.0, centre + half)


def _inflation(coverage: float) -> float:
    """Return the factor on σ after which ± 2σ would cover what it promises."""
    inside = min(max(coverage, 0.001), 0.999)
    return 2.0 / _NORMAL.inv_cdf(0.5 + 0.5 * inside)


def _breaks(
    judged: Sequence[JudgedEpisode], records: Sequence[EpisodeRecord]
) -> list[Break]:
    found: list[Break] = []
    calm: list[JudgedEpisode] = []
    place = 0
    while place < len(judged):
        if not judged[place].broken:
            calm.append(judged[place])
            place += 1
            continue
        end = place
        while end < len(judged) and judged[end].broken:
            end += 1
        after = judged[end] if end < len(judged) else None
        found.append(_break(judged[place:end], calm[-5:], after, records))
        calm, place = [], end
    return found


def _break(
    broken: Sequence[JudgedEpisode],
    calm: Sequence[JudgedEpisode],
    after: JudgedEpisode | None,
    records: Sequence[EpisodeRecord],
) -> Break:
    first = broken[0]
    oldest = records[first.episode - first.span - 1]
    return Break(
        first=first.episode,
        last=broken[-1].episode,
        lowest=min(one.coverage for one in broken),
        span=first.span,
        error=max(one.error for one in broken),
        error_before=median(one.error for one in calm) if calm else math.nan,
        sigma=first.sigma,
        sigma_before=median(one.sigma for one in calm) if calm else math.nan,
        theta=first.theta,
        theta_oldest=oldest.theta,
        recovered=after.episode if after else None,
        oldest_then=after.episode - after.span if after else None,
        error_then=after.error if after else math.nan,
    )


def _staleness(judged: Sequence[JudgedEpisode]) -> Staleness | None:
    """Compare episodes whose memory held a θ far from theirs with the others.

    Far is a tenth of the range of θ over the run.
    """
    thetas = [one.theta for one in judged]
    if not all(map(math.isfinite, thetas)):
        return None
    far = 0.1 * (max(thetas) - min(thetas))
    stale = [one for one in judged if far > 0 and one.stale > far]
    fresh = [one for one in judged if one.stale <= far]
    if not stale or not fresh:
        return None
    return Staleness(
        stale_episodes=len(stale),
        fresh_episodes=len(fresh),
        stale_coverage=fmean(one.coverage for one in stale),
        fresh_coverage=fmean(one.coverage for one in fresh),
        stale_ratio=median(one.ratio for one in stale),
        fresh_ratio=median(one.ratio for one in fresh),
    )
