"""Factors of a covariance matrix that grow, shrink and compress.

A matrix K + σ²I of the retained data is held as its lower Cholesky factor L.  Appending
an episode extends L by a block row; dropping the oldest episode is a low-rank *update*
of the rest, numerically stable, so that a sliding window never refactorises:

    K = [K₁₁ K₁₂]      L = [L₁₁    ]      L′L′ᵀ = K₂₂ = L₂₂L₂₂ᵀ + L₂₁L₂₁ᵀ
        [K₂₁ K₂₂]          [L₂₁ L₂₂]

All NumPy in double precision: LAPACK does the work and nothing is ever compiled.
"""

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import get_lapack_funcs, solve_triangular

_BLOCK = 32  # columns a step of the low-rank update; wide enough to be matrix products


def factorise(covariance: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """Return the lower factor L with L Lᵀ = covariance.

    Kernel matrices of nearly equal points can fail to be positive in floating point.
    Then the smallest of a ladder of relative jitters that works is added, from 1e-12
    to 1e-6 of the mean diagonal; beyond that the matrix is wrong, not badly rounded.
    """
    if len(covariance) == 0:
        return covariance.copy()
    scale = float(np.mean(np.diag(covariance)))
    (potrf,) = get_lapack_funcs(("potrf",), (covariance,))
    for jitter in (0.0, 1e-12, 1e-10, 1e-8, 1e-6):
        shifted = covariance + jitter * scale * np.eye(len(covariance))
        factor, failed = potrf(shifted, lower=1, clean=1)
        # A NaN is no failure to every LAPACK; it always reaches the last entry.
        if not failed and np.isfinite(factor[-1, -1]):
            return factor
    raise np.linalg.LinAlgError(
        f"A {len(covariance)}×{len(covariance)} covariance matrix is not positive, "
        "even with a jitter of 1e-6 of its diagonal."
    )


def append_block(
    factor: Float[np.ndarray, "N N"],
    cross: Float[np.ndarray, "M N"],
    block: Float[np.ndarray, "M M"],
) -> Float[np.ndarray, "P P"]:
    """Extend a factor by M rows: ``cross`` = K₂₁ and ``block`` = K₂₂, in O(N²M)."""
    old, new = len(factor), len(block)
    grown = np.zeros((old + new, old + new))
    grown[:old, :old] = factor
    if old:
        grown[old:, :old] = solve_triangular(
            factor, cross.T, lower=True, check_finite=False
        ).T
    rest = grown[old:, :old]
    grown[old:, old:] = factorise(block - rest @ rest.T)
    return grown


def drop_leading(
    factor: Float[np.ndarray, "N N"], count: int
) -> Float[np.ndarray, "P P"]:
    """Remove the first ``count`` rows and columns of the factored matrix.

    Solves L′L′ᵀ = L₂₂L₂₂ᵀ + L₂₁L₂₁ᵀ by orthogonal transformations of [L₂₂ L₂₁], a
    block of columns at a time, no subtraction anywhere: O((N−count)² · count) for an
    episode's worth of rows.  To drop most of the rows, refactorising is cheaper.
    """
    lower = factor[count:, count:].copy()
    extra = factor[count:, :count].copy()
    size = len(lower)
    for start in range(0, size, _BLOCK):
        stop = min(start + _BLOCK, size)
        width = stop - start
        panel = np.hstack([lower[start:, start:stop], extra[start:]])
        # The orthogonal Q that zeroes ``extra`` in these rows is applied below too.
        q, _ = np.linalg.qr(panel[:width].T, mode="complete")
        panel = panel @ q
        signs = np.where(np.diagonal(panel[:width, :width]) < 0, -1.0, 1.0)
        lower[start:, start:stop] = panel[:, :width] * signs
        extra[start:] = panel[:, width:]
    return np.tril(lower)


def invert_lower(factor: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """Return L⁻¹ of a lower triangular L."""
    if len(factor) == 0:
        return factor.copy()
    (trtri,) = get_lapack_funcs(("trtri",), (factor,))
    inverse, _ = trtri(factor, lower=1)
    return np.tril(inverse)


class PivotedFactor(NamedTuple):
    """A covariance matrix as G Gᵀ plus a remainder that no pair exceeds.

    ``pivots`` are the rows that were chosen, ``basis`` the lower factor of their own
    covariance in the order of choice, and G = K[:, pivots] · basis⁻ᵀ.
    """

    pivots: Int[np.ndarray, " R"]
    basis: Float[np.ndarray, "R R"]
    columns: Float[np.ndarray, "N R"]


def pivoted_factor(
    covariance: Float[np.ndarray, "N N"], tolerance: float
) -> PivotedFactor:
    """Choose rows greedily until every remaining variance is at most ``tolerance``.

    Each step takes the point that the chosen ones explain worst (pivoted Cholesky);
    |K − G Gᵀ| is then bounded by ``tolerance`` in every entry.  Cost O(N R²).
    """
    size = len(covariance)
    remainder = np.diag(covariance).copy()
    columns = np.zeros((size, size))
    pivots: list[int] = []
    while len(pivots) < size:
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
