"""The variation budget P_N in the norm of the RKHS: exact, and estimated from data.

    P_N = Σ_{n=1}^{N−1} Σ_j ‖f_{n+1,j} − f_{n,j}‖

A function f = Σ_i α_i k(c_i, ·) has ‖f‖² = αᵀKα.  Of a function that is known at points
alone, the data give a lower bound: the smallest norm of any function through them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_factor, cho_solve

from driftrl.errors import positive, require

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

    def minus(self, other: "Expansion") -> "Expansion":
        """Return the difference, on the centres of both."""
        return Expansion(
            self.kernel,
            np.concatenate([self.centres, other.centres]),
            np.concatenate([self.coefficients, -other.coefficients]),
        )


def increments(functions: Sequence[Expansion]) -> Float[np.ndarray, "K S"]:
    """Return ‖f_{n+1,j} − f_{n,j}‖ for n = 1 … N−1, exactly."""
    require(len(functions) >= 2, "A variation needs at least two functions.")
    pairs = zip(functions[1:], functions[:-1], strict=True)
    return np.stack([later.minus(former).norms() for later, former in pairs])


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
) -> tuple[float, Float[np.ndarray, " K"]]:
    """Estimate P_N from what consecutive frozen systems answer at the same points.

    Returns:
        The estimate of P_N, a lower bound for the RKHS of this kernel, and the
        estimate of every increment, its outputs added.
    """
    require(len(values) >= 2, "A variation needs at least two systems.")
    pairs = zip(values[1:], values[:-1], strict=True)
    found = [
        float(norm_from_values(kernel, points, later - former).sum())
        for later, former in pairs
    ]
    return sum(found), np.array(found)


def affine_variation(
    direction_norms: Float[np.ndarray, " S"], thetas: Sequence[float] | np.ndarray
) -> float:
    """Return P_N = Σ_j ‖g_j‖·Σ_n |θ_{n+1} − θ_n| of dynamics f + θ·g.

    The pendulum is of this kind in its torque limit θ, as long as its speed is not
    clipped: with the action a, g = (3/(m·l²))·a·dt for the speed and g·dt for the
    angle, see ``pendulum_direction``.
    """
    theta = np.asarray(thetas, dtype=np.float64)
    return float(np.sum(direction_norms) * np.abs(np.diff(theta)).sum())


def pendulum_direction(
    mass: float, length: float, time_step: float
) -> Float[np.ndarray, " 2"]:
    """Return ∂(angle', speed')/∂θ per unit of action: (3·dt²/(m·l²), 3·dt/(m·l²)).

    Both are linear in the action alone, so with the linear kernel k(z, z') = z·z' these
    slopes *are* the RKHS norms of g, and P_N is closed: the sum of the two times
    Σ|θ_{n+1} − θ_n|.
    """
    for name, value in (("mass", mass), ("length", length), ("time step", time_step)):
        positive(f"The pendulum's {name}", value)
    speed = 3.0 * time_step / (mass * length**2)
    return np.array([speed * time_step, speed])
