"""Optimal returns J*(θ), each with its source and error."""

from driftrl.oracles.table import (
    Optimum,
    OracleTable,
    StoredOracle,
    given_optimal_returns,
    optimal_returns_of_runs,
)

__all__ = [
    "Optimum",
    "OracleTable",
    "StoredOracle",
    "given_optimal_returns",
    "optimal_returns_of_runs",
]
