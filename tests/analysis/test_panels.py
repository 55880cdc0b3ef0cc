"""What is drawn over episodes: the numbers of the frame, quantity by quantity."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import driftrl
from driftrl.analysis.panels import Panel, panels_of, theta_changes, theta_courses
from driftrl.errors import InputError
from factories import made_up_optimum, record, write_run

COLUMNS = {
    "returns": "return_eval",
    "regret": "cumulative_regret",
    "model_error": "model_error",
    "coverage": "coverage",
    "epistemic_std": "epistemic_std",
    "optimism": "optimism",
    "temperature": "temperature",
}


@pytest.mark.parametrize("key", COLUMNS)
def test_curves_are_columns_of_the_frame(frame: pl.DataFrame, key: str) -> None:
    curves = panels_of(frame)[key].curves
    assert list(curves) == ["sombrl", "r-ombrl", "sw-ombrl"]
    for method, rows in curves.items():
        for seed, row in enumerate(rows):
            run = frame.filter(method=method, seed=seed).sort("episode")
            np.testing.assert_array_equal(row, run[COLUMNS[key]].to_numpy())


def test_the_span_is_what_the_rule_retains(frame: pl.DataFrame) -> None:
    curves = panels_of(frame)["span"].curves
    np.testing.assert_array_equal(curves["sombrl"][0], np.arange(30))
    np.testing.assert_array_equal(curves["sw-ombrl"][0], np.minimum(np.arange(30), 6))


def test_theta_and_its_optimum_are_references(frame: pl.DataFrame) -> None:
    panels: Any = panels_of(frame)
    run = frame.filter(method="sombrl", seed=0)
    assert panels["theta"].curves == {}
    np.testing.assert_array_equal(panels["theta"].reference.values, run["theta"])
    optimum = [made_up_optimum(theta) for theta in run["theta"]]
    np.testing.assert_array_equal(panels["returns"].reference.values, optimum)
    assert theta_changes(frame) == [11]


def test_curves_end_where_the_shortest_run_of_the_method_ends(
    frame: pl.DataFrame,
) -> None:
    short = (pl.col("method") == "sw-ombrl") & (pl.col("seed") == 2)
    cut = frame.filter(~(short & (pl.col("episode") > 17)))
    curves = panels_of(cut)["returns"].curves
    assert {name: rows.shape for name, rows in curves.items()} == {
        "sombrl": (4, 30),
        "r-ombrl": (4, 30),
        "sw-ombrl": (4, 17),
    }
    assert len(theta_courses(cut)) == 1  # the beginning of another's course


def test_where_runs_met_different_thetas_they_are_curves(tmp_path: Path) -> None:
    courses = {0: [2.0, 2.0, 1.0, 0.5], 1: [2.0, 2.0, 2.0, 1.0]}
    for seed, course in courses.items():
        rows = [record(n, theta=theta) for n, theta in enumerate(course, 1)]
        write_run(tmp_path / f"s{seed}", rows, seed=seed)
    frame = driftrl.load(tmp_path, oracle=lambda theta: 10 * theta)
    panels: Any = panels_of(frame)
    np.testing.assert_array_equal(panels["theta"].curves["sombrl"], [*courses.values()])
    assert panels["theta"].reference is None
    optimum = panels["returns"].reference
    np.testing.assert_array_equal(optimum.values, [20, 20, 15, 7.5])
    assert theta_changes(frame) == [3]


def test_what_is_not_known_is_left_out(frame: pl.DataFrame) -> None:
    unknown = pl.lit(None, pl.Float64)
    columns = ("theta", "optimal_return", "regret", "cumulative_regret")
    blind = frame.with_columns(unknown.alias(name) for name in columns)
    blind = blind.with_columns(
        optimism=pl.lit(1.0), temperature=unknown, model_error=unknown
    )
    panels = panels_of(blind)
    assert list(panels) == ["returns", "span", "coverage", "epistemic_std"]
    assert panels["returns"].reference is None and theta_changes(blind) == []


def test_a_figure_of_one_problem_refuses_two(rates_frame: pl.DataFrame) -> None:
    with pytest.raises(InputError, match="driftrl.plot.problems"):
        panels_of(rates_frame)


def test_a_log_axis_is_for_positive_values_far_apart() -> None:
    def is_log(*values: float) -> bool:
        rows = {"m": np.array([values])}
        return Panel("k", "t", "a", "", rows, may_be_log=True).is_log

    assert is_log(0.1, np.nan, 4.0)
    assert not (is_log(0.1, 2.0) or is_log(0.0, 4.0) or is_log(-1.0, 4.0))
