"""What the paper's bounds assume about a problem, as one frozen object.

The bounds come in two versions.  ``printed`` is the paper's formula, letter by letter.
``corrected`` is the nearest formula for which the proof goes through; docs and
docstrings say where the two differ and why.
"""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from driftrl.errors import at_least, positive, require, unknown_name

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
        require_probability(self.failure_probability)


def require_probability(value: float) -> None:
    """Refuse a δ that does not lie strictly between 0 and 1."""
    require(
        math.isfinite(value) and 0 < value < 1,
        "The failure probability δ must lie strictly between 0 and 1, received "
        f"{value!r}.",
    )


def require_episodes(episodes: int) -> None:
    """Refuse a number of episodes for which there is nothing to choose or to learn."""
    require(
        episodes >= 2,
        f"A bound needs N of at least 2 episodes, received {episodes!r}.",
    )


def require_version(version: str) -> None:
    """Refuse a version of the bounds that does not exist."""
    if version not in get_args(Version):
        raise unknown_name("version of the bounds", version, get_args(Version))


def data_sets(scheme: Scheme, span: int, episodes: int) -> int:
    """Return how many data sets are begun afresh in N episodes.

    The self-normalised inequality behind β holds for all n at once while data are only
    added.  Each time old data are dropped a new application of it begins, and all of
    them must hold together: keeping all is one, resets every H episodes are ⌊N/H⌋ + 1
    (Algorithm 1 resets at H, 2H, …), and a window that moves with every episode is N.
    """
    if scheme not in get_args(Scheme):
        raise unknown_name("forgetting scheme", scheme, get_args(Scheme))
    at_least("The span p of retained episodes", span, 1)
    at_least("The number of episodes N", episodes, 1)
    if scheme == "keep_all" or span >= episodes:
        return 1
    return episodes if scheme == "window" else episodes // span + 1
