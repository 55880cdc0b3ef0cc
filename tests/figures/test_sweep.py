"""The sweep figure: what counts as a sweep, and that it draws the study's numbers."""

import dataclasses

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from driftrl.figures.sweep import sweep_figure, sweeps_of
from driftrl.regret import StudyRegret


@pytest.fixture
def swept(study: StudyRegret) -> StudyRegret:
    by_name = {one.method: one for one in study.methods}
    window, reset = by_name["sw-ombrl"], by_name["r-ombrl"]
    methods = (
        by_name["sombrl"],
        dataclasses.replace(window, method="sw-ombrl w=10"),
        dataclasses.replace(reset, method="sw-ombrl w=2"),
        dataclasses.replace(window, method="r-ombrl H=5"),  # alone: no sweep
        dataclasses.replace(window, method="r-ombrl plain"),
    )
    return dataclasses.replace(study, methods=methods)


def test_sweeps_are_sorted_by_value_and_need_two(swept: StudyRegret) -> None:
    found = sweeps_of(swept)
    assert list(found) == [("sw-ombrl", "w")]
    assert [value for value, _ in found["sw-ombrl", "w"]] == [2.0, 10.0]


def test_a_study_without_variants_has_no_sweep(study: StudyRegret) -> None:
    assert sweeps_of(study) == {}


def test_the_figure_draws_the_final_regrets(swept: StudyRegret) -> None:
    (axes,) = sweep_figure(swept).axes
    (bars,) = [c for c in axes.containers if isinstance(c, ErrorbarContainer)]
    points = sweeps_of(swept)["sw-ombrl", "w"]
    line = bars.lines[0]
    np.testing.assert_array_equal(line.get_xdata(), [2.0, 10.0])
    np.testing.assert_array_equal(
        line.get_ydata(), [one.final.mean for _, one in points]
    )
    level = next(l for l in axes.lines if "all data" in str(l.get_label()))
    assert np.unique(level.get_ydata()) == swept.methods[0].final.mean
