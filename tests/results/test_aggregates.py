"""Aggregates over problems and seeds: by hand, against SciPy and against rliable."""

import functools
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from scipy import stats

from driftrl.errors import InputError
from driftrl.results.aggregates import (
    Aggregate,
    Aggregates,
    aggregate,
    interquartile_mean,
    optimality_gap,
    performance_profile,
    probability_of_improvement,
    problem_median,
)
from driftrl.results.score_table import Measure, ScoreTable, Strata, pooled

REFERENCE = json.loads(Path(__file__).with_name("rliable_reference.json").read_text())
SCORE = Measure("score", "Made up.", target=1.0)
COST = Measure("cost", "Made up.", higher_is_better=False)

scores = arrays.arrays(
    np.float64, st.integers(2, 12), elements=st.floats(-1e6, 1e6, width=32)
)


def columns(values: list[list[float]]) -> Strata:
    """Return runs × problems as an array for each problem."""
    return tuple(np.array(values, dtype=float).T)


def made_up(measure: Measure = SCORE, problems: int = 3, seeds: int = 5) -> ScoreTable:
    generator = np.random.default_rng(1)
    means = {"sombrl": 0.2, "r-ombrl": 0.4, "sw-ombrl": 0.5}
    return ScoreTable(
        measure,
        tuple(f"a={place}" for place in range(problems)),
        {
            name: tuple(generator.normal(mean, 0.2, (problems, seeds)))
            for name, mean in means.items()
        },
    )


# ---- by hand -----------------------------------------------------------------------


def test_the_outer_quarters_do_not_count() -> None:
    assert interquartile_mean(np.array([100.0, 2.0, 4.0, -50.0])) == 3.0
    # Of seven ⌊7/4⌋ = 1 is cut at either end; of three none is.
    assert interquartile_mean(np.array([9.0, 1, 2, 3, 4, 5, -9])) == 3.0
    assert interquartile_mean(np.array([0.0, 1.0, 5.0])) == 2.0


def test_runs_past_the_target_make_up_for_no_other() -> None:
    assert optimality_gap(np.array([0.5, 1.5, 1.0, 0.0]), 1.0) == 1.5 / 4


def test_the_median_is_of_problems_or_of_the_runs_of_one() -> None:
    one, two, three = np.array([0.0, 2.0]), np.array([5.0, 5.0]), np.array([9.0, 0.0])
    assert problem_median((one, two, three)) == 4.5
    assert problem_median((np.array([1.0, 2.0, 9.0]),)) == 2.0


def test_a_profile_counts_the_runs_that_exceed_a_threshold() -> None:
    runs = np.array([0.0, 0.5, 0.5, 1.0])
    shares = performance_profile(runs, np.array([-1.0, 0.0, 0.4, 0.5, 1.0]))
    assert shares.tolist() == [1.0, 0.75, 0.75, 0.25, 0.0]


def test_equal_runs_win_half_and_problems_count_alike() -> None:
    # 3 > 2, 3 = 3, 1 < 2, 1 < 3: 1½ of 4.  On the other problem all 4 are won.
    first = (np.array([3.0, 1.0]), np.array([7.0, 8.0]))
    second = (np.array([2.0, 3.0]), np.array([6.0, 0.0]))
    assert probability_of_improvement(first, second) == (1.5 / 4 + 1) / 2
    wider = (np.tile(first[0], 9), first[1])
    assert probability_of_improvement(wider, second) == (1.5 / 4 + 1) / 2


def test_of_costs_less_is_better() -> None:
    found = aggregate(
        ScoreTable(
            COST,
            ("",),
            {
                "sombrl": (np.array([4.0, 5.0]),),
                "sw-ombrl": (np.array([1.0, 4.0]),),
            },
        ),
        resamples=10,
    )
    assert found.best == "sw-ombrl"
    better = found.methods["sw-ombrl"]
    assert better.improvement is not None and better.improvement.value == 3.5 / 4
    assert better.optimality_gap is None
    # Thresholds from 0.92 to 5.08: nothing is below the first, all below the last.
    assert found.thresholds[[0, -1]] == pytest.approx([0.92, 5.08])
    assert better.profile.value[0] == 0 and better.profile.value[-1] == 1
    assert np.all(np.diff(better.profile.value) >= 0)


def test_a_bootstrap_of_two_seeds_can_be_enumerated() -> None:
    # On either problem the means 0, ½, ½, 1 are as likely: of 16 sums, 0 and 2 once.
    strata = (np.array([0.0, 1.0]), np.array([0.0, 1.0]))
    table = ScoreTable(SCORE, ("a", "b"), {"sombrl": strata, "sw-ombrl": strata})
    found = aggregate(table, level=1 - 2 * 0.9 / 16, resamples=10_000)
    mean = found.methods["sombrl"].mean
    assert mean.value == 0.5
    assert (mean.interval.low, mean.interval.high) == (0.0, 1.0)
    narrow = aggregate(table, level=1 - 2 * 1.1 / 16, resamples=10_000)
    interval = narrow.methods["sombrl"].mean.interval
    assert (interval.low, interval.high) == (0.25, 0.75)


