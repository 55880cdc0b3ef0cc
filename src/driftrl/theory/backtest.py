"""A window from a run's data: which past would have predicted each episode best?

For a tested episode n and a span p a model is learned from the episodes n−p … n−1 and
predicts episode n.  By the paper's performance-difference lemma an episode's regret is
at most proportional to the error of the model that planned it, so the span of smallest
mean error would have cost least.  Spans near the best cannot be told apart:

- If the longest is not worse than the best by two standard errors of their paired
  difference, no drift is evident and all data are kept.
- Else the shortest within one standard error of the best is recommended: in the bound
  half the best span costs 15 % more than the best, and twice the best 24 %.
"""

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from driftrl.errors import require
from driftrl.memory.forgetting import Adaptive, replay
from driftrl.memory.nystrom import RunningSums, fit_features, posterior
from driftrl.types import Episode

MIN_EPISODES = 4
EVIDENT = 2.0
"""Standard errors by which a difference must exceed zero to be evident."""
# About the same ratio from each to the next: the valley is flat.
_LADDER = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80)
_MAX_TESTED = 30

Table = Float[np.ndarray, "K P"]
"""Tested episodes by spans."""


@dataclass(frozen=True)
class SpanScore:
    """Result of one span over the tested episodes."""

    span: int
    error: float  # Mean error, in standard deviations of the changes
    worse: float  # Mean of the paired difference to the best span
    standard_error: float  # Of that mean; 0 for the best
    coverage: float  # Mean share within μ ± 2σ, 95 % if calibrated

    @property
    def as_good(self) -> bool:
        """Whether it is within one standard error of the best."""
        return self.worse <= self.standard_error


@dataclass(frozen=True)
class Recommendation:
    """A window and the evidence for it."""

    span: int
    """Recommended w, in episodes."""
    best: int
    """The span of smallest mean error."""
    keep_all: bool
    """Whether there was no evidence against using everything."""
    tested: int
    """Number of predicted episodes."""
    scores: tuple[SpanScore, ...]
    """By span, ascending; the last takes all there is."""
    adaptive: int = 1
    """Oldest episode, from 1, that the rule ``adaptive`` would learn from next."""
    changes: tuple[int, ...] = ()
    """First episodes after the changes that it would have located on its way."""

    @property
    def as_good(self) -> tuple[int, ...]:
        """Spans within one standard error of the best."""
        return tuple(one.span for one in self.scores if one.as_good)


def recommend_window(episodes: Sequence[Episode]) -> Recommendation:
    """Recommend a window from the episodes of a run, or of its newest part."""
    count = len(episodes)
    require(
        count >= MIN_EPISODES,
        f"A recommendation needs at least {MIN_EPISODES} episodes, found {count}.",
    )
    spans = (*(span for span in _LADDER if span < count - 1), count - 1)
    tested = np.linspace(2, count, min(_MAX_TESTED, count - 1)).round().astype(int)
    choice = choose_span(spans, *backtest(episodes, tested.tolist(), spans))
    decisions = replay(Adaptive(least_episodes=1, least_transitions=1), episodes)
    found = (
        d.columns["last_change"] for d in decisions if d.columns.get("change_alarm")
    )
    return replace(choice, adaptive=decisions[-1].first, changes=tuple(found))


def backtest(
    episodes: Sequence[Episode], tested: Sequence[int], spans: Sequence[int]
) -> tuple[Table, Table]:
    """Predict each of the episodes ``tested`` from the ``spans`` before it.

    A span that reaches back before the first episode takes all there is.  Returns root
    mean square errors in standard deviations of all changes, and coverages of μ ± 2σ.
    """
    features = fit_features(episodes)
    parts = [features.of(episode) for episode in episodes]
    sums = RunningSums(parts)

    @functools.cache
    def score(number: int, first: int) -> tuple[float, float]:
        phi, target = parts[number - 1]
        mean, variance = posterior(sums.between(first, number)).predict(phi)
        squared = (target - mean) ** 2
        return float(np.sqrt(squared.mean())), float((squared <= 4 * variance).mean())

    scores = np.array([[score(n, max(1, n - p)) for p in spans] for n in tested])
    return scores[..., 0], scores[..., 1]


def choose_span(
    spans: Sequence[int], errors: Table, coverages: Table
) -> Recommendation:
    """Return the span that predicted K episodes best, or all data if none was better.

    ``spans`` ascend, and the last takes all there is.
    """
    means = errors.mean(axis=0)
    # Of tied spans the longest: more data do no harm.
    best = len(means) - 1 - int(np.argmin(means[::-1]))
    scores = []
    for column, span in enumerate(spans):
        worse, error = _mean_and_error(errors[:, column] - errors[:, best])
        coverage = float(coverages[:, column].mean())
        scores.append(SpanScore(span, float(means[column]), worse, error, coverage))
    longest = scores[-1]
    evident = longest.worse > EVIDENT * longest.standard_error
    shortest = next(one.span for one in scores if one.as_good)
    return Recommendation(
        span=shortest if evident else spans[-1],
        best=spans[best],
        keep_all=not evident,
        tested=len(errors),
        scores=tuple(scores),
    )


def _mean_and_error(differences: Float[np.ndarray, " K"]) -> tuple[float, float]:
    """Return mean and standard error; a single difference has an infinite one."""
    mean = float(differences.mean())
    if not differences.any():
        return mean, 0.0
    if len(differences) < 2:
        return mean, math.inf
    return mean, float(differences.std(ddof=1)) / math.sqrt(len(differences))
