"""Interactive figures carry the same numbers as the printed ones."""

from typing import Any

import numpy as np

from driftrl.figures.interactive import interactive_figures
from driftrl.regret import StudyRegret


def plain(study: StudyRegret, key: str) -> dict[str, Any]:
    return interactive_figures(study)[key].to_plotly_json()


def test_lines_are_means_and_bands_are_standard_errors(study: StudyRegret) -> None:
    traces = plain(study, "regret")["data"]
    for index, one in enumerate(study.methods):
        band, line = traces[2 * index], traces[2 * index + 1]
        np.testing.assert_array_equal(line["y"], one.mean)
        np.testing.assert_array_equal(line["customdata"], one.stderr)
        np.testing.assert_array_equal(band["y"][:30], one.mean + one.stderr)
        np.testing.assert_array_equal(band["y"][30:], (one.mean - one.stderr)[::-1])
        assert line["legendgroup"] == band["legendgroup"] == line["name"]


def test_episodes_without_a_model_are_gaps(study: StudyRegret) -> None:
    line = plain(study, "model_error")["data"][1]
    assert line["x"][:2] == [1, 2]
    assert line["y"][0] is None
    assert None not in line["y"][1:]


def test_differences_show_each_seed_and_the_t_interval(study: StudyRegret) -> None:
    dots, mark, *_ = plain(study, "differences")["data"]
    estimate = study.differences[0].estimate
    np.testing.assert_array_equal(dots["x"], estimate.values)
    assert list(dots["text"]) == [f"seed {seed}" for seed in range(5)]
    (mean,), reach = mark["x"], mark["error_x"]
    assert mean == estimate.mean
    np.testing.assert_allclose(mean + reach["array"][0], estimate.student.high)
    np.testing.assert_allclose(mean - reach["arrayminus"][0], estimate.student.low)


def test_what_was_not_recorded_is_not_drawn(single: StudyRegret) -> None:
    assert set(interactive_figures(single)) == {"theta", "returns", "regret", "span"}


def test_the_change_is_marked_in_every_curve(study: StudyRegret) -> None:
    for key in ("theta", "returns", "regret", "span", "model_error", "coverage"):
        layout = plain(study, key)["layout"]
        assert [shape["x0"] for shape in layout["shapes"]] == [10.5]
        assert layout["xaxis"]["range"] == [0.5, 30.5]


def test_soft_resets_are_ticks_along_the_lower_edge(ablation: StudyRegret) -> None:
    shapes = plain(ablation, "temperature")["layout"]["shapes"]
    ticks = [shape for shape in shapes if shape["y1"] < 1]
    assert [tick["x0"] for tick in ticks] == [7.5, 14.5, 21.5, 28.5]
    assert {(tick["yref"], tick["y0"]) for tick in ticks} == {("paper", 0.0)}
    assert len(plain(ablation, "theta")["layout"]["shapes"]) == 1
    title = plain(ablation, "differences")["layout"]["xaxis"]["title"]["text"]
    assert title.endswith("to R-OMBRL (α = 0)")
