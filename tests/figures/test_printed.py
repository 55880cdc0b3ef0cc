"""Printed figures: what is drawn where, and that odd studies can be drawn at all."""

import io
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.collections import FillBetweenPolyCollection, LineCollection
from matplotlib.figure import Figure
from matplotlib.text import Annotation
from PIL import Image

from driftrl.figures.printed import (
    final_regret_figure,
    overview_figure,
    regret_figure,
    spread_apart,
)
from driftrl.figures.style import render
from driftrl.results.comparison import Comparison
from driftrl.results.regret import StudyRegret

DRAWINGS = [regret_figure, overview_figure, final_regret_figure]


def texts(figure: Figure) -> set[str]:
    return {text.get_text() for axes in figure.axes for text in axes.texts}


def test_the_regret_figure_draws_means_and_standard_errors(study: StudyRegret) -> None:
    figure = regret_figure(study)
    top, bottom = figure.axes
    lines = {line.get_label(): line for line in bottom.lines}
    bands = [
        one for one in bottom.collections if isinstance(one, FillBetweenPolyCollection)
    ]
    names = ["SOMBRL", "R-OMBRL", "SW-OMBRL"]
    for one, name, band in zip(study.methods, names, bands, strict=True):
        np.testing.assert_array_equal(lines[name].get_ydata(), one.mean)
        np.testing.assert_array_equal(lines[name].get_xdata(), np.arange(1, 31))
        heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
        assert np.isclose(heights.max(), (one.mean + one.stderr).max())
        assert np.isclose(heights.min(), (one.mean - one.stderr).min())
    assert {*names, "mean ± standard error, 5 seeds", "change"} <= texts(figure)
    (theta,) = top.patches
    np.testing.assert_array_equal(
        theta.get_data().values,  # type: ignore[attr-defined]
        [record.theta for record in study.runs[0].records],
    )
    marks = [axes.lines[-1].get_xdata() for axes in (top, bottom)]
    assert [list(mark) for mark in marks] == [[10.5, 10.5]] * 2  # type: ignore[call-overload]


def test_the_regret_figure_fits_one_column_at_print_resolution(
    study: StudyRegret,
) -> None:
    image = Image.open(io.BytesIO(render(regret_figure(study), "png")))
    assert image.width == 1050
    assert image.info["dpi"] == pytest.approx((300, 300), abs=0.1)
    # Nothing is cut off: the outermost pixels are paper.
    pixels = np.asarray(image.convert("L"))
    edges = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
    assert all((edge == 255).all() for edge in edges)


def test_the_overview_has_seven_panels_with_their_names(study: StudyRegret) -> None:
    figure = overview_figure(study)
    *drawn, left_over = figure.axes
    assert not left_over.get_visible()
    assert [axes.get_title(loc="left") for axes in drawn] == [
        "Drifting parameter θ",
        "Return of an episode",
        "Cumulative dynamic regret",
        "Buffer span",
        "Model error",
        "Coverage of μ ± 2σ",
        "Epistemic uncertainty",
    ]
    labelled = [bool(axes.get_xlabel()) for axes in drawn]
    assert labelled == [False] * 5 + [True] * 2
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["SOMBRL", "R-OMBRL", "SW-OMBRL"]
    returns = np.asarray(figure.axes[1].lines[2].get_ydata(), dtype=float)
    expected = np.mean(
        [
            [record.return_executed for record in run.records]
            for run in study.runs_of("sw-ombrl")
        ],
        axis=0,
    )
    np.testing.assert_allclose(returns, expected)
    assert figure.axes[4].get_yscale() == "log"


def test_the_overview_of_a_deep_agent_marks_soft_resets(
    ablation: StudyRegret,
) -> None:
    figure = overview_figure(ablation)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert titles[-2:] == ["Optimism λ", "Temperature α"]
    (note,) = [text.get_text() for text in figure.texts]
    assert note == "mean ± standard error, 3 seeds; ticks: soft resets"
    for axes in figure.axes[1:]:
        (ticks,) = [one for one in axes.collections if isinstance(one, LineCollection)]
        assert [path[0, 0] for path in ticks.get_segments()] == [7.5, 14.5, 21.5, 28.5]
    # The ticks are heights of the panel, not values: they stretch no axis.
    low, high = figure.axes[-1].get_ylim()
    assert low > 0.4
    assert high < 1.1
    assert not [
        one for one in figure.axes[0].collections if isinstance(one, LineCollection)
    ]


