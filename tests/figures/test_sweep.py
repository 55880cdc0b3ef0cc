"""The sweep figure: what counts as a sweep, and that it draws the study's numbers."""

import dataclasses

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from driftrl.figures.sweep import sweep_figure, sweep_returns_figure, sweeps_of
from driftrl.results.regret import StudyRegret


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
    assert axes.get_xlabel() == "$w$, episodes"


def test_nothing_is_reset_at_rate_zero_whatever_it_is_of(ablation: StudyRegret) -> None:
    found = sweeps_of(ablation)
    assert list(found) == [
        ("r-ombrl", setting) for setting in ("alpha", "model", "policy")
    ]
    for points in found.values():
        assert [value for value, _ in points] == [0.0, 0.2, 1.0]
        assert points[0][1].method == "r-ombrl alpha=0"


def test_soft_reset_rates_share_a_panel_with_their_own_axis(
    ablation: StudyRegret,
) -> None:
    (axes,) = sweep_figure(ablation).axes
    assert axes.get_xlabel() == "soft reset rate α"
    assert axes.get_title(loc="left") == "R-OMBRL"
    legend = axes.get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["both", "model only", "policy only"]
    lines = [bars.lines[0] for bars in axes.containers]  # type: ignore[attr-defined]
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 3
    finals = {one.method: one.final.mean for one in ablation.methods}
    expected = [
        finals[f"r-ombrl {name}"] for name in ("alpha=0", "model=0.2", "model=1")
    ]
    np.testing.assert_array_equal(lines[1].get_ydata(), expected)


def test_different_quantities_have_a_panel_each(swept: StudyRegret) -> None:
    window = swept.methods[1]
    more = [
        dataclasses.replace(window, method=f"r-ombrl {name}")
        for name in ("alpha=0", "alpha=1", "rate=3", "rate=4")
    ]
    study = dataclasses.replace(swept, methods=(*swept.methods, *more))
    labels = [axes.get_xlabel() for axes in sweep_figure(study).axes]
    assert labels == ["$w$, episodes", "soft reset rate α", "rate"]


def test_returns_are_drawn_for_each_value_beside_the_optimum(
    ablation: StudyRegret,
) -> None:
    figure = sweep_returns_figure(ablation)
    assert len(figure.axes) == 3
    (optimum,) = figure.axes[0].patches
    thetas = [record.theta for record in ablation.runs[0].records]
    np.testing.assert_array_equal(
        optimum.get_data().values,  # type: ignore[attr-defined]
        [ablation.table.lookup(theta).value for theta in thetas],
    )
    for axes, name in zip(figure.axes, ("alpha", "model", "policy"), strict=True):
        lines = {line.get_label(): line for line in axes.lines}
        returns = [
            [record.return_eval for record in run.records]
            for run in ablation.runs_of(f"r-ombrl {name}=1")
        ]
        np.testing.assert_allclose(
            np.asarray(lines["1"].get_ydata(), dtype=float),
            np.mean(np.array(returns, dtype=float), axis=0),
        )
        assert {"0", "0.2", "1", "J*(θ)"} <= set(lines)
    figure.draw_without_rendering()
