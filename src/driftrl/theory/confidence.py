"""Calibration under drift (Lemma 1): β, ξ, and the bound they make together.

With probability at least 1 − δ, for all n, z and j (eq:calibration_nonstationary)::

    |f_{n,j}(z) − μ_j(z)| ≤ β·σ_j(z) + ξ·Σ_{s=m}^{n−1} ‖f_{s+1,j} − f_{s,j}‖

Everything takes and returns plain numbers or NumPy arrays.  The bounds come in two
versions: ``printed`` is the paper's formula, letter by letter, and ``corrected`` the
nearest one for which the proof goes through.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike

from driftrl.errors import at_least, positive, require

Version = Literal["printed", "corrected"]
Scheme = Literal["keep_all", "reset", "window"]


@dataclass(frozen=True)
class Setting:
    """The constants of the paper's section III, one sentence each."""

    rkhs_bound: float = 1.0
    """B, the bound on the RKHS norm of every output of the dynamics."""
    noise_std: float = 0.1
    """σ, standard deviation of the process noise and regulariser of the GP."""
    kernel_bound: float = 1.0
    """σ_max ≥ k(z, z), a bound on the prior *variance*."""
    outputs: int = 1
    """d_x, the number of outputs."""
    failure_probability: float = 0.1
    """δ, the probability with which the confidence may fail."""
    steps: int = 1
    """T, the transitions of an episode."""
    reward_max: float = 1.0
    """R_max, the largest reward of a step; the smallest is 0."""

    def __post_init__(self) -> None:
        at_least("The RKHS bound B", self.rkhs_bound, 0)
        positive("The noise σ", self.noise_std)
        positive("The kernel's bound σ_max", self.kernel_bound)
        at_least("The number of outputs d_x", self.outputs, 1)
        at_least("The steps T of an episode", self.steps, 1)
        at_least("The largest reward R_max", self.reward_max, 0)
        require(
            0 < self.failure_probability < 1,
            "The failure probability δ must lie strictly between 0 and 1, received "
            f"{self.failure_probability!r}.",
        )


def data_sets(scheme: Scheme, span: int, episodes: int) -> int:
    """Return how many data sets are begun afresh in N episodes.

    The self-normalised inequality behind β holds for all n at once while data are only
    added.  Each time old data are dropped a new application of it begins, and all of
    them must hold together: keeping all is one, resets every H episodes are ⌊N/H⌋ + 1
    (Algorithm 1 resets at H, 2H, …), and a window that moves with every episode is N.
    """
    if scheme == "keep_all" or span >= episodes:
        return 1
    return episodes if scheme == "window" else episodes // span + 1


def information_gain(factor: Float[np.ndarray, "N N"], noise_std: float) -> float:
    """Return ½ log det(I + σ⁻²K) of a data set, from L with L Lᵀ = K + σ²I.

    The paper's γ is the *maximum* of this over all data sets of the same size; the
    gain of the data at hand is what a program can compute, and at most γ.
    """
    return float(np.log(np.diag(factor)).sum() - len(factor) * np.log(noise_std))


def confidence_width(
    setting: Setting, gain: ArrayLike, horizon_steps: ArrayLike = 1.0
) -> Float[np.ndarray, "..."]:
    """Return β = B + σ·√(2(γ + d_x·log(n_T/δ))), as printed in Lemma 1.

    For a full reset (and for keeping all) n_T = 1; for a sliding window the bound holds
    at every step so far and ``horizon_steps`` = n·T.
    """
    logs = np.log(np.asarray(horizon_steps) / setting.failure_probability)
    inside = 2.0 * (np.asarray(gain) + setting.outputs * logs)
    return np.asarray(setting.rkhs_bound + setting.noise_std * np.sqrt(inside))


def corrected_confidence_width(
    setting: Setting, gain: ArrayLike, data_sets: ArrayLike = 1
) -> Float[np.ndarray, "..."]:
    """Return β = B + √(2(γ + log(d_x·D/δ))), for D data sets begun afresh.

    With φ(z) the features and A = ΦᵀΦ + σ²I, ‖φ(z)‖_{A⁻¹} = σ(z)/σ.  The part of the
    error that comes from f is at most B·σ(z); the part from the noise w is

        |φ(z)ᵀA⁻¹Φᵀw| ≤ (σ(z)/σ)·‖Φᵀw‖_{A⁻¹} ≤ σ(z)·√(2(γ + log(1/δ)))

    because ‖Φᵀw‖²_{A⁻¹} ≤ 2σ²(γ + log(1/δ)) for all n at once (the self-normalised
    inequality of Abbasi-Yadkori et al.).  The two σ cancel: the printed β has one too
    many, and is too narrow for σ < 1.  ``gain`` may be that of the data at hand.
    """
    union = setting.outputs * np.asarray(data_sets) / setting.failure_probability
    inside = 2.0 * (np.asarray(gain) + np.log(union))
    return np.asarray(setting.rkhs_bound + np.sqrt(inside))


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

    The printed β of a window depends on n (``episode``), the corrected one on N.
    """
    if version == "corrected":
        count = data_sets(scheme, span, episodes)
        return corrected_confidence_width(setting, gain, count)
    steps = np.asarray(episode) * setting.steps if scheme == "window" else 1
    return confidence_width(setting, gain, steps)


def exploration_weight(setting: Setting, width: ArrayLike) -> Float[np.ndarray, "..."]:
    """Return λ_{n,m} = R_max·T/σ·β (eq: exploration bonus weight)."""
    scale = setting.reward_max * setting.steps / setting.noise_std
    return np.asarray(scale * np.asarray(width))


def drift_coefficient(
    setting: Setting,
    gain: ArrayLike,
    episodes: ArrayLike,
    version: Version = "corrected",
) -> Float[np.ndarray, "..."]:
    """Return ξ_{n−m} for ``episodes`` = n − m retained episodes of T transitions.

    Lemma 1 prints 2σ_max·√((n−m)(1+σ²)γ_{n−m})/σ².  Corrected it is σ_max·√M/(2σ), for
    M = (n−m)·T: what drift adds to the error is k(z)ᵀC⁻¹e with C = K + σ²I and
    e_i = f_n(z_i) − f_{s(i)}(z_i), so |e_i| ≤ √σ_max·Σ‖f_{s+1} − f_s‖ and
    ‖e‖ ≤ √(M·σ_max)·Σ‖…‖.  The eigenvalues κ of K enter ‖C⁻¹k(z)‖ as
    √κ/(κ + σ²) ≤ 1/(2σ), so that ‖C⁻¹k(z)‖ ≤ √σ_max/(2σ).  No γ is needed.  Half of
    this value is attained, so M must count transitions: the printed ξ, which counts
    episodes, fails for long ones.
    """
    noise, count = setting.noise_std, np.asarray(episodes, dtype=np.float64)
    if version == "printed":
        inside = count * (1.0 + noise**2) * np.asarray(gain)
        return np.asarray(2.0 * setting.kernel_bound * np.sqrt(inside) / noise**2)
    samples = count * setting.steps
    return np.asarray(setting.kernel_bound * np.sqrt(samples) / (2.0 * noise))


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
