"""Estimate the constants of the paper's bound: from a run's data, or for a kernel.

How complex the dynamics are (γ_N, B), how noisy (σ) and how much they moved (P_N), in
the norm of a kernel fitted to the run.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float

from driftrl.errors import positive
from driftrl.models.kernels import gram, kernel_named
from driftrl.theory.information import greedy_information_gain
from driftrl.theory.nystrom import Features, Sums, fit_features, posterior
from driftrl.types import Episode

# Inputs that greedy selection chooses from, and the most that it picks.
_CANDIDATES, _MAX_POINTS = 1500, 1000
# Prior size of the displacement in units of the dynamics; the evidence selects one.
_REACHES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Constants:
    """Estimates, in standard deviations of the changes, averaged over outputs."""

    gain: float
    """γ_N: information gain of the data at hand."""
    variation: float
    """P_N, the outputs added."""
    rkhs_bound: float
    """B: the largest norm of an output."""
    noise_std: float
    """σ in units of the prior's standard deviation."""


def estimate_constants(
    episodes: Sequence[Episode],
    clock: Float[np.ndarray, " N"] | None = None,
    features: Features | None = None,
) -> Constants:
    """Estimate γ_N, P_N, B and σ.

    The dynamics are taken to move along one direction, f_n = f + c_n·g, for a clock c:
    θ where it is known and the number of the episode where it is not.  Then
    P_N = Σ_j ‖g_j‖·Σ_n |c_{n+1} − c_n|, and one regression on (φ, c_n·φ) finds g.  If
    an unknown θ goes back and forth, this is too small.

    Norms are those of the kernel with the prior variance of largest evidence; the
    features φ are fitted to the episodes unless they are given.
    """
    features = features or fit_features(episodes)
    clock = np.arange(len(episodes), dtype=np.float64) if clock is None else clock
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
    return Constants(
        gain=float(gains.mean()),
        variation=reach * float(moved.sum()) * travelled / extent,
        rkhs_bound=float(still.max()),
        noise_std=float(np.sqrt(belief.level).mean()),
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


def gain_curve(
    kernel_name: str, dimension: int, length_scale: float, noise_std: float, points: int
) -> Float[np.ndarray, " M"]:
    """Return greedy γ_1 … γ_M over inputs with a std of 1 in every dimension.

    The inputs are uniform in a cube.  M is ``points``, at most 1,000; beyond that use
    ``driftrl.theory.information.scaled_rate``.
    """
    positive("The length scale", length_scale)
    kernel = kernel_named(kernel_name)
    half = np.sqrt(3.0)
    drawn = np.random.default_rng(0).uniform(-half, half, (_CANDIDATES, dimension))
    matrix = gram(kernel, drawn / length_scale, drawn / length_scale, np)
    return greedy_information_gain(matrix, min(points, _MAX_POINTS), noise_std).curve
