"""Covariance functions, each a profile of one number per pair of points.

With inputs divided by their length scales, a stationary kernel is a function of the
squared distance r² and the linear kernel a function of the dot product, so that one
matrix product gives a whole Gram matrix.  ``slope`` is the derivative of ``profile``
by that number; the marginal likelihood's gradient needs nothing else.

The same lines serve NumPy, where models are fitted, and JAX, where they are queried:
``xp`` is either module.
"""

from collections.abc import Callable
from types import ModuleType
from typing import Any, NamedTuple

from driftrl.errors import unknown_name

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
    """Return the kernel of that name."""
    if name not in KERNELS:
        raise unknown_name("kernel", name, KERNELS)
    return KERNELS[name]


def pair_statistic(kernel: Kernel, x: Any, z: Any, xp: ModuleType) -> Any:
    """Return r² or the dot product of every row of ``x`` with every row of ``z``."""
    dot = x @ z.T
    if not kernel.stationary:
        return dot
    square = (x * x).sum(axis=-1)[:, None] + (z * z).sum(axis=-1)[None, :]
    # Rounding can leave a distance of a point to itself just below zero.
    return xp.maximum(square - 2.0 * dot, 0.0)


def gram(kernel: Kernel, x: Any, z: Any, xp: ModuleType) -> Any:
    """Return [k(xᵢ, zⱼ)]ᵢⱼ for scaled inputs, with unit output scale."""
    return kernel.profile(pair_statistic(kernel, x, z, xp), xp)


def variance_at(kernel: Kernel, x: Any, xp: ModuleType) -> Any:
    """Return [k(xᵢ, xᵢ)]ᵢ for scaled inputs, with unit output scale."""
    square = (x * x).sum(axis=-1)
    return xp.ones_like(square) if kernel.stationary else square
