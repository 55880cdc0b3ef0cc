"""Curves, changes of θ and resets, read off records."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.records import Run
from driftrl.results.curves import (
    buffer_span,
    change_starts,
    first_changes,
    minutes_a_run,
    reset_episodes,
    running,
    soon_after_reset,
    stack_curves,
    theta_is_known,
    theta_sequences,
)
from driftrl.types import EpisodeRecord


def rows(thetas: list[float], retained: list[int] | None = None) -> list[EpisodeRecord]:
    retained = retained or [1] * len(thetas)
    return [
        EpisodeRecord(
            episode=n,
            theta=theta,
            steps=40,
            return_executed=-float(n),
            return_eval=None,
            terminated=False,
            first_retained=first,
            transitions=0,
            optimism=1.0,
            model_error=None if n == 1 else 0.1 * n,
            coverage=None,
            epistemic_std=None,
            wall_s=0.5,
        )
        for n, (theta, first) in enumerate(zip(thetas, retained, strict=True), start=1)
    ]


def make_run(thetas: list[float]) -> Run:
    return Run(Path("run"), {}, tuple(rows(thetas)))


def test_curves_end_where_the_shortest_run_does_and_none_is_nan() -> None:
    runs = [make_run([1.0] * 3), make_run([1.0] * 2)]
    stacked = stack_curves(runs, lambda record: record.model_error)
    np.testing.assert_allclose(stacked, [[np.nan, 0.2], [np.nan, 0.2]])


def test_running_means_and_medians_by_hand() -> None:
    curves = np.array([[1.0, 2.0, 6.0, np.nan, 100.0], [np.nan] * 5])
    nothing = [np.nan] * 5
    np.testing.assert_allclose(
        running(curves, 3), [[1.5, 3.0, 4.0, 53.0, 100.0], nothing]
    )
    np.testing.assert_allclose(
        running(curves, 5, by_median=True), [[2.0, 2.0, 4.0, 6.0, 53.0], nothing]
    )
    np.testing.assert_array_equal(running(curves, 1), curves)


def test_buffer_span_is_n_minus_m() -> None:
    records = rows([1.0] * 4, [1, 1, 2, 4])
    assert [buffer_span(record) for record in records] == [0, 1, 1, 0]


def test_equal_courses_of_theta_are_given_once() -> None:
    courses = [[1.0, 2.0], [1.0, 2.0, 3.0], [1.0, 4.0], [1.0, 2.0]]
    runs = [make_run(course) for course in courses]
    assert [course.tolist() for course in theta_sequences(runs)] == [[1, 2, 3], [1, 4]]


@pytest.mark.parametrize(
    ("thetas", "starts"),
    [
        ([5, 5, 5], []),
        ([5], []),
        ([5, 5, 3, 2, 2, 2], [3]),
        ([5, 5, 3, 3, 4, 4], [3, 5]),
        ([5, 4, 3, 2], []),
        ([5, 4, 4, 4, 3], [5]),
    ],
)
def test_changes_start_at_the_first_new_value_after_a_constant_one(
    thetas: list[float], starts: list[int]
) -> None:
    assert change_starts(np.array(thetas, dtype=float)) == starts


def test_a_window_never_resets_and_algorithm_1_does() -> None:
    count = 16
    window = [max(1, n - 4) for n in range(1, count + 1)]
    assert reset_episodes(rows([1.0] * count, window)) == []
    period = [max(1, 5 * ((n - 1) // 5)) for n in range(1, count + 1)]
    assert reset_episodes(rows([1.0] * count, period)) == [6, 11, 16]


def test_the_episodes_after_a_reset_are_marked() -> None:
    records = rows([1.0] * 8, [1, 1, 1, 4, 4, 4, 4, 8])
    assert np.flatnonzero(soon_after_reset(records, 2)).tolist() == [3, 4, 7]
    assert not soon_after_reset(records, 0).any()


@given(st.integers(3, 9), st.integers(1, 40), st.integers(0, 5))
def test_marks_follow_from_the_reset_period(period: int, n: int, skip: int) -> None:
    retained = [max(1, period * ((i - 1) // period)) for i in range(1, n + 1)]
    marked = soon_after_reset(rows([1.0] * n, retained), skip)
    expected = [i > period and (i - 1) % period < skip for i in range(1, n + 1)]
    assert marked.tolist() == expected


def test_minutes_are_the_mean_over_runs() -> None:
    # Half a second an episode: 1.5 and 0.5 seconds.
    runs = [make_run([1.0] * 3), make_run([1.0])]
    assert minutes_a_run(runs) == pytest.approx(1.0 / 60)


@pytest.mark.parametrize(
    ("courses", "starts"),
    [
        ([[5, 5, 4], [5, 5, 5, 4]], [3]),
        ([[5, 5, 5, 4, 4, 4, 3], [5, 5, 4, 4, 4, 4, 4, 3]], [3, 7]),
        ([[5, 5, 5], [5, 5, 5, 5, 4]], [5]),
        ([[5, 5, 5], [1, 2, 3]], []),
        ([[]], []),
    ],
)
def test_a_change_counts_where_it_comes_first(
    courses: list[list[float]], starts: list[int]
) -> None:
    assert first_changes([make_run(course) for course in courses]) == starts


def test_theta_is_known_if_every_row_says_it() -> None:
    assert theta_is_known([make_run([1.0, 2.0]), make_run([])])
    assert not theta_is_known([make_run([1.0]), make_run([1.0, float("nan")])])
