"""One number per method over all problems and seeds, and how sure it is.

Every run has a score.  The aggregates follow Agarwal et al. (2021), *Deep Reinforcement
Learning at the Edge of the Statistical Precipice*, whose library rliable gives the same
numbers: interquartile mean, optimality gap, probability of improvement, performance
profile, with intervals from a stratified bootstrap, which draws seeds with replacement
within each problem.  With few seeds these intervals are too narrow.

Axis letters: ``K`` runs, ``R`` resamples, ``T`` thresholds.
"""

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import polars
from jaxtyping import Float
from scipy import stats

from driftrl.analysis.names import default_baseline
from driftrl.analysis.regret import ProblemSummary, runs_by_method, stack, summarize
from driftrl.analysis.statistics import LEVEL, Interval
from driftrl.errors import InputError, counted

RESAMPLES = 5_000
_FEWEST_SEEDS = 2  # a single run says nothing about its scatter
_THRESHOLDS = 201
_MARGIN = 0.02  # of the range of scores, so that a profile is seen to begin and end

Strata = Sequence[Float[np.ndarray, "*R _"]]
"""Scores of the runs of one method, an array for each problem."""


@dataclass(frozen=True)
class Measure:
    """What a run is judged by."""

    name: str
    meaning: str
    """In a sentence or two, shown with the numbers."""
    higher_is_better: bool = True
    target: float | None = None
    """The score of a run that is optimal throughout, if it is known."""

    def oriented(self, scores: np.ndarray) -> np.ndarray:
        """Return scores of which more is better."""
        return np.asarray(scores if self.higher_is_better else -scores)


OPTIMALITY = Measure(
    "score",
    "The score of a run is 1 − R_N / Σ|J*(θ_n)|: 1 if every episode was optimal, 0.9 "
    "if its returns were short of the optimum by 10 % of |J*|. Where rewards are "
    "positive that is the share of the best possible return; where they are costs, 0 "
    "is twice the least possible cost, and scores below 0 occur.",
    target=1.0,
)
RANGED = Measure(
    "score",
    "J*(θ) is not known for all problems, so the score of a run is its mean return, "
    "scaled so that the worst run of a problem has 0 and the best 1. It compares the "
    "runs with each other and does not say how good they are. There is no optimality "
    "gap.",
)


@dataclass(frozen=True)
class Aggregate:
    """One number, or one for each threshold, with its bootstrap interval."""

    value: np.ndarray
    interval: Interval


@dataclass(frozen=True)
class MethodAggregates:
    """All runs of a method together."""

    runs: int
    iqm: Aggregate
    mean: Aggregate
    median: Aggregate
    """Of the means on each problem; of the runs if there is one problem."""
    optimality_gap: Aggregate | None
    """Mean shortfall from the target; None without a target."""
    profile: Aggregate
    """Share of runs that are better than each threshold."""
    improvement: Aggregate | None
    """P(a run is better than one of the baseline); None for the baseline itself."""


@dataclass(frozen=True)
class Aggregates:
    """All methods, judged by the same runs of the same problems."""

    measure: Measure
    problems: tuple[str, ...]
    scores: Mapping[str, Strata]
    """Of each method, the scores of its seeds on each problem."""
    thresholds: Float[np.ndarray, " T"]
    """τ of the performance profiles."""
    methods: Mapping[str, MethodAggregates] = field(default_factory=dict)
    baseline: str | None = None
    """The method that the others are compared with; None if it does not count."""
    problems_left_out: tuple[str, ...] = ()
    methods_left_out: tuple[str, ...] = ()
    runs_left_out: int = 0

    @property
    def best(self) -> str:
        """The method with the best interquartile mean."""
        return max(
            self.methods,
            key=lambda name: self.measure.oriented(self.methods[name].iqm.value),
        )


def compare(frame: polars.DataFrame) -> polars.DataFrame:
    """Return aggregate scores of each method over all problems and seeds.

    The score of a run is 1 − R_N / Σ|J*|.  If only one problem counts it is R_N, and
    where J* is unknown the mean return, scaled to [0, 1] if there are several problems.

    Returns:
        One row per method: its runs, the name of the score, and with 95 % intervals
        (``…_low``, ``…_high``) iqm, mean, median, optimality_gap and improvement, the
        probability that a run is better than one of the baseline.
    """
    aggregates = aggregate(summarize(frame))
    if aggregates is None:
        raise InputError(
            "There is nothing to compare: aggregates need two methods with two shared "
            "seeds on at least one problem."
        )
    rows = []
    for name, method in aggregates.methods.items():
        row = {"method": name, "runs": method.runs, "score": aggregates.measure.name}
        for column in ("iqm", "mean", "median", "optimality_gap", "improvement"):
            one: Aggregate | None = getattr(method, column)
            ends = (one.value, one.interval.low, one.interval.high) if one else ()
            numbers = [float(end) for end in ends] or [None] * 3
            names = (column, f"{column}_low", f"{column}_high")
            row |= dict(zip(names, numbers, strict=True))
        rows.append(row)
    return polars.DataFrame(rows, infer_schema_length=None)


