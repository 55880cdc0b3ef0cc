"""Aggregates over problems and seeds: by hand, against SciPy and against rliable."""

import functools
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

import driftrl
from driftrl.analysis import compare
from driftrl.errors import InputError
from factories import record, write_run

REFERENCE = json.loads(Path(__file__).with_name("rliable_reference.json").read_text())
SCORE = compare.Measure("score", "Made up.", target=1.0)
COST = compare.Measure("cost", "Made up.", higher_is_better=False)

scores = arrays.arrays(
    np.float64, st.integers(2, 12), elements=st.floats(-1e6, 1e6, width=32)
)


# By hand.


def test_of_costs_less_is_better() -> None:
    costs = {"sombrl": [np.array([4.0, 5.0])], "sw-ombrl": [np.array([1.0, 4.0])]}
    table = compare.aggregate_scores(costs, COST, "sombrl", resamples=10)
    assert table["improvement"].to_list() == [None, 3.5 / 4]
    assert table["optimality_gap"].null_count() == 2


def test_a_bootstrap_of_two_seeds_can_be_enumerated() -> None:
    # On each problem means of 0, ½, ½ and 1 are as likely: of 2¹⁰ sums of five
    # problems, 1 is the lowest, 11 are at most 0.1 and 56 (5.5 %) at most 0.2.
    strata = [np.array([0.0, 1.0])] * 5
    both = {"sombrl": strata, "sw-ombrl": strata}
    row = compare.aggregate_scores(both, SCORE, "sombrl", resamples=4_000).row(
        0, named=True
    )
    assert row["mean"] == 0.5
    assert (row["mean_low"], row["mean_high"]) == pytest.approx((0.2, 0.8))


# Two ways.


@given(scores, scores)
def test_the_probability_is_mann_and_whitneys(
    first: np.ndarray, second: np.ndarray
) -> None:
    ours = compare.probability_of_improvement([first], [second])
    statistic = stats.mannwhitneyu(first, second, method="asymptotic").statistic
    assert ours == pytest.approx(statistic / (len(first) * len(second)), abs=1e-12)


# Against rliable.


@functools.cache
def ours(case: str) -> dict[str, dict[str, Any]]:
    data = REFERENCE["cases"][case]["scores"]
    strata = {name: [*np.array(values).T] for name, values in data.items()}
    table = compare.aggregate_scores(strata, SCORE, "sombrl", resamples=20_000)
    return {row["method"]: row for row in table.to_dicts()}


def agree(
    row: dict[str, Any], column: str, low: float, high: float, step: float
) -> bool:
    """Whether two bootstrap intervals differ by no more than their resampling does.

    The 2.5 % quantile of 5,000 normal resamples has a standard error of 0.038 standard
    deviations, of 20,000 half of that; four of the errors of their difference are
    0.17 standard deviations, or 0.043 of the interval's width.  ``step`` is the
    distance of the values that a statistic can take.
    """
    allowed = 0.043 * (high - low) + step
    ends = np.array([row[f"{column}_low"] - low, row[f"{column}_high"] - high])
    return bool(np.all(np.abs(ends) <= allowed))


@pytest.mark.parametrize("case", REFERENCE["cases"])
def test_rliable_gives_the_same_numbers_and_intervals(case: str) -> None:
    theirs = REFERENCE["cases"][case]
    # Scores with ties are multiples of 0.1, means over seven seeds of a seventh of it.
    step = 0.1 / 7 if "ties" in case else 0.0
    for name, reference in theirs["iqm, mean, median, optimality gap"].items():
        found = ours(case)[name]
        four = ("iqm", "mean", "median", "optimality_gap")
        rows = zip(four, reference["value"], *reference["interval"], strict=True)
        for column, value, low, high in rows:
            assert found[column] == pytest.approx(value, abs=1e-12)
            assert agree(found, column, low, high, step)


@pytest.mark.parametrize("case", REFERENCE["cases"])
def test_rliable_gives_the_same_probability_of_improvement(case: str) -> None:
    data = REFERENCE["cases"][case]
    for name, reference in data["improvement"].items():
        row = ours(case)[name]
        assert row["improvement"] == pytest.approx(reference["value"][0], abs=1e-12)
        (low,), (high,) = reference["interval"]
        seeds, problems = np.shape(data["scores"][name])
        assert agree(row, "improvement", low, high, step=1 / (problems * seeds**2))
    assert ours(case)["sombrl"]["improvement"] is None


# Which runs count, and by what score.

Add = Callable[..., None]


@pytest.fixture
def add(tmp_path: Path) -> Add:
    """Return a function that writes a run; θ_n = 100·rate + n."""

    def write(
        method: str, seed: int, returns: Sequence[float], rate: float = 0.1
    ) -> None:
        rows = [
            record(n, theta=100 * rate + n, return_executed=value)
            for n, value in enumerate(returns, start=1)
        ]
        settings = {"method": method, "seed": seed, "drift": {"rate": rate}}
        write_run(tmp_path / f"{method}-{rate}-{seed}", rows, **settings)

    return write


@pytest.fixture
def grid(add: Add) -> Callable[..., None]:
    """Return a function that writes two methods, of which the second returns more."""

    def write(rates: Sequence[float], seeds: int = 2) -> None:
        for rate in rates:
            for method, value in {"sombrl": 10.0, "sw-ombrl": 20.0}.items():
                for seed in range(seeds):
                    add(method, seed, [value + seed] * 2, rate)

    return write


