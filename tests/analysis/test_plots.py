"""Printed figures: every line, dot and bar is a number of the frame."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb

import driftrl
from driftrl import plot
from driftrl.analysis.style import (
    method_name,
    method_styles,
    number,
    percent,
    problem_name,
    shade,
)
from driftrl.errors import InputError
from factories import script

NAMES = {"sombrl": "SOMBRL", "r-ombrl": "R-OMBRL", "sw-ombrl": "SW-OMBRL"}


def over_seeds(frame: pl.DataFrame, method: str, column: str) -> pl.DataFrame:
    """Mean and standard error of each episode, computed by polars."""
    value = pl.col(column)
    rows = frame.filter(pl.col("method") == method).group_by("episode")
    error = value.std() / value.count().sqrt()
    return rows.agg(value.mean().alias("mean"), error.alias("error")).sort("episode")


def line(axes: Axes, label: str) -> Any:
    (found,) = [one for one in axes.get_lines() if one.get_label() == label]
    return found


def check_lines(axes: Any, frame: pl.DataFrame, column: str) -> None:
    bands = {tuple(band.get_facecolor()[0][:3]): band for band in axes.collections}
    for method, name in NAMES.items():
        expected = over_seeds(frame, method, column)
        drawn = line(axes, name)
        np.testing.assert_array_equal(drawn.get_xdata(), expected["episode"])
        np.testing.assert_allclose(drawn.get_ydata(), expected["mean"], rtol=1e-12)
        band = bands[to_rgb(drawn.get_color())]
        (path,) = band.get_paths()
        edges = pl.DataFrame(path.vertices, ["x", "y"]).group_by("x")
        edges = edges.agg(low=pl.col("y").min(), high=pl.col("y").max()).sort("x")
        for side, sign in (("low", -1), ("high", 1)):
            edge = expected["mean"] + sign * expected["error"]
            np.testing.assert_allclose(edges[side], edge, rtol=1e-12)


def test_regret_is_drawn_below_theta(frame: pl.DataFrame) -> None:
    theta, regret = plot.regret(frame).axes
    check_lines(regret, frame, "cumulative_regret")
    (step,) = theta.patches
    course = frame.filter(method="sombrl", seed=0)["theta"]
    np.testing.assert_array_equal(step.get_data().values, course)
    (mark,) = [one for one in regret.get_lines() if one.get_linestyle() == "--"][-1:]
    assert mark.get_xdata()[0] == 10.5


def test_a_legend_of_four_methods_fits_a_column(frame: pl.DataFrame) -> None:
    fourth = frame.filter(pl.col("method") == "sombrl")
    run = "adaptive " + pl.col("run")
    fourth = fourth.with_columns(method=pl.lit("adaptive"), run=run, directory=run)
    figure = plot.regret(pl.concat([frame, fourth]))
    figure.draw_without_rendering()
    (legend,) = figure.legends
    assert len(legend.get_texts()) == 4
    assert legend.get_window_extent().x1 <= figure.bbox.x1


def test_without_an_optimum_returns_are_drawn(frame: pl.DataFrame) -> None:
    unknown = frame.with_columns(optimal_return=pl.lit(None, pl.Float64))
    for figure in (plot.regret(unknown), plot.returns(frame)):
        check_lines(figure.axes[-1], frame, "achieved_return")


def test_an_overview_has_every_panel(frame: pl.DataFrame) -> None:
    figure = plot.overview(frame)
    titled = {axes.get_title(loc="left"): axes for axes in figure.axes}
    assert list(titled) == [
        *("Drifting parameter θ", "Return of an episode", "Cumulative dynamic regret"),
        *("Buffer span", "Model error", "Coverage of μ ± 2σ"),
        *("Epistemic uncertainty", "Optimism λ", "Temperature α"),
    ]
    drawn = line(titled["Model error"], "SOMBRL").get_ydata()
    expected = over_seeds(frame, "sombrl", "model_error")["mean"]
    np.testing.assert_allclose(drawn, expected.to_numpy(), rtol=1e-12)
    assert titled["Model error"].get_yscale() == "log"
    legend = [text.get_text() for text in figure.legends[0].get_texts()]
    assert legend == [*NAMES.values(), "J*(θ), optimum", "calibrated (95 %)"]


def test_problems_are_columns_that_share_axes(rates_frame: pl.DataFrame) -> None:
    figure = plot.problems(rates_frame)
    grid = np.array(figure.axes).reshape(3, 2)
    titles = [axes.get_title() for axes in grid[0]]
    assert titles == ["a = 0.1", "a = 0.5"]
    for column, label in zip(grid.T, ("a=0.1", "a=0.5"), strict=True):
        rows = rates_frame.filter(problem=label)
        names = ("achieved_return", "cumulative_regret")
        for axes, name in zip(column[1:], names, strict=True):
            expected = over_seeds(rows, "sw-ombrl", name)["mean"]
            drawn = line(axes, "SW-OMBRL").get_ydata()
            np.testing.assert_allclose(drawn, expected, rtol=1e-12)
    for row in grid:
        assert row[0].get_ylim() == row[1].get_ylim()
        assert row[0].get_xlim() == row[1].get_xlim() == (0.5, 20.5)


def test_a_sweep_is_drawn_over_its_values(
    swept: pl.DataFrame, frame: pl.DataFrame
) -> None:
    sweeps = script("sweeps")
    (axes,) = sweeps.sweep(swept).axes
    table = driftrl.regret(swept)
    (bars,) = axes.containers
    values = [f"sw-ombrl w={value}" for value in (2, 5, 10)]
    rows = pl.concat([table.filter(method=name) for name in values])
    np.testing.assert_array_equal(bars.lines[0].get_xdata(), [2, 5, 10])
    drawn = np.asarray(bars.lines[0].get_ydata(), float)
    np.testing.assert_allclose(drawn, rows["regret"].to_numpy(), rtol=1e-12)
    reach = [high - low for (_, low), (_, high) in bars.lines[2][0].get_segments()]
    errors = rows["standard_error"].to_numpy()
    np.testing.assert_allclose(reach, 2 * errors, rtol=1e-9)
    baseline = line(axes, "SOMBRL, all data").get_ydata()[0]
    assert math.isclose(baseline, table.filter(method="sombrl")["regret"][0])
    unknown = swept.with_columns(optimal_return=pl.lit(None, pl.Float64))
    (bars,) = sweeps.sweep(unknown).axes[0].containers
    mean = swept.filter(method="sw-ombrl w=5")["achieved_return"].mean()
    assert np.asarray(bars.lines[0].get_ydata(), float)[1] == pytest.approx(mean)
    (axes,) = sweeps.sweep_returns(swept).axes
    expected = over_seeds(swept, "sw-ombrl w=5", "achieved_return")["mean"]
    np.testing.assert_allclose(line(axes, "5").get_ydata(), expected, rtol=1e-12)
    with pytest.raises(InputError, match="setting=value"):
        sweeps.sweep(frame)
    names = ["r-ombrl alpha=0", "r-ombrl alpha=0.5", "r-ombrl model=0.5", "r-ombrl N=9"]
    assert sweeps.sweeps_of(names) == {
        ("r-ombrl", "alpha"): {0.0: names[0], 0.5: names[1]},
        ("r-ombrl", "model"): {0.0: names[0], 0.5: names[2]},
    }


def test_a_figure_is_saved_as_png_and_pdf(tmp_path: Path, frame: pl.DataFrame) -> None:
    first = plot.save(plot.regret(frame), tmp_path / "a")
    second = plot.save(plot.regret(frame), tmp_path / "b.c")
    assert [path.name for path in (*first, *second)] == [
        *("a.png", "a.pdf", "b.c.png", "b.c.pdf")
    ]
    assert first[0].read_bytes().startswith(b"\x89PNG")
    for path, again in zip(first, second, strict=True):
        assert path.read_bytes() == again.read_bytes()


# ---- names and colours ---------------------------------------------------------------


def test_the_papers_methods_always_look_the_same() -> None:
    alone = method_styles(["sw-ombrl"])["sw-ombrl"]
    assert method_styles(["a", "sw-ombrl", "b"])["sw-ombrl"] == alone
    assert (alone.name, alone.colour) == ("SW-OMBRL", "#009E73")


def test_other_methods_differ_by_colour_or_dash() -> None:
    styles = method_styles(f"method-{index}" for index in range(16))
    assert len({(style.colour, style.dash) for style in styles.values()}) == 16


def test_a_sweep_has_a_shade_for_each_value() -> None:
    styles = method_styles(["r-ombrl alpha=0", "r-ombrl alpha=0.5", "r-ombrl alpha=1"])
    names = [style.name for style in styles.values()]
    assert names == ["α = 0", "α = 0.5", "α = 1"]  # all are of one method
    colours = [style.colour for style in styles.values()]
    assert colours == [shade("#0072B2", share) for share in (0.0, 0.5, 1.0)]


def test_numbers_are_written_with_three_digits() -> None:
    values = [9456.4, -12.34, 0.5, 0.00123, math.nan, None]
    assert [*map(number, values)] == ["9,456", "−12.3", "0.50", "0.0012", "–", "–"]
    assert [*map(percent, [0.482, -0.069, math.nan])] == [
        "48\u00a0%",
        "−6.9\u00a0%",
        "–",
    ]
    assert problem_name("alpha=0.1") == "α = 0.1"
    assert method_name("r-ombrl H=5") == "R-OMBRL (H = 5)"
    assert method_name("sombrl my-variant") == "SOMBRL (my-variant)"
    assert method_name("my_rule x") == "my_rule x"


def test_a_filtered_frame_is_summed_and_drawn_where_it_begins(
    frame: pl.DataFrame,
) -> None:
    late = frame.filter(pl.col("episode") > 12)
    total = pl.col("regret").cum_sum().over("directory")
    theta, regret = plot.regret(late).axes
    check_lines(regret, late.with_columns(cumulative_regret=total), "cumulative_regret")
    assert regret.get_xlim() == (12.5, 30.5)
    (steps,) = theta.patches
    assert steps.get_data().edges[0] == 12.5
    table = driftrl.regret(late).sort("method")
    compared = driftrl.compare(late).sort("method")
    np.testing.assert_allclose(compared["mean"], table["regret"], rtol=1e-12)
    with pytest.raises(InputError, match="skip"):
        plot.regret(frame.filter(pl.col("episode") % 2 == 0))
    with pytest.raises(InputError, match="no rows"):
        driftrl.compare(frame.clear())
