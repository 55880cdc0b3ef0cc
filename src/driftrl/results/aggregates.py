"""One number a method over all problems and seeds of a study, and how sure it is.

Every run has a score (see ``score_table``), a method one for each seed of each problem.
What is made of them follows Agarwal et al. (2021), *Deep Reinforcement Learning at the
Edge of the Statistical Precipice*, whose library rliable gives the same numbers:

* the interquartile mean, the mean of the middle half of all runs;
* the probability that a run of one method beats a run of another on a problem;
* the performance profile, the share of runs that are better than τ, over τ;
* intervals from a stratified bootstrap: seeds are drawn with replacement within each
  problem, and never problems, for those are the ones that were asked about.

With few seeds these intervals are too narrow, as in ``statistics``: K seeds show on
average (K − 1)/K of their variance.

Axis letters: ``K`` runs, ``R`` resamples, ``T`` thresholds.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from driftrl.errors import require
from driftrl.results.score_table import Measure, ScoreTable, Strata, pooled
from driftrl.results.statistics import LEVEL, Interval

RESAMPLES = 5_000
_THRESHOLDS = 201
_MARGIN = 0.02  # of the range of scores, so that a profile is seen to begin and end


@dataclass(frozen=True)
class Aggregate:
    """One number, or one for each threshold, with its bootstrap interval."""

    value: np.ndarray
    interval: Interval


@dataclass(frozen=True)
class MethodAggregates:
    """What all runs of a method say together."""

    runs: int
    iqm: Aggregate
    mean: Aggregate
    median: Aggregate
    """Of the means on each problem; of the runs where there is one problem."""
    optimality_gap: Aggregate | None
    """By how much runs fall short of the target; None where there is no target."""
    profile: Aggregate
    """Share of runs that are better than each threshold."""
    improvement: Aggregate | None
    """P(a run is better than one of the baseline); None for the baseline itself."""


@dataclass(frozen=True)
class Aggregates:
    """What is said of all methods of a study."""

    table: ScoreTable
    thresholds: Float[np.ndarray, " T"]
    """τ of the performance profiles."""
    methods: Mapping[str, MethodAggregates]

    @property
    def best(self) -> str:
        """The method with the best interquartile mean."""
        oriented = self.table.measure.oriented
        return max(
            self.methods, key=lambda name: oriented(self.methods[name].iqm.value)
        )


def interquartile_mean(scores: Float[np.ndarray, "*R K"]) -> Float[np.ndarray, "*R"]:
    """Mean of the middle half: without the ⌊K/4⌋ lowest and as many of the highest."""
    count = scores.shape[-1]
    cut = count // 4
    middle = np.sort(scores, axis=-1)[..., cut : count - cut]
    return np.asarray(middle.mean(axis=-1))


def problem_median(
    strata: Sequence[Float[np.ndarray, "*R _"]],
) -> Float[np.ndarray, "*R"]:
    """Median over problems of the mean over seeds; over seeds if there is one problem.

    The median of a single mean would be that mean.
    """
    if len(strata) == 1:
        return np.asarray(np.median(strata[0], axis=-1))
    return np.asarray(np.median([one.mean(axis=-1) for one in strata], axis=0))


def optimality_gap(
    scores: Float[np.ndarray, "*R K"], target: float
) -> Float[np.ndarray, "*R"]:
    """Mean of max(0, target − score): runs past the target make up for no other."""
    return np.asarray(np.maximum(0, target - scores).mean(axis=-1))


def performance_profile(
    scores: Float[np.ndarray, " K"], thresholds: Float[np.ndarray, " T"]
) -> Float[np.ndarray, " T"]:
    """Share of the runs whose score exceeds τ, for each τ."""
    return _exceeding(scores, thresholds).mean(axis=0)


def probability_of_improvement(first: Strata, second: Strata) -> float:
    """P(X > Y) of a run X of the first and a run Y of the second, both on one problem.

    On a problem it is Mann and Whitney's statistic divided by the number of pairs,
    (#{x > y} + ½·#{x = y}) / (K_x·K_y); of that it is the mean over problems.
    """
    pairs = zip(first, second, strict=True)
    return float(np.mean([_wins(one, other).mean() for one, other in pairs]))


def _exceeding(scores: np.ndarray, thresholds: np.ndarray) -> Float[np.ndarray, "K T"]:
    return (scores[:, None] > thresholds).astype(float)


def _wins(first: np.ndarray, second: np.ndarray) -> Float[np.ndarray, "_ _"]:
    """1 for each pair in which the first is higher, ½ where they are equal."""
    rows, columns = first[:, None], second[None, :]
    return (rows > columns) + 0.5 * (rows == columns)


@dataclass(frozen=True)
class _Sample:
    """The runs of one method and all resamples of them."""

    strata: Strata
    weights: tuple[Float[np.ndarray, "R _"], ...]
    """Share that each run has in a resample of its problem."""
    drawn: tuple[Float[np.ndarray, "R _"], ...]


def aggregate(
    table: ScoreTable,
    *,
    level: float = LEVEL,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> Aggregates:
    """Return every aggregate of every method; the same ``seed`` gives the same ones."""
    require(0 < level < 1, f"A level must lie between 0 and 1, received {level!r}.")
    require(resamples >= 1, f"A bootstrap needs resamples, received {resamples}.")
    thresholds = _thresholds(table)
    samples = {
        # A stream of its own for each method: they are drawn independently.
        name: _resample(strata, resamples, np.random.default_rng([seed, place]))
        for place, (name, strata) in enumerate(table.scores.items())
    }
    improvements = {
        name: _improvement(sample, samples[table.baseline], table.measure, level)
        for name, sample in samples.items()
        if table.baseline is not None and table.baseline != name
    }
    methods = {}
    for name, sample in samples.items():
        methods[name] = MethodAggregates(
            runs=len(pooled(sample.strata)),
            iqm=_estimate(sample, lambda x: interquartile_mean(pooled(x)), level),
            mean=_estimate(sample, lambda x: pooled(x).mean(axis=-1), level),
            median=_estimate(sample, problem_median, level),
            optimality_gap=_gap(sample, table.measure, level),
            profile=_profile(sample, thresholds, table.measure, level),
            improvement=improvements.get(name),
        )
    return Aggregates(table, thresholds, methods)


def _thresholds(table: ScoreTable) -> Float[np.ndarray, " T"]:
    everyone = np.concatenate([pooled(strata) for strata in table.scores.values()])
    low, high = everyone.min(), everyone.max()
    margin = _MARGIN * (high - low) or 0.5  # if all are equal, any
    return np.linspace(low - margin, high + margin, _THRESHOLDS)


def _resample(
    strata: Strata, resamples: int, generator: np.random.Generator
) -> _Sample:
    """Draw seeds with replacement, on each problem as many as there are."""
    places = [generator.integers(0, len(one), (resamples, len(one))) for one in strata]
    return _Sample(
        strata,
        tuple(_weights(one) for one in places),
        tuple(one[drawn] for one, drawn in zip(strata, places, strict=True)),
    )


def _weights(places: Int[np.ndarray, "R K"]) -> Float[np.ndarray, "R K"]:
    resamples, count = places.shape
    cells = places + count * np.arange(resamples)[:, None]
    drawn = np.bincount(cells.ravel(), minlength=resamples * count)
    return drawn.reshape(resamples, count) / count


def _interval(samples: Float[np.ndarray, " R *T"], level: float) -> Interval:
    low, high = np.quantile(samples, [(1 - level) / 2, (1 + level) / 2], axis=0)
    return Interval(np.asarray(low), np.asarray(high))


def _estimate(
    sample: _Sample, statistic: Callable[[Strata], np.ndarray], level: float
) -> Aggregate:
    value = np.asarray(statistic(sample.strata))
    return Aggregate(value, _interval(statistic(sample.drawn), level))


def _gap(sample: _Sample, measure: Measure, level: float) -> Aggregate | None:
    target = measure.target
    if target is None:
        return None
    return _estimate(sample, lambda x: optimality_gap(pooled(x), target), level)


# A resampled mean is a weighted one, and weights make it one matrix product.


def _profile(
    sample: _Sample, thresholds: np.ndarray, measure: Measure, level: float
) -> Aggregate:
    scores = measure.oriented(pooled(sample.strata))
    exceeding = _exceeding(scores, measure.oriented(thresholds))
    shares = [len(one) / len(scores) for one in sample.strata]
    parts = [one * share for one, share in zip(sample.weights, shares, strict=True)]
    return Aggregate(
        exceeding.mean(axis=0), _interval(pooled(parts) @ exceeding, level)
    )


def _improvement(
    sample: _Sample, baseline: _Sample, measure: Measure, level: float
) -> Aggregate:
    first, second = (
        tuple(map(measure.oriented, one.strata)) for one in (sample, baseline)
    )
    resampled = [
        ((ours @ _wins(one, other)) * theirs).sum(axis=-1)
        for one, other, ours, theirs in zip(
            first, second, sample.weights, baseline.weights, strict=True
        )
    ]
    value = probability_of_improvement(first, second)
    return Aggregate(np.asarray(value), _interval(np.mean(resampled, axis=0), level))
