"""The span from the bound: closed form against search, and the order's shape."""

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.errors import InputError
from driftrl.theory.regret_bound import regret_orders
from driftrl.theory.window_selection import Problem, choose, choose_window


def test_pendulum_by_hand() -> None:
    """γ^{1/4}·√(N/3P) = 265^{1/4}·√(30/63) = 4.0347·0.6901 = 2.784."""
    found = choose(30, 40, 21.0, 265.0)
    assert found.informed == pytest.approx(2.7842, abs=1e-3)
    assert found.tuned == pytest.approx(22.099, abs=1e-2)
    assert found.span == 3 and found.terms is not None
    # N·√(γ³/p) and γ·p^{3/2}·P at p = 4.
    assert found.terms.learning[3] == pytest.approx(30 * math.sqrt(265**3 / 4))
    assert found.terms.drift[3] == pytest.approx(265 * 8 * 21)


def test_unknown_variation_leaves_the_papers_choice() -> None:
    found = choose(100, 10, None, 16.0)
    assert (found.span, found.tuned, found.terms) == (20, pytest.approx(20.0), None)
    assert choose(4, 10, None, 1e6).span == 4


@settings(max_examples=15)
@given(
    episodes=st.integers(2, 20),
    variation=st.floats(0.01, 100.0),
    gain=st.floats(1.0, 1000.0),
)
def test_search_finds_the_closed_form(
    episodes: int, variation: float, gain: float
) -> None:
    found = choose(episodes, 10, variation, gain)
    assert found.informed is not None and found.terms is not None
    clipped = min(max(found.informed, 1.0), float(episodes))
    assert abs(found.span - clipped) < 1.0
    assert found.terms.total[found.span - 1] == np.min(found.terms.total)


def test_half_the_best_span_costs_less_than_twice() -> None:
    """As ``driftrl.theory.backtest`` says: 15 % and 24 %."""
    best, half, twice = regret_orders(400, [20, 10, 40], 1 / 3, 1.0).total
    assert choose(400, 10, 1 / 3, 1.0).informed == pytest.approx(20)
    assert (half / best, twice / best) == pytest.approx((1.149, 1.237), abs=1e-3)


def test_a_given_gain_is_taken() -> None:
    problem = Problem(episodes=30, variation=21.0, steps=40, gain=265.0)
    found = choose_window(problem)
    assert (found.span, found.gain) == (3, pytest.approx(265.0))
    assert found.informed == pytest.approx(2.784, abs=1e-3)


@pytest.mark.parametrize(
    "changes", [{"episodes": None}, {"steps": 0}, {"gain": None}, {"gain": -1}]
)
def test_bad_problem_is_refused(changes: dict[str, Any]) -> None:
    values = {"episodes": 30, "steps": 40, "gain": 265.0, **changes}
    with pytest.raises(InputError):
        choose_window(Problem(**values))
