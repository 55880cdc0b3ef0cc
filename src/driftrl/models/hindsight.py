"""Which past would have foretold the next episode best?

For a tested episode n and a span p a model is learned from the episodes n−p … n−1 alone
and asked about episode n.  A short span has little data, a long one stale data; the
error against p shows the valley of the paper's bound, on the data at hand.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from driftrl.models.landmarks import RunningSums, fit_features, posterior
from driftrl.theory.recommendation import (
    Drift,
    Recommendation,
    candidate_spans,
    drift_of,
    recommend,
    spread_episodes,
)
from driftrl.types import Episode

Table = Float[np.ndarray, "K P"]

_MOST_TESTED = 30


@dataclass(frozen=True)
class Foretold:
    """How each span foretold each tested episode: tables of episodes by spans."""

    error: Table
    """Root mean square error, in units of the spread of all changes."""
    coverage: Table
    """Share of predictions within μ ± 2σ."""


class Hindsight:
    """The episodes of a run, ready to be foretold from any of those before."""

    def __init__(self, episodes: Sequence[Episode]) -> None:
        """Take the episodes 1, 2, … of a run, or of its newest part."""
        features = fit_features(episodes)
        self._parts = [features.of(episode) for episode in episodes]
        self._sums = RunningSums(self._parts)

    def foretell(self, numbers: Sequence[int], spans: Sequence[int]) -> Foretold:
        """Foretell each of the episodes ``numbers`` from the ``spans`` before it.

        A span that reaches back before the first episode takes what there is.
        """
        found = np.zeros((len(numbers), len(spans), 2))
        for row, number in enumerate(numbers):
            known: dict[int, tuple[float, float]] = {}
            for column, span in enumerate(spans):
                first = max(1, number - span)
                if first not in known:
                    known[first] = self._judged(number, first, number)
                found[row, column] = known[first]
        return Foretold(found[..., 0], found[..., 1])

    def aged(self, numbers: Sequence[int], span: int) -> Float[np.ndarray, "K 2"]:
        """Return the error from the newest p episodes, and from the p before those.

        The amount of data is the same, and p episodes older: what the second is worse
        by is due to age.  The first number may be 2p + 1.
        """
        ends = [(number, number - age * span) for number in numbers for age in (0, 1)]
        errors = [self._judged(number, end - span, end)[0] for number, end in ends]
        return np.array(errors).reshape(-1, 2)

    def _judged(self, number: int, first: int, end: int) -> tuple[float, float]:
        """Return error and coverage of an episode, from those of first … end − 1."""
        phi, target = self._parts[number - 1]
        belief = posterior(self._sums.between(first, end))
        mean, variance = belief.predict(phi)
        miss = (target - mean) ** 2
        return float(np.sqrt(miss.mean())), float((miss <= 4.0 * variance).mean())


def recommend_window(episodes: Sequence[Episode]) -> tuple[Recommendation, Drift]:
    """Recommend a window from the episodes of a run, and say what age costs in it."""
    count = len(episodes)
    spans = candidate_spans(count)
    hindsight = Hindsight(episodes)
    told = hindsight.foretell(spread_episodes(2, count, _MOST_TESTED), spans)
    found = recommend(spans, told.error, told.coverage)
    # Data that are older by as much as the window is long, or as the run allows.
    span = min(found.span, (count - 1) // 3)
    numbers = spread_episodes(2 * span + 1, count, _MOST_TESTED)
    return found, drift_of(span, hindsight.aged(numbers, span))
