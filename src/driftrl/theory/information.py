"""Information gain: of a data set, at most (greedily), and its known growth.

The paper's maximum information gain of kernel k (eq:max_info_gain) is, for n points,

    γ_n = max_{|A| ≤ n} ½ log det(I + σ⁻²K(A)).

The gain is monotone and submodular in A, so picking one point after the other, each
time the one of largest posterior variance, reaches at least 1 − 1/e of the maximum
(Nemhauser et al.; Srinivas et al.).
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from driftrl.errors import InputError, at_least, positive, require

Columns = Callable[[int], np.ndarray]
"""Returns k(z_i, ·) at all candidates, for the row i of one of them."""

_REMAINDER = 1e-9  # of σ²: changes the gain of n points by less than n·1e-9
_MATERN = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}


def gain_of_kernel(kernel: Float[np.ndarray, "N N"], noise_std: float) -> float:
    """Return ½ log det(I + σ⁻²K) of a data set from its kernel matrix."""
    positive("The noise σ", noise_std)
    shifted = np.eye(len(kernel)) + kernel / noise_std**2
    return 0.5 * float(np.linalg.slogdet(shifted).logabsdet)


@dataclass(frozen=True)
class GreedyGain:
    """What greedy selection found: the gain after each point, and the points."""

    curve: Float[np.ndarray, " N"]
    """Gain of the first 1, 2, … n picked points: at least (1 − 1/e)·γ_n."""
    chosen: Int[np.ndarray, " N"]
    """Rows of the candidates, in the order in which they were picked."""

    def upper_bound(self) -> Float[np.ndarray, " N"]:
        """Return curve/(1 − 1/e), which no set of as many candidates exceeds."""
        return self.curve / (1.0 - 1.0 / math.e)


def greedy_information_gain(
    columns: Columns,
    variances: Float[np.ndarray, " M"],
    count: int,
    noise_std: float,
) -> GreedyGain:
    """Pick ``count`` of M candidates, each time the most uncertain one.

    A pick p of posterior variance v_p adds ½ log(1 + v_p/σ²) to the gain, and takes
    c²/(v_p + σ²) from the variance of a candidate whose posterior covariance with it is
    c.  Kernel matrices over many points are of low rank, up to a remainder far below
    the noise; c then costs one product with the features of ``_features``, O(M·rank) a
    pick.  Where the rank is high, each pick costs O(M·picks).  A candidate is picked at
    most once.

    Args:
        columns: Columns of the kernel matrix over all candidates.
        variances: k(z, z) of every candidate.
        count: Number n of points to pick.
        noise_std: σ.
    """
    positive("The noise σ", noise_std)
    require(
        1 <= count <= len(variances),
        f"Of {len(variances)} candidates, 1 to {len(variances)} can be picked, "
        f"received {count!r}.",
    )
    remainder = _REMAINDER * noise_std**2
    features = _features(columns, variances, count // 2, remainder)
    covariances = (
        _Rows(columns, count, len(variances))
        if features is None
        else _Features(features)
    )
    left = np.array(variances, dtype=np.float64)
    chosen = np.empty(count, dtype=int)
    gains = np.empty(count)
    free = np.ones(len(left), dtype=bool)
    for place in range(count):
        pick = int(np.argmax(np.where(free, left, -np.inf)))
        variance = max(float(left[pick]), 0.0)
        scale = 1.0 / (variance + noise_std**2)
        left -= scale * covariances.learn(pick, scale) ** 2
        gains[place] = 0.5 * math.log1p(variance / noise_std**2)
        chosen[place], free[pick] = pick, False
    return GreedyGain(np.cumsum(gains), chosen)


class _Rows:
    """Posterior covariances K − LᵀL, one row of L a pick."""

    def __init__(self, columns: Columns, count: int, size: int) -> None:
        self._columns = columns
        self._rows = np.empty((count, size))
        self._picks = 0

    def learn(self, pick: int, scale: float) -> Float[np.ndarray, " M"]:
        """Return the covariances with a pick as they were before it was learned."""
        before = self._rows[: self._picks]
        found = self._columns(pick) - before[:, pick] @ before
        self._rows[self._picks] = math.sqrt(scale) * found
        self._picks += 1
        return found

    @property
    def taken(self) -> Float[np.ndarray, "R M"]:
        """Return the rows of L so far."""
        return self._rows[: self._picks]


class _Features:
    """Posterior covariances Φ S Φᵀ, with S the covariance of the features' weights."""

    def __init__(self, features: Float[np.ndarray, "M R"]) -> None:
        self._features = features
        self._weights = np.eye(features.shape[1])

    def learn(self, pick: int, scale: float) -> Float[np.ndarray, " M"]:
        """Return the covariances with a pick as they were before it was learned."""
        along = self._weights @ self._features[pick]
        self._weights -= scale * np.outer(along, along)
        return self._features @ along


def _features(
    columns: Columns, variances: Float[np.ndarray, " M"], most: int, remainder: float
) -> Float[np.ndarray, "M R"] | None:
    """Return Φ with K − ΦΦᵀ at most ``remainder`` on its diagonal, if R ≤ ``most``.

    This is pivoted Cholesky: each column takes out the point that is explained least.
    """
    left = np.array(variances, dtype=np.float64)
    rows = _Rows(columns, most, len(left))
    for rank in range(most + 1):
        pick = int(np.argmax(left))
        if left[pick] <= remainder:
            return np.ascontiguousarray(rows.taken.T)
        if rank < most:
            scale = 1.0 / float(left[pick])
            left -= scale * rows.learn(pick, scale) ** 2
            left[pick] = 0.0
    return None


def greedy_gain_of_kernel(
    kernel: Float[np.ndarray, "M M"], count: int, noise_std: float
) -> GreedyGain:
    """Pick ``count`` of the candidates whose kernel matrix is given."""
    return greedy_information_gain(
        lambda pick: kernel[pick], np.diag(kernel), count, noise_std
    )


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
    nu = _smoothness(kernel)
    power = dimension / (2 * nu + dimension)
    return np.asarray(n**power * np.log(n) ** (1 - power))


def _smoothness(kernel: str) -> float:
    if kernel not in _MATERN:
        raise InputError(
            f"No growth rate of the information gain is known for the kernel "
            f"{kernel!r}. Known: linear, se, {', '.join(_MATERN)}."
        )
    return _MATERN[kernel]


def scaled_rate(
    kernel: str, points: ArrayLike, dimension: int, anchor: tuple[int, float]
) -> Float[np.ndarray, "..."]:
    """Return c·rate(n), with c such that it goes through a measured (n₀, γ_{n₀}).

    A rate is known up to a constant only.  One greedy curve over a few hundred points
    gives the constant, and so γ for the many points of a long run.
    """
    at_points, measured = anchor
    scale = measured / float(growth_rate(kernel, at_points, dimension))
    return scale * growth_rate(kernel, points, dimension)
