"""Sentences say what the numbers say."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from driftrl.errors import counted
from driftrl.figures.wording import (
    comparison_summary,
    listing,
    mean_and_error,
    number,
    percent,
    span,
    study_summary,
)
from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run
from driftrl.results.comparison import Comparison
from driftrl.results.regret import StudyRegret, compare_methods
from driftrl.results.statistics import Interval, estimate_mean
from driftrl.types import EpisodeRecord


def make_run(method: str, seed: int, returns: list[float]) -> Run:
    rows = [
        EpisodeRecord(
            episode=n,
            theta=2.0,
            steps=40,
            return_executed=value,
            return_eval=None,
            terminated=False,
            first_retained=1,
            transitions=0,
            optimism=1.0,
            model_error=None,
            coverage=None,
            epistemic_std=None,
            wall_s=0.5,
        )
        for n, value in enumerate(returns, start=1)
    ]
    config = {"task": "pendulum", "method": method, "seed": seed, "episodes": 2}
    return Run(Path(f"{method}-{seed}"), config, tuple(rows))


TABLE = OracleTable((OracleValue(2.0, -100.0, 0.5),), "by hand")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12345.6, "12,346"),
        (-123.4, "−123"),
        (-12.34, "−12.3"),
        (0.5, "0.50"),
        (0.00123, "0.0012"),
        (0.0, "0"),
        (float("nan"), "–"),
    ],
)
def test_numbers(value: float, text: str) -> None:
    assert number(value) == text


def test_shares_and_lists() -> None:
    assert percent(0.954) == "95\u00a0%"
    assert percent(0.0417) == "4.2\u00a0%"
    assert percent(-0.3) == "−30\u00a0%"
    assert percent(float("nan")) == "–"
    assert [counted(1, "run"), counted(2, "run")] == ["1 run", "2 runs"]
    assert listing([]) == ""
    assert listing(["a"]) == "a"
    assert listing(["a", "b", "c"]) == "a, b and c"
    assert listing([*"abcdefgh"]) == "a, b, c, d, e, f and 2 more"


def test_estimates() -> None:
    assert mean_and_error(estimate_mean(np.array([90.0, 110.0]))) == "100 ± 10.0"
    assert mean_and_error(estimate_mean(np.array([90.0]))) == "90.0"
    assert span(Interval(np.array(-2.0), np.array(150.0))) == "−2.00 to 150"
    assert span(Interval(np.array(np.nan), np.array(np.nan))) == "–"


def test_the_whole_summary_of_a_small_study() -> None:
    runs = [
        make_run("sombrl", 0, [-110.0, -140.0]),
        make_run("sombrl", 1, [-110.0, -160.0]),
        make_run("sw-ombrl", 0, [-110.0, -110.0]),
        make_run("sw-ombrl", 1, [-110.0, -130.0]),
    ]
    # R_2: 50 and 70 against 20 and 40, so −30 on either seed, without scatter.
    # Gaps: (0.1 + 0.4)/2 and (0.1 + 0.6)/2, mean 0.3; 0.1 and 0.2, mean 0.15.
    assert study_summary(compare_methods(runs, TABLE)) == [
        "After 2 episodes of pendulum, SW-OMBRL has the lowest cumulative dynamic "
        "regret, 30.0 ± 10.0 (mean ± standard error over 2 seeds).",
        "SW-OMBRL ends 30.0 (50\u00a0%) below SOMBRL on the same 2 seeds (paired "
        "95\u00a0% t interval of the difference −30.0 to −30.0, which excludes zero).",
        "Over the last 2 episodes the mean return lies short of J*(θ), relative to "
        "|J*(θ)|, by 15\u00a0% for SW-OMBRL and 30\u00a0% for SOMBRL.",
    ]


def test_equal_runs_are_called_equal() -> None:
    runs = [
        make_run(method, seed, [value])
        for method in ("sombrl", "sw-ombrl")
        for seed, value in enumerate([-110.0, -150.0])
    ]
    assert study_summary(compare_methods(runs, TABLE))[:2] == [
        "After 1 episode of pendulum, SOMBRL and SW-OMBRL have the same cumulative "
        "dynamic regret, 30.0 ± 20.0 (mean ± standard error over 2 seeds).",
        "SW-OMBRL equals SOMBRL on the same 2 seeds.",
    ]
    runs += [make_run("r-ombrl", seed, [-160.0]) for seed in (0, 1)]
    study = compare_methods(runs, TABLE, problem="a=1")
    assert study_summary(study)[0].startswith(
        "After 1 episode of pendulum with a = 1, SOMBRL and SW-OMBRL share the lowest "
        "cumulative dynamic regret, 30.0"
    )
    (sentence, *_) = comparison_summary(Comparison((study,)))
    assert "SOMBRL and SW-OMBRL share the lowest cumulative dynamic" in sentence
    assert sentence.endswith("and SW-OMBRL is equal on every seed.")


def test_the_problem_is_named_where_there_are_several() -> None:
    study = compare_methods([make_run("sombrl", 0, [-110.0])], TABLE, problem="a=0.1")
    assert study_summary(study)[0].startswith(
        "After 1 episode of pendulum with a = 0.1, SOMBRL has a cumulative dynamic"
    )


def test_each_problem_has_its_sentence() -> None:
    slow = [
        make_run("sombrl", 0, [-110.0, -140.0]),
        make_run("sombrl", 1, [-110.0, -160.0]),
        make_run("sw-ombrl", 0, [-110.0, -110.0]),
        make_run("sw-ombrl", 1, [-110.0, -130.0]),
    ]
    fast = [
        make_run("sombrl", 0, [-110.0]),
        make_run("sombrl", 1, [-150.0]),
        make_run("sw-ombrl", 0, [-130.0]),
        make_run("sw-ombrl", 1, [-131.0]),
    ]
    comparison = Comparison(
        (
            compare_methods(slow, TABLE, problem="a=1"),
            dataclasses.replace(
                compare_methods(fast, TABLE, problem="a=2"), warnings=("beaten",)
            ),
            compare_methods(
                [make_run("sw-ombrl", 0, [-110.0] * 2)], TABLE, problem="b"
            ),
        ),
        waiting=("a=3",),
    )
    # −30 on either seed; +20 and −19: mean 0.5, standard error 19.5, t₁ 12.706.
    assert comparison_summary(comparison) == [
        "a = 1: after 2 episodes SW-OMBRL has the lowest regret, 30.0 ± 10.0; compared "
        "to SOMBRL, SW-OMBRL ends 30.0 below (95\u00a0% t interval −30.0 to −30.0).",
        "a = 2: after 1 episode SOMBRL has the lowest regret, 30.0 ± 20.0; compared to "
        "SOMBRL, SW-OMBRL ends 0.50 above (95\u00a0% t interval −247 to 248, which "
        "contains zero).",
        "b: after 2 episodes SW-OMBRL has a regret of 20.0.",
        "Not finished yet: a = 2; see there.",
        "Not started yet: a = 3.",
        "The oracle was beaten beyond noise at a = 2: every regret there is too low.",
    ]


def test_of_many_differences_only_the_direction_is_said(ablation: StudyRegret) -> None:
    text = " ".join(study_summary(ablation))
    assert "Compared to R-OMBRL (α = 0) on the same seeds" in text
    assert text.count("t interval") == 1
    above = [
        one
        for one in ablation.differences
        if one.estimate.mean > 0 and one.estimate.student.excludes(0.0)
    ]
    assert len(above) == len(ablation.differences) == 6
    assert (
        "t interval, R-OMBRL (α = 0.2), R-OMBRL (α = 1), R-OMBRL (model α = 0.2), "
        "R-OMBRL (model α = 1), R-OMBRL (policy α = 0.2) and R-OMBRL (policy α = 1) "
        "end above it." in text
    )


def test_directions_by_hand() -> None:
    runs = [make_run("sombrl", seed, [-200.0]) for seed in range(2)]
    for name, returns in {
        "a": [-150.0, -151.0],
        "b": [-250.0, -251.0],
        "c": [-190.0, -210.0],
        "d": [-170.0, -171.0],
        "e": [-230.0, -170.0],
    }.items():
        runs += [make_run(name, seed, [value]) for seed, value in enumerate(returns)]
    sentence = study_summary(compare_methods(runs, TABLE))[1]
    assert sentence == (
        "Compared to SOMBRL on the same seeds, by the paired 95\u00a0% t interval, "
        "a and d end below it; b ends above it; c and e cannot be told from it."
    )


def test_the_name_of_a_study_stands_in_brackets() -> None:
    runs = [make_run("sombrl", 0, [-110.0])]
    labels = {"a=0.1": " with a = 0.1,", "one and two": " (one and two),"}
    labels |= {"one, a=0.1": " (one, a = 0.1),", "": ","}
    for label, said in labels.items():
        first = study_summary(compare_methods(runs, TABLE, problem=label))[0]
        assert first.startswith(f"After 1 episode of pendulum{said} SOMBRL")


def test_an_interval_that_contains_zero_is_called_that() -> None:
    runs = [
        make_run("sombrl", 0, [-110.0]),
        make_run("sombrl", 1, [-150.0]),
        make_run("sw-ombrl", 0, [-130.0]),
        make_run("sw-ombrl", 1, [-131.0]),
    ]
    sentence = study_summary(compare_methods(runs, TABLE))[1]
    assert sentence.startswith("SW-OMBRL ends 0.50 (1.7\u00a0%) above SOMBRL")
    assert "contains zero: these seeds do not tell the two apart" in sentence


def test_the_change_and_the_resets_are_spoken_of(study: StudyRegret) -> None:
    text = " ".join(study_summary(study))
    before = {one.method: one.estimate for one in study.differences_before_change}
    assert (
        "Up to episode 10, before θ begins to change, the differences to SOMBRL were "
        f"{number(before['r-ombrl'].mean)} for R-OMBRL" in text
    )
    outside = study.gaps_outside_resets[1].estimate
    assert outside is not None
    assert f"({percent(outside.mean)} without the 2 episodes after a reset)" in text


def test_what_is_unfinished_is_said(unfinished: StudyRegret) -> None:
    text = " ".join(study_summary(unfinished))
    assert (
        "Unfinished: pendulum-sombrl-s1 (22 of 30 episodes), pendulum-sw-ombrl-s0 "
        "(17 of 30 episodes) and pendulum-sw-ombrl-s3 (not started). All numbers are "
        "taken at episode 17, the last that every started run has reached." in text
    )
    assert "on the one seed that both ran, too few for an interval" in text


def test_a_missing_baseline_or_missing_pairs_are_said(single: StudyRegret) -> None:
    text = " ".join(study_summary(single))
    assert "R-OMBRL has a cumulative dynamic regret of" in text
    assert "SOMBRL was not run, so nothing is compared to it." in text
    apart = [make_run("sombrl", 0, [-110.0]), make_run("sw-ombrl", 1, [-110.0])]
    text = " ".join(study_summary(compare_methods(apart, TABLE)))
    assert "SW-OMBRL shared no seed with SOMBRL" in text


def test_a_beaten_oracle_is_mentioned(study: StudyRegret) -> None:
    assert "not an optimum" not in " ".join(study_summary(study))
    beaten = dataclasses.replace(study, warnings=("something",))
    assert "the oracle is not an optimum" in study_summary(beaten)[-1]
