"""The figure of several problems: a column each, one axis a row, the right numbers."""

import dataclasses

import numpy as np
import pytest
from matplotlib.collections import FillBetweenPolyCollection

from driftrl.figures.problems import problems_figure
from driftrl.results.comparison import Comparison
from driftrl.results.regret import StudyRegret

NAMES = ["SOMBRL", "R-OMBRL", "SW-OMBRL"]


def test_columns_are_problems_in_natural_order(rates: Comparison) -> None:
    axes = np.array(problems_figure(rates.studies).axes).reshape(3, 3)
    titles = [one.get_title() for one in axes[0]]
    assert titles == ["a = 0.025", "a = 0.1", "a = 1"]
    assert [one.get_ylabel() for one in axes[:, 0]] == [
        *(r"$\theta_n$", r"Return $J(\pi_n)$", r"Cumulative regret $R_n$")
    ]
    assert {one.get_xlabel() for one in axes[-1]} == {r"Episode $n$"}


def test_cells_draw_theta_the_optimum_and_regret(rates: Comparison) -> None:
    axes = np.array(problems_figure(rates.studies).axes).reshape(3, 3)
    for column, study in zip(axes.T, rates.studies, strict=True):
        thetas = [record.theta for record in study.runs[0].records]
        (theta,), (optimum,) = column[0].patches, column[1].patches
        np.testing.assert_array_equal(theta.get_data().values, thetas)
        np.testing.assert_allclose(
            optimum.get_data().values, [-60 - 200 / theta for theta in thetas]
        )
        lines = {line.get_label(): line for line in column[2].lines}
        bands = [
            one
            for one in column[2].collections
            if isinstance(one, FillBetweenPolyCollection)
        ]
        for one, name, band in zip(study.methods, NAMES, bands, strict=True):
            np.testing.assert_array_equal(lines[name].get_ydata(), one.mean)
            heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
            assert np.isclose(heights.max(), (one.mean + one.stderr).max())
        assert [list(column[2].lines[-1].get_xdata())] == [[10.5, 10.5]]


def test_a_row_has_one_axis_that_holds_every_column(rates: Comparison) -> None:
    axes = np.array(problems_figure(rates.studies).axes).reshape(3, 3)
    for row in axes:
        assert len({one.get_ylim() for one in row}) == 1
    highest = max(one.mean.max() for study in rates.studies for one in study.methods)
    low, high = axes[2, 0].get_ylim()
    assert low == 0
    assert high > highest
    assert {one.get_xlim() for one in axes.flat} == {(0.5, 30.5)}


def test_one_legend_names_every_method_and_the_optimum(rates: Comparison) -> None:
    figure = problems_figure(rates.studies)
    (legend,) = figure.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert texts == [*NAMES, "J*(θ), optimum"]
    assert [text.get_text() for text in figure.texts] == [
        "mean ± standard error, 2 seeds"
    ]


def test_a_short_problem_cuts_no_other(rates: Comparison, single: StudyRegret) -> None:
    figure = problems_figure([rates.studies[0], single])
    assert {axes.get_xlim() for axes in figure.axes} == {(0.5, 30.5)}
    assert figure.axes[-1].get_ylim()[1] > rates.studies[0].methods[0].mean[-1]


@pytest.mark.parametrize("count", [1, 4])
def test_problems_may_be_unlike(
    rates: Comparison, unfinished: StudyRegret, count: int
) -> None:
    other = dataclasses.replace(unfinished, problem="another")
    figure = problems_figure([other, *rates.studies][:count])
    assert len(figure.axes) == 3 * count
    assert figure.axes[0].get_xlim() == (0.5, 30.5)
    figure.draw_without_rendering()
