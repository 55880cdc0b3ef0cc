"""The picture of the RC car shows where it is, how it slid, and where it must park."""

import numpy as np
import pytest

from driftrl.envs.drifting import make_env
from driftrl.envs.rccar import NOMINAL
from driftrl.envs.rccar_drawing import (
    PIXELS_PER_METRE,
    VIEW,
    Frame,
    colour_of,
    draw,
    slide,
)


def parked(x: float, y: float, heading: float) -> np.ndarray:
    return np.array([[x, y, heading, 0.0, 0.0, 0.0]])


def place(x: float, y: float) -> tuple[int, int]:
    """Return the row and column of a place on the floor."""
    row, column = VIEW[1][1] - y, x - VIEW[0][0]
    return round(row * PIXELS_PER_METRE), round(column * PIXELS_PER_METRE)


def centre(changed: np.ndarray) -> tuple[float, float]:
    """Return where on the floor the changed pixels are, on average."""
    rows, columns = np.nonzero(changed)
    x, y = columns.mean() / PIXELS_PER_METRE, rows.mean() / PIXELS_PER_METRE
    return VIEW[0][0] + x, VIEW[1][1] - y


def differs(first: Frame, second: Frame) -> np.ndarray:
    return (first.astype(int) != second).any(axis=2)


AWAY = parked(-9.0, 0.0, 0.0)  # beyond the picture


@pytest.mark.parametrize(("x", "y"), [(1.0, 0.5), (-0.8, -1.5), (2.2, 1.1)])
def test_the_car_is_where_it_is(x: float, y: float) -> None:
    empty, picture = draw(AWAY, 0.0), draw(parked(x, y, 0.7), 0.0)
    middle = (NOMINAL.l_f - NOMINAL.l_r) / 2
    expected = x + middle * np.cos(0.7), y + middle * np.sin(0.7)
    assert centre(differs(empty, picture)) == pytest.approx(expected, abs=0.02)


def test_the_trail_shows_where_it_slid() -> None:
    x = np.linspace(-1.0, 2.0, 60)
    still = np.zeros(60)
    for v_y, colour in ((0.0, colour_of(0.0)), (1.0, colour_of(np.pi / 4))):
        trail = np.stack([x, still + 1.0, still, still + 1.0, still + v_y, still], 1)
        picture = draw(trail, 0.0)
        np.testing.assert_allclose(picture[place(0.5, 1.0)], colour, atol=2)


@pytest.mark.parametrize(
    ("heading", "v_x", "v_y", "yaw_rate", "degrees"),
    [
        (0.0, 1.0, 1.0, 0.0, 45.0),
        (0.0, -1.0, 0.0, 0.0, 0.0),  # reversing is not drifting
        (np.pi, -1.0, np.tan(np.pi / 6), 0.0, 30.0),
        (0.0, 1.0, 0.34, 2.0, 0.0),  # nor is a curve in which the rear axle rolls
        (0.0, 0.34, 0.0, -2.0, 45.0),
        (0.0, 0.05, 0.05, 0.0, 0.0),  # it hardly moves
    ],
)
def test_sliding_angles(
    heading: float, v_x: float, v_y: float, yaw_rate: float, degrees: float
) -> None:
    state = np.array([[5.0, 6.0, heading, v_x, v_y, yaw_rate]])
    assert np.degrees(slide(state)) == pytest.approx([degrees], abs=1e-9)


def test_drawing_changes_nothing() -> None:
    seen, unseen = make_env("rccar", render_mode="rgb_array"), make_env("rccar")
    seen.reset(seed=1)
    unseen.reset(seed=1)
    pictures = []
    for number in range(12):
        pictures.append(seen.render())
        action = np.array([0.5, 1.0]) * (-1) ** (number // 4)
        np.testing.assert_array_equal(seen.step(action)[0], unseen.step(action)[0])
    assert differs(pictures[0], pictures[-1]).any()
    assert unseen.render() is None
