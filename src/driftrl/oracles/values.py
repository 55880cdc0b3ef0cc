"""J*(θ) as a table: the values that regret is computed with, and their errors."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from driftrl.errors import require

_TOLERANCE = 1e-9  # relative: θ that went through a file and back is still the same θ


@dataclass(frozen=True)
class OracleValue:
    """The best expected return of an episode at one θ."""

    theta: float
    value: float
    """J*(θ)."""
    error: float
    """Most by which ``value`` is believed to differ from the true optimum."""
    spread: float = 0.0
    """Standard deviation of the return of one episode of the optimal policy, which
    is 0 where start and dynamics are not random."""


@dataclass(frozen=True)
class OracleTable:
    """J*(θ) for the values of θ that occur, and how it was obtained."""

    entries: tuple[OracleValue, ...]
    provenance: str
    known: bool = True
    """Whether J* is known at all; see ``NO_ORACLE``."""

    def __post_init__(self) -> None:
        require(
            bool(self.entries) == self.known,
            "An oracle table needs at least one value of θ, and none if none is known.",
        )
        for entry in self.entries:
            numbers = (entry.theta, entry.value, entry.error, entry.spread)
            require(
                bool(np.all(np.isfinite(numbers))) and min(numbers[2:]) >= 0,
                "An oracle's values must be finite, its error and spread not negative; "
                f"received {entry}.",
            )
        thetas = np.sort([entry.theta for entry in self.entries])
        # Two θ as near as rounding are allowed: what drifts by the decision, in many
        # runs, comes that near to its end.
        repeated = thetas[1:][thetas[1:] == thetas[:-1]]
        require(not len(repeated), f"The oracle has θ = {repeated} more than once.")

    def lookup(self, theta: float) -> OracleValue:
        """Return the entry of θ, which must be there: nothing is interpolated."""
        return self.entries[int(self.locate(np.array([theta]))[0])]

    def locate(self, thetas: Float[np.ndarray, " N"]) -> Int[np.ndarray, " N"]:
        """Return the place in ``entries`` of each θ."""
        known = np.array([entry.theta for entry in self.entries])
        order = np.argsort(known)
        right = np.searchsorted(known[order], thetas).clip(0, len(known) - 1)
        left = (right - 1).clip(0)
        right_is_nearer = _distance(known[order][right], thetas) <= _distance(
            known[order][left], thetas
        )
        nearest = order[np.where(right_is_nearer, right, left)]
        missing = sorted({*thetas[~_same(known[nearest], thetas)].tolist()})
        require(
            not missing,
            f"The oracle has no J*(θ) for θ = {', '.join(map(repr, missing))}. "
            f"It knows {len(known)} values from {known.min():g} to {known.max():g}; "
            "compute the missing ones first.",
        )
        return nearest

    def column(
        self, name: str, thetas: Float[np.ndarray, " N"]
    ) -> Float[np.ndarray, " N"]:
        """Return one field (``value``, ``error`` or ``spread``) for each θ."""
        if not self.known:
            return np.zeros(len(thetas))
        numbers = np.array([getattr(entry, name) for entry in self.entries])
        return numbers[self.locate(thetas)]


def _distance(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return np.abs(first - second)


def _same(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    return _distance(first, second) <= _TOLERANCE * np.maximum(1.0, np.abs(second))


NO_ORACLE = OracleTable(
    (),
    "There is no oracle for a machine of one’s own: nobody knows what drifts in it, "
    "nor how well it could be run. What it returned is all there is to judge by.",
    known=False,
)
"""Nothing is known: neither θ nor J*(θ), which is read as 0."""