def aggregate(summaries: Sequence[ProblemSummary]) -> Aggregates | None:
    """Return every aggregate of every method; None if there is nothing to compare.

    All methods are judged by the same mixture of problems: those on which every method
    was run (if there is none, the methods that were run on all of them), and of each
    the seeds that all these methods ran, if there are at least two.
    """
    kept, methods = _complete(summaries)
    seeds = [_shared_seeds(summary, methods) for summary in kept]
    chosen = [
        (summary, shared)
        for summary, shared in zip(kept, seeds, strict=True)
        if len(shared) >= _FEWEST_SEEDS
    ]
    if len(methods) < 2 or not chosen:
        return None
    measure, scores = _scores([summary for summary, _ in chosen])
    columns = [
        {
            method.method: values[method.method][
                [method.seeds.index(seed) for seed in shared]
            ]
            for method in summary.methods
            if method.method in methods
        }
        for (summary, shared), values in zip(chosen, scores, strict=True)
    ]
    if measure == RANGED:
        columns = [_ranged(column) for column in columns]
    problems = tuple(summary.problem for summary, _ in chosen)
    started = sum(len(one.seeds) for summary in summaries for one in summary.methods)
    strata = {name: [column[name] for column in columns] for name in methods}
    baseline = default_baseline(methods)
    return Aggregates(
        measure=measure,
        problems=problems,
        scores=strata,
        thresholds=_thresholds(strata),
        methods=aggregate_scores(strata, measure, baseline),
        baseline=baseline if baseline in methods else None,
        problems_left_out=tuple(
            one.problem for one in summaries if one.problem not in problems
        ),
        methods_left_out=tuple(
            name for name in _method_names(summaries) if name not in methods
        ),
        runs_left_out=started - len(methods) * sum(len(one) for _, one in chosen),
    )


def _complete(
    summaries: Sequence[ProblemSummary],
) -> tuple[list[ProblemSummary], list[str]]:
    """Return the problems and the methods of which every pair was run."""
    names = _method_names(summaries)
    ran = [{one.method for one in summary.methods} for summary in summaries]
    full = [s for s, some in zip(summaries, ran, strict=True) if some == set(names)]
    if full:
        return full, names
    everywhere = [name for name in names if all(name in some for some in ran)]
    return list(summaries), everywhere


def _method_names(summaries: Sequence[ProblemSummary]) -> list[str]:
    return list(
        dict.fromkeys(one.method for summary in summaries for one in summary.methods)
    )


def _shared_seeds(summary: ProblemSummary, methods: Sequence[str]) -> list[int]:
    seeds = [set(one.seeds) for one in summary.methods if one.method in methods]
    return sorted(set.intersection(*seeds)) if seeds else []


def _scores(
    summaries: Sequence[ProblemSummary],
) -> tuple[Measure, list[dict[str, Float[np.ndarray, " _"]]]]:
    """Return what to judge by, and the value of every run of each problem."""
    returns = [{m.method: m.mean_return.values for m in s.methods} for s in summaries]
    if len(summaries) > 1:
        possible = [_possible_returns(summary) for summary in summaries]
        if all(sums.all() for one in possible for sums in one.values()):
            return OPTIMALITY, [
                {m.method: 1 - m.final.values / sums[m.method] for m in s.methods}
                for s, sums in zip(summaries, possible, strict=True)
            ]
        return RANGED, returns
    (summary,) = summaries
    episodes = counted(summary.episodes, "episode")
    if not summary.is_known:
        text = f"The score of a run is its mean return over {episodes}."
        return Measure("mean return", text), returns
    text = f"The score of a run is its cumulative regret after {episodes}."
    measure = Measure(f"regret R_{summary.episodes}", text, higher_is_better=False)
    return measure, [{m.method: m.final.values for m in summary.methods}]


def _possible_returns(summary: ProblemSummary) -> dict[str, np.ndarray]:
    """Return Σ_{n ≤ N} |J*(θ_n)| of each run; 0 where J* is unknown."""
    groups = runs_by_method(summary.frame)
    sums = {
        name: np.abs(stack(runs, "optimal_return")[:, : summary.episodes]).sum(axis=1)
        for name, runs in groups.items()
    }
    return {name: np.nan_to_num(one) for name, one in sums.items()}


def _ranged(
    values: Mapping[str, Float[np.ndarray, " _"]],
) -> dict[str, Float[np.ndarray, " _"]]:
    """Map the worst run of a problem to 0 and the best to 1; all to ½ if equal."""
    everyone = np.concatenate([*values.values()])
    low, high = everyone.min(), everyone.max()
    if low == high:
        return {name: np.full(len(one), 0.5) for name, one in values.items()}
    return {name: (one - low) / (high - low) for name, one in values.items()}


