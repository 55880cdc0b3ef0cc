"""H and w from the regret bound, without its constants.

The bound weighs the cost of little data against the cost of stale data::

    R_N = Õ( N·√(γ_p³/p) + γ_p·p^{3/2}·P_N )

The paper reads it with γ_N for every p when it chooses H ∝ γ_N^{1/4}·√N.  γ_p ≤ γ_N,
so that is a bound as well, and with P_N known it is smallest at
p = γ_N^{1/4}·√(N/(3·P_N)).  With γ_p, or with all constants, it would be smallest at
p = 1: γ_p grows so fast over the first few episodes that the learning term hardly falls
with p, however useful more data are.
"""

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float

from driftrl.errors import at_least, require
from driftrl.memory.nystrom import Features, Sums, fit_features, posterior
from driftrl.theory.information import scaled_rate
from driftrl.theory.regret_bound import (
    RegretTerms,
    regret_orders,
    require_episodes,
    tuned_span,
)
from driftrl.types import Episode

# Prior size of the displacement in units of the dynamics; the evidence selects one.
_REACHES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Problem:
    """What is known of a problem; data of a run estimate what is not given."""

    episodes: int | None = None
    """N, the length of the run."""
    variation: float | None = None
    """P_N, how far the dynamics move in the RKHS norm, summed over outputs. Without it
    the answer is the paper's H ∝ γ^(1/4)·√N."""
    steps: int | None = None
    """Transitions T of an episode."""
    gain: float | None = None
    """γ_N, the information gain of all N·T transitions."""


@dataclass(frozen=True)
class Constants:
    """The constants of the bound as a run's data give them.

    In standard deviations of the changes; σ in units of the prior's.
    """

    episodes: int
    steps: int
    outputs: int
    dimension: int
    gain: float  # Information gain of the data at hand, averaged over outputs
    variation: float
    rkhs_bound: float  # The largest norm of an output
    noise: float
    reward_max: float  # Range of the rewards: the bound counts them from 0


