"""Information gain: of a data set, at most (greedily), and its known growth.

The paper's maximum information gain of kernel k (eq:max_info_gain) is, for n points,

    γ_n = max_{|A| ≤ n} ½ log det(I + σ⁻²K(A)).

The gain is monotone and submodular in A, so picking one point after the other, each
time the one of largest posterior variance, reaches at least 1 − 1/e of the maximum
(Nemhauser et al.; Srinivas et al.).
"""

import numpy as np
from jaxtyping import Float
from numpy.typing import ArrayLike
from scipy.linalg import get_lapack_funcs

from driftrl.errors import InputError, at_least, positive, require

_MATERN = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


def greedy_information_gain(
    kernel: Float[np.ndarray, "M M"], count: int, noise_std: float
) -> Float[np.ndarray, " N"]:
    """Pick N of M candidates, each time the most uncertain one; return the gains.

    Of the first 1, 2, … N picks, each at least (1 − 1/e)·γ_n.

    This is the Cholesky factorisation of K + σ²I with pivoting: what is left on the
    diagonal after some picks is v + σ², with v a candidate's posterior variance given
    them, and a pick of variance v adds ½ log(1 + v/σ²) to the gain.
    """
    positive("The noise σ", noise_std)
    require(
        1 <= count <= len(kernel),
        f"Of {len(kernel)} candidates, 1 to {len(kernel)} can be picked, received "
        f"{count!r}.",
    )
    shifted = kernel + noise_std**2 * np.eye(len(kernel))
    (pivoted_cholesky,) = get_lapack_funcs(["pstrf"], [shifted])
    factor, *_ = pivoted_cholesky(shifted, tol=0.0, lower=1)
    gains = np.log(np.diag(factor)[:count] / noise_std)
    return np.cumsum(np.maximum(gains, 0.0))


def growth_rate(
    kernel: str, points: ArrayLike, dimension: int
) -> Float[np.ndarray, "..."]:
    """Return the known order of γ_n, up to a constant, for inputs of d dimensions.

    ========  =============================================  =======================
    se        log^{d+1} n                                    Srinivas et al. (2012)
    linear    d·log n                                        Srinivas et al. (2012)
    matern…   n^{d/(2ν+d)}·log^{2ν/(2ν+d)} n                 Vakili et al. (2021)
    ========  =============================================  =======================

    ν is ½, 3/2 or 5/2.  The paper's footnote quotes the first two.
    """
    n = np.asarray(points, dtype=np.float64)
    require(bool(np.all(n >= 2)), "A growth rate needs n of at least 2 points.")
    at_least("The dimension d of the inputs", dimension, 1)
    if kernel == "se":
        return np.asarray(np.log(n) ** (dimension + 1))
    if kernel == "linear":
        return np.asarray(dimension * np.log(n))
    if kernel not in _MATERN:
        raise InputError(
            f"No growth rate of the information gain is known for the kernel "
            f"{kernel!r}. Known: linear, se, {', '.join(_MATERN)}."
        )
    nu = _MATERN[kernel]
    power = dimension / (2 * nu + dimension)
    return np.asarray(n**power * np.log(n) ** (1 - power))


def scaled_rate(
    kernel: str, points: ArrayLike, dimension: int, anchor: tuple[int, float]
) -> Float[np.ndarray, "..."]:
    """Return c·rate(n), with c such that it goes through a measured (n₀, γ_{n₀}).

    A rate is known up to a constant only.  One greedy curve over a few hundred points
    gives the constant, and so γ for the many points of a long run.
    """
    at_points, measured = anchor
    scale = measured / float(growth_rate(kernel, at_points, dimension))
    return np.asarray(scale * growth_rate(kernel, points, dimension))
