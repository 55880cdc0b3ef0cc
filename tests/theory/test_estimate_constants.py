"""γ_N and P_N estimated from data whose drift is known."""

import numpy as np
import pytest

from driftrl.theory.window_selection import estimate_constants
from factories import driven


def test_variation_grows_with_the_drift() -> None:
    still, little, much = (
        estimate_constants(driven(np.linspace(1.0, end, 12), 20, 1e-3)).variation
        for end in (1.0, 0.8, 0.2)
    )
    assert still == 0.0 < little < much


def test_variation_is_the_way_and_not_the_distance() -> None:
    """The same episodes in another order, but for the five that set length scales.

    Back and forth seven times and halfway is 7.5, once and halfway 1.5.
    """
    zigzag, tail = np.array([0.0, 1.0] * 4), np.full(5, 0.5)
    ways = [np.concatenate([front, tail]) for front in (zigzag, np.sort(zigzag))]
    episodes = driven(0.4 + 0.6 * ways[0], 20, 1e-3)
    order = [*np.argsort(zigzag, kind="stable"), *range(8, 13)]
    long = estimate_constants(episodes, ways[0]).variation
    short = estimate_constants([episodes[place] for place in order], ways[1]).variation
    assert long == pytest.approx(5 * short, rel=0.1)
    # Whatever the unit of θ.
    assert estimate_constants(episodes, 7.0 - 100 * ways[0]).variation == pytest.approx(
        long
    )


def test_constant_theta_is_no_variation() -> None:
    found = estimate_constants(driven(np.full(8, 0.5), 20, 1e-3), np.full(8, 2.0))
    assert found.variation == 0.0
    assert found.gain > 0 and found.rkhs_bound > 0 and found.noise < 0.1
