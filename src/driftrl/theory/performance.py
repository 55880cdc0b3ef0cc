"""From model error to regret of one episode: λ, B, Σ and the episodic bound.

Performance difference (Lemma 2), for every policy π at episode n::

    |J(π, f_n) − J(π, μ)| ≤ λ_{n,m}·min{Σ(π, f_n), Σ(π, μ)} + B_{n,m}

Episodic regret (appendix), for the policy π_n that maximises J(π, μ) + λ·Σ(π, μ)::

    J(π_n*, f_n) − J(π_n, f_n) ≤ (λ̃² + 2λ̃)·Σ(π_n, f_n) + (λ̃ + 2)·B̃
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from driftrl.theory.confidence import exploration_weight
from driftrl.theory.setting import Setting, Version, require_version


def uncertainty_along(std: Float[np.ndarray, "*batch T S"]) -> Float[np.ndarray, ""]:
    """Return Σ = E[Σ_t ‖σ(x_t, π(x_t))‖₂], the mean over any leading trajectories.

    Args:
        std: Epistemic std of each output at each step of one or many trajectories
            (eq:sigma_trajectory).
    """
    return np.asarray(np.linalg.norm(std, axis=-1).sum(axis=-1).mean())


def uncertainty_weight(setting: Setting, width: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return λ_{n,m} = R_max·T/σ·β (eq: exploration bonus weight)."""
    return _weight(setting.reward_max, setting, width)


def drift_penalty(
    setting: Setting, coefficient: ArrayLike, drift: ArrayLike
) -> Float[np.ndarray, "..."]:
    """Return B_{n,m} = ξ_{n−m}·R_max·T²/σ·Σ_{s=m}^{n−1} ‖f_{s+1} − f_s‖.

    The norm of the vector f is the sum of the norms of its outputs (eq: temporal drift
    accumulation).
    """
    return _penalty(setting.reward_max, setting, coefficient, drift)


def reward_scale(setting: Setting, version: Version = "corrected") -> float:
    """Return max{R_max, largest ‖σ(z)‖}: the reward and the intrinsic one alike.

    The proof of the episodic bound treats ‖σ(z)‖₂ as a reward.  With k(z, z) ≤ σ_max
    and d_x outputs it is at most √(d_x·σ_max); the paper prints σ_max.
    """
    require_version(version)
    if version == "printed":
        return max(setting.reward_max, setting.kernel_bound)
    return max(setting.reward_max, math.sqrt(setting.outputs * setting.kernel_bound))


def optimism_weight(
    setting: Setting, width: ArrayLike, version: Version = "corrected"
) -> Float[np.ndarray, "..."]:
    """Return λ̃ = max{R_max, sup‖σ‖}·T/σ·β of the episodic bound."""
    return _weight(reward_scale(setting, version), setting, width)


def optimism_penalty(
    setting: Setting,
    coefficient: ArrayLike,
    drift: ArrayLike,
    version: Version = "corrected",
) -> Float[np.ndarray, "..."]:
    """Return B̃ = ξ·max{R_max, sup‖σ‖}·T²/σ·Σ‖f_{s+1} − f_s‖ of the episodic bound."""
    return _penalty(reward_scale(setting, version), setting, coefficient, drift)


def performance_difference_bound(
    setting: Setting, weight: ArrayLike, uncertainty: ArrayLike, penalty: ArrayLike
) -> Float[np.ndarray, "..."]:
    """Return λ·Σ + B, cut at R_max·T, beyond which no two returns differ.

    Args:
        setting: The problem's constants.
        weight: λ_{n,m}.
        uncertainty: The smaller of Σ(π, f_n) and Σ(π, μ), or either.
        penalty: B_{n,m}.
    """
    bound = np.asarray(weight) * np.asarray(uncertainty) + np.asarray(penalty)
    return np.asarray(np.minimum(bound, setting.reward_max * setting.steps))


@dataclass(frozen=True)
class RegretTerms:
    """A regret bound as its two terms."""

    learning: Float[np.ndarray, "..."]
    """What is paid for not knowing the dynamics yet."""
    drift: Float[np.ndarray, "..."]
    """What is paid for data of older dynamics."""

    @property
    def total(self) -> Float[np.ndarray, "..."]:
        """Return learning + drift."""
        return np.asarray(self.learning + self.drift)


def episodic_regret_bound(
    weight: ArrayLike, uncertainty: ArrayLike, penalty: ArrayLike
) -> RegretTerms:
    """Return (λ̃² + 2λ̃)·Σ(π_n, f_n) and (λ̃ + 2)·B̃, episode by episode.

    Args:
        weight: λ̃_{n,m}.
        uncertainty: Σ_{m:n−1}(π_n, f_n), along executed trajectories.
        penalty: B̃_{n,m}.
    """
    weight = np.asarray(weight)
    return RegretTerms(
        np.asarray((weight**2 + 2 * weight) * np.asarray(uncertainty)),
        np.asarray((weight + 2) * np.asarray(penalty)),
    )


def _weight(reward: float, setting: Setting, width: ArrayLike) -> np.ndarray:
    return exploration_weight(
        width, reward_max=reward, steps=setting.steps, noise_std=setting.noise_std
    )


def _penalty(
    reward: float, setting: Setting, coefficient: ArrayLike, drift: ArrayLike
) -> np.ndarray:
    reach = np.asarray(coefficient) * np.asarray(drift)
    return np.asarray(reward * setting.steps**2 / setting.noise_std * reach)
