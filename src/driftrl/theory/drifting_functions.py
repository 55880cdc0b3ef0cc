"""Random functions of bounded RKHS norm that drift within a known budget.

    f_n = f_1 + τ_n·g,   0 = τ_1 ≤ … ≤ τ_N = 1

f_1 and g are kernel expansions on random centres, so every norm is exact:
‖f_{n+1,j} − f_{n,j}‖ = (τ_{n+1} − τ_n)·‖g_j‖, the budget Σ_j ‖g_j‖ is spent to the
last, and ‖f_{n,j}‖ ≤ B with equality at one of the two ends.
"""

from dataclasses import dataclass
from typing import Literal

import numpy as np
from jaxtyping import Float

from driftrl.errors import at_least, require
from driftrl.theory.setting import require_episodes
from driftrl.theory.variation import Expansion, KernelFunction

Shape = Literal["steady", "abrupt"]


@dataclass(frozen=True)
class DriftingFunctions:
    """The functions f_1 … f_N of one draw."""

    start: Expansion
    direction: Expansion
    """g, on the centres of ``start``."""
    progress: Float[np.ndarray, " N"]
    """τ_1 … τ_N."""

    def at(self, episode: int) -> Expansion:
        """Return f_n; episodes count from 1."""
        coefficients = (
            self.start.coefficients
            + self.progress[episode - 1] * self.direction.coefficients
        )
        return Expansion(self.start.kernel, self.start.centres, coefficients)

    def increments(self) -> Float[np.ndarray, "K S"]:
        """Return ‖f_{n+1,j} − f_{n,j}‖ for n = 1 … N−1."""
        return np.diff(self.progress)[:, None] * self.direction.norms()


def progress_of(shape: Shape, episodes: int) -> Float[np.ndarray, " N"]:
    """Return τ: in equal steps, or all at once half-way."""
    require_episodes(episodes)
    if shape == "steady":
        return np.linspace(0.0, 1.0, episodes)
    return (np.arange(episodes) >= episodes // 2).astype(np.float64)


def draw_functions(
    kernel: KernelFunction,
    centres: Float[np.ndarray, "C D"],
    *,
    outputs: int,
    rkhs_bound: float,
    variation: float,
    progress: Float[np.ndarray, " N"],
    rng: np.random.Generator,
) -> DriftingFunctions:
    """Draw f_1 and g with normal coefficients, scaled to the bound and the budget.

    The path runs from c·a − g/2 to c·a + g/2.  Each output gets the same share of the
    budget, ‖g_j‖ = P/d_x, and c solves c²‖a‖² + c|⟨a, g⟩| + ‖g‖²/4 = B²: the end of
    larger norm then has norm B, and the points between have less.

    Args:
        kernel: k.
        centres: Centres of all expansions.
        outputs: d_x.
        rkhs_bound: B.
        variation: P_N; no function of norm B moves by more than 2B, each output.
        progress: τ_1 … τ_N.
        rng: Source of the coefficients.
    """
    at_least("The variation P_N", variation, 0)
    share = variation / outputs
    require(
        share < 2 * rkhs_bound,
        f"Functions of norm {rkhs_bound:g} lie less than {2 * rkhs_bound:g} apart along"
        f" a straight path; received a variation of {share:g} for each output.",
    )
    gram = kernel(centres, centres)
    shape = (len(centres), outputs)
    middle, direction = rng.standard_normal(shape), rng.standard_normal(shape)
    direction *= share / np.sqrt(_products(direction, gram, direction))
    square = _products(middle, gram, middle)
    cross = np.abs(_products(middle, gram, direction))
    rest = rkhs_bound**2 - share**2 / 4
    scale = (np.sqrt(cross**2 + 4 * square * rest) - cross) / (2 * square)
    return DriftingFunctions(
        Expansion(kernel, centres, scale * middle - direction / 2),
        Expansion(kernel, centres, direction),
        progress,
    )


def _products(
    left: np.ndarray, gram: np.ndarray, right: np.ndarray
) -> Float[np.ndarray, " S"]:
    return np.sum(left * (gram @ right), axis=0)
