"""One number per method over all problems and seeds, and how sure it is.

Every run has a score.  The aggregates follow Agarwal et al. (2021), *Deep Reinforcement
Learning at the Edge of the Statistical Precipice*, whose library rliable gives the same
numbers: interquartile mean, optimality gap, probability of improvement, with intervals
from a stratified bootstrap, which draws seeds with replacement within each problem.
With few seeds these intervals are too narrow.

Axis letters: ``K`` runs, ``R`` resamples.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars
from jaxtyping import Float
from scipy import stats

from driftrl.analysis.regret import methods_of, require_distinct_seeds
from driftrl.analysis.statistics import LEVEL
from driftrl.analysis.style import default_baseline
from driftrl.errors import InputError, counted, require

RESAMPLES = 5_000
_FEWEST_SEEDS = 2  # a single run says nothing about its scatter

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


OPTIMALITY = Measure(
    "score",
    "The score of a run is 1 − R_N / Σ|J*(θ_n)|: 1 if every episode was optimal, 0.9 "
    "if its returns were short of the optimum by 10 % of |J*|. Where rewards are "
    "positive that is the share of the best possible return; where they are costs, 0 "
    "is twice the least possible cost, and scores below 0 occur.",
    target=1.0,
)


@dataclass(frozen=True)
class Comparison:
    """All methods, judged by the same runs of the same problems."""

    table: polars.DataFrame
    """What ``compare`` returns."""
    measure: Measure
    problems: tuple[str, ...]
    scores: Mapping[str, Strata]
    """Of each method, the scores of its seeds on each problem."""
    baseline: str | None
    """The method that the others are compared with; None if it does not count."""
    problems_left_out: tuple[str, ...]
    methods_left_out: tuple[str, ...]
    runs_left_out: int


def compare(frame: polars.DataFrame) -> polars.DataFrame:
    """Return aggregate scores of each method over all problems and seeds.

    The score of a run is ``1 − R_N / Σ|J*|``.  If only one problem counts it is R_N,
    and where J* is unknown the mean return.

    Returns:
        One row per method: its runs, the name of the score, and with 95 % intervals
        (``…_low``, ``…_high``) iqm, mean, median, optimality_gap and improvement, the
        probability that a run is better than one of the baseline.
    """
    require(len(frame) > 0, "The frame has no rows: no episode is recorded.")
    comparison = aggregate(frame)
    if comparison is None:
        raise InputError(
            "There is nothing to compare: aggregates need two methods with two shared "
            "seeds on at least one problem, and J* if there are several problems."
        )
    return comparison.table


def aggregate(frame: polars.DataFrame) -> Comparison | None:
    """Return every aggregate of every method; None if there is nothing to compare.

    All methods are judged by the same mixture of problems: those on which every method
    was run (if there is none, the methods that were run on all of them), and of each
    the seeds that all these methods ran, if there are at least two.
    """
    runs = _runs(frame)
    problems, names = runs["problem"].unique(maintain_order=True), methods_of(frame)
    methods_here = polars.col("method").n_unique().over("problem")
    kept = runs.filter(methods_here == len(names))
    if kept.is_empty():
        problems_here = polars.col("problem").n_unique().over("method")
        kept = runs.filter(problems_here == len(problems))
    methods = [name for name in names if name in kept["method"]]
    kept = kept.filter(polars.len().over("problem", "seed") == len(methods))
    seeds = polars.col("seed").n_unique().over("problem")
    kept = kept.filter(seeds >= _FEWEST_SEEDS)
    if len(methods) < 2 or kept.is_empty():
        return None
    chosen = kept["problem"].unique(maintain_order=True).to_list()
    if (judged := _measure(kept)) is None:
        return None
    measure, score = judged
    kept = kept.with_columns(score=score).sort("seed", maintain_order=True)
    strata = {
        name: [
            kept.filter(problem=problem, method=name)["score"].to_numpy()
            for problem in chosen
        ]
        for name in methods
    }
    baseline = default_baseline(methods)
    return Comparison(
        table=aggregate_scores(strata, measure, baseline),
        measure=measure,
        problems=tuple(chosen),
        scores=strata,
        baseline=baseline if baseline in methods else None,
        problems_left_out=tuple(one for one in problems if one not in chosen),
        methods_left_out=tuple(name for name in names if name not in methods),
        runs_left_out=len(runs) - len(kept),
    )


def _runs(frame: polars.DataFrame) -> polars.DataFrame:
    """Return a row per run: R_N, mean return and Σ|J*| up to the problem's N."""
    require_distinct_seeds(frame)
    last = polars.col("episode").max().over("directory").min().over("problem")
    rows = frame.with_columns(last=last)
    rows = rows.filter(polars.col("episode") <= polars.col("last"))
    return rows.group_by(
        "problem", "method", "seed", "directory", maintain_order=True
    ).agg(
        polars.col("last").first(),
        polars.col("regret").sum(),
        polars.col("achieved_return").mean().alias("mean_return"),
        # Null, not a sum over the rest, if J* is unknown in some episode.
        polars.when(polars.col("optimal_return").is_not_null().all())
        .then(polars.col("optimal_return").abs().sum())
        .alias("possible"),
    )