# ---- two ways ----------------------------------------------------------------------


@given(scores)
def test_the_interquartile_mean_is_scipys_trimmed_mean(runs: np.ndarray) -> None:
    ours = interquartile_mean(runs)
    assert ours == pytest.approx(stats.trim_mean(runs, 0.25), rel=1e-12, abs=1e-9)
    # It lies between the runs at the edges of what is kept.
    ordered, cut = np.sort(runs), len(runs) // 4
    slack = 1e-9 * (1 + np.abs(runs).max())
    assert ordered[cut] - slack <= ours <= ordered[len(runs) - 1 - cut] + slack
    low, high = np.quantile(runs, [0.25, 0.75], method="inverted_cdf")
    if len(runs) % 4 == 0:
        assert low - slack <= ours <= high + slack


@given(scores, scores)
def test_the_probability_is_mann_and_whitneys(
    first: np.ndarray, second: np.ndarray
) -> None:
    ours = probability_of_improvement((first,), (second,))
    statistic = stats.mannwhitneyu(first, second, method="asymptotic").statistic
    assert ours == pytest.approx(statistic / (len(first) * len(second)), abs=1e-12)
    back = probability_of_improvement((second,), (first,))
    assert ours + back == pytest.approx(1.0, abs=1e-12)


@given(scores, st.integers(0, 1000))
def test_seeds_have_no_order(runs: np.ndarray, seed: int) -> None:
    mixed = np.random.default_rng(seed).permutation(runs)
    taus = np.linspace(runs.min() - 1, runs.max() + 1, 7)
    assert interquartile_mean(mixed) == pytest.approx(interquartile_mean(runs))
    np.testing.assert_array_equal(
        performance_profile(mixed, taus), performance_profile(runs, taus)
    )
    other = runs[::-1] + 0.5
    assert probability_of_improvement((mixed,), (other,)) == pytest.approx(
        probability_of_improvement((runs,), (other,))
    )


@given(scores)
def test_a_profile_falls_from_one_to_zero(runs: np.ndarray) -> None:
    taus = np.linspace(runs.min() - 1, runs.max() + 1, 21)
    shares = performance_profile(runs, taus)
    assert shares[0] == 1 and shares[-1] == 0
    assert np.all(np.diff(shares) <= 0)


def by_loop(
    table: ScoreTable, name: str, resamples: int, seed: int
) -> list[np.ndarray]:
    """Return the resamples of a method one after the other, problem by problem."""
    place = list(table.scores).index(name)
    generator = np.random.default_rng([seed, place])
    drawn = []
    for runs in table.scores[name]:
        places = generator.integers(0, len(runs), (resamples, len(runs)))
        drawn.append(np.array([runs[some] for some in places]))
    return drawn


def test_the_vectorised_bootstrap_is_a_loop_over_resamples() -> None:
    table = made_up()
    found = aggregate(table, resamples=200, seed=4, level=0.9)
    ours = by_loop(table, "sw-ombrl", 200, 4)
    base = by_loop(table, "sombrl", 200, 4)
    one = found.methods["sw-ombrl"]
    expected = {
        "iqm": [
            stats.trim_mean(pooled([x[r] for x in ours]), 0.25) for r in range(200)
        ],
        "improvement": [
            probability_of_improvement(
                tuple(x[r] for x in ours), tuple(y[r] for y in base)
            )
            for r in range(200)
        ],
        "profile": [
            performance_profile(pooled([x[r] for x in ours]), found.thresholds)
            for r in range(200)
        ],
    }
    for name, samples in expected.items():
        low, high = np.quantile(samples, [0.05, 0.95], axis=0)
        interval = getattr(one, name).interval
        np.testing.assert_allclose(interval.low, low, atol=1e-12)
        np.testing.assert_allclose(interval.high, high, atol=1e-12)


def test_the_same_study_gives_the_same_numbers_and_the_seed_matters() -> None:
    first, again, other = (
        aggregate(made_up(), resamples=50, seed=seed).methods["sombrl"].iqm.interval
        for seed in (1, 1, 2)
    )
    assert (first.low, first.high) == (again.low, again.high)
    assert (first.low, first.high) != (other.low, other.high)


