"""The episodic regret bound of the appendix, on the data of a run.

For every episode n, with the retained data of the episodes m(n) … n−1::

    r_n ≤ (λ̃² + 2λ̃)·Σ(π_n, f_n)  +  (λ̃ + 2)·ξ·r·T²/σ·Σ_{s=m}^{n−1} ‖f_{s+1} − f_s‖
          └────── learning ─────┘    └─────────────────── drift ───────────────────┘

Σ is the uncertainty along the executed episode, a sum over its steps; the norms, γ, B
and σ are estimated (``driftrl.theory.estimate_constants``) in the kernel of a quick
Gaussian process fitted to the run, whatever its agent.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from driftrl.errors import require
from driftrl.theory.confidence import (
    Setting,
    coefficient_of,
    require_episodes,
    width_of,
)
from driftrl.theory.estimate_constants import estimate_constants
from driftrl.theory.nystrom import RunningSums, fit_features
from driftrl.theory.regret_bound import (
    RegretTerms,
    episodic_regret_bound,
    optimism_penalty,
    optimism_weight,
)
from driftrl.types import Episode

_FAILURE_PROBABILITY = 0.1


@dataclass(frozen=True)
class EmpiricalBound:
    """The bound of each episode of a run."""

    setting: Setting
    """The estimated constants."""
    uncertainty: Float[np.ndarray, " N"]
    """Σ along the executed episode, in prior standard deviations."""
    drift: Float[np.ndarray, " N"]
    """Σ_{s=m(n)}^{n−1} ‖f_{s+1} − f_s‖, the drift within the retained data."""
    terms: RegretTerms
    """Both terms with all constants, episode by episode."""

    @property
    def most(self) -> float:
        """Return T·R_max, which no episode's regret exceeds."""
        return self.setting.steps * self.setting.reward_max


def empirical_bound(
    episodes: Sequence[Episode],
    first_retained: Int[np.ndarray, " N"],
    clock: Float[np.ndarray, " N"] | None = None,
) -> EmpiricalBound:
    """Return the bound's terms for every episode of a run.

    For any forgetting rule: if it forgets, the confidence holds for as many data sets
    as there are episodes, which is enough for each rule.

    Args:
        episodes: All episodes, from the first.
        first_retained: m(n) of each.
        clock: θ of each, or None if it is not known.
    """
    count, retained = len(episodes), np.asarray(first_retained)
    require_episodes(count)
    require(
        len(retained) == count,
        f"Each of {count} episodes needs its m(n), received {len(retained)} of them.",
    )
    features = fit_features(episodes)
    parts = [features.of(episode) for episode in episodes]
    constants = estimate_constants(episodes, clock, features)
    rewards = np.concatenate([episode.rewards for episode in episodes])
    setting = Setting(
        rkhs_bound=constants.rkhs_bound,
        noise_std=constants.noise_std,
        kernel_bound=max(float((phi**2).sum(axis=1).max()) for phi, _ in parts),
        outputs=episodes[0].obs.shape[1],
        failure_probability=_FAILURE_PROBABILITY,
        steps=max(map(len, episodes)),
        # The bound counts rewards from 0.
        reward_max=float(np.ptp(rewards)),
    )
    sums, numbers = RunningSums(parts), np.arange(1, count + 1)
    pairs = [
        _uncertainty_and_gain(
            phi, sums.between(int(first), int(n)).gram, setting.noise_std**2
        )
        for n, first, (phi, _) in zip(numbers, retained, parts, strict=True)
    ]
    one_output, gain = np.array(pairs).T
    uncertainty = np.sqrt(setting.outputs) * one_output
    # P_N in proportion to the steps of the clock.
    steps = np.ones(count - 1) if clock is None else np.abs(np.diff(clock))
    drift = drift_within(constants.variation * steps / (steps.sum() or 1.0), retained)
    spans = numbers - retained
    width = width_of(
        setting,
        gain,
        scheme="keep_all" if (retained == 1).all() else "window",
        span=int(spans.max()) or 1,
        episode=numbers,
        episodes=count,
    )
    penalty = optimism_penalty(setting, coefficient_of(setting, gain, spans), drift)
    weight = optimism_weight(setting, width)
    terms = episodic_regret_bound(weight, uncertainty, penalty)
    return EmpiricalBound(setting, uncertainty, drift, terms)


def drift_within(
    increments: Float[np.ndarray, " K"], first_retained: Int[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    """Return Σ_{s=m(n)}^{n−1} ‖f_{s+1} − f_s‖ for every n; K = N − 1."""
    path = np.concatenate([[0.0], np.cumsum(increments)])
    return path - path[first_retained - 1]


def _uncertainty_and_gain(
    phi: Float[np.ndarray, "T F"], gram: Float[np.ndarray, "F F"], noise: float
) -> tuple[float, float]:
    """Return Σ_t σ(z_t) of one output along an episode, and γ of the retained data.

    With A = Σφφᵀ over the data, σ²(z) = φᵀ(I + A/σ²)⁻¹φ and γ = ½·log det(I + A/σ²).
    All outputs share inputs, kernel and noise.
    """
    factor = np.linalg.cholesky(np.eye(len(gram)) + gram / noise)
    variances = (np.linalg.solve(factor, phi.T) ** 2).sum(axis=0)
    return float(np.sqrt(variances).sum()), float(np.log(np.diag(factor)).sum())