def _measure(runs: polars.DataFrame) -> tuple[Measure, polars.Expr] | None:
    """Return what to judge by, and the score as an expression of the runs.

    None where the problems have no scale that they share.
    """
    returns, regret = polars.col("mean_return"), polars.col("regret")
    is_known = runs["possible"].null_count() == 0
    if runs["problem"].n_unique() > 1:
        if is_known and (runs["possible"] > 0).all():
            return OPTIMALITY, 1 - regret / polars.col("possible")
        return None
    episodes = runs["last"][0]
    after = counted(episodes, "episode")
    if not is_known:
        text = f"The score of a run is its mean return over {after}."
        return Measure("mean return", text), returns
    text = f"The score of a run is its cumulative regret after {after}."
    return Measure(f"regret R_{episodes}", text, higher_is_better=False), regret


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


def probability_of_improvement(first: Strata, second: Strata) -> np.ndarray:
    """P(X > Y) of a run X of the first and Y of the second method on one problem.

    Mann and Whitney's (#{x > y} + ½·#{x = y}) / (K_x·K_y), averaged over problems.
    """
    pairs = zip(first, second, strict=True)
    differences = (x[..., :, None] - y[..., None, :] for x, y in pairs)
    wins = [((d > 0) + 0.5 * (d == 0)).mean(axis=(-2, -1)) for d in differences]
    return np.asarray(np.mean(wins, axis=0))


def aggregate_scores(
    scores: Mapping[str, Strata],
    measure: Measure,
    baseline: str,
    *,
    resamples: int = RESAMPLES,
) -> polars.DataFrame:
    """Return the aggregates of each method; always with the same random streams."""
    # Seeds are drawn with replacement, on each problem as many as there are, and from a
    # separate random stream for each method: they are independent.
    drawn = {
        name: [one[rng.integers(0, len(one), (resamples, len(one)))] for one in strata]
        for index, (name, strata) in enumerate(scores.items())
        for rng in [np.random.default_rng([0, index])]
    }
    rows: list[dict[str, Any]] = []

    def estimate(
        column: str, statistic: Callable[..., np.ndarray] | None, *names: str
    ) -> None:
        """Add a statistic of some methods with its interval to the last row."""
        value, low, high = None, None, None
        if statistic is not None:
            value, samples = (
                statistic(*(table[name] for name in names)) for table in (scores, drawn)
            )
            ends = [(1 - LEVEL) / 2, (1 + LEVEL) / 2]
            low, high = np.quantile(samples, ends).tolist()
            value = float(value)
        rows[-1] |= {column: value, f"{column}_low": low, f"{column}_high": high}

    target = measure.target
    gap = lambda strata: optimality_gap(strata, target or 0.0)
    for name, strata in scores.items():
        runs = sum(map(len, strata))
        rows.append({"method": name, "runs": runs, "score": measure.name})
        estimate("iqm", interquartile_mean, name)
        estimate("mean", lambda strata: _pooled(strata).mean(axis=-1), name)
        estimate("median", problem_median, name)
        estimate("optimality_gap", None if target is None else gap, name)
        pair = (name, baseline) if measure.higher_is_better else (baseline, name)
        is_compared = baseline in scores and name != baseline
        better = probability_of_improvement if is_compared else None
        estimate("improvement", better, *pair)
    table = polars.DataFrame(rows, infer_schema_length=None)
    return table.cast({polars.Null: polars.Float64})  # columns without a number


def _pooled(strata: Strata) -> Float[np.ndarray, "*R K"]:
    """Return the runs of all problems along the last axis."""
    return np.concatenate(strata, axis=-1)
