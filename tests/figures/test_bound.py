"""The bound beside the regret: what each row of the figure draws."""

from dataclasses import replace

import numpy as np
import pytest

from driftrl.analysis.style import render
from driftrl.figures.bound import BoundColumn, bound_figure
from driftrl.figures.growth import growth_figure
from driftrl.results.regret import StudyRegret


def column(method: str, scale: float) -> BoundColumn:
    shape = np.outer([1.0, 3.0], np.arange(1.0, 31.0))
    return BoundColumn(
        method=method,
        regret=scale * shape,
        uncertainty=10 * shape,
        drift=shape - shape[:, :1],
        learning_term=1e6 * shape,
        drift_term=1e8 * (shape - shape[:, :1]),
        most=np.array([50.0, 70.0]),
    )


def test_rows_hold_regret_parts_and_terms(study: StudyRegret) -> None:
    figure = bound_figure(study, [column("sombrl", 1.0), column("sw-ombrl", 2.0)])
    axes = np.array(figure.axes).reshape(4, 2)
    assert [one.get_title() for one in axes[0]] == ["SOMBRL", "SW-OMBRL"]
    n = np.arange(1, 31)
    for place, scale in enumerate((1.0, 2.0)):
        line = axes[0, place].lines[0]
        assert np.asarray(line.get_ydata()) == pytest.approx(2 * scale * n)
    labels = [str(line.get_label()) for line in axes[3, 0].lines]
    lines = dict(zip(labels, axes[3, 0].lines, strict=True))
    sums = np.cumsum(2.0 * n)
    drawn = {name: np.asarray(line.get_ydata()) for name, line in lines.items()}
    assert drawn["measured regret"] == pytest.approx(sums)
    assert drawn["learning term"] == pytest.approx(1e6 * sums)
    assert drawn["largest possible"] == pytest.approx(60.0 * n)
    # There is no drift at the first episode, and a logarithm has no place for it.
    assert np.isnan(drawn["drift term"][0])
    assert drawn["drift term"][1] == pytest.approx(2e8)
    assert axes[3, 0].get_yscale() == axes[1, 0].get_yscale() == "log"
    assert render(figure, "png").startswith(b"\x89PNG")


def test_growth_says_its_exponent_and_draws_three_quarters(
    growing: StudyRegret,
) -> None:
    (axes,) = growth_figure(growing).axes
    (legend,) = axes.figure.legends
    assert [text.get_text() for text in legend.get_texts()] == [
        "SW-OMBRL: $N^{0.50}$ [0.50, 0.50], at the end $N^{0.50}$ [0.50, 0.50]"
    ]
    reference = axes.lines[-1]
    first, last = np.asarray(reference.get_xdata())
    low, high = np.asarray(reference.get_ydata())
    assert (first, last) == (7, 28)
    assert high / low == pytest.approx(4**0.75)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["7", "14", "28"]


@pytest.fixture
def growing(study: StudyRegret) -> StudyRegret:
    (window,) = [one for one in study.methods if one.method == "sw-ombrl"]
    scales = np.arange(1.0, len(window.seeds) + 1)
    methods = [
        replace(
            window,
            method=f"sw-ombrl N={length}",
            curves=np.outer(scales, np.arange(1, 31) ** 0.5),
        )
        for length in (7, 14, 28)
    ]
    return replace(study, methods=tuple(methods))
