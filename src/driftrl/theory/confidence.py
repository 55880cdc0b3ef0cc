"""The paper's confidence width β and exploration weight λ (Lemmas 1 and 2).

Everything takes and returns plain numbers or NumPy arrays.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike


def information_gain(factor: Float[np.ndarray, "N N"], noise_std: float) -> float:
    """Return ½ log det(I + σ⁻²K) of a data set, from L with L Lᵀ = K + σ²I.

    The paper's γ is the *maximum* of this over all data sets of the same size; the
    gain of the data at hand is what a program can compute, and at most γ.
    """
    return float(np.log(np.diag(factor)).sum() - len(factor) * np.log(noise_std))


def confidence_width(
    gain: ArrayLike,
    *,
    rkhs_bound: float,
    noise_std: float,
    outputs: int,
    failure_probability: float,
    horizon_steps: float = 1.0,
) -> Float[np.ndarray, "..."]:
    """Return β = B + σ·√(2(γ + d_x·log(n_T/δ))).

    For a full reset (and for keeping all) n_T = 1; for a sliding window the bound holds
    at every step so far and ``horizon_steps`` = n·T.
    """
    log_term = outputs * np.log(horizon_steps / failure_probability)
    width = rkhs_bound + noise_std * np.sqrt(2.0 * (np.asarray(gain) + log_term))
    return np.asarray(width)


def exploration_weight(
    width: ArrayLike, *, reward_max: float, steps: int, noise_std: float
) -> Float[np.ndarray, "..."]:
    """Return λ = R_max·T/σ · β (eq: exploration bonus weight)."""
    return np.asarray(reward_max * steps / noise_std * np.asarray(width))
