"""The variation budget P_N in the norm of the RKHS: exact, and estimated from data.

    P_N = Σ_{n=1}^{N−1} Σ_j ‖f_{n+1,j} − f_{n,j}‖

A function f = Σ_i α_i k(c_i, ·) has ‖f‖² = αᵀKα.  Of a function that is known at points
alone, the data give a lower bound: the smallest norm of any function through them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from driftrl.errors import require

KernelFunction = Callable[[np.ndarray, np.ndarray], np.ndarray]
"""k(X, Z): the matrix [k(x_i, z_j)] of two sets of rows."""

_INTERPOLATION_NUGGET = 1e-10  # of the mean variance: what rounding asks for, no more


@dataclass(frozen=True)
class Expansion:
    """Functions f_j = Σ_i α_ij k(c_i, ·), one column of α an output."""

    kernel: KernelFunction
    centres: Float[np.ndarray, "C D"]
    coefficients: Float[np.ndarray, "C S"]

    def __call__(self, points: Float[np.ndarray, "N D"]) -> Float[np.ndarray, "N S"]:
        """Return f at the rows of ``points``."""
        return self.kernel(points, self.centres) @ self.coefficients

    def norms(self) -> Float[np.ndarray, " S"]:
        """Return ‖f_j‖ = √(αᵀKα) of every output."""
        gram = self.kernel(self.centres, self.centres)
        squares = np.sum(self.coefficients * (gram @ self.coefficients), axis=0)
        return np.sqrt(np.maximum(squares, 0.0))


def norm_from_values(
    kernel: KernelFunction,
    points: Float[np.ndarray, "N D"],
    values: Float[np.ndarray, "N S"],
) -> Float[np.ndarray, " S"]:
    """Return √(dᵀK⁻¹d), the smallest norm of a function with the values d.

    No function through these values has a smaller norm, so this is a lower bound on
    ‖g‖ for the difference g = f_{n+1} − f_n of two systems that were asked at the same
    points.  It never falls when points are added, and for points that fill the domain
    it converges to ‖g‖ if g is in the RKHS, and grows without bound if not.
    """
    gram = kernel(points, points)
    nugget = _INTERPOLATION_NUGGET * float(np.mean(np.diag(gram)))
    factor = cho_factor(gram + nugget * np.eye(len(points)), lower=True)
    squares = np.sum(values * cho_solve(factor, values), axis=0)
    return np.sqrt(np.maximum(squares, 0.0))


def variation_of_systems(
    kernel: KernelFunction,
    points: Float[np.ndarray, "N D"],
    values: Sequence[Float[np.ndarray, "N S"]],
) -> float:
    """Estimate P_N from what consecutive frozen systems answer at the same points.

    It is a lower bound for the RKHS of this kernel.
    """
    require(len(values) >= 2, "A variation needs at least two systems.")
    increments = [later - former for former, later in pairwise(values)]
    return sum(float(norm_from_values(kernel, points, g).sum()) for g in increments)


def pendulum_variation(
    thetas: Sequence[float] | np.ndarray, mass: float, length: float, time_step: float
) -> float:
    """Return P_N of the pendulum with torque limit θ for the linear kernel z·z'.

    Its dynamics are f + θ·g as long as its speed is not clipped, with g linear in the
    action a alone: 3·dt/(m·l²)·a for the speed, and dt times that for the angle.  These
    slopes are the norms of g, and P_N is their sum times Σ_n |θ_{n+1} − θ_n|.
    """
    slope = 3.0 * time_step / (mass * length**2)
    return float((slope * time_step + slope) * np.abs(np.diff(thetas)).sum())
