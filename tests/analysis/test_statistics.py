"""Means and intervals: by hand, against SciPy, and how often they cover."""

import numpy as np
import pytest
from scipy import stats

from driftrl.analysis.statistics import (
    bootstrap_interval,
    estimate_mean,
    mean,
    standard_error,
    t_interval,
)
from driftrl.errors import InputError


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).normal(5.0, 2.0, shape)


def test_mean_and_standard_error_by_hand() -> None:
    samples = np.array([[1.0, 10.0], [2.0, 10.0], [6.0, 10.0]])
    # Deviations −2, −1, 3: s² = 14 / 2 = 7, and s/√3 = √(7/3).
    np.testing.assert_allclose(mean(samples), [3.0, 10.0])
    np.testing.assert_allclose(standard_error(samples), [np.sqrt(7 / 3), 0.0])


def test_missing_values_are_left_out_and_too_few_give_nan() -> None:
    samples = np.array([[1.0, np.nan, np.nan], [3.0, 4.0, np.nan]])
    np.testing.assert_allclose(mean(samples), [2.0, 4.0, np.nan])
    np.testing.assert_allclose(standard_error(samples), [1.0, np.nan, np.nan])


def test_t_interval_is_scipys() -> None:
    samples = draw(5)
    ours = t_interval(samples)
    theirs = stats.ttest_1samp(samples, 0.0).confidence_interval(0.95)
    np.testing.assert_allclose([ours.low, ours.high], [theirs.low, theirs.high])


def test_bootstrap_by_a_loop_over_resamples() -> None:
    samples = draw(12)  # enough that another stream gives other quantiles
    rng = np.random.default_rng(0)
    means = [samples[rng.integers(0, 12, 12)].mean() for _ in range(10_000)]
    interval = bootstrap_interval(samples)
    expected = np.quantile(means, [0.025, 0.975])
    np.testing.assert_allclose([interval.low, interval.high], expected)


def test_five_seeds_need_the_t_interval() -> None:
    # The two coverages that the module's documentation states.
    samples = np.random.default_rng(0).normal(size=(600, 5))
    for interval, coverage in [(t_interval, 0.95), (bootstrap_interval, 0.83)]:
        ends = [interval(five) for five in samples]
        covers = np.mean([(one.low <= 0) & (one.high >= 0) for one in ends])
        assert covers == pytest.approx(coverage, abs=0.03)


def test_one_seed_has_a_mean_and_no_interval() -> None:
    estimate = estimate_mean(np.array([4.0]))
    assert estimate.mean == 4.0
    assert np.isnan(estimate.stderr)
    for interval in (estimate.student, estimate.bootstrap):
        assert np.isnan(interval.low)


def test_bad_input_is_refused() -> None:
    for values in (np.array([1.0, np.nan]), np.empty(0)):
        with pytest.raises(InputError):
            estimate_mean(values)