def aggregates(
    directory: Path, oracle: Callable[[float], float] | str = "none"
) -> compare.Comparison | None:
    return compare.aggregate(driftrl.load(directory, oracle=oracle))


def found(
    directory: Path, oracle: Callable[[float], float] | str = "none"
) -> compare.Comparison:
    result = aggregates(directory, oracle)
    assert result is not None
    return result


def test_one_problem_is_judged_by_its_regret(tmp_path: Path, grid: Add) -> None:
    grid([0.1])
    table = found(tmp_path, lambda theta: 30.0)
    assert table.measure.name == "regret R_2" and not table.measure.higher_is_better
    assert table.scores["sombrl"][0].tolist() == [40.0, 38.0]
    assert table.scores["sw-ombrl"][0].tolist() == [20.0, 18.0]
    assert table.baseline == "sombrl"


def test_one_problem_without_an_optimum_is_judged_by_its_return(
    tmp_path: Path, grid: Add
) -> None:
    grid([0.1])
    table = found(tmp_path)
    assert table.measure.name == "mean return" and table.measure.higher_is_better
    assert table.scores["sw-ombrl"][0].tolist() == [20.0, 21.0]


def test_several_problems_are_judged_by_the_optimum(tmp_path: Path, grid: Add) -> None:
    grid([0.1, 0.2])
    # J* is 40, 40 on one problem, and 80, −20 on the other.
    table = found(
        tmp_path, {11.0: 40.0, 12.0: 40.0, 21.0: 80.0, 22.0: -20.0}.__getitem__
    )
    assert table.measure == compare.OPTIMALITY
    assert table.problems == ("rate = 0.1", "rate = 0.2")
    first, second = table.scores["sw-ombrl"]
    np.testing.assert_allclose(first, [20 / 40, 21 / 40])
    np.testing.assert_allclose(second, [1 - (60 - 40) / 100, 1 - (60 - 42) / 100])


def test_an_optimum_of_zero_or_none_is_no_scale(tmp_path: Path, grid: Add) -> None:
    grid([0.1, 0.2])
    for oracle in ("none", lambda theta: 0.0 if theta < 20 else 9.0):
        assert aggregates(tmp_path, oracle) is None


def test_methods_are_judged_by_the_same_seeds(
    tmp_path: Path, grid: Add, add: Add
) -> None:
    grid([0.1], seeds=3)
    add("sw-ombrl", 7, [99.0, 99.0])
    table = found(tmp_path)
    assert [len(one[0]) for one in table.scores.values()] == [3, 3]
    assert table.runs_left_out == 1
    assert table.problems_left_out == table.methods_left_out == ()


def test_problems_with_too_few_runs_do_not_count(
    tmp_path: Path, grid: Add, add: Add
) -> None:
    grid([0.1, 0.2])
    add("sombrl", 0, [1.0], 0.3)
    grid([0.4], seeds=1)
    table = found(tmp_path, lambda theta: 40.0)
    assert table.problems == ("rate = 0.1", "rate = 0.2")
    assert table.problems_left_out == ("rate = 0.3", "rate = 0.4")
    assert table.runs_left_out == 3


def test_where_no_problem_has_all_methods_those_count_that_all_problems_have(
    tmp_path: Path, grid: Add, add: Add
) -> None:
    grid([0.1, 0.2])
    for seed in range(2):
        add("r-ombrl", seed, [1.0, 1.0], 0.1)
        add("other", seed, [1.0, 1.0], 0.2)
    table = found(tmp_path, lambda theta: 40.0)
    assert list(table.scores) == ["sombrl", "sw-ombrl"]
    assert table.methods_left_out == ("other", "r-ombrl")
    assert table.runs_left_out == 4


def test_one_method_or_one_seed_is_nothing_to_compare(tmp_path: Path, add: Add) -> None:
    add("sombrl", 0, [1.0])
    add("sombrl", 2, [1.0])
    add("sw-ombrl", 1, [1.0])
    assert aggregates(tmp_path) is None
    with pytest.raises(InputError):
        driftrl.compare(driftrl.load(tmp_path, oracle="none"))


def test_without_the_usual_baseline_there_is_none(tmp_path: Path, add: Add) -> None:
    for method in ("r-ombrl", "sw-ombrl"):
        for seed in range(2):
            add(method, seed, [1.0 + seed])
    assert found(tmp_path).baseline is None
    table = driftrl.compare(driftrl.load(tmp_path, oracle="none"))
    assert table["improvement"].null_count() == 2


def test_the_table_has_a_row_per_method(tmp_path: Path, grid: Add) -> None:
    grid([0.1, 0.2], seeds=3)
    frame = driftrl.load(tmp_path, oracle=lambda theta: 40.0)
    table = driftrl.compare(frame)
    assert isinstance(table, polars.DataFrame)
    row = table.row(by_predicate=polars.col("method") == "sw-ombrl", named=True)
    assert (row["runs"], row["score"]) == (6, "score")
    # Scores are 20/40, 21/40 and 22/40 on both problems.
    assert row["mean"] == pytest.approx(21 / 40)
    assert row["iqm"] == pytest.approx(21 / 40)
    assert row["optimality_gap"] == pytest.approx(19 / 40)
    assert row["improvement"] == row["improvement_low"] == 1.0
    assert 0.5 <= row["iqm_low"] < row["iqm"] < row["iqm_high"] <= 0.55
