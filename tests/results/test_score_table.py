"""Scores of runs: what they are on one problem and on several, and what counts."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest

from driftrl.oracles.values import NO_ORACLE, OracleTable, OracleValue
from driftrl.records import Run
from driftrl.results.comparison import Comparison, compare_problems
from driftrl.results.score_table import (
    OPTIMALITY,
    RANGED,
    optimality_scores,
    ranged_scores,
    score_table,
)
from driftrl.types import EpisodeRecord


def run(method: str, seed: int, returns: Sequence[float], rate: float = 0.1) -> Run:
    """Return a run whose θ_n is n, of a problem that its rate of drift names."""
    rows = [
        EpisodeRecord(
            episode=n,
            theta=float(n),
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
    config = {
        "task": "pendulum",
        "method": method,
        "seed": seed,
        "episodes": len(returns),
        "drift": {"rate": rate},
    }
    return Run(Path(f"{method}-{rate}-{seed}"), config, tuple(rows))


def compared(
    runs: Sequence[Run], optima: Mapping[float, Sequence[float]] | None = None
) -> Comparison:
    """Compare with J*(n) of each rate of drift; where there is none, J* is unknown."""

    def oracle(some: Sequence[Run]) -> OracleTable:
        values = (optima or {}).get(some[0].config["drift"]["rate"])
        if values is None:
            return NO_ORACLE
        entries = [OracleValue(float(n), v, 0.1) for n, v in enumerate(values, start=1)]
        return OracleTable(tuple(entries), "by hand")

    return compare_problems(runs, oracle)


def grid(rates: Sequence[float], seeds: int = 2) -> list[Run]:
    """Return runs of two methods, of which the second returns more."""
    return [
        run(method, seed, [value + seed, value + seed], rate)
        for rate in rates
        for method, value in {"sombrl": 10.0, "sw-ombrl": 20.0}.items()
        for seed in range(seeds)
    ]


def test_one_problem_is_judged_by_its_regret() -> None:
    table = score_table(compared(grid([0.1]), {0.1: [30.0, 30.0]}))
    assert table is not None
    assert table.problems == ("",)
    assert table.measure.name == "regret R_2"
    assert not table.measure.higher_is_better
    assert "cumulative regret after 2 episodes" in table.measure.meaning
    assert table.scores["sombrl"][0].tolist() == [40.0, 38.0]
    assert table.scores["sw-ombrl"][0].tolist() == [20.0, 18.0]
    assert table.baseline == "sombrl"


def test_one_problem_without_an_optimum_is_judged_by_its_return() -> None:
    table = score_table(compared(grid([0.1])))
    assert table is not None
    assert table.measure.name == "mean return" and table.measure.higher_is_better
    assert "no optimality gap" in table.measure.meaning
    assert table.scores["sw-ombrl"][0].tolist() == [20.0, 21.0]


def test_rewards_score_the_share_that_was_achieved() -> None:
    study = compared([run("sombrl", 0, [30.0, 5.0])], {0.1: [40.0, 10.0]}).studies[0]
    assert optimality_scores(study)["sombrl"] == pytest.approx([35 / 50])


def test_costs_score_nothing_at_twice_the_least_cost() -> None:
    runs = [run("sombrl", 0, [-200.0, -100.0]), run("sombrl", 1, [-100.0, -50.0])]
    runs += [run("sombrl", 2, [-300.0, -300.0]), run("sombrl", 3, [-110.0, -55.0])]
    study = compared(runs, {0.1: [-100.0, -50.0]}).studies[0]
    assert optimality_scores(study)["sombrl"] == pytest.approx([0.0, 1.0, -2.0, 0.9])


def test_an_optimum_of_changing_sign_has_a_score() -> None:
    study = compared([run("sombrl", 0, [4.0, -8.0])], {0.1: [5.0, -5.0]}).studies[0]
    assert optimality_scores(study)["sombrl"] == pytest.approx([1 - 4 / 10])


def test_only_what_all_runs_have_reached_is_scored() -> None:
    runs = [run("sombrl", 0, [30.0, 5.0]), run("sombrl", 1, [20.0])]
    study = compared(runs, {0.1: [40.0, 10.0]}).studies[0]
    assert optimality_scores(study)["sombrl"] == pytest.approx([0.75, 0.5])


def test_several_problems_are_judged_by_the_optimum() -> None:
    table = score_table(
        compared(grid([0.1, 0.2]), {0.1: [40.0, 40.0], 0.2: [80.0, 20.0]})
    )
    assert table is not None
    assert table.measure == OPTIMALITY and table.measure.target == 1.0
    assert table.problems == ("rate = 0.1", "rate = 0.2")
    first, second = table.scores["sw-ombrl"]
    np.testing.assert_allclose(first, [20 / 40, 21 / 40])
    np.testing.assert_allclose(second, [40 / 100, 42 / 100])


@pytest.mark.parametrize("optima", [{}, {0.1: [40.0, 40.0]}, {0.1: [0.0, 0.0]}])
def test_without_every_optimum_runs_are_placed_between_worst_and_best(
    optima: dict[float, list[float]],
) -> None:
    table = score_table(compared(grid([0.1, 0.2]), optima))
    assert table is not None
    assert table.measure == RANGED and table.measure.target is None
    for scores in table.scores["sombrl"]:
        np.testing.assert_allclose(scores, [0, 1 / 11])
    for scores in table.scores["sw-ombrl"]:
        np.testing.assert_allclose(scores, [10 / 11, 1])


def test_an_optimum_of_zero_is_no_scale() -> None:
    optima = {0.1: [0.0, 0.0], 0.2: [40.0, 40.0]}
    table = score_table(compared(grid([0.1, 0.2]), optima))
    assert table is not None and table.measure == RANGED


def test_equal_runs_are_neither_worst_nor_best() -> None:
    assert ranged_scores({"a": np.full(2, 7.0), "b": np.full(2, 7.0)})[
        "b"
    ].tolist() == [*(0.5, 0.5)]


def test_methods_are_judged_by_the_same_seeds() -> None:
    runs = [*grid([0.1], seeds=3), run("sw-ombrl", 7, [99.0, 99.0])]
    table = score_table(compared(runs))
    assert table is not None
    assert [len(one[0]) for one in table.scores.values()] == [3, 3]
    assert table.runs_left_out == 1
    assert table.problems_left_out == table.methods_left_out == ()


def test_problems_that_a_method_was_not_run_on_do_not_count() -> None:
    runs = [*grid([0.1, 0.2]), run("sombrl", 0, [1.0], 0.3), run("sombrl", 0, [], 0.4)]
    table = score_table(compared(runs))
    assert table is not None
    assert table.problems == ("rate = 0.1", "rate = 0.2")
    assert table.problems_left_out == ("rate = 0.3", "rate = 0.4")
    assert table.runs_left_out == 1


def test_a_problem_with_one_common_seed_does_not_count() -> None:
    table = score_table(compared([*grid([0.1, 0.2]), *grid([0.3], seeds=1)]))
    assert table is not None
    assert table.problems_left_out == ("rate = 0.3",)
    assert table.runs_left_out == 2


def test_where_no_problem_has_all_methods_those_count_that_all_problems_have() -> None:
    runs = grid([0.1, 0.2])
    runs += [run("r-ombrl", seed, [1.0, 1.0], 0.1) for seed in range(2)]
    runs += [run("other", seed, [1.0, 1.0], 0.2) for seed in range(2)]
    table = score_table(compared(runs))
    assert table is not None
    assert list(table.scores) == ["sombrl", "sw-ombrl"]
    assert table.methods_left_out == ("r-ombrl", "other")
    assert table.problems_left_out == ()
    assert table.runs_left_out == 4


def test_one_method_or_one_seed_is_nothing_to_aggregate() -> None:
    assert score_table(compared([run("sombrl", s, [1.0]) for s in range(3)])) is None
    assert score_table(compared(grid([0.1], seeds=1))) is None
    apart = [run("sombrl", 0, [1.0]), run("sw-ombrl", 1, [1.0])]
    assert score_table(compared([*apart, run("sombrl", 2, [1.0])])) is None


def test_without_the_usual_baseline_there_is_none() -> None:
    runs = [run(m, s, [1.0 + s]) for m in ("r-ombrl", "sw-ombrl") for s in range(2)]
    table = score_table(compared(runs))
    assert table is not None and table.baseline is None
