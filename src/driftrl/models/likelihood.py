"""Hyperparameters of the Gaussian process, and their fit by marginal likelihood.

For Q outputs that share one kernel, with C = s²K + σ²I and α = C⁻¹Y::

    −log p(Y|X) = ½ tr(Yᵀα) + Q/2 · log det C + NQ/2 · log 2π
    ∂/∂C        = ½ (Q·C⁻¹ − α αᵀ)

The gradient by the length scales follows from the kernel's slope through two matrix
products (see ``_length_scale_gradient``), so one step costs little more than a
factorisation.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve
from scipy.optimize import minimize

from driftrl.models.cholesky import factorise
from driftrl.models.kernels import Kernel, kernel_named, pair_statistic

# In units of normalised inputs and outputs.  A length scale far outside the data's own
# spread says "this input does not matter", which a few points can't show.
LENGTH_SCALE_RANGE = (0.1, 20.0)
OUTPUT_SCALE_RANGE = (0.1, 20.0)
# A lower floor makes planning look at more points: on the noise-free pendulum 1e-3
# needs half as many again as 1e-2, for the same returns.
NOISE_RANGE = (1e-2, 1.0)
# Where the search for the noise starts: from below, the likelihood of data that has
# changed is so steep that the first step throws every parameter to its bound.
NOISE_START = 0.1


@dataclass(frozen=True)
class Hyperparameters:
    """Length scales ℓ, output scale s and noise std σ, all in normalised units."""

    length_scales: Float[np.ndarray, " D"]
    output_scale: float
    noise_std: float


def covariance(
    kernel: Kernel, hyper: Hyperparameters, x: Float[np.ndarray, "N D"]
) -> Float[np.ndarray, "N N"]:
    """Return s²K + σ²I of the inputs ``x``."""
    scaled = x / hyper.length_scales
    kernel_matrix = kernel.profile(pair_statistic(kernel, scaled, scaled, np), np)
    matrix = hyper.output_scale**2 * kernel_matrix
    matrix[np.diag_indices_from(matrix)] += hyper.noise_std**2
    return matrix


def negative_log_likelihood(
    kernel: Kernel,
    hyper: Hyperparameters,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, "N Q"],
) -> tuple[float, Float[np.ndarray, " P"]]:
    """Return −log p(Y|X) and its gradient by log ℓ₁…log ℓ_D, log s, log σ."""
    count, outputs = y.shape
    scaled = x / hyper.length_scales
    statistic = pair_statistic(kernel, scaled, scaled, np)
    signal = hyper.output_scale**2 * kernel.profile(statistic, np)
    noise = hyper.noise_std**2
    factor = factorise(signal + noise * np.eye(count))
    alpha = cho_solve((factor, True), y, check_finite=False)
    inverse = cho_solve((factor, True), np.eye(count), check_finite=False)
    by_covariance = 0.5 * (outputs * inverse - alpha @ alpha.T)

    log_determinant = 2.0 * np.log(np.diag(factor)).sum()
    value = 0.5 * np.sum(y * alpha) + 0.5 * outputs * log_determinant
    value += 0.5 * count * outputs * np.log(2.0 * np.pi)

    by_statistic = by_covariance * hyper.output_scale**2
    by_statistic *= kernel.slope(statistic, np)
    by_length = _length_scale_gradient(kernel, by_statistic, scaled)
    by_output_scale = 2.0 * np.sum(by_covariance * signal)
    by_noise = 2.0 * noise * np.trace(by_covariance)
    return float(value), np.array([*by_length, by_output_scale, by_noise])


def _length_scale_gradient(
    kernel: Kernel,
    by_statistic: Float[np.ndarray, "N N"],
    scaled: Float[np.ndarray, "N D"],
) -> Float[np.ndarray, " D"]:
    """Chain ∂/∂statistic to ∂/∂log ℓ_j without an N×N×D array.

    With x scaled, ∂r²ₐᵦ/∂log ℓ_j = −2(xₐⱼ − xᵦⱼ)² and ∂(x·z)/∂log ℓ_j = −2 xₐⱼxᵦⱼ.
    """
    mixed = np.sum(scaled * (by_statistic @ scaled), axis=0)
    if not kernel.stationary:
        return -2.0 * mixed
    rows = by_statistic.sum(axis=1)
    return -4.0 * ((rows[:, None] * scaled**2).sum(axis=0) - mixed)


def fit_hyperparameters(
    kernel_name: str,
    previous: Hyperparameters,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, "N Q"],
    *,
    steps: int,
    learn_noise: bool,
) -> Hyperparameters:
    """Maximise the marginal likelihood by at most ``steps`` of bounded L-BFGS.

    Searches twice, from the previous fit, near which the optimum stays while the data
    changes little, and from unit scales, because it does not when the data changes
    much; the better one wins.  The noise stays as it is unless ``learn_noise``.
    Outputs that do not vary, as of a single point, show no scale: then all stays.
    """
    kernel = kernel_named(kernel_name)
    # SciPy's zero steps are one.  No variation would shrink s, and so σ(z), to nothing.
    if steps == 0 or np.allclose(y, 0.0, rtol=0.0, atol=1e-8):
        return previous
    dimensions = x.shape[1]

    def hyper_of(logs: Float[np.ndarray, " P"]) -> Hyperparameters:
        values = np.exp(logs)
        noise = float(values[-1]) if learn_noise else previous.noise_std
        return Hyperparameters(values[:dimensions], float(values[dimensions]), noise)

    def objective(logs: Float[np.ndarray, " P"]) -> tuple[float, np.ndarray]:
        value, gradient = negative_log_likelihood(kernel, hyper_of(logs), x, y)
        return value / y.size, gradient[: len(logs)] / y.size

    ranges = [LENGTH_SCALE_RANGE] * dimensions + [OUTPUT_SCALE_RANGE]
    scales = [
        [*previous.length_scales, previous.output_scale],
        [1.0] * (dimensions + 1),
    ]
    if learn_noise:
        ranges.append(NOISE_RANGE)
        for start in scales:
            start.append(max(NOISE_START, previous.noise_std))
    bounds = np.log(np.array(ranges))
    found = [
        minimize(
            objective,
            np.clip(np.log(np.array(start)), bounds[:, 0], bounds[:, 1]),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": steps, "ftol": 1e-5},
        )
        for start in scales
    ]
    return hyper_of(min(found, key=lambda search: search.fun).x)
