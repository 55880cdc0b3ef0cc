"""What the newest episodes say about a change: for rules that choose m(n) from data.

A stretch of episodes is learned by a Gaussian process on landmarks, whose features do
not depend on the agent.  Three questions are asked of it:

- *Has anything changed, and since which episode?*  The evidence of one function for the
  whole stretch is compared with that of a change at episode k: a difference that is
  linear in state and action, large or small, or another function altogether, all with
  the same noise.  Where inputs are merely new, one function explains both; where old
  and new data contradict each other, it can't.
- *How much past predicts best?*  The newest episode is predicted from the 1, 2, 4, …
  before it, and from all.  ``fixed_share`` adds these losses up.
- *Is the newest episode a surprise?*  The test of event-triggered learning.

Cost: at most ``MOST_EPISODES`` episodes of ``_ROWS`` transitions and ``_RANK``
landmarks are used, and 33 decompositions are made, and up to 21 more for every change
that is located, however long the run is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from driftrl.memory.nystrom import (
    Part,
    RunningSums,
    Spectrum,
    evidence,
    posterior,
    quick_features,
    spectrum,
    with_differences,
)
from driftrl.types import Episode

MOST_EPISODES = 64
_NEWEST = 48  # of those; the others are spread over what is older
SPANS = (1, 2, 4, 8, 16, 32)
"""Spans that compete with all data; a longer one than there are episodes takes all."""
_ROWS, _RANK = 100, 100
# Episodes since a change that is considered: every recent one, then ever fewer.
_AGES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48)
# Sizes of a linear difference, in units of the prior of the function itself.
_DIFFERENCES = (0.1, 0.01)
# Squared errors beyond this many variances count no more: one outlier is no drift.
_MOST_SQUARED = 25.0

# Residuals count as Student's t with so many degrees of freedom, found in few steps.
_FREEDOM, _STEPS = 4.0, 3

# Fixed share over spans: η, the share that is given back to the prior after every
# episode, and the prior weight of all data.
RATE, SHARE, PRIOR_OF_ALL = 4.0, 1 / 16, 0.5
# Weight of all data below which a span is taken instead.
DOUBT = 0.05


def looked_at(first: int, n: int) -> list[int]:
    """Return the episodes of ``first`` … n − 1 that are looked at, by their numbers.

    All of the newest, and some of every older age: a drift may be too slow to show in
    the newest alone.
    """
    numbers = list(range(first, n))
    if len(numbers) <= MOST_EPISODES:
        return numbers
    older = numbers[:-_NEWEST]
    kept = np.linspace(0, len(older) - 1, MOST_EPISODES - _NEWEST).round().astype(int)
    return [older[place] for place in kept] + numbers[-_NEWEST:]


@dataclass(frozen=True)
class Split:
    """The test for a change within a stretch."""

    first: int
    """Most likely first episode after it, as a position from 1."""
    log_odds: float
    """Log posterior odds of a change, at any of the episodes, against none."""


class Stretch:
    """Consecutive episodes, at positions 1, 2, …, as sums of features."""

    def __init__(self, episodes: Sequence[Episode], tolerance: float) -> None:
        """Fit features; ``tolerance`` is a noise that is added to the data's own.

        It is in units of the standard deviation of the changes of the state: what
        moves predictions by less does not count.
        """
        features = quick_features(episodes, _ROWS, _RANK)
        self._parts = [features.of(episode) for episode in episodes]
        self._sums = RunningSums(self._parts)
        self._tolerance = tolerance
        # A constant and the inputs are the first of the features.
        self._linear = 1 + features.landmarks.shape[1]
        self.rows = [len(targets) for _, targets in self._parts]
        """Transitions that are used of each episode."""

    def __len__(self) -> int:
        """Return the number of episodes."""
        return len(self._parts)

    @cached_property
    def _robust(self) -> RunningSums:
        """Sums of rows that are weighed as if residuals were Student's t.

        No model is right everywhere: where a speed is clipped, say, one row may be off
        by many standard deviations of the others.  It must not look like a change, and
        early episodes that went everywhere must not make the noise of all large.
        """
        sums = self._sums
        for _ in range(_STEPS):
            belief = posterior(sums.between(1, len(self) + 1), self._tolerance)
            parts: list[Part] = []
            for features, targets in self._parts:
                errors = (targets - belief.predict(features)[0]) ** 2 / belief.noise
                total = errors.sum(axis=1, keepdims=True)
                root = np.sqrt((_FREEDOM + targets.shape[1]) / (_FREEDOM + total))
                parts.append((root * features, root * targets))
            sums = RunningSums(parts)
        return sums

    def split(self, first: int, least_gain: float) -> Split | None:
        """Test for a change after position ``first``; None if there is no data.

        The log Bayes factor of a change at k is lowered by ``least_gain`` nats for
        every number observed since k: a model that is a little wrong everywhere is a
        little better in two parts, and that is no change.  All k and all kinds of
        change are equally likely.
        """
        end = len(self) + 1
        numbers = self._parts[0][1].shape[1]
        whole = spectrum(self._robust.between(first, end))
        gains, places = [], []
        for place in (end - age for age in _AGES if end - age > first):
            after = sum(self.rows[place - 1 :])
            if after == 0 or sum(self.rows[first - 1 : place - 1]) == 0:
                continue
            old, new = (
                self._robust.between(first, place),
                self._robust.between(place, end),
            )
            differ = with_differences(whole, new, self._linear, _DIFFERENCES)
            changes = [self._evidence(one) for one in differ]
            changes.append(self._evidence(spectrum(old), spectrum(new)))
            gain = _log_mean(changes) - self._evidence(whole)
            gains.append(gain - least_gain * numbers * after)
            places.append(place)
        if not places:
            return None
        best = int(np.argmax(gains))
        return Split(places[best], _log_mean(gains))

    def _evidence(self, *parts: Spectrum) -> float:
        return float(evidence(*parts, floor=self._tolerance)[0].max(axis=1).sum())

    def span_losses(self, first: int) -> tuple[float, ...]:
        """Return how badly the spans, and all from ``first`` on, predict the newest.

        Mean negative log likelihood of a number, in nats; empty if there is no data.
        """
        newest = len(self)
        losses: dict[int, float] = {}
        if newest <= first or 0 in (self.rows[-1], sum(self.rows[first - 1 : -1])):
            return ()
        starts = [max(first, newest - span) for span in SPANS] + [first]
        for start in {*starts}:
            usable = start
            while sum(self.rows[usable - 1 : newest - 1]) == 0:
                usable -= 1
            belief = posterior(self._robust.between(usable, newest), self._tolerance)
            mean, variance = belief.predict(self._parts[-1][0])
            squared = (self._parts[-1][1] - mean) ** 2 / variance
            clipped = np.minimum(squared, _MOST_SQUARED)
            losses[start] = float(0.5 * (np.log(variance) + clipped).mean())
        return tuple(losses[start] for start in starts)

    def surprises(self, failure: float) -> int:
        """Return how many transitions of the newest episode are a surprise.

        As in event-triggered learning, |y − μ| > √ρ·σ + √(2·s²·ln(2·π_t/δ)) in some
        output, with ρ = 2·ln(2·π_t/δ), π_t = π²t²/6, t the transitions so far and an
        equal share of δ for every output; σ is the epistemic standard deviation of the
        model of the episodes before.
        """
        newest, seen = len(self), sum(self.rows[:-1])
        if newest <= 1 or 0 in (seen, self.rows[-1]):
            return 0
        belief = posterior(self._sums.between(1, newest), self._tolerance)
        features, targets = self._parts[-1]
        mean, variance = belief.predict(features)
        epistemic = np.sqrt(np.maximum(variance - belief.noise, 0.0))
        count = math.pi**2 * seen**2 / 6
        rho = 2 * math.log(2 * count * targets.shape[1] / failure)
        limit = math.sqrt(rho) * (epistemic + np.sqrt(belief.noise))
        return int((np.abs(targets - mean) > limit).any(axis=1).sum())


def _log_mean(logs: Sequence[float]) -> float:
    return float(np.logaddexp.reduce(logs)) - math.log(len(logs))


def fixed_share(
    losses: Float[np.ndarray, "N K"],
    prior: Float[np.ndarray, " K"],
    rate: float = RATE,
    share: float = SHARE,
) -> Float[np.ndarray, "M K"]:
    """Return the weights of K experts before each of N losses, and after the last.

    v ∝ w·exp(−η·loss), then w' = (1 − a)·v + a·prior.  Their mix loss
    −ln(Σ w·exp(−η·loss))/η is bounded by ``theory.regret_bound.fixed_share_bound``.
    """
    weights = [prior]
    for row in losses:
        likely = weights[-1] * np.exp(-rate * (row - row.min()))
        weights.append((1 - share) * likely / likely.sum() + share * prior)
    return np.stack(weights)


def choose_span(losses: Sequence[Sequence[float]], least_gain: float) -> int | None:
    """Return the span to learn from, None for all.

    All data are kept until their weight is below ``DOUBT``.  A span counts as better
    than all only by what exceeds ``least_gain`` nats.
    """
    count = len(SPANS)
    prior = np.full(count + 1, (1 - PRIOR_OF_ALL) / count)
    prior[-1] = PRIOR_OF_ALL
    table = np.array(losses, dtype=np.float64).reshape(-1, count + 1)
    table = table[np.isfinite(table).all(axis=1)]
    handicap = least_gain * (np.arange(count + 1) < count)
    *of_spans, of_all = fixed_share(table + handicap, prior)[-1]
    if of_all >= DOUBT:
        return None
    return max(zip(of_spans, SPANS, strict=True))[1]
