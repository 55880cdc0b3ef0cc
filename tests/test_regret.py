"""Dynamic regret: by hand, paired, and suspicious of an oracle that is beaten."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from driftrl.errors import InputError
from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run
from driftrl.results.document import regret_document
from driftrl.results.regret import (
    compare_methods,
    episode_regret,
    gap_statistics,
    oracle_warnings,
    paired_differences,
    regret_curve,
    relative_gaps,
    usual_baseline,
)
from driftrl.types import EpisodeRecord

TABLE = OracleTable(
    (OracleValue(2.0, -100.0, 0.5), OracleValue(1.0, -150.0, 1.0)), "by hand"
)


def row(n: int, theta: float, executed: float, first: int = 1) -> EpisodeRecord:
    return EpisodeRecord(
        episode=n,
        theta=theta,
        steps=40,
        return_executed=executed,
        return_eval=None,
        terminated=False,
        first_retained=first,
        transitions=0,
        optimism=1.0,
        model_error=None,
        coverage=None,
        epistemic_std=None,
        wall_s=0.5,
    )


def make_run(
    method: str,
    seed: int,
    returns: list[float],
    thetas: list[float] | None = None,
    retained: list[int] | None = None,
) -> Run:
    thetas = thetas or [2.0] * len(returns)
    retained = retained or [1] * len(returns)
    columns = zip(thetas, returns, retained, strict=True)
    rows = [row(n, *values) for n, values in enumerate(columns, start=1)]
    config = {"task": "pendulum", "method": method, "seed": seed, "episodes": 4}
    return Run(Path(f"{method}-{seed}"), config, tuple(rows))


def test_regret_by_hand() -> None:
    run = make_run("sombrl", 0, [-130.0, -110.0, -250.0], [2.0, 2.0, 1.0])
    assert episode_regret(run.records, TABLE).tolist() == [30.0, 10.0, 100.0]
    assert regret_curve(run.records, TABLE).tolist() == [30.0, 40.0, 140.0]
    np.testing.assert_allclose(relative_gaps(run.records, TABLE), [0.3, 0.1, 100 / 150])


def test_the_evaluation_counts_where_there_is_one() -> None:
    records = [
        dataclasses.replace(row(1, 2.0, -500.0), return_eval=-120.0),
        row(2, 2.0, -130.0),
    ]
    assert regret_curve(records, TABLE).tolist() == [20.0, 50.0]


def test_the_oracle_against_itself_has_no_regret() -> None:
    run = make_run("oracle", 0, [-100.0, -150.0, -100.0], [2.0, 1.0, 2.0])
    assert regret_curve(run.records, TABLE).tolist() == [0.0, 0.0, 0.0]
    assert oracle_warnings([run], TABLE) == ()


def test_an_episode_without_a_finite_return_is_named() -> None:
    with pytest.raises(InputError, match=r"Episodes \[2\] have no finite return"):
        regret_curve([row(1, 2.0, -1.0), row(2, 2.0, float("nan"))], TABLE)


@given(st.lists(st.floats(-10, 10), min_size=1, max_size=20, unique=True), st.data())
def test_lookup_finds_every_theta_and_nothing_else(
    thetas: list[float], data: st.DataObject
) -> None:
    thetas = sorted(set(np.round(thetas, 3).tolist()))
    shuffled = data.draw(st.permutations(thetas))
    table = OracleTable(tuple(OracleValue(t, 7 * t, 0.0) for t in shuffled), "test")
    for theta in thetas:
        assert table.lookup(theta).theta == theta
        assert table.lookup(theta + 5e-10).theta == theta
        assert table.lookup(theta - 5e-10).theta == theta
    np.testing.assert_array_equal(
        table.column("value", np.array(thetas)), 7 * np.array(thetas)
    )
    with pytest.raises(InputError, match="has no J"):
        table.lookup(thetas[0] + 1e-6)


def test_a_missing_theta_says_what_the_table_knows() -> None:
    with pytest.raises(InputError) as caught:
        TABLE.column("value", np.array([2.0, 1.5, 3.0, 1.5]))
    assert str(caught.value) == (
        "The oracle has no J*(θ) for θ = 1.5, 3.0. It knows 2 values from 1 to 2; "
        "compute the missing ones first."
    )


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([], "at least one value"),
        ([OracleValue(1.0, float("nan"), 0.0)], "must be finite"),
        ([OracleValue(1.0, 0.0, -0.1)], "not negative"),
        ([OracleValue(1.0, 0.0, 0.1, std=-1.0)], "not negative"),
        ([OracleValue(1.0, 0.0, 0.1), OracleValue(1.0, 2.0, 0.1)], "more than once"),
    ],
)
def test_bad_tables_are_refused(entries: list[OracleValue], message: str) -> None:
    with pytest.raises(InputError, match=message):
        OracleTable(tuple(entries), "test")


def test_theta_as_near_as_rounding_keep_their_values() -> None:
    thetas = [0.25 + 1e-10 * n for n in (2, 0, 1)]
    entries = [OracleValue(theta, 1e12 * (theta - 0.25), 0.0) for theta in thetas]
    table = OracleTable(tuple(entries), "test")
    np.testing.assert_allclose(table.column("value", np.array(thetas)), [200, 0, 100])


def test_runs_whose_theta_took_different_courses_by_hand() -> None:
    runs = [
        make_run("sombrl", 0, [-130.0, -110.0, -120.0], [2.0, 2.0, 2.0]),
        make_run("sombrl", 1, [-130.0, -110.0, -250.0], [2.0, 2.0, 1.0]),
        make_run("sw-ombrl", 0, [-110.0, -180.0, -170.0], [2.0, 1.0, 1.0]),
        make_run("sw-ombrl", 1, [-110.0, -110.0, -170.0], [2.0, 2.0, 1.0]),
    ]
    study = compare_methods(runs, TABLE)
    # J* is −100 at θ = 2 and −150 at θ = 1, each run's own.
    keep, window = (one.curves.tolist() for one in study.methods)
    assert keep == [[30.0, 40.0, 60.0], [30.0, 40.0, 140.0]]
    assert window == [[10.0, 40.0, 60.0], [10.0, 20.0, 40.0]]
    assert study.differences[0].estimate.values.tolist() == [0.0, -100.0]
    # θ changed from the first episode on in one run, in the third episode in two.
    (before,) = study.differences_before_change
    assert (before.episode, before.estimate.values.tolist()) == (2, [0.0, -20.0])


def five_seeds() -> list[Run]:
    generator = np.random.default_rng(5)
    runs = []
    for seed in range(5):
        luck = generator.normal(0, 40)
        for method, level in [("sw-ombrl", -120.0), ("sombrl", -180.0)]:
            returns = level + luck + generator.normal(0, 2, 4)
            runs.append(make_run(method, seed, returns.tolist(), [2.0, 2.0, 1.0, 1.0]))
    return runs


def test_a_comparison_agrees_with_scipy_seed_by_seed() -> None:
    runs = five_seeds()
    study = compare_methods(runs, TABLE)
    assert [one.method for one in study.methods] == ["sombrl", "sw-ombrl"]
    finals = {
        method: np.array(
            [regret_curve(r.records, TABLE)[-1] for r in runs if r.method == method]
        )
        for method in ("sombrl", "sw-ombrl")
    }
    for one in study.methods:
        assert one.curves.shape == (5, 4)
        np.testing.assert_allclose(one.final.values, finals[one.method])
        np.testing.assert_allclose(one.mean[-1], finals[one.method].mean())
        np.testing.assert_allclose(one.stderr[-1], stats.sem(finals[one.method]))
        assert one.interval.low[-1] == one.final.bootstrap.low
    (difference,) = study.differences
    test = stats.ttest_rel(finals["sw-ombrl"], finals["sombrl"])
    expected = test.confidence_interval(0.95)
    student = difference.estimate.student
    np.testing.assert_allclose([student.low, student.high], [*expected])
    # The seeds' common luck cancels: paired is far tighter than either method alone.
    assert student.high - student.low < 0.5 * (
        study.methods[0].final.student.high - study.methods[0].final.student.low
    )


def test_the_comparison_before_the_change_ends_with_the_last_old_theta() -> None:
    study = compare_methods(five_seeds(), TABLE)
    (before,) = study.differences_before_change
    assert before.episode == 2
    first, second = study.methods
    np.testing.assert_allclose(
        before.estimate.values, second.curves[:, 1] - first.curves[:, 1]
    )


def test_pairs_are_matched_by_seed_not_by_place() -> None:
    runs = [
        make_run("sombrl", 1, [-110.0]),
        make_run("sombrl", 2, [-200.0]),
        make_run("sombrl", 3, [-400.0]),
        make_run("sw-ombrl", 0, [-101.0]),
        make_run("sw-ombrl", 2, [-190.0]),
        make_run("sw-ombrl", 3, [-370.0]),
    ]
    (difference,) = compare_methods(runs, TABLE).differences
    assert difference.seeds == (2, 3)
    assert difference.estimate.values.tolist() == [-10.0, -30.0]


def test_without_the_baseline_or_a_shared_seed_nothing_is_paired() -> None:
    alone = compare_methods([make_run("sw-ombrl", 0, [-110.0])], TABLE)
    assert alone.differences == ()
    apart = [make_run("sombrl", 0, [-110.0]), make_run("sw-ombrl", 1, [-110.0])]
    assert compare_methods(apart, TABLE).differences == ()
    other = compare_methods(apart, TABLE, baseline="sw-ombrl")
    assert [one.method for one in other.methods] == ["sw-ombrl", "sombrl"]


def test_unfinished_runs_are_compared_where_all_have_been() -> None:
    runs = [
        make_run("sombrl", 0, [-110.0, -120.0, -130.0, -140.0]),
        make_run("sombrl", 1, [-110.0, -120.0, -130.0]),
        make_run("sw-ombrl", 0, [-105.0, -105.0]),
        make_run("sw-ombrl", 1, []),
    ]
    study = compare_methods(runs, TABLE)
    assert study.episodes == 2
    assert [run.label for run in study.not_started] == ["pendulum-sw-ombrl-s1"]
    assert [one.curves.shape for one in study.methods] == [(2, 3), (1, 2)]
    assert study.methods[0].final.mean == 30.0
    assert study.differences[0].estimate.values.tolist() == [-20.0]


def test_nothing_recorded_and_mixed_tasks_are_refused() -> None:
    with pytest.raises(InputError, match="No run has recorded an episode"):
        compare_methods([make_run("sombrl", 0, [])], TABLE)
    other = make_run("sombrl", 1, [-100.0])
    config = {**other.config, "task": "car"}
    mixed = [make_run("sombrl", 0, [-100.0]), dataclasses.replace(other, config=config)]
    with pytest.raises(InputError, match="of 2: car; pendulum"):
        compare_methods(mixed, TABLE)


def test_the_gap_is_over_the_last_ten_episodes() -> None:
    run = make_run("sombrl", 0, [-900.0] * 5 + [-110.0] * 9 + [-120.0])
    (gap,) = compare_methods([run], TABLE).gaps
    assert gap.last == 10
    assert gap.estimate is not None
    np.testing.assert_allclose(gap.estimate.mean, (9 * 0.1 + 0.2) / 10)


def variant(name: str, seed: int, returns: list[float]) -> Run:
    run = make_run("r-ombrl", seed, returns)
    return dataclasses.replace(run, config={**run.config, "variant": name})


def test_without_sombrl_a_sweep_is_compared_with_its_zero() -> None:
    runs = [
        variant(f"{name}={value:g}", seed, [-100.0 - 10 * value - 50 * seed])
        for name, value in [("alpha", 10), ("alpha", 0), ("model", 2), ("alpha", 2)]
        for seed in (0, 1)
    ]
    study = compare_methods(runs, TABLE)
    assert study.baseline == "r-ombrl alpha=0"
    assert [one.method for one in study.methods] == [
        "r-ombrl alpha=0",
        "r-ombrl alpha=2",
        "r-ombrl alpha=10",
        "r-ombrl model=2",
    ]
    values = [one.estimate.values.tolist() for one in study.differences]
    assert values == [[20.0, 20.0], [100.0, 100.0], [20.0, 20.0]]


@pytest.mark.parametrize(
    ("methods", "baseline"),
    [
        (["r-ombrl alpha=0", "sombrl"], "sombrl"),
        (["r-ombrl alpha=0.1", "r-ombrl alpha=0.2"], "sombrl"),
        (["r-ombrl alpha=0", "sw-ombrl alpha=0"], "sombrl"),
        (["r-ombrl alpha=0", "r-ombrl alpha=1"], "r-ombrl alpha=0"),
        (["r-ombrl alpha=0", "r-ombrl model=0", "r-ombrl"], "sombrl"),
    ],
)
def test_only_one_zero_can_stand_in_for_sombrl(
    methods: list[str], baseline: str
) -> None:
    assert usual_baseline(methods) == baseline


def test_the_gap_looks_at_the_last_episodes_only() -> None:
    runs = [
        make_run("sombrl", 0, [-900.0, -110.0, -130.0]),
        make_run("sombrl", 1, [-900.0, -120.0, -120.0]),
    ]
    gap = gap_statistics(runs, TABLE, episodes=3, last=2)
    assert gap.estimate is not None
    np.testing.assert_allclose(gap.estimate.values, [0.2, 0.2])
    earlier = gap_statistics(runs, TABLE, episodes=2, last=1)
    assert earlier.estimate is not None
    np.testing.assert_allclose(earlier.estimate.values, [0.1, 0.2])


def test_the_gap_can_leave_out_episodes_after_a_reset() -> None:
    # m jumps from 1 to 3 at episode 4: episodes 4 and 5 follow the reset.
    run = make_run(
        "r-ombrl",
        0,
        [-110.0, -110.0, -110.0, -300.0, -200.0, -104.0],
        retained=[1, 1, 1, 3, 3, 3],
    )
    whole = gap_statistics([run], TABLE, episodes=6, last=4)
    outside = gap_statistics([run], TABLE, episodes=6, last=4, after_reset=2)
    assert whole.estimate is not None
    assert outside.estimate is not None
    np.testing.assert_allclose(whole.estimate.mean, (0.1 + 2.0 + 1.0 + 0.04) / 4)
    np.testing.assert_allclose(outside.estimate.mean, (0.1 + 0.04) / 2)
    none_left = gap_statistics([run], TABLE, episodes=5, last=2, after_reset=2)
    assert none_left.estimate is None


def test_a_relative_gap_to_zero_is_unknown() -> None:
    table = OracleTable((OracleValue(2.0, 0.0, 0.0),), "test")
    run = make_run("sombrl", 0, [-1.0])
    assert np.isnan(relative_gaps(run.records, table)).all()
    assert gap_statistics([run], table, episodes=1).estimate is None


def test_beating_the_oracle_within_its_error_is_no_warning() -> None:
    assert oracle_warnings([make_run("sombrl", 0, [-99.5, -120.0])], TABLE) == ()


def test_an_oracle_that_is_beaten_is_named_with_theta_run_and_amount() -> None:
    runs = [
        make_run("sombrl", 0, [-120.0, -98.0]),
        make_run("sw-ombrl", 3, [-120.0, -95.0]),
    ]
    assert oracle_warnings(runs, TABLE) == (
        "The oracle is not an optimum at θ = 2: pendulum-sw-ombrl-s3 achieved -95 in "
        "episode 2, 5 more than J*(θ) = -100, whose stated error is 0.5.",
    )


def test_small_excesses_that_add_up_are_reported_as_a_sum() -> None:
    # Each episode stays within four deviations of noise; forty of them cannot.
    table = OracleTable((OracleValue(2.0, -100.0, 0.5, std=1.0),), "test")
    run = make_run("sombrl", 0, [-97.0] * 40)
    assert oracle_warnings([run], table) == (
        "The oracle is not an optimum up to θ = 2: the regret of pendulum-sombrl-s0 "
        "sums to -120 by episode 40, below zero by more than the 45.3 that the "
        "oracle's errors and noise allow.",
    )


def test_random_returns_around_the_optimum_raise_no_alarm() -> None:
    table = OracleTable((OracleValue(2.0, -100.0, 0.0, std=5.0),), "test")
    returns = np.random.default_rng(1).normal(-100.0, 5.0, (20, 100))
    runs = [make_run("sombrl", seed, row.tolist()) for seed, row in enumerate(returns)]
    assert oracle_warnings(runs, table) == ()


def test_the_document_is_strict_json_with_the_same_numbers() -> None:
    study = compare_methods(five_seeds(), TABLE)
    document = json.loads(json.dumps(regret_document(study), allow_nan=False))
    method = document["methods"]["sw-ombrl"]
    difference = study.differences[0].estimate
    assert (document["episodes"], document["gap_episodes"]) == (4, 4)
    assert document["problem"] == ""
    assert method["minus_baseline"]["values"] == difference.values.tolist()
    assert method["minus_baseline"]["t_interval"] == [
        float(difference.student.low),
        float(difference.student.high),
    ]
    assert method["minus_baseline_before_change"]["episode"] == 2
    assert method["final_regret"]["mean"] == study.methods[1].final.mean
    assert document["methods"]["sombrl"]["minus_baseline"] is None


def test_the_document_of_one_seed_has_no_invented_intervals() -> None:
    study = compare_methods([make_run("sombrl", 0, [-110.0, -95.0])], TABLE)
    document = json.loads(json.dumps(regret_document(study), allow_nan=False))
    final = document["methods"]["sombrl"]["final_regret"]
    assert final["mean"] == 5.0
    assert final["standard_error"] is None
    assert final["t_interval"] == [None, None]
    assert document["warnings"] == list(study.warnings)
    assert len(document["warnings"]) == 1


def test_differences_can_be_taken_at_any_episode() -> None:
    runs = [
        make_run("sombrl", 0, [-110.0, -110.0, -110.0]),
        make_run("sw-ombrl", 0, [-105.0, -105.0, -105.0]),
    ]
    methods = compare_methods(runs, TABLE).methods
    for episode in (1, 2, 3):
        (one,) = paired_differences(methods, "sombrl", episode)
        assert one.estimate.mean == -5.0 * episode
