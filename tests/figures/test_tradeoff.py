"""The drawn trade-off: its three curves, in units of the minimum."""

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer

from driftrl.analysis.style import render
from driftrl.figures.tradeoff import MeasuredSweep, tradeoff_figure


def test_curves_are_in_units_of_the_minimum() -> None:
    spans = np.arange(1, 31)
    learning, drift = 60.0 / np.sqrt(spans), 0.5 * spans**1.5
    figure = tradeoff_figure(spans, learning, drift, 6)
    (axes,) = figure.axes
    total, first, second, mark = axes.lines
    least = float((learning + drift).min())
    assert np.asarray(total.get_ydata()).min() == pytest.approx(1.0)
    assert np.asarray(first.get_ydata()) == pytest.approx(learning / least)
    assert np.asarray(second.get_ydata()) == pytest.approx(drift / least)
    assert set(np.asarray(mark.get_xdata())) == {6}
    assert [text.get_text() for text in axes.texts] == ["$p = 6$"]
    assert render(figure, "png").startswith(b"\x89PNG")


def test_measured_regret_is_in_units_of_its_own_minimum() -> None:
    spans = np.arange(1, 31)
    sweep = MeasuredSweep(
        "sw-ombrl",
        np.array([1.0, 3.0, 9.0]),
        np.array([300.0, 200.0, 500.0]),
        np.array([10.0, 20.0, 30.0]),
    )
    figure = tradeoff_figure(spans, 60 / np.sqrt(spans), 0.5 * spans**1.5, 6, [sweep])
    (axes,) = figure.axes
    (bars,) = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
    assert np.asarray(bars.lines[0].get_xdata()) == pytest.approx([1, 3, 9])
    assert np.asarray(bars.lines[0].get_ydata()) == pytest.approx([1.5, 1.0, 2.5])
    ends = np.array(bars.lines[2][0].get_segments())[:, :, 1]
    assert ends[:, 1] - ends[:, 0] == pytest.approx([0.1, 0.2, 0.3])
    assert bars.get_label() == "SW-OMBRL, measured"
    assert axes.get_ylabel() == "bound and regret, each over its minimum"
