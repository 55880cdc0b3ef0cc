"""The picture of the RC car shows where it is, how it slid, and where it must park."""

import sys

import numpy as np
import pytest
from gymnasium.error import DependencyNotInstalled

from driftrl.envs import rccar_drawing
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
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.video import check_video


def parked(x: float, y: float, heading: float) -> np.ndarray:
    return np.array([[x, y, heading, 0.0, 0.0, 0.0]])


def place(x: float, y: float) -> tuple[int, int]:
    """Return the row and column of a place on the floor."""
    row, column = (
        (VIEW[1][1] - y) * PIXELS_PER_METRE,
        (x - VIEW[0][0]) * PIXELS_PER_METRE,
    )
    return round(row), round(column)


def centre(changed: np.ndarray) -> tuple[float, float]:
    """Return where on the floor the changed pixels are, on average."""
    rows, columns = np.nonzero(changed)
    x, y = columns.mean() / PIXELS_PER_METRE, rows.mean() / PIXELS_PER_METRE
    return VIEW[0][0] + x, VIEW[1][1] - y


def differs(first: Frame, second: Frame) -> np.ndarray:
    return (first.astype(int) != second).any(axis=2)


AWAY = parked(-9.0, 0.0, 0.0)  # beyond the picture


def test_a_picture_has_its_size() -> None:
    picture = draw(parked(1.0, 0.5, 0.3), 0.2, NOMINAL)
    width, height = (round((high - low) * PIXELS_PER_METRE) for low, high in VIEW)
    assert picture.shape == (height, width, 3) and picture.dtype == np.uint8
    assert width % 2 == height % 2 == 0  # as a video wants it


@pytest.mark.parametrize(("x", "y"), [(1.0, 0.5), (-0.8, -1.5), (2.2, 1.1)])
def test_the_car_is_where_it_is(x: float, y: float) -> None:
    empty, picture = draw(AWAY, 0.0, NOMINAL), draw(parked(x, y, 0.7), 0.0, NOMINAL)
    middle = (NOMINAL.l_f - NOMINAL.l_r) / 2
    expected = x + middle * np.cos(0.7), y + middle * np.sin(0.7)
    assert centre(differs(empty, picture)) == pytest.approx(expected, abs=0.02)


@pytest.mark.parametrize("heading", [0.0, 0.5 * np.pi, np.pi, -2.0])
def test_the_windscreen_is_in_front(heading: float) -> None:
    picture = draw(parked(1.0, 0.5, heading), 0.0, NOMINAL)
    cos, sin = np.cos(heading), np.sin(heading)
    front = picture[place(1.0 + 0.05 * cos, 0.5 + 0.05 * sin)]
    back = picture[place(1.0 - 0.15 * cos, 0.5 - 0.15 * sin)]
    assert tuple(front) == rccar_drawing._GLASS and tuple(back) == rccar_drawing._CAR


def test_an_angle_offset_turns_the_car_and_not_its_place() -> None:
    crooked = NOMINAL._replace(angle_offset=0.3)
    np.testing.assert_array_equal(
        draw(parked(1.0, 0.5, 0.2), 0.0, crooked),
        draw(parked(1.0, 0.5, 0.5), 0.0, NOMINAL),
    )


def test_the_front_wheels_steer() -> None:
    straight, left, right = (
        draw(parked(1.0, 0.5, 0.0), steering, NOMINAL) for steering in (0.0, 1.0, -1.0)
    )
    assert centre(differs(straight, left))[0] == pytest.approx(1.13, abs=0.02)
    assert differs(left, right).any()
    # Turned left, the front of the left wheel is further out.
    y = 0.5 + 0.1 + 0.03
    assert tuple(left[place(1.16, y)]) == rccar_drawing._TYRE
    assert tuple(right[place(1.16, y)]) != rccar_drawing._TYRE


def test_goal_and_start_are_marked() -> None:
    picture = draw(parked(2.2, 1.0, 0.0), 0.0, NOMINAL)
    assert tuple(picture[place(0.36, 0.0)]) == rccar_drawing._GOAL
    assert tuple(picture[place(1.42 - 0.36, -1.04)]) == rccar_drawing._START


def test_the_trail_shows_where_it_slid() -> None:
    x = np.linspace(-1.0, 2.0, 60)
    still = np.zeros(60)
    for v_y, colour in ((0.0, colour_of(0.0)), (1.0, colour_of(np.pi / 4))):
        trail = np.stack([x, still + 1.0, still, still + 1.0, still + v_y, still], 1)
        picture = draw(trail, 0.0, NOMINAL)
        np.testing.assert_allclose(picture[place(0.5, 1.0)], colour, atol=2)
    assert colour_of(0.0) != colour_of(np.radians(20)) != colour_of(np.radians(40))
    assert colour_of(np.radians(40)) == colour_of(-np.pi / 2)


@pytest.mark.parametrize(
    ("heading", "v_x", "v_y", "yaw_rate", "degrees"),
    [
        (0.0, 1.0, 0.0, 0.0, 0.0),
        (0.0, 1.0, 1.0, 0.0, 45.0),
        (0.0, -1.0, 0.0, 0.0, 0.0),  # reversing is not drifting
        (np.pi / 2, 1.0, 0.0, 0.0, 90.0),
        (np.pi, -1.0, np.tan(np.pi / 6), 0.0, 30.0),
        (0.0, 1.0, 0.34, 2.0, 0.0),  # nor is a curve in which the rear axle rolls
        (0.0, 0.34, 0.0, -2.0, 45.0),
        (0.0, 0.05, 0.05, 0.0, 0.0),  # it hardly moves
    ],
)
def test_sliding_angles(
    heading: float, v_x: float, v_y: float, yaw_rate: float, degrees: float
) -> None:
    crooked = NOMINAL._replace(angle_offset=0.1)
    state = np.array([[5.0, 6.0, heading - 0.1, v_x, v_y, yaw_rate]])
    assert np.degrees(slide(state, crooked)) == pytest.approx([degrees], abs=1e-9)


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


def test_it_is_filmed_in_real_time() -> None:
    assert check_video(configure("rccar", "sombrl")) == 30.0


def test_there_is_nothing_to_draw_before_a_reset() -> None:
    with pytest.raises(InputError, match="reset"):
        make_env("rccar", render_mode="rgb_array").render()


def test_without_pillow_it_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rccar_drawing._background.cache_clear()
    monkeypatch.setitem(sys.modules, "PIL.ImageDraw", None)
    with pytest.raises(DependencyNotInstalled, match="Pillow"):
        draw(parked(0.0, 0.0, 0.0), 0.0, NOMINAL)
