"""A window from data: from tables of errors, and on systems whose drift is known."""

import numpy as np
import pytest

from driftrl.errors import InputError
from driftrl.theory.backtest import backtest, choose_span, recommend_window
from factories import driven

SPANS = (1, 2, 4)


def table(*rows: tuple[float, ...]) -> np.ndarray:
    return np.array(rows)


def test_drift_is_recommended_against_by_hand() -> None:
    errors = table((0.3, 0.2, 0.5), (0.3, 0.1, 0.5), (0.3, 0.2, 0.4), (0.3, 0.1, 0.4))
    found = choose_span(SPANS, errors, np.full((4, 3), 0.9))
    assert (found.span, found.best, found.keep_all, found.tested) == (2, 2, False, 4)
    assert found.as_good == (2,)
    last = found.scores[-1]
    assert (last.error, last.worse) == pytest.approx((0.45, 0.3))
    # Differences 0.3, 0.4, 0.2, 0.3 of mean 0.3: variance 0.02/3, over four.
    assert last.standard_error == pytest.approx((0.02 / 3 / 4) ** 0.5)


def test_shortest_of_those_that_cannot_be_told_apart() -> None:
    errors = table((0.3, 0.1, 0.5), (0.0, 0.2, 0.4), (0.3, 0.1, 0.5), (0.0, 0.1, 0.6))
    found = choose_span(SPANS, errors, np.full((4, 3), 0.9))
    assert (found.span, found.best, found.as_good) == (1, 2, (1, 2))


def test_all_data_are_kept_without_evidence() -> None:
    errors = table((0.3, 0.2, 0.1), (0.3, 0.1, 0.3), (0.3, 0.2, 0.2), (0.3, 0.1, 0.1))
    found = choose_span(SPANS, errors, np.full((4, 3), 0.9))
    assert found.keep_all and found.span == 4
    ties = choose_span(SPANS, np.ones((4, 3)), np.ones((4, 3)))
    assert (ties.span, ties.best, ties.as_good) == (4, 4, SPANS)


def test_still_system_keeps_all() -> None:
    found = recommend_window(driven([0.5] * 12))
    assert found.keep_all and found.span == 11 and found.tested == 11
    assert [one.span for one in found.scores] == [1, 2, 3, 4, 5, 7, 10, 11]
    assert found.scores[-1].coverage == pytest.approx(0.95, abs=0.05)


def test_fading_system_forgets() -> None:
    found = recommend_window(driven(list(np.linspace(1.0, 0.3, 16))))
    assert not found.keep_all and found.span <= 4
    assert found.scores[-1].error > 1.5 * found.scores[0].error


def test_a_change_shows_in_old_data_alone() -> None:
    errors, _ = backtest(driven([1.0] * 4 + [0.5] * 4), [8], [3, 7])
    # Episodes 5-7 are after the change; 1-4 are before it.
    assert errors[0, 0] < 0.1 < errors[0, 1]


def test_too_short_a_run_is_refused() -> None:
    with pytest.raises(InputError):
        recommend_window(driven([0.5] * 3))
