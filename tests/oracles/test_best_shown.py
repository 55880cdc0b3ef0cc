"""What runs have shown is a lower bound of J*, and where more can't hurt of more."""

from pathlib import Path

import pytest

from driftrl.oracles.best_shown import at_least_shown
from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run
from driftrl.types import EpisodeRecord

TABLE = OracleTable(
    (
        OracleValue(0.5, 10.0, 1.0, 0.0),
        OracleValue(0.75, 20.0, 2.0, 0.0),
        OracleValue(1.0, 30.0, 3.0, 0.5),
    ),
    "By SAC.",
)


def run(*shown: tuple[float, float, float | None]) -> Run:
    """Return a run of (θ, executed, evaluated) rows."""
    records = tuple(
        EpisodeRecord(
            episode=n,
            theta=theta,
            steps=10,
            return_executed=executed,
            return_eval=evaluated,
            terminated=False,
            first_retained=1,
            transitions=0,
            optimism=1.0,
            wall_s=1.0,
            model_error=None,
            coverage=None,
            epistemic_std=None,
        )
        for n, (theta, executed, evaluated) in enumerate(shown, start=1)
    )
    return Run(Path("nowhere"), {"task": "halfcheetah"}, records)


def values(table: OracleTable) -> list[float]:
    return [entry.value for entry in table.entries]


def test_a_return_carries_up_to_every_larger_theta_and_never_down() -> None:
    runs = [run((1.0, 99.0, 28.0), (0.75, 0.0, 24.0)), run((0.6, 26.0, None))]
    found = at_least_shown(TABLE, runs, more_is_better=True)
    # 26 was shown at 0.6: not at 0.5, but at 0.75, where only 24 was shown.
    assert values(found) == [10.0, 26.0, 30.0]
    assert [entry.error for entry in found.entries] == [1.0, 6.0, 3.0]
    assert "1 of 3 values are instead" in found.provenance
    assert "at this θ or a lower one" in found.provenance


def test_where_more_may_hurt_only_the_same_theta_counts() -> None:
    runs = [run((0.6, 26.0, None), (0.75 + 1e-12, 0.0, 24.0), (1.0, 29.0, None))]
    found = at_least_shown(TABLE, runs, more_is_better=False)
    assert values(found) == [10.0, 24.0, 30.0]
    assert found.entries[2] == TABLE.entries[2]


def test_the_evaluated_return_counts_where_there_is_one() -> None:
    lucky = [run((0.5, 1000.0, 9.0))]
    assert values(at_least_shown(TABLE, lucky, more_is_better=True)) == [10, 20, 30]


@pytest.mark.parametrize("runs", [[], [run()]])
def test_without_rows_nothing_changes(runs: list[Run]) -> None:
    assert at_least_shown(TABLE, runs, more_is_better=True) == TABLE
