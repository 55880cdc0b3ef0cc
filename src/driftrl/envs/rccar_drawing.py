"""The RC car from above: its trail coloured by how it slid, and where it must park.

The trail is blue where the car rolls and orange where it slides.  Drawn with Pillow at
twice the size and then reduced; a few milliseconds a picture.
"""

import functools
import math
from itertools import pairwise
from typing import Any

import numpy as np
from jaxtyping import Float, UInt8

from driftrl.envs.rccar import ARENA, GOAL, NOMINAL, START

Frame = UInt8[np.ndarray, "height width 3"]
Points = Float[np.ndarray, "P 2"]
Pose = tuple[float, float, float]

VIEW = ((-1.6, 3.0), (-2.8, 2.2))  # m; above the arena there is room for a caption
PIXELS_PER_METRE = 110
_OVERSAMPLING = 2
_SCALE = PIXELS_PER_METRE * _OVERSAMPLING

_BODY, _WHEEL = (0.44, 0.2), (0.11, 0.045)  # m, length and width
_STILL = 0.1  # m/s, below which a direction of travel means little
_FLOOR, _FIELD, _CAR = (228, 228, 224), (247, 247, 245), (40, 60, 90)
_START_COLOUR, _GOAL_COLOUR, _TYRE = (150, 150, 150), (44, 140, 80), (15, 15, 15)
# The trail's colour runs from rolling to sliding by _SLIDING_ANGLE or more.
_ROLLING, _SLIDING = np.array([70, 110, 170]), np.array([240, 110, 20])
_SLIDING_ANGLE = math.radians(40.0)


def slide(states: Float[np.ndarray, "T 6"]) -> Float[np.ndarray, " T"]:
    """Return the angle in [0, π/2] between the car's axis and its rear axle's motion.

    The rear axle rolls along the axis of the car in any curve unless it slides.  The
    angle is 0 where the axle hardly moves.
    """
    cos, sin = np.cos(states[:, 2]), np.sin(states[:, 2])
    forward = states[:, 3] * cos + states[:, 4] * sin
    sideways = (
        states[:, 4] * cos - states[:, 3] * sin - float(NOMINAL.l_r) * states[:, 5]
    )
    moving = np.hypot(forward, sideways) > _STILL
    return np.where(moving, np.arctan2(np.abs(sideways), np.abs(forward)), 0.0)


def colour_of(angle: float) -> tuple[int, ...]:
    """Return the colour of a piece of the trail with this sliding angle."""
    share = min(angle / _SLIDING_ANGLE, 1.0)
    mixed = (1 - share) * _ROLLING + share * _SLIDING
    return tuple(np.round(mixed).astype(int).tolist())


def draw(trail: Float[np.ndarray, "T 6"], steering: float) -> Frame:
    """Return the picture of a car that came along a trail of ``CarState``.

    The front wheels are turned by ``steering``, in [−1, 1].
    """
    from PIL import ImageDraw

    canvas = _background().copy()
    pencil = ImageDraw.Draw(canvas)
    pieces = pairwise(_pixels(trail[:, :2]).tolist())
    for (a, b), angle in zip(pieces, slide(trail)[1:].tolist(), strict=True):
        pencil.line([*a, *b], fill=colour_of(angle), width=4 * _OVERSAMPLING)
    pose, turn = tuple(trail[-1, :3].tolist()), steering * float(NOMINAL.steering_limit)
    front, rear = float(NOMINAL.l_f), -float(NOMINAL.l_r)
    middle = np.array([(front + rear) / 2, 0.0])
    _fill(pencil, _box(*_BODY) + middle, pose, _CAR)
    # Half of a wheel stands out, so that the front ones are seen to steer.
    for side in (-_BODY[1] / 2, _BODY[1] / 2):
        for wheel in ((front, side, turn), (rear, side, 0.0)):
            _fill(pencil, _moved(_box(*_WHEEL), wheel), pose, _TYRE)
    return np.array(canvas.reduce(_OVERSAMPLING))


@functools.cache
def _background() -> Any:
    from PIL import Image, ImageDraw

    (left, right), (low, high) = VIEW
    size = (round((right - left) * _SCALE), round((high - low) * _SCALE))
    canvas = Image.new("RGB", size, _FLOOR)
    pencil = ImageDraw.Draw(canvas)
    (west, east), (south, north) = ARENA
    corners = _pixels(np.array([(west, north), (east, south)]))
    pencil.rectangle(corners.ravel().tolist(), fill=_FIELD)
    for pose, colour in ((START, _START_COLOUR), (GOAL, _GOAL_COLOUR)):
        # A frame with an arrow: which way the car stands there.
        _fill(pencil, _box(_BODY[0] + 0.1, _BODY[1] + 0.1), pose, colour)
        _fill(pencil, _box(_BODY[0] + 0.07, _BODY[1] + 0.07), pose, _FIELD)
        arrow = np.array([(0.42, 0.0), (0.32, -0.06), (0.32, 0.06)])
        _fill(pencil, arrow, pose, colour)
    return canvas


def _box(length: float, width: float) -> Points:
    """Return the corners of a rectangle about the origin."""
    return np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * (length / 2, width / 2)


def _moved(points: Points, pose: Pose) -> Points:
    """Rotate points about the origin, then shift them."""
    x, y, angle = pose
    cos, sin = math.cos(angle), math.sin(angle)
    return points @ np.array([(cos, sin), (-sin, cos)]) + (x, y)


def _pixels(points: Points) -> Points:
    """Return where points of the floor are in the picture before it is reduced."""
    return (points - (VIEW[0][0], VIEW[1][1])) * (_SCALE, -_SCALE)


def _fill(pencil: Any, points: Points, pose: Pose, colour: tuple[int, ...]) -> None:
    corners = _pixels(_moved(points, pose)).tolist()
    pencil.polygon([*map(tuple, corners)], fill=colour)
