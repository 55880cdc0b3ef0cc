"""How fast the regret grows with the number of episodes N.

Variants named ``N=…`` are runs of different lengths, each with the memory that its
length asks for.  The exponent b of R_N ∝ N^b is the slope of log R_N over log N, found
by least squares for every seed; the scatter of seeds says how well it is known.
"""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from driftrl.results.regret import MethodRegret, StudyRegret
from driftrl.results.statistics import Estimate, estimate_mean
from driftrl.results.variants import sweep_point

LENGTH = "N"
"""Setting whose variants are runs of different lengths."""
_FEWEST_LENGTHS = 3


@dataclass(frozen=True)
class Growth:
    """The final regret of one method at several lengths."""

    method: str
    lengths: Int[np.ndarray, " L"]
    """N, ascending."""
    regrets: Float[np.ndarray, "K L"]
    """R_N of every seed."""
    exponent: Estimate
    """b of R_N ∝ N^b, one a seed."""
    late_exponent: Estimate
    """The same between the two longest: what learning costs at first, whatever N is,
    weighs least there."""


def growth_of(study: StudyRegret) -> tuple[Growth, ...]:
    """Return the growth of each method that was run at three lengths or more.

    Methods that do not depend on N, in a study that has such lengths, are read at the
    same lengths off their one long run.
    """
    lengths: dict[str, dict[int, MethodRegret]] = {}
    for one in study.methods:
        point = sweep_point(one.method)
        if point and point.setting == LENGTH and one.curves.shape[1] >= point.value:
            lengths.setdefault(point.method, {})[int(point.value)] = one
    lengths = {name: ends for name, ends in lengths.items() if _are_enough(ends)}
    if not lengths:
        return ()
    everywhere = sorted(set().union(*lengths.values()))
    for one in study.methods:
        point = sweep_point(one.method)
        if not (point and point.setting == LENGTH):
            reached = [n for n in everywhere if n <= one.curves.shape[1]]
            lengths[one.method] = dict.fromkeys(reached, one)
    found = [_growth(name, ends) for name, ends in lengths.items() if _are_enough(ends)]
    return tuple(one for one in found if one is not None)


def fit_exponent(
    lengths: Int[np.ndarray, " L"], regrets: Float[np.ndarray, "K L"]
) -> Float[np.ndarray, " K"]:
    """Return the slope of log R_N over log N of every seed, by least squares."""
    x = np.log(lengths) - np.log(lengths).mean()
    return np.log(regrets) @ x / (x @ x)


def _are_enough(ends: dict[int, MethodRegret]) -> bool:
    return len(ends) >= _FEWEST_LENGTHS


def _growth(method: str, ends: dict[int, MethodRegret]) -> Growth | None:
    """Return the growth over the seeds that were run at every length, if there are."""
    seeds = sorted(set.intersection(*(set(one.seeds) for one in ends.values())))
    lengths = np.array(sorted(ends))
    regrets = np.array(
        [
            [ends[n].curves[ends[n].seeds.index(seed), n - 1] for n in lengths.tolist()]
            for seed in seeds
        ]
    )
    if not seeds or regrets.min() <= 0:  # a logarithm needs a regret
        return None
    exponent, late = (
        estimate_mean(fit_exponent(lengths[first:], regrets[:, first:]))
        for first in (0, len(lengths) - 2)
    )
    return Growth(method, lengths, regrets, exponent, late)