def test_the_note_of_the_change_stays_off_the_curve(
    study: StudyRegret, rates: Comparison
) -> None:
    def height(one: StudyRegret) -> float:
        (mark,) = [
            t for t in regret_figure(one).axes[0].texts if t.get_text() == "change"
        ]
        assert isinstance(mark, Annotation)
        return mark.xy[1]

    # θ falls at once, so that it is low beside the note; or slowly, and it is high.
    assert height(study) == 0.9
    assert height(rates.studies[0]) == 0.34


def test_many_methods_are_named_upwards(ablation: StudyRegret) -> None:
    left, right = final_regret_figure(ablation).axes
    assert [text.get_text() for text in left.get_xticklabels()] == [
        *("α = 0", "α = 0.2", "α = 1"),
        *("model α = 0.2", "model α = 1", "policy α = 0.2", "policy α = 1"),
    ]
    assert {text.get_rotation() for text in left.get_xticklabels()} == {90}
    assert right.get_ylabel() == "Difference to R-OMBRL (α = 0)"


def test_final_regret_shows_every_seed_and_every_difference(study: StudyRegret) -> None:
    left, right = final_regret_figure(study).axes
    dots = [np.asarray(one.get_offsets())[:, 1] for one in left.collections[::2]]
    for one, values in zip(study.methods, dots, strict=True):
        np.testing.assert_array_equal(values, one.final.values)
    means = [np.ravel(bars.lines[0].get_ydata())[0] for bars in right.containers]  # type: ignore[attr-defined]
    assert means == [one.estimate.mean for one in study.differences]
    ends = [bars.lines[1][0].get_ydata()[0] for bars in right.containers]  # type: ignore[attr-defined]
    np.testing.assert_allclose(
        ends, [float(one.estimate.student.low) for one in study.differences]
    )


@pytest.mark.parametrize("draw", DRAWINGS)
@pytest.mark.parametrize("which", ["unfinished", "single", "ablation"])
def test_unfinished_single_and_many_methods_can_be_drawn(
    draw: Callable[[StudyRegret], Figure], which: str, request: pytest.FixtureRequest
) -> None:
    study: StudyRegret = request.getfixturevalue(which)
    draw(study).draw_without_rendering()


@pytest.mark.parametrize("kind", ["png", "pdf"])
def test_the_same_study_gives_the_same_bytes(study: StudyRegret, kind: str) -> None:
    first, again = (render(regret_figure(study), kind) for _ in range(2))
    assert first == again


def test_unfinished_curves_end_where_their_seeds_do(unfinished: StudyRegret) -> None:
    figure = regret_figure(unfinished)
    bottom = figure.axes[1]
    lengths = {
        line.get_label(): len(np.ravel(line.get_xdata())) for line in bottom.lines
    }
    assert (lengths["SOMBRL"], lengths["SW-OMBRL"]) == (22, 17)
    assert bottom.get_xlim() == (0.5, 30.5)
    assert "mean ± standard error, 1 to 2 seeds" in texts(figure)


def test_a_method_alone_has_no_differences(single: StudyRegret) -> None:
    assert len(final_regret_figure(single).axes) == 1
    assert "no model was learned" in texts(overview_figure(single))


def test_labels_move_only_when_they_must() -> None:
    apart = np.array([30.0, 10.0, 20.0])
    np.testing.assert_allclose(spread_apart(apart, 5.0), apart)
    # Two at 10 part evenly; the third is pushed by what is left.
    np.testing.assert_allclose(spread_apart(np.array([10.0, 10.0]), 4.0), [8.0, 12.0])


@given(st.lists(st.floats(-100, 100), min_size=1, max_size=8), st.floats(0, 30))
def test_labels_keep_their_distance_and_their_centre(
    positions: list[float], separation: float
) -> None:
    moved = spread_apart(np.array(positions), separation)
    gaps = np.diff(np.sort(moved))
    assert (gaps >= separation - 1e-9).all()
    np.testing.assert_allclose(moved.mean(), np.mean(positions), atol=1e-9)
    order = np.argsort(positions, kind="stable")
    assert (np.diff(moved[order]) >= -1e-9).all()
