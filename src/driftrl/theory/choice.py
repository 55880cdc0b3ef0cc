"""H and w from the regret bound, read in three ways.

The bound trades what is paid for little data against what is paid for stale data::

    R_N = Õ( N·√(γ_p³/p) + γ_p·p^{3/2}·P_N )

1. *With all constants* it is a true bound, and so far above any possible regret that
   the weight between its terms says little.
2. *Its order*, without constants, with γ_p as it grows with p.
3. *Its order with γ_N for every p*, which is how the paper reads it when it chooses
   H ∝ γ_N^{1/4}·√N.  γ_p ≤ γ_N, so it is a bound as well, and with P_N known it is
   smallest at p = γ_N^{1/4}·√(N/(3·P_N)).

The third is recommended.  γ_p of the first and second grows so fast over the first few
episodes that the learning term hardly falls with p, however useful more data are.
"""

from dataclasses import dataclass

import numpy as np

from driftrl.errors import at_least
from driftrl.theory.performance import RegretTerms
from driftrl.theory.regret_bound import (
    Choice,
    GainOfSpan,
    best_span,
    regret_orders,
    tuned_span,
)
from driftrl.theory.setting import Setting, require_episodes


@dataclass(frozen=True)
class Tradeoff:
    """What the bound says about the span p: H for resets, w for a window."""

    episodes: int
    variation: float | None
    """P_N, None if nobody knows."""
    gain: float
    """γ_N."""
    span: int
    """Recommended H = w."""
    informed: float | None
    """γ_N^{1/4}·√(N/(3·P_N)), None without P_N or without variation."""
    tuned: float
    """γ_N^{1/4}·√N, the paper's choice, which needs no P_N."""
    terms: RegretTerms | None
    """The order with γ_N, for p = 1 … N; None without P_N."""
    order: int | None
    """The p of the smallest order with γ_p."""
    reset: Choice | None
    """The bound with all constants under resets."""
    window: Choice | None
    """The same under a sliding window."""


def choose(
    setting: Setting,
    *,
    episodes: int,
    variation: float | None,
    gain_of_span: GainOfSpan,
) -> Tradeoff:
    """Return the trade-off of a run of N episodes, and the span to choose.

    Args:
        setting: The problem's constants.
        episodes: N.
        variation: P_N, or None: then the paper's H ∝ γ_N^{1/4}·√N is all there is.
        gain_of_span: γ_p.
    """
    require_episodes(episodes)
    gain = gain_of_span(episodes)
    tuned = float(tuned_span(episodes, gain))
    if variation is None:
        span = min(episodes, max(1, round(tuned)))
        return Tradeoff(episodes, None, gain, span, None, tuned, None, None, None, None)
    at_least("The variation P_N", variation, 0)
    spans = np.arange(1, episodes + 1)
    terms = regret_orders(episodes, spans, variation, gain)
    gains = np.array([gain_of_span(int(span)) for span in spans])
    growing = regret_orders(episodes, spans, variation, gains)
    reset, window = (
        best_span(
            setting,
            episodes=episodes,
            variation=variation,
            gain_of_span=gain_of_span,
            scheme=scheme,
        )
        for scheme in ("reset", "window")
    )
    still = variation == 0
    return Tradeoff(
        episodes=episodes,
        variation=variation,
        gain=gain,
        span=int(spans[np.argmin(terms.total)]),
        informed=None if still else tuned / float(np.sqrt(3.0 * variation)),
        tuned=tuned,
        terms=terms,
        order=int(spans[np.argmin(growing.total)]),
        reset=reset,
        window=window,
    )
