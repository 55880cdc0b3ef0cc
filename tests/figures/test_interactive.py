"""Interactive figures carry the same numbers as the printed ones."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from driftrl.figures.interactive import interactive_figures
from driftrl.figures.part import part_of
from driftrl.oracles.values import OracleTable
from driftrl.records import Run
from driftrl.results.regret import StudyRegret, compare_methods


def plain(study: StudyRegret, key: str, every: int = 1) -> dict[str, Any]:
    return interactive_figures(part_of(study), every)[key].to_plotly_json()


def lines(figure: dict[str, Any], quantity: str) -> list[dict[str, Any]]:
    """The traces of one panel."""
    return [
        trace
        for trace in figure["data"]
        if trace.get("meta", {}).get("labels", {}).get("quantity") == quantity
    ]


def test_lines_are_means_with_standard_errors(study: StudyRegret) -> None:
    traces = lines(plain(study, "curves"), "regret")
    for line, one in zip(traces, study.methods, strict=True):
        np.testing.assert_allclose(line["y"], one.mean, rtol=1e-6)
        np.testing.assert_allclose(line["customdata"], one.stderr, rtol=1e-6)
        assert (line["x0"], line["dx"]) == (1, 1)
        assert line["legendgroup"] == line["name"]
        # What the page draws the band in, and what a table of it is called.
        assert line["meta"]["band"].startswith("rgba(")
        assert line["meta"]["labels"]["method"] == one.method


def test_theta_stands_above_regret_above_returns_over_one_axis(
    study: StudyRegret,
) -> None:
    figure = plain(study, "curves")
    layout = figure["layout"]
    tops = [layout[f"yaxis{place}"]["domain"][1] for place in ("", 2, 3)]
    assert tops[0] == 1.0 and tops == sorted(tops, reverse=True)
    lows = [layout[f"yaxis{place}"]["domain"][0] for place in ("", 2, 3)]
    assert lows[2] == 0.0
    assert all(low > top for low, top in zip(lows, tops[1:], strict=False))
    assert {trace.get("xaxis") for trace in figure["data"]} == {None}
    assert layout["xaxis"]["anchor"] == "y3"
    axes = {
        key: {trace["yaxis"] for trace in lines(figure, key)}
        for key in ("theta", "regret", "returns")
    }
    assert axes == {"theta": {"y"}, "regret": {"y2"}, "returns": {"y3"}}
    # Each method is named once.
    shown = [trace["name"] for trace in figure["data"] if trace["showlegend"]]
    assert shown == ["J*(θ), optimum", "SOMBRL", "R-OMBRL", "SW-OMBRL"]


@pytest.mark.parametrize("every", [7, 30, 100])
def test_thinned_curves_keep_their_last_episode(study: StudyRegret, every: int) -> None:
    whole = lines(plain(study, "curves"), "regret")[1]
    thinned = lines(plain(study, "curves", every), "regret")[1]
    episodes = [thinned["x0"] + place * every for place in range(len(thinned["y"]))]
    assert episodes[-1] == 30 and episodes[0] >= 1
    for column in ("y", "customdata"):
        assert thinned[column] == [whole[column][n - 1] for n in episodes]


def test_episodes_without_a_model_are_gaps(study: StudyRegret) -> None:
    line = plain(study, "model_error")["data"][0]
    assert line["x0"] == 1
    assert line["y"][0] is None
    assert None not in line["y"][1:]


def test_differences_show_each_seed_and_the_t_interval(study: StudyRegret) -> None:
    dots, mark, *_ = plain(study, "differences")["data"]
    estimate = study.differences[0].estimate
    np.testing.assert_allclose(dots["x"], estimate.values, rtol=1e-6)
    assert list(dots["customdata"]) == [0, 1, 2, 3, 4]
    (mean,), reach = mark["x"], mark["error_x"]
    assert mean == estimate.mean
    np.testing.assert_allclose(mean + reach["array"][0], estimate.student.high)
    np.testing.assert_allclose(mean - reach["arrayminus"][0], estimate.student.low)
    interval = [estimate.student.low, estimate.student.high]
    np.testing.assert_allclose(mark["customdata"], [interval], rtol=1e-6)
    labels = {"method": "r-ombrl", "baseline": "sombrl", "of": "mean"}
    assert mark["meta"]["labels"] == labels
    assert list(mark["meta"]["columns"]) == ["lower", "upper", "regret_difference"]


def test_no_difference_at_all_is_drawn_in_the_middle(
    runs: list[Run], table: OracleTable
) -> None:
    kept = [run for run in runs if run.method == "sombrl"]
    twins = [
        dataclasses.replace(run, config={**run.config, "method": "sw-ombrl"})
        for run in kept
    ]
    equal = compare_methods([*kept, *twins], table)
    figure = plain(equal, "differences")
    assert figure["layout"]["xaxis"]["range"] == [-1, 1]
    assert figure["data"][0]["x"] == [0.0] * 5


def test_what_was_not_recorded_is_not_drawn(single: StudyRegret) -> None:
    assert set(interactive_figures(part_of(single))) == {"curves", "span"}


def test_final_scores_show_every_method(study: StudyRegret) -> None:
    figure = plain(study, "finals")
    dots = figure["data"][::2]
    for trace, one in zip(dots, study.methods, strict=True):
        np.testing.assert_allclose(trace["x"], one.final.values, rtol=1e-6)
        assert trace["meta"]["labels"] == {"method": one.method, "of": "one seed"}
    assert figure["layout"]["xaxis"]["title"]["text"] == "R<sub>30</sub>"


def test_the_change_is_marked_in_every_curve(study: StudyRegret) -> None:
    for key in ("curves", "span", "model_error", "coverage"):
        layout = plain(study, key)["layout"]
        assert [shape["x0"] for shape in layout["shapes"]] == [10.5]
        assert layout["xaxis"]["range"] == [0.5, 30.5]


def test_soft_resets_are_ticks_along_the_lower_edge(ablation: StudyRegret) -> None:
    ticks, change = plain(ablation, "temperature")["layout"]["shapes"]
    assert ticks["path"] == "M7.5,0V0.0425M14.5,0V0.0425M21.5,0V0.0425M28.5,0V0.0425"
    assert (ticks["xref"], ticks["yref"]) == ("x", "y domain")
    assert change["x0"] == 10.5
    # In regret and returns, but not in the strip of θ.
    shapes = plain(ablation, "curves")["layout"]["shapes"]
    assert [shape["yref"] for shape in shapes] == ["y2 domain", "y3 domain", "paper"]
    title = plain(ablation, "differences")["layout"]["xaxis"]["title"]["text"]
    assert title.endswith("to R-OMBRL (α = 0)")
