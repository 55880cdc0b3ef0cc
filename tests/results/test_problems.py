"""Runs are compared within a problem only: which, in what order, by what name."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from driftrl.cli.regret import print_comparison
from driftrl.errors import InputError
from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run
from driftrl.results.comparison import Comparison, compare_problems
from driftrl.results.document import comparison_document
from driftrl.results.problems import flattened, problems_of
from driftrl.results.regret import compare_methods
from driftrl.types import EpisodeRecord

DRIFT = {"kind": "exponential", "rate": 0.1, "start": 5}


def make_run(method: str, variant: str = "", seed: int = 0, **config: Any) -> Run:
    settings = {
        "task": "pendulum",
        "method": method,
        "seed": seed,
        "episodes": 2,
        "variant": variant,
        "environment": {"sim_steps": 200, "start": "hanging"},
        "drift": DRIFT,
        **config,
    }
    return Run(Path(f"{method}-{variant}-{seed}"), settings, ())


def decays(rate: float) -> dict[str, Any]:
    return {"drift": {**DRIFT, "rate": rate}}


def started(run: Run, *returns: float) -> Run:
    rows = [
        EpisodeRecord(
            episode=n,
            theta=run.config["drift"]["rate"],
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
    return dataclasses.replace(run, records=tuple(rows))


def labels(runs: list[Run]) -> list[str]:
    return [problem.label for problem in problems_of(runs)]


def test_one_problem_has_no_label_and_keeps_its_variants() -> None:
    runs = [make_run("sw-ombrl", "w=2"), make_run("sombrl", agent={"kind": "gp"})]
    (problem,) = problems_of(runs)
    assert problem.label == ""
    assert problem.runs == tuple(runs)
    assert problem.runs[0].method == "sw-ombrl w=2"
    assert problems_of([]) == []


def test_a_variant_that_is_a_problem_names_it_and_not_the_methods() -> None:
    runs = [
        make_run(method, f"a={rate:g}", seed, **decays(rate))
        for method in ("sombrl", "sw-ombrl")
        for rate in (0.1, 0.025, 0.05)
        for seed in (0, 1)
    ]
    problems = problems_of(runs)
    assert [problem.label for problem in problems] == ["a=0.025", "a=0.05", "a=0.1"]
    for problem, rate in zip(problems, (0.025, 0.05, 0.1), strict=True):
        assert {run.config["drift"]["rate"] for run in problem.runs} == {rate}
        assert [run.method for run in problem.runs] == ["sombrl"] * 2 + ["sw-ombrl"] * 2
        assert problem.runs[0].label == f"pendulum-sombrl-a={rate:g}-s0"


def test_variants_of_a_method_stay_in_its_name() -> None:
    runs = [
        make_run("sw-ombrl", f"w={window}", **decays(rate))
        for rate in (10.0, 2.0)
        for window in (3, 5)
    ]
    problems = problems_of(runs)
    assert [problem.label for problem in problems] == ["rate = 2.0", "rate = 10.0"]
    assert [run.method for run in problems[0].runs] == ["sw-ombrl w=3", "sw-ombrl w=5"]


def test_a_variant_that_several_problems_have_names_none() -> None:
    problems = problems_of(
        [make_run("a", "w=3", **decays(rate)) for rate in (1.0, 2.0)]
    )
    assert [problem.label for problem in problems] == ["rate = 1.0", "rate = 2.0"]
    assert {run.method for problem in problems for run in problem.runs} == {"a w=3"}


def test_a_problem_without_a_variant_is_described_by_what_differs() -> None:
    runs = [
        make_run("sombrl"),
        make_run("sombrl", "fast", drift={**DRIFT, "rate": 1.0, "start": 7}),
    ]
    problems = problems_of(runs)
    assert [problem.label for problem in problems] == [
        "rate = 0.1, start = 5",
        "rate = 1.0, start = 7",
    ]
    # Each still has a variant of its own, which tells no methods apart.
    assert [run.method for problem in problems for run in problem.runs] == [
        "sombrl",
        "sombrl",
    ]


def test_tasks_that_share_their_variants_are_named_before_them() -> None:
    runs = [
        make_run("a", f"a={rate}", task=task, **decays(rate))
        for task in ("hopper", "ant")
        for rate in (0.1, 0.02)
    ]
    assert labels(runs) == ["ant a=0.02", "ant a=0.1", "hopper a=0.02", "hopper a=0.1"]
    assert {run.method for one in problems_of(runs) for run in one.runs} == {"a"}
    # A variant that two problems of one task have tells them apart no more.
    runs.append(make_run("a", "a=0.1", task="ant", **decays(0.3)))
    assert labels(runs)[0].startswith("task = ant, rate = ")


def test_task_and_environment_make_problems_too() -> None:
    other = {"steps": 100, "start": "hanging"}
    assert labels([make_run("a"), make_run("a", environment=other)]) == [
        "steps = 100",
        "steps = 200",
    ]
    assert labels([make_run("a"), make_run("a", task="car")]) == ["car", "pendulum"]
    assert labels([make_run("a"), make_run("a", clock="steps")]) == [
        "clock = decisions",
        "no clock",
    ]
    bounded = {**DRIFT, "period": 3}
    assert labels([make_run("a"), make_run("a", drift=bounded)]) == [
        "no period",
        "period = 3",
    ]


def test_nested_tables_become_dotted_keys() -> None:
    config = {"a": 1, "b": {"c": "x", "d": {"e": [1, 2]}}}
    assert flattened(config) == {"a": "1", "b.c": "x", "b.d.e": "[1, 2]"}


def oracle(runs: Any) -> OracleTable:
    thetas = {record.theta for run in runs for record in run.records}
    entries = [OracleValue(theta, -100.0, 0.5) for theta in sorted(thetas)]
    return OracleTable(tuple(entries), "by hand")


def two_problems() -> Comparison:
    runs = [
        started(make_run("sombrl", "a=0.2", **decays(0.2)), -150.0, -130.0),
        started(make_run("sombrl", "a=0.1", **decays(0.1)), -110.0),
        started(make_run("sw-ombrl", "a=0.1", **decays(0.1)), -105.0, -101.0),
        make_run("sombrl", "a=0.3", **decays(0.3)),
    ]
    return compare_problems(runs, oracle)


def test_each_problem_is_compared_by_itself() -> None:
    comparison = two_problems()
    assert not comparison.has_one_problem
    assert comparison.waiting == ("a=0.3",)
    slow, fast = comparison.studies
    assert (slow.problem, slow.episodes, slow.baseline) == ("a=0.1", 1, "sombrl")
    assert [one.method for one in slow.methods] == ["sombrl", "sw-ombrl"]
    assert [one.final.mean for one in slow.methods] == [10.0, 5.0]
    assert [one.estimate.mean for one in slow.differences] == [-5.0]
    assert (fast.problem, fast.episodes, fast.differences) == ("a=0.2", 2, ())
    assert fast.methods[0].final.mean == 80.0
    # Each problem's oracle is asked for that problem's θ alone.
    assert [entry.theta for entry in fast.table.entries] == [0.2]


def test_problems_are_not_mixed_and_need_an_episode() -> None:
    runs = [make_run("sombrl", rate, **decays(float(rate))) for rate in ("0.1", "0.2")]
    with pytest.raises(InputError, match="No run has recorded an episode"):
        compare_problems(runs, oracle)
    mixed = [started(run, -110.0) for run in runs]
    with pytest.raises(InputError, match="one problem at a time.* 2: 0.1; 0.2"):
        compare_methods(mixed, oracle(mixed))


def test_the_command_line_prints_a_section_for_each_problem(
    capsys: pytest.CaptureFixture[str],
) -> None:
    print_comparison(two_problems())
    lines = capsys.readouterr().out.splitlines()
    headings = [place for place, line in enumerate(lines) if line == "====="]
    assert [lines[place - 1] for place in headings] == ["a=0.1", "a=0.2"]
    assert [lines[place + 1].partition(" N = ")[2] for place in headings] == [
        "1 episodes.",
        "2 episodes.",
    ]
    assert lines[headings[1] - 2] == ""
    assert lines[-1] == "Not started: a=0.3."
    single = compare_problems([started(make_run("sombrl"), -110.0)], oracle)
    print_comparison(single)
    assert capsys.readouterr().out.startswith("Cumulative dynamic regret R_N after")


def test_the_document_lists_the_problems() -> None:
    document = comparison_document(two_problems())
    document = json.loads(json.dumps(document, allow_nan=False))
    assert [one["problem"] for one in document["problems"]] == ["a=0.1", "a=0.2"]
    assert document["not_started"] == ["a=0.3"]
    methods = document["problems"][0]["methods"]
    assert methods["sw-ombrl"]["minus_baseline"]["values"] == [-5.0]
    single = compare_problems([started(make_run("sombrl"), -110.0)], oracle)
    assert single.has_one_problem
    (only,) = comparison_document(single)["problems"]
    assert (only["problem"], only["task"]) == ("", "pendulum")
    assert only["methods"]["sombrl"]["final_regret"]["mean"] == 10.0
