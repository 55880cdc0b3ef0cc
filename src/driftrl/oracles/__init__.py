"""Optimal returns J*(θ), each with its source and error."""

from driftrl.oracles.table import (
    Optimum,
    Oracle,
    OracleTable,
    given_optimal_returns,
    known_optimal_return,
    optimal_returns,
    optimal_returns_of_runs,
    trainings_missing,
)

__all__ = [
    "Optimum",
    "Oracle",
    "OracleTable",
    "given_optimal_returns",
    "known_optimal_return",
    "optimal_returns",
    "optimal_returns_of_runs",
    "trainings_missing",
]
