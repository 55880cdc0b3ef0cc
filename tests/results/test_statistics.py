"""Means and intervals: by hand, against SciPy, and how often they cover."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from driftrl.errors import InputError
from driftrl.results.statistics import (
    Interval,
    bootstrap_interval,
    estimate_mean,
    mean,
    paired_bootstrap_interval,
    paired_difference,
    paired_t_interval,
    standard_error,
    t_interval,
)


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(5.0, 2.0, shape)


def test_mean_and_standard_error_by_hand() -> None:
    samples = np.array([[1.0, 10.0], [2.0, 10.0], [6.0, 10.0]])
    # Deviations −2, −1, 3: s² = 14 / 2 = 7, and s/√3 = √(7/3).
    np.testing.assert_allclose(mean(samples), [3.0, 10.0])
    np.testing.assert_allclose(standard_error(samples), [np.sqrt(7 / 3), 0.0])


def test_standard_error_is_scipys() -> None:
    samples = draw(6, 4)
    np.testing.assert_allclose(standard_error(samples), stats.sem(samples, axis=0))


def test_missing_values_are_left_out_and_too_few_give_nan() -> None:
    samples = np.array([[1.0, np.nan, np.nan], [3.0, 4.0, np.nan]])
    np.testing.assert_allclose(mean(samples), [2.0, 4.0, np.nan])
    np.testing.assert_allclose(standard_error(samples), [1.0, np.nan, np.nan])


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_t_interval_is_scipys(level: float) -> None:
    samples = draw(5)
    ours = t_interval(samples, level)
    theirs = stats.ttest_1samp(samples, 0.0).confidence_interval(level)
    np.testing.assert_allclose([ours.low, ours.high], [theirs.low, theirs.high])


def test_paired_t_interval_is_scipys() -> None:
    first, second = draw(2, 5)
    ours = paired_t_interval(first, second)
    theirs = stats.ttest_rel(first, second).confidence_interval(0.95)
    np.testing.assert_allclose([ours.low, ours.high], [theirs.low, theirs.high])


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_bootstrap_interval_is_scipys_on_the_same_draws(level: float) -> None:
    samples = draw(5)
    ours = bootstrap_interval(samples, level, resamples=2000, seed=11)
    theirs = stats.bootstrap(
        (samples,),
        np.mean,
        method="percentile",
        confidence_level=level,
        n_resamples=2000,
        rng=np.random.default_rng(11),
    ).confidence_interval
    np.testing.assert_allclose([ours.low, ours.high], [theirs.low, theirs.high])


def test_paired_bootstrap_draws_whole_pairs_like_scipy() -> None:
    first, second = draw(2, 6)
    ours = paired_bootstrap_interval(first, second, resamples=999, seed=2)
    theirs = stats.bootstrap(
        (first, second),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        method="percentile",
        paired=True,
        n_resamples=999,
        rng=np.random.default_rng(2),
    ).confidence_interval
    np.testing.assert_allclose([ours.low, ours.high], [theirs.low, theirs.high])


def test_all_episodes_at_once_equal_each_alone() -> None:
    samples = draw(5, 600)  # more than fit into one block
    together = bootstrap_interval(samples, resamples=200)
    for episode in (0, 255, 256, 599):
        alone = bootstrap_interval(samples[:, episode], resamples=200)
        np.testing.assert_allclose(together.low[episode], alone.low)
        np.testing.assert_allclose(together.high[episode], alone.high)
    np.testing.assert_allclose(
        t_interval(samples).low[7], t_interval(samples[:, 7]).low
    )


def test_bootstrap_is_repeatable_and_its_seed_matters() -> None:
    samples = draw(5)
    first, again, other = (
        bootstrap_interval(samples, resamples=50, seed=seed) for seed in (1, 1, 2)
    )
    assert (first.low, first.high) == (again.low, again.high)
    assert (first.low, first.high) != (other.low, other.high)


def test_five_seeds_need_the_t_interval() -> None:
    # The two coverages that the module's documentation states.
    generator = np.random.default_rng(0)
    samples = generator.normal(size=(5, 4000))
    coverage = {}
    for name, interval in [
        ("t", t_interval(samples)),
        ("bootstrap", bootstrap_interval(samples, resamples=1000)),
    ]:
        coverage[name] = np.mean((interval.low <= 0) & (interval.high >= 0))
    assert coverage["t"] == pytest.approx(0.95, abs=0.015)
    assert coverage["bootstrap"] == pytest.approx(0.83, abs=0.02)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=8), st.floats(-1e6, 1e6))
def test_intervals_move_with_the_data_and_hold_the_mean(
    values: list[float], shift: float
) -> None:
    samples = np.array(values)
    for interval in (t_interval, lambda x: bootstrap_interval(x, resamples=100)):
        here, there = interval(samples), interval(samples + shift)
        slack = 1e-6 * (1 + np.abs(samples).max() + abs(shift))
        assert abs(there.low - here.low - shift) < slack
        assert abs(there.high - here.high - shift) < slack
        assert here.low <= here.high
    student = t_interval(samples)
    assert student.low - 1e-9 <= samples.mean() <= student.high + 1e-9 or (
        np.isclose(student.low, samples.mean())
    )


def test_one_seed_has_a_mean_and_no_interval() -> None:
    estimate = estimate_mean(np.array([4.0]))
    assert estimate.mean == 4.0
    assert np.isnan(estimate.stderr)
    for interval in (estimate.student, estimate.bootstrap):
        assert np.isnan(interval.low)
        assert not interval.excludes(0.0)


def test_an_interval_excludes_what_lies_outside() -> None:
    interval = Interval(np.array(1.0), np.array(2.0))
    assert interval.excludes(0.0)
    assert interval.excludes(3.0)
    assert not interval.excludes(1.5)
    assert not Interval(np.array([1.0, -1.0]), np.array([2.0, 1.0])).excludes(0.0)


def test_bad_input_is_refused() -> None:
    with pytest.raises(InputError, match="A level must lie between 0 and 1"):
        t_interval(draw(5), level=95.0)
    with pytest.raises(InputError, match="finite values"):
        bootstrap_interval(np.array([1.0, np.nan]))
    with pytest.raises(InputError, match="at least one seed"):
        t_interval(np.empty(0))
    with pytest.raises(InputError, match="needs resamples"):
        bootstrap_interval(draw(5), resamples=0)
    with pytest.raises(InputError, match=r"same seeds and .*\(5, 1\) and \(5, 3\)"):
        paired_difference(draw(5, 1), draw(5, 3))