@dataclass(frozen=True)
class Tradeoff:
    """The bound over the span p: H for resets, w for a window."""

    episodes: int
    steps: int
    """T, the transitions of an episode."""
    variation: float | None
    """P_N, None if unknown."""
    gain: float
    """γ_N."""
    span: int
    """Recommended H = w."""
    informed: float | None
    """γ_N^{1/4}·√(N/(3·P_N)), None without P_N or without variation."""
    tuned: float
    """γ_N^{1/4}·√N, the paper's choice, which needs no P_N."""
    terms: RegretTerms | None = None
    """Both terms for p = 1 … N; None without P_N."""
    estimated: Constants | None = None

    def document(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        terms = asdict(self.terms) if self.terms else {}
        curve = {name: values.tolist() for name, values in terms.items()}
        return {**asdict(self), "terms": curve or None}


def choose_window(
    problem: Problem,
    data: Sequence[Episode] = (),
    thetas: Float[np.ndarray, " N"] | None = None,
) -> Tradeoff:
    """Return the trade-off of a problem, and the span to choose.

    What is unknown is estimated from ``data``, episodes of a run, and their θ if known.
    """
    estimated = estimate_constants(data, thetas) if data else None
    given = {name: value for name, value in vars(problem).items() if value is not None}
    values = (vars(estimated) if estimated else {}) | given
    missing = [name for name in ("episodes", "steps", "gain") if name not in values]
    require(
        not missing,
        f"Choosing a window needs {', '.join(missing)}, or a run to estimate from.",
    )
    episodes, steps, gain = (values[n] for n in ("episodes", "steps", "gain"))
    require_episodes(episodes)
    at_least("The steps T of an episode", steps, 1)
    at_least("The gain", gain, 0)
    variation = problem.variation
    if estimated and variation is None:
        # The same drift per episode in a run of another length.
        pace = estimated.variation / (estimated.episodes - 1)
        variation = pace * (episodes - 1)
    if estimated and problem.gain is None:  # by the known rate, for another length
        anchor = (len(data) * steps, gain)
        gain = float(scaled_rate("se", episodes * steps, estimated.dimension, anchor))
    return replace(choose(episodes, steps, variation, gain), estimated=estimated)


def choose(episodes: int, steps: int, variation: float | None, gain: float) -> Tradeoff:
    """Return the trade-off for N, T, P_N and γ_N.

    Without P_N only the paper's H ∝ γ_N^{1/4}·√N is known.
    """
    tuned = float(tuned_span(episodes, gain))
    if variation is None:
        span = min(episodes, max(1, round(tuned)))
        return Tradeoff(episodes, steps, None, gain, span, None, tuned)
    at_least("The variation P_N", variation, 0)
    terms = regret_orders(episodes, np.arange(1, episodes + 1), variation, gain)
    informed = tuned / float(np.sqrt(3.0 * variation)) if variation else None
    span = int(np.argmin(terms.total)) + 1
    return Tradeoff(episodes, steps, variation, gain, span, informed, tuned, terms)


# ---- constants -----------------------------------------------------------------------


def estimate_constants(
    episodes: Sequence[Episode],
    thetas: Float[np.ndarray, " N"] | None = None,
    features: Features | None = None,
) -> Constants:
    """Estimate γ_N, P_N, B and σ in the norm of a kernel fitted to a run.

    The dynamics are taken to move along one direction, f_n = f + c_n·g, for a clock c:
    θ where it is known and the number of the episode where it is not.  Then
    P_N = Σ_j ‖g_j‖·Σ_n |c_{n+1} − c_n|, and one regression on (φ, c_n·φ) finds g.  If
    an unknown θ goes back and forth, this is too small.

    Norms are those of the kernel with the prior variance of largest evidence; the
    features φ are fitted to the episodes unless they are given.
    """
    count = len(episodes)
    require(count >= 2, f"Estimating P_N takes 2 episodes, found {count}.")
    clock = np.arange(count, dtype=np.float64)
    if thetas is not None and np.isfinite(thetas).all():
        clock = thetas
    features = features or fit_features(episodes)
    travelled = float(np.abs(np.diff(clock)).sum())
    extent = float(np.ptp(clock)) or 1.0
    moments = _moments(features, episodes, (clock - clock.mean()) / extent)
    fits = [(posterior(_with_reach(moments, reach)), reach) for reach in _REACHES]
    belief, reach = max(fits, key=lambda one: float(one[0].evidence.sum()))
    weights = belief.basis @ belief.weights
    prior_std = np.sqrt(belief.noise / belief.level)
    still, moved = np.linalg.norm(np.split(weights, 2), axis=1) / prior_std
    size = len(weights) // 2
    values = np.maximum(np.linalg.eigvalsh(moments.gram[:size, :size]), 0.0)
    gains = 0.5 * np.log1p(values[:, None] / belief.level).sum(axis=0)
    outputs, actions = episodes[0].obs.shape[1], episodes[0].actions.shape[1]
    rewards = np.concatenate([episode.rewards for episode in episodes])
    return Constants(
        episodes=count,
        steps=round(sum(map(len, episodes)) / count),
        outputs=outputs,
        dimension=outputs + actions,
        gain=float(gains.mean()),
        variation=reach * float(moved.sum()) * travelled / extent,
        rkhs_bound=float(still.max()),
        noise=float(np.sqrt(belief.level).mean()),
        reward_max=float(np.ptp(rewards)),
    )


def _moments(
    features: Features, episodes: Sequence[Episode], times: Float[np.ndarray, " N"]
) -> Sums:
    """Return the sums of the features (φ, c·φ) over all episodes."""
    parts = [features.of(episode) for episode in episodes]
    return functools.reduce(
        Sums.plus,
        (
            Sums.of(np.concatenate([phi, time * phi], axis=1), y)
            for (phi, y), time in zip(parts, times, strict=True)
        ),
    )


def _with_reach(moments: Sums, reach: float) -> Sums:
    """Return the sums for features (φ, r·c·φ): r is the prior size of what moved."""
    scale = np.repeat([1.0, reach], len(moments.gram) // 2)[:, None]
    return replace(
        moments, gram=scale * moments.gram * scale.T, cross=scale * moments.cross
    )
