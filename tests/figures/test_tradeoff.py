"""The drawn trade-off: its three curves, in units of the minimum."""

import numpy as np
import pytest

from driftrl.figures.style import render
from driftrl.figures.tradeoff import tradeoff_figure


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
