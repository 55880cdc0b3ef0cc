"""Bring the columns of data to mean 0 and spread 1."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

# A column that varies by less than this part of its size varies by rounding alone.
_ROUNDING = 1e-10


@dataclass(frozen=True, eq=False)
class Normaliser:
    """The map x ↦ (x − mean)/std of every column."""

    mean: Float[np.ndarray, " D"]
    """Mean of every column."""
    std: Float[np.ndarray, " D"]
    """Standard deviation of every column, 1 where it does not vary."""

    @classmethod
    def fit(cls, values: Float[np.ndarray, "N D"]) -> "Normaliser":
        """Measure mean and standard deviation (of the population) of every column.

        A constant column keeps its units, std = 1.  No rows at all give mean 0, std 1,
        so that data that are not there yet are left as they are.
        """
        values = np.asarray(values, np.float64)
        if len(values) == 0:
            return cls(np.zeros(values.shape[1]), np.ones(values.shape[1]))
        std = values.std(axis=0)
        size = np.abs(values).max(axis=0)
        varies = std > np.maximum(_ROUNDING * size, np.finfo(np.float64).tiny)
        return cls(values.mean(axis=0), np.where(varies, std, 1.0))

    def normalise(
        self, values: Float[np.ndarray, "*batch D"]
    ) -> Float[np.ndarray, "*batch D"]:
        """Return (values − mean)/std."""
        return (values - self.mean) / self.std
