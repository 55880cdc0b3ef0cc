"""Lemma 2 and Theorem 1: by hand, against simulation and known systems."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.errors import InputError
from driftrl.memory.adaptive import fixed_share
from driftrl.theory.confidence import Setting, exploration_weight
from driftrl.theory.regret_bound import (
    drift_penalty,
    episodic_regret_bound,
    fixed_share_bound,
    optimistic,
    performance_difference_bound,
    regret_bound,
    regret_orders,
    tuned_span,
    uncertainty_along,
    uncertainty_bound,
    variance_constant,
)
from factories import gain_of_kernel

SETTING = Setting(rkhs_bound=1.0, noise_std=1.0, steps=2, failure_probability=0.5)
EPISODE = Setting(noise_std=0.5, steps=10, reward_max=2.0, kernel_bound=4.0, outputs=2)


def test_quantities_by_hand() -> None:
    # λ = 2·10/0.5·3, B = 7·2·100/0.5·0.25
    assert float(exploration_weight(EPISODE, 3.0)) == 120.0
    assert float(drift_penalty(EPISODE, 7.0, 0.25)) == 700.0


def test_intrinsic_reward_is_bounded_by_its_root() -> None:
    # k ≤ 4 and two outputs: ‖σ‖ ≤ √8, where σ_max = 4 is printed.
    proved, printed = optimistic(EPISODE), optimistic(EPISODE, "printed")
    assert (proved.reward_max, printed.reward_max) == (pytest.approx(np.sqrt(8)), 4.0)
    # With k ≤ ¼ the printed one is too small: a single σ reaches ½.
    small = Setting(kernel_bound=0.25, reward_max=0.0)
    assert optimistic(small, "printed").reward_max == 0.25
    assert optimistic(small).reward_max == 0.5
    assert float(exploration_weight(printed, 3.0)) == 240.0
    assert float(drift_penalty(printed, 7.0, 0.25)) == 1400.0


def test_uncertainty_along_trajectories() -> None:
    std = np.array([[3.0, 4.0], [0.0, 2.0]])
    assert float(uncertainty_along(std)) == 7.0
    assert float(uncertainty_along(np.stack([std, 3 * std]))) == 14.0


def test_performance_difference_is_cut_where_it_says_nothing() -> None:
    found = performance_difference_bound(EPISODE, 2.0, [1.0, 100.0], [3.0, 0.0])
    np.testing.assert_allclose(found, [5.0, 20.0])


def test_episodic_bound_by_hand() -> None:
    terms = episodic_regret_bound(3.0, [2.0, 0.0], [1.0, 0.5])
    np.testing.assert_allclose(terms.learning, [30.0, 0.0])  # (9 + 6)·2
    np.testing.assert_allclose(terms.drift, [5.0, 2.5])
    np.testing.assert_allclose(terms.total, [35.0, 2.5])


def test_performance_difference_of_known_systems() -> None:
    """State ½x + w against ½x + e + w: J differs by less than T·R_max·T/σ·e."""
    rng = np.random.default_rng(0)
    setting = Setting(noise_std=0.3, steps=8)
    for error in (0.0, 0.02, 0.1):
        noise = 0.3 * rng.standard_normal((20_000, 8))
        returns = []
        for shift in (0.0, error):
            x, total = np.zeros(20_000), np.zeros(20_000)
            for step in range(8):
                total += np.exp(-((x - 1) ** 2))  # in [0, 1]
                x = 0.5 * x + shift + noise[:, step]
            returns.append(total.mean())
        # β·σ(z) is the error, everywhere: Σ = T·error for β = 1.
        std = np.full((8, 1), error)
        bound = performance_difference_bound(
            setting, exploration_weight(setting, 1.0), uncertainty_along(std), 0.0
        )
        assert abs(returns[0] - returns[1]) <= float(bound) + 1e-12


def test_variance_constant_by_hand() -> None:
    assert variance_constant(SETTING) == pytest.approx(2 / math.log(2))
    wide = Setting(noise_std=0.5, kernel_bound=3.0, outputs=4)
    assert variance_constant(wide) == pytest.approx(24 / math.log(13))


def test_printed_bound_by_hand() -> None:
    """N = 8, p = 4, T = 2, σ = σ_max = R_max = B = d_x = 1, δ = ½, γ = 3, P = 5."""
    terms = regret_bound(
        SETTING, episodes=8, span=4, variation=5.0, gain=3.0, version="printed"
    )
    width = 1 + math.sqrt(2 * (3 + math.log(2)))
    weight = 2 * width
    root = 8 * math.sqrt((2 / math.log(2)) * 4 * 3 / 4)
    coefficient = 2 * math.sqrt(4 * 2 * 3)
    assert float(terms.learning) == pytest.approx((weight**2 + 2 * weight) * root)
    assert float(terms.drift) == pytest.approx((weight + 2) * 4 * coefficient * 4 * 5.0)


def test_groups_that_do_not_fit() -> None:
    # N = 3 in groups of 2 and 1: √2 + 1 = 2.41 ≤ √(3·2), but more than 3/√2 = 2.12.
    scale = math.sqrt(variance_constant(SETTING) * 4 * 3.0)
    assert uncertainty_bound(SETTING, 3, 2, 3.0) == pytest.approx(math.sqrt(6) * scale)
    printed = uncertainty_bound(SETTING, 3, 2, 3.0, "printed")
    assert printed == pytest.approx(3 / math.sqrt(2) * scale)
    assert printed < (math.sqrt(2) + 1) * scale
    for version in ("printed", "corrected"):
        assert uncertainty_bound(SETTING, 8, 4, 3.0, version) == pytest.approx(
            8 / 2 * scale
        )


def met_uncertainty(
    points: np.ndarray, first_retained: Callable[[int], int], noise: float
) -> tuple[float, np.ndarray]:
    """Return Σ_n Σ_t σ_{m(n):n−1}(z_{n,t}) of points [N, T, D], and K of all."""
    episodes, steps, size = points.shape
    flat = points.reshape(-1, size) / 0.5
    kernel = np.exp(-0.5 * ((flat[:, None] - flat[None]) ** 2).sum(-1))
    total = 0.0
    for n in range(1, episodes + 1):
        old = np.arange((first_retained(n) - 1) * steps, (n - 1) * steps)
        new = np.arange((n - 1) * steps, n * steps)
        inner = kernel[np.ix_(old, old)] + noise**2 * np.eye(len(old))
        cross = kernel[np.ix_(old, new)]
        variance = 1.0 - np.sum(cross * np.linalg.solve(inner, cross), axis=0)
        total += float(np.sqrt(np.maximum(variance, 0)).sum())
    return total, kernel


@settings(max_examples=25)
@given(st.integers(0, 10_000), st.integers(1, 7), st.booleans(), st.floats(0.1, 2.0))
def test_uncertainty_bound_holds_in_simulation(
    seed: int, span: int, slides: bool, noise: float
) -> None:
    points = np.random.default_rng(seed).uniform(-1, 1, (7, 3, 2))
    # A quarter of the episodes stays at one point: the bound must bear repetition.
    points[::4] = points[0, 0]
    rules = (lambda n: max(1, span * ((n - 1) // span)), lambda n: max(1, n - span))
    met, kernel = met_uncertainty(points, rules[slides], noise)
    # γ_p is at least the gain of any p·T of the points; all of them have the most.
    gain = gain_of_kernel(kernel, noise)
    setting = Setting(noise_std=noise, steps=3)
    assert met <= uncertainty_bound(setting, 7, span, gain)


def test_orders_balance_at_the_tuned_span() -> None:
    n, gain = np.array([100.0, 10_000.0]), 16.0
    span = tuned_span(n, gain)
    np.testing.assert_allclose(span, [20.0, 200.0])  # 16^{1/4}·√N
    terms = regret_orders(n, span, 3.0, gain)
    np.testing.assert_allclose(terms.learning, 16**1.375 * n**0.75)
    np.testing.assert_allclose(terms.drift, 3 * terms.learning)
    # γ^{11/8}·(1 + P_N)·N^{3/4}
    np.testing.assert_allclose(terms.total, 16**1.375 * (1 + 3.0) * n**0.75)


@pytest.mark.parametrize("wrong", [{"span": 9}, {"variation": -1.0}, {"gain": -1.0}])
def test_bad_input_is_refused(wrong: dict[str, Any]) -> None:
    known = {"episodes": 8, "span": 4, "variation": 1.0, "gain": 1.0}
    with pytest.raises(InputError):
        regret_bound(SETTING, **{**known, **wrong})


def test_fixed_share_keeps_its_bound_in_simulation() -> None:
    """Against the best sequence of experts with S switches, found exactly."""
    draw, rounds, experts, rate, share = np.random.default_rng(5), 60, 4, 2.0, 0.05
    prior = np.array([0.1, 0.2, 0.3, 0.4])
    closest = np.inf
    for _ in range(20):
        losses = draw.exponential(1.0, (rounds, experts))
        best = draw.integers(experts, size=rounds // 20).repeat(20)
        losses[np.arange(rounds), best] -= 1.0
        weights = fixed_share(losses, prior, rate, share)[:-1]
        mixed = -np.log((weights * np.exp(-rate * losses)).sum(axis=1)).sum() / rate
        # cost[s, k]: of the best sequence so far that ends in k after s switches
        cost = np.full((4, experts), np.inf)
        cost[0] = losses[0]
        for row in losses[1:]:
            moved = np.vstack([np.full((1, experts), np.inf), cost[:-1]])
            cost = np.minimum(cost, moved.min(axis=1, keepdims=True)) + row
        for switches, least in enumerate(cost.min(axis=1)):
            bound = fixed_share_bound(prior, rounds, switches, rate, share)
            assert mixed - least <= bound
            closest = min(closest, bound - (mixed - least))
    assert closest < 0.5 * fixed_share_bound(prior, rounds, 3, rate, share)
    # By hand: one switch in three rounds, so one stay.
    by_hand = (np.log(10) + np.log(10 / 0.05) - np.log(0.95)) / 2.0
    assert fixed_share_bound(prior, 3, 1, rate, share) == pytest.approx(by_hand)
