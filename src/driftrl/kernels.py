"""Kernels, covariance matrices, and the fit of hyperparameters.

With inputs divided by their length scales, a stationary kernel is a function of the
squared distance r² and the linear kernel a function of the dot product, so that one
matrix product gives a whole Gram matrix.  ``slope`` is the derivative of ``profile``
by that number; the gradient of the marginal likelihood needs nothing else.

Kernels run in NumPy, where models are fitted, and in JAX, where they are queried:
``xp`` is either module.  Everything else here is NumPy in double precision.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import cho_solve, get_lapack_funcs
from scipy.optimize import minimize

from driftrl.errors import unknown_name

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
_SQRT3 = 3.0**0.5
_SQRT5 = 5.0**0.5


class Kernel(NamedTuple):
    """A covariance function with unit output scale, on scaled inputs."""

    stationary: bool
    profile: Callable[[Any, ModuleType], Any]
    slope: Callable[[Any, ModuleType], Any]


def _matern32(r2: Any, xp: ModuleType) -> Any:
    r = _SQRT3 * xp.sqrt(r2)
    return (1.0 + r) * xp.exp(-r)


def _matern52(r2: Any, xp: ModuleType) -> Any:
    r = _SQRT5 * xp.sqrt(r2)
    return (1.0 + r + r**2 / 3.0) * xp.exp(-r)


KERNELS: dict[str, Kernel] = {
    # k = exp(−r²/2)
    "se": Kernel(
        True,
        lambda r2, xp: xp.exp(-0.5 * r2),
        lambda r2, xp: -0.5 * xp.exp(-0.5 * r2),
    ),
    # k = (1 + √3 r) exp(−√3 r)
    "matern32": Kernel(
        True,
        _matern32,
        lambda r2, xp: -1.5 * xp.exp(-_SQRT3 * xp.sqrt(r2)),
    ),
    # k = (1 + √5 r + 5r²/3) exp(−√5 r)
    "matern52": Kernel(
        True,
        _matern52,
        lambda r2, xp: (
            -5.0 / 6.0 * (1.0 + _SQRT5 * xp.sqrt(r2)) * xp.exp(-_SQRT5 * xp.sqrt(r2))
        ),
    ),
    # k = x·z
    "linear": Kernel(False, lambda dot, xp: dot, lambda dot, xp: xp.ones_like(dot)),
}


def kernel_named(name: str) -> Kernel:
    """Return the kernel with this name."""
    if name not in KERNELS:
        raise unknown_name("kernel", name, KERNELS)
    return KERNELS[name]


def pair_statistic(kernel: Kernel, x: Any, z: Any, xp: ModuleType) -> Any:
    """Return r² or the dot product of every row of ``x`` with every row of ``z``."""
    dot = x @ z.T
    if not kernel.stationary:
        return dot
    square = (x * x).sum(axis=-1)[:, None] + (z * z).sum(axis=-1)[None, :]
    # Rounding can leave the distance of a point to itself just below zero.
    return xp.maximum(square - 2.0 * dot, 0.0)


def gram(kernel: Kernel, x: Any, z: Any, xp: ModuleType) -> Any:
    """Return [k(xᵢ, zⱼ)]ᵢⱼ for scaled inputs, with unit output scale."""
    return kernel.profile(pair_statistic(kernel, x, z, xp), xp)


def variance_at(kernel: Kernel, x: Any, xp: ModuleType) -> Any:
    """Return [k(xᵢ, xᵢ)]ᵢ for scaled inputs, with unit output scale."""
    square = (x * x).sum(axis=-1)
    return xp.ones_like(square) if kernel.stationary else square


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
    matrix = hyper.output_scale**2 * gram(kernel, scaled, scaled, np)
    matrix[np.diag_indices_from(matrix)] += hyper.noise_std**2
    return matrix


def factorise(covariance: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """Return the lower Cholesky factor of a covariance matrix.

    Kernel matrices of nearly equal points can fail to be positive in floating point.
    Then the smallest sufficient jitter between 1e-12 and 1e-6 of the mean diagonal is
    added.
    """
    if len(covariance) == 0:
        return covariance.copy()
    scale = float(np.mean(np.diag(covariance)))
    (potrf,) = get_lapack_funcs(("potrf",), (covariance,))
    for jitter in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
        shifted = covariance + jitter * scale * np.eye(len(covariance))
        factor, failed = potrf(shifted, lower=1, clean=1)
        # Not every LAPACK reports a NaN as a failure; it always reaches the last entry.
        if not failed and np.isfinite(factor[-1, -1]):
            return factor
    raise np.linalg.LinAlgError(
        f"A {len(covariance)}×{len(covariance)} covariance matrix is not positive, "
        "even with a jitter of 1e-6 of its diagonal."
    )


class PivotedFactor(NamedTuple):
    """A covariance matrix as G Gᵀ plus a small remainder.

    ``basis`` is the lower factor of the covariance of the chosen rows ``pivots``, and
    ``columns`` is G = K[:, pivots] · basis⁻ᵀ.
    """

    pivots: Int[np.ndarray, " R"]
    basis: Float[np.ndarray, "R R"]
    columns: Float[np.ndarray, "N R"]


def pivoted_factor(
    covariance: Float[np.ndarray, "N N"], tolerance: float, most: int | None = None
) -> PivotedFactor:
    """Choose rows greedily until every remaining variance is at most ``tolerance``.

    Each step takes the point that the chosen ones explain worst (pivoted Cholesky);
    |K − G Gᵀ| is then bounded by ``tolerance`` in every entry, unless ``most`` rows
    are not enough for that.  Cost O(N R²).
    """
    size = len(covariance)
    most = size if most is None else min(most, size)
    remainder = np.diag(covariance).copy()
    columns = np.zeros((size, most))
    pivots: list[int] = []
    while len(pivots) < most:
        worst = int(np.argmax(remainder))
        if remainder[worst] <= tolerance:
            break
        rank = len(pivots)
        column = covariance[:, worst] - columns[:, :rank] @ columns[worst, :rank]
        column /= np.sqrt(remainder[worst])
        columns[:, rank] = column
        remainder = np.maximum(remainder - column**2, 0.0)
        remainder[worst] = 0.0
        pivots.append(worst)
    chosen = np.array(pivots, dtype=np.int64)
    columns = columns[:, : len(pivots)]
    return PivotedFactor(chosen, np.tril(columns[chosen]), columns)


def negative_log_likelihood(
    kernel: Kernel,
    hyper: Hyperparameters,
    x: Float[np.ndarray, "N D"],
    y: Float[np.ndarray, "N Q"],
) -> tuple[float, Float[np.ndarray, " P"]]:
    """Return −log p(Y|X) and its gradient by log ℓ₁…log ℓ_D, log s, log σ.

    For Q outputs that share one kernel, with C = s²K + σ²I and α = C⁻¹Y::

        −log p(Y|X) = ½ tr(Yᵀα) + Q/2 · log det C + NQ/2 · log 2π
        ∂/∂C        = ½ (Q·C⁻¹ − α αᵀ)
    """
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

    Searches from the previous fit, close to the optimum while the data changes little,
    and from unit scales in case it changed much, and takes the better one.  The noise
    is fixed unless ``learn_noise``.  Outputs that do not vary, such as those of a
    single point, determine no scale: then nothing changes.
    """
    kernel = kernel_named(kernel_name)
    # SciPy would take one step for zero.  Constant outputs would shrink s, and so σ(z).
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
    starts = [
        [*previous.length_scales, previous.output_scale],
        [1.0] * (dimensions + 1),
    ]
    if learn_noise:
        ranges.append(NOISE_RANGE)
        for start in starts:
            start.append(max(NOISE_START, previous.noise_std))
    bounds = np.log(np.array(ranges))
    searches = [
        minimize(
            objective,
            np.clip(np.log(np.array(start)), bounds[:, 0], bounds[:, 1]),
            jac=True,
            method="L-BFGS-B",
            bounds=bounds,
            options={"maxiter": steps, "ftol": 1e-5},
        )
        for start in starts
    ]
    return hyper_of(min(searches, key=lambda search: search.fun).x)
