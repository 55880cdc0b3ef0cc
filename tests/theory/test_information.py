"""Information gain: two ways, against exhaustive search, and how it grows."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.kernels import gram, kernel_named
from driftrl.theory.confidence import information_gain
from driftrl.theory.information import greedy_information_gain, growth_rate, scaled_rate
from factories import gain_of_kernel


def se_kernel(points: np.ndarray, length: float = 0.5) -> np.ndarray:
    scaled = points / length
    return gram(kernel_named("se"), scaled, scaled, np)


def test_gain_two_ways_and_by_hand() -> None:
    kernel = se_kernel(np.random.default_rng(0).uniform(-1, 1, (20, 2)))
    factor = np.linalg.cholesky(kernel + 0.09 * np.eye(20))
    assert gain_of_kernel(kernel, 0.3) == pytest.approx(information_gain(factor, 0.3))
    # One point of variance 3 and noise 1: ½ log 4.
    assert gain_of_kernel(np.array([[3.0]]), 1.0) == pytest.approx(np.log(2.0))
    assert gain_of_kernel(np.zeros((0, 0)), 1.0) == 0.0


@settings(max_examples=30)
@given(st.integers(0, 10_000), st.integers(1, 5), st.floats(0.05, 2.0))
def test_greedy_is_within_its_guarantee(seed: int, count: int, noise: float) -> None:
    points = np.random.default_rng(seed).uniform(-1, 1, (9, 2))
    kernel = se_kernel(points)
    found = greedy_information_gain(kernel, count, noise)
    best = max(
        gain_of_kernel(kernel[np.ix_(chosen, chosen)], noise)
        for chosen in combinations(range(9), count)
    )
    assert (1 - 1 / np.e) * best <= found[-1] <= best * (1 + 1e-9)


def test_rates_by_hand() -> None:
    n = np.e**2
    assert float(growth_rate("se", n, 2)) == pytest.approx(8.0)
    assert float(growth_rate("linear", n, 3)) == pytest.approx(6.0)
    # ν = 3/2, d = 1: n^{1/4}·log^{3/4} n
    found = growth_rate("matern32", n, 1)
    assert float(found) == pytest.approx(np.exp(0.5) * 2**0.75)
    anchored = scaled_rate("linear", [10, 100], 1, (10, 4.0))
    np.testing.assert_allclose(anchored, [4.0, 8.0])
