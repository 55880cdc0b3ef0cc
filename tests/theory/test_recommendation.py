"""A window from tables of errors: by hand, and as a property."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.errors import InputError
from driftrl.theory.recommendation import (
    candidate_spans,
    drift_of,
    explain,
    recommend,
    spread_episodes,
)

SPANS = (1, 2, 4)


def table(*rows: tuple[float, ...]) -> np.ndarray:
    return np.array(rows)


def test_candidates_end_with_everything() -> None:
    assert candidate_spans(4) == (1, 2, 3)
    assert candidate_spans(5) == (1, 2, 3, 4)
    assert candidate_spans(30) == (1, 2, 3, 4, 5, 7, 10, 14, 20, 28, 29)
    with pytest.raises(InputError, match="from at least 4 episodes, found 3"):
        candidate_spans(3)


def test_episodes_are_spread_evenly() -> None:
    assert spread_episodes(2, 6, 30) == (2, 3, 4, 5, 6)
    assert spread_episodes(2, 30, 3) == (2, 16, 30)


def test_drift_is_recommended_against_by_hand() -> None:
    errors = table((0.3, 0.2, 0.5), (0.3, 0.1, 0.5), (0.3, 0.2, 0.4), (0.3, 0.1, 0.4))
    found = recommend(SPANS, errors, np.full((4, 3), 0.9))
    assert (found.span, found.best, found.keep_all, found.tested) == (2, 2, False, 4)
    assert found.as_good == (2,)
    last = found.scores[-1]
    assert (last.error, last.worse) == pytest.approx((0.45, 0.3))
    # Differences 0.3, 0.4, 0.2, 0.3 of mean 0.3: variance 0.02/3, over four.
    assert last.standard_error == pytest.approx((0.02 / 3 / 4) ** 0.5)
    drift = drift_of(2, table((0.3, 0.5), (0.3, 0.5)))
    assert drift.per_episode == pytest.approx(0.4 / 2) and drift.is_evident
    assert explain(found, drift) == [
        "Recommended: a window of w = 2 episodes. From all data the error was 200 % "
        "larger than the smallest (0.3 ± 0.04).",
        "Data 2 episodes older foretold with an error of 0.500 instead of 0.300: a "
        "drift of about 20.0 % of the changes' spread an episode.",
    ]


def test_shortest_of_those_that_cannot_be_told_apart() -> None:
    errors = table((0.3, 0.1, 0.5), (0.0, 0.2, 0.4), (0.3, 0.1, 0.5), (0.0, 0.1, 0.6))
    found = recommend(SPANS, errors, np.full((4, 3), 0.9))
    assert (found.span, found.best, found.as_good) == (1, 2, (1, 2))
    said = explain(found, drift_of(1, table((0.3, 0.3), (0.3, 0.2))))
    assert (
        "w = 1 episodes, the shortest that can't be told from the best (2 " in said[0]
    )
    assert "Data one episode older" in said[1] and "which may be chance" in said[1]


def test_all_data_are_kept_without_evidence() -> None:
    errors = table((0.3, 0.2, 0.1), (0.3, 0.1, 0.3), (0.3, 0.2, 0.2), (0.3, 0.1, 0.1))
    found = recommend(SPANS, errors, np.full((4, 3), 0.9))
    assert found.keep_all and found.span == 4
    assert explain(found, drift_of(1, errors[:, :2]))[0].startswith(
        "Recommended: keep all data."
    )
    ties = recommend(SPANS, np.ones((4, 3)), np.ones((4, 3)))
    assert (ties.span, ties.best, ties.as_good) == (4, 4, SPANS)


@given(
    st.lists(st.tuples(*[st.floats(0.0, 10.0)] * 3), min_size=1, max_size=12).map(
        np.array
    )
)
def test_the_best_is_as_good_as_itself(errors: np.ndarray) -> None:
    found = recommend(SPANS, errors, np.ones_like(errors))
    assert found.best in found.as_good and found.span in SPANS
    assert found.keep_all == (found.span == 4) or found.span <= found.best
    assert all(one.worse >= -1e-9 for one in found.scores)
