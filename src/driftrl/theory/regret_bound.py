"""From model error to regret: of one episode, and of N (Theorem 1), with its minimum.

Performance difference (Lemma 2), for every policy π at episode n::

    |J(π, f_n) − J(π, μ)| ≤ λ_{n,m}·min{Σ(π, f_n), Σ(π, μ)} + B_{n,m}

Episodic regret (appendix), for the policy π_n that maximises J(π, μ) + λ·Σ(π, μ)::

    J(π_n*, f_n) − J(π_n, f_n) ≤ (λ̃² + 2λ̃)·Σ(π_n, f_n) + (λ̃ + 2)·B̃

Cumulative regret (Theorem 1), with p = H for resets and p = w for a window::

    R_N ≤ (λ̄² + 2λ̄)·√(N·⌈N/p⌉·C_σ·T²·γ_p)  +  (λ̄ + 2)·r·T²/σ·ξ_p·p·P_N
          └────────── learning ──────────┘     └───────── drift ─────────┘

λ̄ = r·T/σ·β_N(δ, p) and r = max{R_max, sup‖σ‖}.  The paper prints N·√(C_σT²γ_p/p) for
the root, which is the same if p divides N and too small if it does not.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from driftrl.errors import at_least, require
from driftrl.theory.confidence import (
    Scheme,
    Setting,
    Version,
    drift_coefficient,
    exploration_weight,
    width_of,
)

# ---- one episode ---------------------------------------------------------------------


def uncertainty_along(std: Float[np.ndarray, "*batch T S"]) -> Float[np.ndarray, ""]:
    """Return Σ = E[Σ_t ‖σ(x_t, π(x_t))‖₂], the mean over any leading trajectories.

    ``std`` is σ of each output at each step (eq:sigma_trajectory).
    """
    return np.asarray(np.linalg.norm(std, axis=-1).sum(axis=-1).mean())


def drift_penalty(
    setting: Setting, coefficient: ArrayLike, drift: ArrayLike
) -> Float[np.ndarray, "..."]:
    """Return B_{n,m} = ξ_{n−m}·R_max·T²/σ·Σ_{s=m}^{n−1} ‖f_{s+1} − f_s‖.

    The norm of the vector f is the sum of the norms of its outputs (eq: temporal drift
    accumulation).
    """
    scale = setting.reward_max * setting.steps**2 / setting.noise_std
    return np.asarray(scale * np.multiply(coefficient, drift))


def optimistic(setting: Setting, version: Version = "corrected") -> Setting:
    """Return the setting in which λ and B are λ̃ and B̃ of the episodic bound.

    Its proof treats ‖σ(z)‖₂ as a reward, so R_max becomes max{R_max, sup‖σ‖}.  With
    k(z, z) ≤ σ_max and d_x outputs ‖σ‖ ≤ √(d_x·σ_max); the paper prints σ_max.
    """
    root = math.sqrt(setting.outputs * setting.kernel_bound)
    largest = setting.kernel_bound if version == "printed" else root
    return replace(setting, reward_max=max(setting.reward_max, largest))


def performance_difference_bound(
    setting: Setting, weight: ArrayLike, uncertainty: ArrayLike, penalty: ArrayLike
) -> Float[np.ndarray, "..."]:
    """Return λ·Σ + B, cut at R_max·T, beyond which no two returns differ.

    Σ is the smaller of Σ(π, f_n) and Σ(π, μ), or either.
    """
    bound = np.add(np.multiply(weight, uncertainty), penalty)
    return np.asarray(np.minimum(bound, setting.reward_max * setting.steps))


@dataclass(frozen=True)
class RegretTerms:
    """A regret bound as its two terms."""

    learning: Float[np.ndarray, "..."]  # What is paid for not knowing the dynamics yet
    drift: Float[np.ndarray, "..."]  # What is paid for data of older dynamics

    @property
    def total(self) -> Float[np.ndarray, "..."]:
        """Return learning + drift."""
        return np.asarray(self.learning + self.drift)


def episodic_regret_bound(
    weight: ArrayLike, uncertainty: ArrayLike, penalty: ArrayLike
) -> RegretTerms:
    """Return (λ̃² + 2λ̃)·Σ(π_n, f_n) and (λ̃ + 2)·B̃, episode by episode."""
    weight = np.asarray(weight)
    learning = (weight**2 + 2 * weight) * np.asarray(uncertainty)
    return RegretTerms(
        np.asarray(learning), np.asarray((weight + 2) * np.asarray(penalty))
    )


# ---- N episodes ----------------------------------------------------------------------


def variance_constant(setting: Setting) -> float:
    """Return C_σ = 2·d_x·σ_max/log(1 + σ_max/σ²).

    For 0 ≤ x ≤ a, x ≤ a/log(1+a)·log(1+x).  With x = σ_{i−1}²(z_i)/σ² and a = σ_max/σ²
    the variances of points that are learned one after the other sum to

        Σ_i σ²_{i−1}(z_i) ≤ σ_max/log(1 + σ_max/σ²)·Σ_i log(1 + σ²_{i−1}(z_i)/σ²)

    and the last sum is twice the information gain.  d_x outputs have as many of them.
    """
    ratio = setting.kernel_bound / setting.noise_std**2
    return 2 * setting.outputs * setting.kernel_bound / math.log1p(ratio)


def uncertainty_bound(
    setting: Setting,
    episodes: int,
    span: int,
    gain: float,
    version: Version = "corrected",
) -> float:
    """Return a bound on Σ_{n=1}^N Σ_{m(n):n−1}(π_n, f_n), the uncertainty met in all.

    A model learns at the end of an episode, so of its T points only the most uncertain
    one counts: Σ_t ‖σ‖² ≤ T·max_t ‖σ‖², and the largest ones of p episodes sum to at
    most C_σ·γ_p.  Hence Σ_n Σ² ≤ C_σ·T²·γ_p for a group of p episodes (T², as the
    paper's last line has it and not T as the line before), and by Cauchy and Schwarz
    √(N·⌈N/p⌉·C_σ·T²·γ_p) for ⌈N/p⌉ groups.  A window of p episodes holds, at every
    episode of a group, all earlier episodes of the group, so it does no worse.
    """
    _require_span(episodes, span)
    groups = math.ceil(episodes / span) if version == "corrected" else episodes / span
    squared = variance_constant(setting) * setting.steps**2 * gain
    return math.sqrt(episodes * groups * squared)


def regret_bound(
    setting: Setting,
    *,
    episodes: int,
    span: int,
    variation: float,
    gain: float,
    scheme: Scheme = "reset",
    version: Version = "corrected",
) -> RegretTerms:
    """Return the two terms of Theorem 1 for N episodes, P_N and γ_p of p·T points.

    The span p is the reset period H or the window w; for ``keep_all`` it is N, which
    without variation is the stationary bound of OMBRL, O(√(N·γ_N³)).
    """
    span = episodes if scheme == "keep_all" else span
    _require_span(episodes, span)
    at_least("The variation P_N", variation, 0)
    at_least("The information gain γ_p", gain, 0)
    rule: dict[str, Any] = {"scheme": scheme, "span": span, "version": version}
    width = width_of(setting, gain, episode=episodes, episodes=episodes, **rule)
    coefficient = drift_coefficient(setting, gain, span, version)
    with_bonus = optimistic(setting, version)
    return episodic_regret_bound(
        exploration_weight(with_bonus, width),
        uncertainty_bound(setting, episodes, span, gain, version),
        # Each increment is in the data of at most p episodes.
        drift_penalty(with_bonus, coefficient, span * variation),
    )


def regret_orders(
    episodes: ArrayLike, span: ArrayLike, variation: ArrayLike, gain: ArrayLike
) -> RegretTerms:
    """Return N·√(γ_p³/p) and γ_p·p^{3/2}·P_N, the theorem without its constants."""
    n, p = np.asarray(episodes, dtype=np.float64), np.asarray(span, dtype=np.float64)
    gain = np.asarray(gain, dtype=np.float64)
    return RegretTerms(
        np.asarray(n * np.sqrt(gain**3 / p)),
        np.asarray(gain * p**1.5 * np.asarray(variation)),
    )


def tuned_span(episodes: ArrayLike, gain: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return γ^{1/4}·√N, the paper's H up to a constant, which needs no P_N.

    The regret is then of order γ^{11/8}·(1 + P_N)·N^{3/4}, sublinear for
    P_N = o(N^{1/4}) up to γ.  With P_N known, the derivative by p of N·γ^{3/2}·p^{−1/2}
    + γ·p^{3/2}·P_N is zero at γ^{1/4}·√(N/(3P_N)), for a regret of order
    γ^{11/8}·P_N^{1/4}·N^{3/4}: sublinear for P_N = o(N).
    """
    return np.asarray(np.asarray(gain, dtype=np.float64) ** 0.25 * np.sqrt(episodes))


def fixed_share_bound(
    prior: Float[np.ndarray, " K"],
    episodes: int,
    switches: int,
    rate: float,
    share: float,
) -> float:
    """Bound the loss of ``fixed_share`` over that of the best sequence of experts.

    For its mix loss and any sequence with S switches in N rounds, whatever the losses
    are, with π the smallest prior weight::

        1/η·[ln(1/π) + S·ln(1/(a·π)) + (N−1−S)·ln(1/(1−a))]

    Each step of the recursion keeps a weight up to the factor 1 − a, and gives every
    expert at least a·π.
    """
    require_episodes(episodes)
    require(
        0 <= switches < episodes,
        f"N = {episodes} rounds have at most N − 1 switches, received {switches}.",
    )
    least = -np.log(prior.min())
    stays = -(episodes - 1 - switches) * np.log1p(-share)
    return float(least + switches * (least - np.log(share)) + stays) / rate


def require_episodes(episodes: int) -> None:
    """Refuse a number of episodes for which there is nothing to choose or to learn."""
    require(
        episodes >= 2, f"A bound needs N of at least 2 episodes, received {episodes!r}."
    )


def _require_span(episodes: int, span: int) -> None:
    require_episodes(episodes)
    require(
        1 <= span <= episodes,
        f"The span p must lie between 1 and N = {episodes}, received {span!r}.",
    )
