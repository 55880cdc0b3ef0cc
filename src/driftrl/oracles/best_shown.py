"""J*(θ) is at least what some run has achieved, whatever a trained oracle says.

A training of limited length may stay behind the very learners that it judges.  What a
run's policy has shown at θ is a lower bound of J*(θ); and where more authority can't
hurt, what was shown at any θ' ≤ θ is one too::

    J*(θ) ← max(J*(θ), max_{runs, n: θ_n ≤ θ} J(π_n))
"""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run

_TOLERANCE = 1e-9  # of θ, which schedules compute in floating point


def at_least_shown(
    table: OracleTable, runs: Sequence[Run], *, more_is_better: bool
) -> OracleTable:
    """Raise the values of a table to the best returns that runs have shown.

    Args:
        table: J*(θ) of a system.
        runs: Recorded runs on that very system.
        more_is_better: Whether a return achieved at θ' can be had at every θ ≥ θ' too.

    Returns:
        The table, which says how many of its values were raised.
    """
    records = [record for run in runs for record in run.records]
    if not records:
        return table
    thetas = np.array([record.theta for record in records])
    returns = np.array(
        [
            record.return_executed if record.return_eval is None else record.return_eval
            for record in records
        ]
    )
    entries = tuple(
        _raised(entry, _best(entry.theta, thetas, returns, more_is_better))
        for entry in table.entries
    )
    count = sum(new != old for new, old in zip(entries, table.entries, strict=True))
    where = "at this θ or a lower one" if more_is_better else "at this θ"
    told = (
        f"{count} of {len(entries)} values are instead the best return that a run has "
        f"shown {where}, which was higher."
    )
    return OracleTable(entries, f"{table.provenance} {told}")


def _best(
    theta: float,
    thetas: Float[np.ndarray, " N"],
    returns: Float[np.ndarray, " N"],
    more_is_better: bool,
) -> float:
    slack = _TOLERANCE * max(1.0, abs(theta))
    above = thetas > theta + slack
    below = thetas < theta - slack
    counts = ~above if more_is_better else ~(above | below)
    return float(np.max(returns, where=counts, initial=-np.inf))


def _raised(entry: OracleValue, shown: float) -> OracleValue:
    """Return the entry at no less than ``shown``; J* may be as much higher again."""
    if shown <= entry.value:
        return entry
    error = max(entry.error, shown - entry.value)
    return replace(entry, value=shown, error=error)
