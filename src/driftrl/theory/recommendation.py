"""A window from data: the span that foretold the run's own episodes best.

By the paper's performance-difference lemma an episode's regret is at most proportional
to the error of the model that planned it.  So the span with the smallest mean error
over the episodes of a run is the one that would have cost least, as far as data that
were collected with another span can say.

Spans near the best can't be told apart, and the choice among them follows the drift:

- While the longest is not worse than the best by two standard errors of their paired
  difference, no drift is evident and all data are kept.
- Else the shortest that is within one standard error of the best is recommended.  The
  bound's drift term grows like p^{3/2} and its learning term falls like p^{−1/2}: a
  window of half the best length costs 15 % more than the best, one of twice its length
  24 %.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from driftrl.errors import require

LEAST_EPISODES = 4
EVIDENT = 2.0
"""Standard errors by which a difference must exceed zero to be evident."""

# About the same ratio from each to the next: the valley is flat.
_LADDER = (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 40, 56, 80)


@dataclass(frozen=True)
class SpanScore:
    """How one span did, over the tested episodes."""

    span: int
    error: float
    """Mean error, in units of the spread of the changes."""
    worse: float
    """Mean of the paired difference to the best span."""
    standard_error: float
    """Of that mean; 0 for the best."""
    coverage: float
    """Mean share within μ ± 2σ, 95 % if calibrated."""

    @property
    def as_good(self) -> bool:
        """Whether it can't be told from the best, by one standard error."""
        return self.worse <= self.standard_error


@dataclass(frozen=True)
class Recommendation:
    """Which window, and the evidence."""

    span: int
    """Recommended w, in episodes."""
    best: int
    """The span of the smallest mean error."""
    keep_all: bool
    """Whether there was no evidence against using everything."""
    tested: int
    """Number of episodes that were foretold."""
    scores: tuple[SpanScore, ...]
    """One a span, ascending; the last takes all there is."""

    @property
    def as_good(self) -> tuple[int, ...]:
        """Spans that can't be told from the best."""
        return tuple(one.span for one in self.scores if one.as_good)


@dataclass(frozen=True)
class Drift:
    """What age does to data: p episodes against the p episodes before those."""

    span: int
    newer: float
    """Mean error from the newest p episodes."""
    older: float
    """Mean error from as many that are p episodes older."""
    standard_error: float
    """Of the mean of the paired difference."""

    @property
    def per_episode(self) -> float:
        """Error that a model gains an episode of age, in the spread of the changes."""
        return math.sqrt(max(0.0, self.older**2 - self.newer**2)) / self.span

    @property
    def is_evident(self) -> bool:
        """Whether older data were worse beyond chance."""
        return self.older - self.newer > EVIDENT * self.standard_error


def candidate_spans(episodes: int) -> tuple[int, ...]:
    """Return the spans to try on a run of so many episodes; the last is all of them."""
    require(
        episodes >= LEAST_EPISODES,
        f"A window is recommended from at least {LEAST_EPISODES} episodes, found "
        f"{episodes}.",
    )
    return (*(span for span in _LADDER if span < episodes - 1), episodes - 1)


def spread_episodes(first: int, last: int, most: int) -> tuple[int, ...]:
    """Return at most so many of the episodes first … last, evenly spread."""
    count = min(most, last - first + 1)
    chosen = np.linspace(first, last, max(count, 1)).round().astype(int)
    return tuple(sorted({int(number) for number in chosen}))


def recommend(
    spans: Sequence[int],
    errors: Float[np.ndarray, "K P"],
    coverages: Float[np.ndarray, "K P"],
) -> Recommendation:
    """Return the window that foretold K episodes best, or all if none was better.

    Args:
        spans: The candidates, ascending; the last takes all there is.
        errors: Error of every tested episode from every span.
        coverages: Coverage likewise.
    """
    means = errors.mean(axis=0)
    # Where short spans tie with longer ones, more data does no harm.
    best = len(means) - 1 - int(np.argmin(means[::-1]))
    scores = []
    for place, span in enumerate(spans):
        worse, error = _paired(errors[:, place] - errors[:, best])
        coverage = float(coverages[:, place].mean())
        scores.append(SpanScore(span, float(means[place]), worse, error, coverage))
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


def drift_of(span: int, errors: Float[np.ndarray, "K 2"]) -> Drift:
    """Return what age costs, from errors with newer and older data of p episodes."""
    _, error = _paired(errors[:, 1] - errors[:, 0])
    newer, older = errors.mean(axis=0)
    return Drift(span, float(newer), float(older), error)


def _paired(differences: Float[np.ndarray, " K"]) -> tuple[float, float]:
    """Return mean and standard error; a single difference has an infinite one."""
    mean = float(differences.mean())
    if not differences.any():
        return mean, 0.0
    if len(differences) < 2:
        return mean, math.inf
    return mean, float(differences.std(ddof=1)) / math.sqrt(len(differences))


def explain(found: Recommendation, drift: Drift) -> list[str]:
    """Say in sentences what is recommended and why."""
    best = min(found.scores, key=lambda one: one.error)
    longest = found.scores[-1]
    extra = 100 * (longest.error / best.error - 1) if best.error > 0 else 0.0
    margin = f"{longest.worse:.2g} ± {longest.standard_error:.1g}"
    if found.keep_all:
        lines = [
            "Recommended: keep all data. A model from everything foretold the next "
            f"episode as well as any window (at most {margin} worse), so there is no "
            "evidence of drift that a window would help against."
        ]
    else:
        others = ", ".join(str(one) for one in found.as_good if one != found.span)
        told_apart = (
            f", the shortest that can't be told from the best ({others} can't either)"
            if others
            else ""
        )
        lines = [
            f"Recommended: a window of w = {found.span} episodes{told_apart}. From all "
            f"data the error was {extra:.0f} % larger than the smallest ({margin})."
        ]
    chance = "" if drift.is_evident else ", which may be chance"
    age = "one episode" if drift.span == 1 else f"{drift.span} episodes"
    lines.append(
        f"Data {age} older foretold with an error of {drift.older:.3f} instead of "
        f"{drift.newer:.3f}{chance}: a drift of about {100 * drift.per_episode:.1f} % "
        "of the changes' spread an episode."
    )
    return lines