def test_problems_may_have_unlike_numbers_of_seeds() -> None:
    strata = (np.array([0.0, 1.0, 2.0]), np.array([5.0, 6.0]))
    table = ScoreTable(SCORE, ("a", "b"), {"sombrl": strata, "sw-ombrl": strata})
    found = aggregate(table, resamples=500).methods["sw-ombrl"]
    assert found.runs == 5
    assert found.mean.value == 14 / 5
    assert found.improvement is not None and found.improvement.value == 0.5
    # Three of five runs are always from the first problem, whose runs are below 3.
    found = aggregate(table, resamples=500)
    place = int(np.searchsorted(found.thresholds, 3.0))
    profile = found.methods["sombrl"].profile
    assert profile.value[place] == 2 / 5
    assert profile.interval.low[place] == pytest.approx(2 / 5)
    assert profile.interval.high[place] == pytest.approx(2 / 5)


# ---- against rliable ---------------------------------------------------------------


@functools.cache
def ours_and_theirs(case: str) -> tuple[Aggregates, dict[str, dict[str, Aggregate]]]:
    """Return our aggregates of a case, and by rliable's names those it has, too."""
    data = REFERENCE["cases"][case]["scores"]
    table = ScoreTable(
        SCORE,
        tuple(f"a={place}" for place in range(len(data["sombrl"][0]))),
        {name: columns(values) for name, values in data.items()},
    )
    found = aggregate(table, resamples=20_000)
    return found, {
        name: {"iqm": one.iqm, "mean": one.mean, "median": one.median}
        | ({"optimality_gap": one.optimality_gap} if one.optimality_gap else {})
        for name, one in found.methods.items()
    }


def agree(ours: Aggregate, low: float, high: float, step: float) -> bool:
    """Whether two bootstrap intervals differ by no more than their resampling does.

    The 2.5 % quantile of 5,000 normal resamples has a standard error of 0.038 standard
    deviations, of 20,000 half of that; four of the errors of their difference are
    0.17 standard deviations, or 0.043 of the interval's width.  ``step`` is the
    distance of the values that a statistic can take.
    """
    allowed = 0.043 * (high - low) + step
    return (
        abs(float(ours.interval.low) - low) <= allowed
        and abs(float(ours.interval.high) - high) <= allowed
    )


@pytest.mark.parametrize("case", REFERENCE["cases"])
def test_rliable_gives_the_same_numbers_and_intervals(case: str) -> None:
    theirs = REFERENCE["cases"][case]
    found, ours = ours_and_theirs(case)
    # Scores with ties are multiples of 0.1, means over seven seeds of a seventh of it.
    step = 0.1 / 7 if "ties" in case else 0.0
    for name, reference in theirs["iqm, mean, median, optimality gap"].items():
        assert len(ours[name]) == 4
        lows, highs = reference["interval"]
        for one, value, low, high in zip(
            ours[name].values(), reference["value"], lows, highs, strict=True
        ):
            assert float(one.value) == pytest.approx(value, abs=1e-12)
            assert agree(one, low, high, step)
    thresholds = np.array(REFERENCE["thresholds"])
    for name, shares in theirs["profile"].items():
        runs = pooled(found.table.scores[name])
        np.testing.assert_allclose(
            performance_profile(runs, thresholds), shares, atol=1e-12
        )


@pytest.mark.parametrize("case", REFERENCE["cases"])
def test_rliable_gives_the_same_probability_of_improvement(case: str) -> None:
    theirs = REFERENCE["cases"][case]["improvement"]
    found, _ = ours_and_theirs(case)
    assert theirs.keys() == {"r-ombrl", "sw-ombrl"}
    for name, reference in theirs.items():
        ours = found.methods[name].improvement
        assert ours is not None
        assert float(ours.value) == pytest.approx(reference["value"][0], abs=1e-12)
        (low,), (high,) = reference["interval"]
        first = found.table.scores[name]
        pairs = len(first) * len(first[0]) ** 2
        assert agree(ours, low, high, step=1 / pairs)
    assert found.methods["sombrl"].improvement is None


# ---- refusals ----------------------------------------------------------------------


def test_bad_input_is_refused() -> None:
    runs = np.array([1.0, 2.0])
    with pytest.raises(InputError, match=r"at least two seeds .*'sombrl': \[2, 1\]"):
        ScoreTable(SCORE, ("a", "b"), {"sombrl": (runs, runs[:1])})
    with pytest.raises(InputError, match=r"received .*\[2\]} for 2 problems"):
        ScoreTable(SCORE, ("a", "b"), {"sombrl": (runs,)})
    with pytest.raises(InputError, match=r"at least two seeds .* received {}"):
        ScoreTable(SCORE, ("a",), {})
    with pytest.raises(InputError, match="Every score must be finite"):
        ScoreTable(SCORE, ("a",), {"sombrl": (np.array([1.0, np.nan]),)})
    with pytest.raises(InputError, match="A level must lie between 0 and 1"):
        aggregate(made_up(), level=95.0)
    with pytest.raises(InputError, match="needs resamples, received 0"):
        aggregate(made_up(), resamples=0)
