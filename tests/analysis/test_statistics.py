"""Means and intervals: by hand, against SciPy, and how often they cover."""

import numpy as np
import pytest
from scipy import stats

from driftrl.analysis.statistics import (
    Interval,
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


@pytest.mark.parametrize("level", [0.8, 0.95])
def test_t_interval_is_scipys(level: float) -> None:
    samples = draw(5)
    ours = t_interval(samples, level)
    theirs = stats.ttest_1samp(samples, 0.0).confidence_interval(level)
    np.testing.assert_allclose([ours.low, ours.high], [theirs.low, theirs.high])


def test_bootstrap_by_a_loop_over_resamples() -> None:
    samples = draw(12)  # enough that another stream gives other quantiles
    rng = np.random.default_rng(0)
    means = [samples[rng.integers(0, 12, 12)].mean() for _ in range(10_000)]
    interval = bootstrap_interval(samples, 0.9)
    expected = np.quantile(means, [0.05, 0.95])
    np.testing.assert_allclose([interval.low, interval.high], expected)


def test_all_episodes_at_once_equal_each_alone() -> None:
    samples = draw(5, 40)
    together = bootstrap_interval(samples)
    for episode in (0, 17, 39):
        alone = bootstrap_interval(samples[:, episode])
        np.testing.assert_allclose(together.low[episode], alone.low)
        np.testing.assert_allclose(together.high[episode], alone.high)
    np.testing.assert_allclose(
        t_interval(samples).low[7], t_interval(samples[:, 7]).low
    )


def test_five_seeds_need_the_t_interval() -> None:
    # The two coverages that the module's documentation states.
    samples = np.random.default_rng(0).normal(size=(5, 2000))
    for interval, coverage in [
        (t_interval(samples), 0.95),
        (bootstrap_interval(samples), 0.83),
    ]:
        covers = np.mean((interval.low <= 0) & (interval.high >= 0))
        assert covers == pytest.approx(coverage, abs=0.02)


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
    with pytest.raises(InputError):
        t_interval(draw(5), level=95.0)
    with pytest.raises(InputError):
        bootstrap_interval(np.array([1.0, np.nan]))
    with pytest.raises(InputError):
        t_interval(np.empty(0))