# The aggregates.  Statistics take an array for each problem, runs along the last axis.


def interquartile_mean(strata: Strata) -> Float[np.ndarray, "*R"]:
    """Mean of the middle half of all runs."""
    return np.asarray(stats.trim_mean(_pooled(strata), 0.25, axis=-1))


def problem_median(strata: Strata) -> Float[np.ndarray, "*R"]:
    """Median over problems of the mean over seeds; over seeds of a single problem."""
    if len(strata) == 1:
        return np.asarray(np.median(strata[0], axis=-1))
    return np.asarray(np.median([one.mean(axis=-1) for one in strata], axis=0))


def optimality_gap(strata: Strata, target: float) -> Float[np.ndarray, "*R"]:
    """Mean of max(0, target − score)."""
    return np.asarray(np.maximum(0, target - _pooled(strata)).mean(axis=-1))


def performance_profile(
    strata: Strata, thresholds: Float[np.ndarray, " T"]
) -> Float[np.ndarray, "*R T"]:
    """Share of the runs whose score exceeds each threshold."""
    scores = np.sort(_pooled(strata), axis=-1)
    count = scores.shape[-1]
    flat = scores.reshape(-1, count)
    above = [count - np.searchsorted(row, thresholds, side="right") for row in flat]
    return np.reshape(above, (*scores.shape[:-1], len(thresholds))) / count


def probability_of_improvement(first: Strata, second: Strata) -> np.ndarray:
    """P(X > Y) of a run X of the first and Y of the second method on one problem.

    Mann and Whitney's (#{x > y} + ½·#{x = y}) / (K_x·K_y), averaged over problems.
    """
    wins = []
    for ours, theirs in zip(first, second, strict=True):
        x, y = ours[..., :, None], theirs[..., None, :]
        wins.append(((x > y) + 0.5 * (x == y)).mean(axis=(-2, -1)))
    return np.asarray(np.mean(wins, axis=0))


def aggregate_scores(
    scores: Mapping[str, Strata],
    measure: Measure,
    baseline: str,
    *,
    resamples: int = RESAMPLES,
) -> dict[str, MethodAggregates]:
    """Return the aggregates of each method; always with the same random streams."""
    # A separate random stream for each method: they are drawn independently.
    drawn = {
        name: _resampled(strata, resamples, np.random.default_rng([0, index]))
        for index, (name, strata) in enumerate(scores.items())
    }
    thresholds = measure.oriented(_thresholds(scores))

    def estimate(name: str, statistic: Callable[[Strata], np.ndarray]) -> Aggregate:
        samples = statistic(drawn[name])
        tails = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
        low, high = np.quantile(samples, tails, axis=0)
        value = np.asarray(statistic(scores[name]))
        return Aggregate(value, Interval(np.asarray(low), np.asarray(high)))

    def oriented(strata: Strata) -> list[np.ndarray]:
        return [measure.oriented(one) for one in strata]

    def improvement(name: str) -> Aggregate:
        def statistic(strata: Strata) -> np.ndarray:
            other = (drawn if strata is drawn[name] else scores)[baseline]
            return probability_of_improvement(oriented(strata), oriented(other))

        return estimate(name, statistic)

    target = measure.target
    return {
        name: MethodAggregates(
            runs=sum(map(len, strata)),
            iqm=estimate(name, interquartile_mean),
            mean=estimate(name, lambda one: _pooled(one).mean(axis=-1)),
            median=estimate(name, problem_median),
            optimality_gap=None
            if target is None
            else estimate(name, functools.partial(optimality_gap, target=target)),
            profile=estimate(
                name, lambda one: performance_profile(oriented(one), thresholds)
            ),
            improvement=improvement(name)
            if baseline in scores and name != baseline
            else None,
        )
        for name, strata in scores.items()
    }


def _thresholds(scores: Mapping[str, Strata]) -> Float[np.ndarray, " T"]:
    everyone = np.concatenate([_pooled(strata) for strata in scores.values()])
    low, high = everyone.min(), everyone.max()
    margin = _MARGIN * (high - low) or 0.5  # if all are equal
    return np.linspace(low - margin, high + margin, _THRESHOLDS)


def _resampled(
    strata: Strata, resamples: int, rng: np.random.Generator
) -> list[np.ndarray]:
    """Draw seeds with replacement, on each problem as many as there are."""
    return [one[rng.integers(0, len(one), (resamples, len(one)))] for one in strata]


def _pooled(strata: Strata) -> Float[np.ndarray, "*R K"]:
    """Return the runs of all problems along the last axis."""
    return np.concatenate(strata, axis=-1)
