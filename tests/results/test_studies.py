"""Several studies: what they share is compared, and what they do not is kept apart."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from driftrl.oracles.values import NO_ORACLE, OracleTable, OracleValue
from driftrl.records import Run
from driftrl.results.comparison import Comparison, compare_problems
from driftrl.results.studies import merge_studies
from driftrl.types import EpisodeRecord


def make_run(
    study: str,
    method: str,
    seed: int,
    returns: Sequence[float],
    *,
    rate: float = 1.0,
    variant: str = "",
) -> Run:
    rows = [
        EpisodeRecord(n, 2.0, 9, value, None, False, 1, 0, 1.0, None, None, None, 1.5)
        for n, value in enumerate(returns, start=1)
    ]
    config = {
        **{"task": "pendulum", "method": method, "seed": seed, "episodes": 2},
        **{"variant": variant, "drift": {"rate": rate}},
    }
    place = Path(study) / f"{method}{variant}-s{seed}"
    return Run(place, config, tuple(rows))


def oracle(runs: Sequence[Run]) -> OracleTable:
    return OracleTable((OracleValue(2.0, 10.0, 0.0),), "by hand")


def compared(*runs: Run) -> Comparison:
    return compare_problems(runs, oracle)


OLD = compared(
    make_run("old", "sombrl", 0, [5.0, 5.0]), make_run("old", "sombrl", 1, [4.0, 5.0])
)
NEW = compared(
    make_run("new", "sombrl", 0, [6.0, 8.0]), make_run("new", "sombrl", 1, [6.0, 7.0])
)


def test_one_study_stays_what_it_is() -> None:
    assert merge_studies({"old": OLD}) is OLD


def test_what_was_said_of_a_study_is_said_of_both() -> None:
    damaged = replace(OLD, notes=("Left out: a: no config.toml.",))
    merged = merge_studies({"old": damaged, "new": NEW})
    assert merged.notes == ("old: Left out: a: no config.toml.",)


def test_a_problem_that_studies_share_is_compared() -> None:
    merged = merge_studies({"old": OLD, "new": NEW})
    assert merged.has_one_problem
    (study,) = merged.studies
    assert study.problem == ""
    assert [one.method for one in study.methods] == ["sombrl old", "sombrl new"]
    assert study.baseline == "sombrl old"
    # R_2 is 10 and 11 in the old study, 6 and 7 in the new one.
    np.testing.assert_allclose(study.methods[0].final.values, [10.0, 11.0])
    (difference,) = study.differences
    assert difference.method == "sombrl new"
    assert difference.estimate.values.tolist() == [-4.0, -4.0]


def test_other_problems_are_named_by_their_study() -> None:
    fast = compared(
        make_run("rates", "sombrl", 0, [5.0, 5.0], rate=2.0, variant="a=2"),
        make_run("rates", "sombrl", 0, [5.0, 5.0], rate=1.0, variant="a=1"),
    )
    merged = merge_studies({"old": OLD, "rates": fast})
    shared, alone = merged.studies
    assert (shared.problem, alone.problem) == ("old and rates", "rates, a=2")
    assert [one.method for one in shared.methods] == ["sombrl old", "sombrl rates"]
    assert [one.method for one in alone.methods] == ["sombrl"]
    # A variant that only named the problem is none of the method's.
    assert {run.variant for run in shared.runs} == {"old", "rates"}


def test_variants_keep_their_names() -> None:
    sweep = compared(
        make_run("sweep", "sombrl", 0, [5.0, 5.0], variant="w=3"),
        make_run("sweep", "sombrl", 0, [5.0, 6.0], variant="w=5"),
    )
    (study,) = merge_studies({"old": OLD, "sweep": sweep}).studies
    assert {one.method for one in study.methods} == {
        *("sombrl old", "sombrl sweep, w=3", "sombrl sweep, w=5")
    }


def test_what_has_not_begun_is_named_with_its_study() -> None:
    waiting = compared(
        make_run("late", "sombrl", 0, [], rate=3.0, variant="a=3"),
        make_run("late", "sombrl", 0, [5.0], rate=2.0, variant="a=2"),
    )
    merged = merge_studies({"old": OLD, "late": waiting})
    assert merged.waiting == ("late, a=3",)
    assert [one.problem for one in merged.studies] == ["old", "late, a=2"]


def test_regret_is_unknown_where_one_study_does_not_know_it() -> None:
    runs = [make_run("new", "sombrl", 0, [6.0, 8.0])]
    unknown = compare_problems(runs, lambda _: NO_ORACLE)
    (study,) = merge_studies({"old": OLD, "new": unknown}).studies
    assert study.table == NO_ORACLE


def test_optima_of_both_studies_are_known() -> None:
    entries = (OracleValue(2.0, 10.0, 0.0), OracleValue(1.0, 3.0, 0.0))
    wider = compare_problems(
        [make_run("new", "sombrl", 0, [6.0])], lambda _: OracleTable(entries, "wider")
    )
    (study,) = merge_studies({"old": OLD, "new": wider}).studies
    assert [entry.theta for entry in study.table.entries] == [2.0, 1.0]
