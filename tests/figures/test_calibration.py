"""The calibration figure: marks where the coverage is, and one draw to look at."""

from pathlib import Path

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer
from PIL import Image

from driftrl.figures.calibration import calibration_figure, write_calibration_figure
from driftrl.results.calibration import BOUNDS, SCHEMES, CalibrationRecords, Verdict


def records(*, with_example: bool = True) -> CalibrationRecords:
    verdicts = [
        Verdict(
            draw=draw,
            drifting=drifting,
            scheme=scheme,
            bound=bound,
            covered=draw < place,
            share=0.5,
            half_width=10.0**place,
            first_failure=None if draw < place else 1,
        )
        for draw in range(5)
        for drifting in (True, False)
        for scheme in SCHEMES
        for place, bound in enumerate(BOUNDS)
    ]
    z = np.linspace(-1, 1, 11)
    band = {
        "first": 1,
        "bound": "x",
        "mean": z.tolist(),
        "half_width": (0.1 + z**2).tolist(),
    }
    example = {
        "episode": 4,
        "points": z.tolist(),
        "truth": (2 * z).tolist(),
        "first_truth": (-z).tolist(),
        "inputs": [[0.0, 0.5]] * 3,
        "targets": [[0.1, 0.4]] * 3,
        "keep_all": band,
        "window": band,
    }
    settings = {"failure_probability": 0.1}
    return CalibrationRecords(
        settings, tuple(verdicts), example if with_example else None
    )


def test_marks_are_the_coverage() -> None:
    figure = calibration_figure(records())
    drifting, still, example = figure.axes
    bars = [one for one in drifting.containers if isinstance(one, ErrorbarContainer)]
    assert [bar.get_label() for bar in bars] == ["keep all", "reset", "window"]
    for bar in bars:
        drawn = np.asarray(bar.lines[0].get_ydata(), dtype=float)
        np.testing.assert_allclose(drawn, np.arange(6) / 5)
    assert len(still.get_xticks()) == 3
    assert drifting.get_title(loc="right") == "5 draws, Wilson 95 %"
    words = {text.get_text() for text in drifting.texts}
    assert {"±1", "±10", r"±1·$10^5$"} <= words
    labels = {line.get_label() for line in example.lines}
    assert {"keep all, stationary bound", "$f_n$, the function now"} <= labels
    for axes in (drifting, still):
        assert [0.9, 0.9] in [list(line.get_ydata()) for line in axes.lines]  # type: ignore[arg-type]


def test_it_fits_the_page_and_can_be_drawn_without_an_example(tmp_path: Path) -> None:
    assert len(calibration_figure(records(with_example=False)).axes) == 2
    paths = write_calibration_figure(records(), tmp_path / "report")
    assert [path.name for path in paths] == ["calibration.png", "calibration.pdf"]
    assert paths[1].read_bytes().startswith(b"%PDF")
    image = Image.open(paths[0])
    assert image.width == pytest.approx(2148, abs=1)
    pixels = np.asarray(image.convert("L"))
    edges = [pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]]
    assert all((edge == 255).all() for edge in edges)
