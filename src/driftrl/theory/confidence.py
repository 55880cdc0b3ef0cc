"""Calibration under drift (Lemma 1): β, ξ, and the bound they make together.

With probability at least 1 − δ, for all n, z and j (eq:calibration_nonstationary)::

    |f_{n,j}(z) − μ_j(z)| ≤ β·σ_j(z) + ξ·Σ_{s=m}^{n−1} ‖f_{s+1,j} − f_{s,j}‖

Everything takes and returns plain numbers or NumPy arrays.  The functions without an
adjective are the paper's formulas; ``corrected_…`` are those that can be proved.
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from driftrl.theory.setting import (
    Scheme,
    Setting,
    Version,
    data_sets,
    require_probability,
    require_version,
)


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
    horizon_steps: ArrayLike = 1.0,
) -> Float[np.ndarray, "..."]:
    """Return β = B + σ·√(2(γ + d_x·log(n_T/δ))), as printed in Lemma 1.

    For a full reset (and for keeping all) n_T = 1; for a sliding window the bound holds
    at every step so far and ``horizon_steps`` = n·T.
    """
    require_probability(failure_probability)
    log_term = outputs * np.log(np.asarray(horizon_steps) / failure_probability)
    width = rkhs_bound + noise_std * np.sqrt(2.0 * (np.asarray(gain) + log_term))
    return np.asarray(width)


def exploration_weight(
    width: ArrayLike, *, reward_max: float, steps: int, noise_std: float
) -> Float[np.ndarray, "..."]:
    """Return λ = R_max·T/σ · β (eq: exploration bonus weight)."""
    return np.asarray(reward_max * steps / noise_std * np.asarray(width))


def corrected_confidence_width(
    gain: ArrayLike,
    *,
    rkhs_bound: float,
    outputs: int,
    failure_probability: float,
    data_sets: ArrayLike = 1,
) -> Float[np.ndarray, "..."]:
    """Return β = B + √(2(γ + log(d_x·D/δ))), for D data sets begun afresh.

    With φ(z) the features and A = ΦᵀΦ + σ²I, ‖φ(z)‖_{A⁻¹} = σ(z)/σ.  The part of the
    error that comes from f is at most B·σ(z); the part from the noise w is

        |φ(z)ᵀA⁻¹Φᵀw| ≤ (σ(z)/σ)·‖Φᵀw‖_{A⁻¹} ≤ σ(z)·√(2(γ + log(1/δ)))

    because ‖Φᵀw‖²_{A⁻¹} ≤ 2σ²(γ + log(1/δ)) for all n at once (the self-normalised
    inequality of Abbasi-Yadkori et al.).  The two σ cancel: the printed β has one too
    many, and is too narrow for σ < 1.  ``gain`` may be that of the data at hand.
    """
    require_probability(failure_probability)
    union = np.log(outputs * np.asarray(data_sets) / failure_probability)
    return np.asarray(rkhs_bound + np.sqrt(2.0 * (np.asarray(gain) + union)))


def drift_coefficient(
    gain: ArrayLike, episodes: ArrayLike, *, kernel_bound: float, noise_std: float
) -> Float[np.ndarray, "..."]:
    """Return ξ_{n−m} = 2σ_max·√((n−m)(1+σ²)γ_{n−m})/σ², as printed in Lemma 1.

    Args:
        gain: γ of the retained data.
        episodes: n − m.  The formula counts episodes; it can only be right if it counts
            transitions, see ``corrected_drift_coefficient``.
        kernel_bound: σ_max.
        noise_std: σ.
    """
    inside = np.asarray(episodes) * (1.0 + noise_std**2) * np.asarray(gain)
    return np.asarray(2.0 * kernel_bound * np.sqrt(inside) / noise_std**2)


def corrected_drift_coefficient(
    samples: ArrayLike, *, kernel_bound: float, noise_std: float
) -> Float[np.ndarray, "..."]:
    """Return ξ = σ_max·√M/(2σ), for M retained transitions.

    What drift adds to the error is k(z)ᵀC⁻¹e with C = K + σ²I and e_i = f_n(z_i) −
    f_{s(i)}(z_i), so |e_i| ≤ √σ_max·Σ‖f_{s+1} − f_s‖ and ‖e‖ ≤ √(M·σ_max)·Σ‖…‖.  The
    eigenvalues κ of K enter ‖C⁻¹k(z)‖ as √κ/(κ + σ²) ≤ 1/(2σ), so that ‖C⁻¹k(z)‖ ≤
    √σ_max/(2σ).  No γ is needed.  Half of this value is attained, so M
    must count transitions: a printed ξ that counts episodes fails for long ones.
    """
    count = np.asarray(samples, dtype=np.float64)
    return np.asarray(kernel_bound * np.sqrt(count) / (2.0 * noise_std))


def width_of(
    setting: Setting,
    gain: ArrayLike,
    *,
    scheme: Scheme,
    span: int,
    episode: ArrayLike,
    episodes: int,
    version: Version = "corrected",
) -> Float[np.ndarray, "..."]:
    """Return β_n(δ, n−m) of a scheme with reset period or window ``span``.

    Args:
        setting: The problem's constants.
        gain: γ_{n−m}.
        scheme: Which data are retained.
        span: H or w; any number for ``keep_all``.
        episode: n, of which the printed β of a window depends.
        episodes: N, of which the corrected β depends.
        version: ``printed`` or ``corrected``.
    """
    require_version(version)
    count = data_sets(scheme, span, episodes)
    if version == "corrected":
        return corrected_confidence_width(
            gain,
            rkhs_bound=setting.rkhs_bound,
            outputs=setting.outputs,
            failure_probability=setting.failure_probability,
            data_sets=count,
        )
    return confidence_width(
        gain,
        rkhs_bound=setting.rkhs_bound,
        noise_std=setting.noise_std,
        outputs=setting.outputs,
        failure_probability=setting.failure_probability,
        horizon_steps=np.asarray(episode) * setting.steps if scheme == "window" else 1,
    )


def coefficient_of(
    setting: Setting,
    gain: ArrayLike,
    episodes: ArrayLike,
    version: Version = "corrected",
) -> Float[np.ndarray, "..."]:
    """Return ξ_{n−m} for ``episodes`` = n − m retained episodes of T transitions."""
    require_version(version)
    if version == "printed":
        return drift_coefficient(
            gain,
            episodes,
            kernel_bound=setting.kernel_bound,
            noise_std=setting.noise_std,
        )
    return corrected_drift_coefficient(
        np.asarray(episodes) * setting.steps,
        kernel_bound=setting.kernel_bound,
        noise_std=setting.noise_std,
    )


def calibration_bound(
    std: ArrayLike, width: ArrayLike, coefficient: ArrayLike, drift: ArrayLike
) -> Float[np.ndarray, "..."]:
    """Return β·σ(z) + ξ·Σ‖f_{s+1} − f_s‖ (eq:calibration_nonstationary).

    Without drift this is the stationary bound (eq:gp_calibration_stationary).
    """
    return np.asarray(
        np.asarray(width) * np.asarray(std)
        + np.asarray(coefficient) * np.asarray(drift)
    )


def stale_data_bias(
    kernel: Float[np.ndarray, "M M"],
    weights: Float[np.ndarray, "M Z"],
    ends: ArrayLike,
    increments: Float[np.ndarray, "K S"],
) -> Float[np.ndarray, "Z S"]:
    """Return the most that drift can move the mean, given where the data lie.

    Let w = C⁻¹k(z) and I_s the transitions of the episodes up to s.  With the
    increments g_s = f_{s+1} − f_s, drift moves μ(z) by Σ_s Σ_{i∈I_s} w_i·g_s(z_i), and
    by Cauchy and Schwarz in the RKHS each g_s contributes at most

        |⟨g_s, Σ_{i∈I_s} w_i k(z_i, ·)⟩| ≤ ‖g_s‖·√(w_{I_s}ᵀ K w_{I_s}).

    For every s some g_s attains it.  This replaces ξ·Σ‖g_s‖ where the data are known,
    and is far sharper.

    Args:
        kernel: K of the retained data, oldest first.
        weights: w for each of Z points.
        ends: For each retained episode s the number of transitions up to its end.
        increments: ‖f_{s+1} − f_s‖ for each retained episode s, one column an output.
    """
    below = 2.0 * np.tril(kernel, -1)
    below[np.diag_indices_from(below)] = np.diag(kernel)
    # Row i adds to the quadratic form what it has with itself and the rows before it.
    forms = np.cumsum(weights * (below @ weights), axis=0)
    reach = np.sqrt(np.maximum(forms[np.asarray(ends, dtype=int) - 1], 0.0))
    return np.tensordot(reach, increments, axes=(0, 0))
