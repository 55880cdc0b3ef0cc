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

from driftrl.envs.rccar import ARENA, GOAL, START, CarParameters

Frame = UInt8[np.ndarray, "height width 3"]
Points = Float[np.ndarray, "P 2"]
Colour = tuple[int, int, int]
Pose = tuple[float, float, float]

VIEW = ((-1.6, 3.0), (-2.8, 2.2))  # m; above the arena there is room for a caption
PIXELS_PER_METRE = 110
_OVERSAMPLING = 2

_BODY = (0.44, 0.2)  # m, length and width
_WHEEL = (0.11, 0.045)
_STILL = 0.1  # m/s, below which a direction of travel means little

_FLOOR: Colour = (228, 228, 224)
_FIELD: Colour = (247, 247, 245)
_GOAL: Colour = (44, 140, 80)
_START: Colour = (150, 150, 150)
_CAR: Colour = (40, 60, 90)
_GLASS: Colour = (165, 190, 215)
_TYRE: Colour = (15, 15, 15)
# The trail's colour runs from rolling to sliding by _SLIDING_ANGLE or more.
_ROLLING = np.array([70, 110, 170])
_SLIDING = np.array([240, 110, 20])
_SLIDING_ANGLE = math.radians(40.0)


def slide(
    states: Float[np.ndarray, "T 6"], parameters: CarParameters
) -> Float[np.ndarray, " T"]:
    """Return the angle in [0, π/2] between the car's axis and its rear axle's motion.

    The rear axle rolls along the axis of the car in any curve unless it slides.  The
    angle is 0 where the axle hardly moves.
    """
    heading = states[:, 2] + float(parameters.angle_offset)
    cos, sin = np.cos(heading), np.sin(heading)
    forward = states[:, 3] * cos + states[:, 4] * sin
    sideways = states[:, 4] * cos - states[:, 3] * sin
    sideways = sideways - float(parameters.l_r) * states[:, 5]
    moving = np.hypot(forward, sideways) > _STILL
    return np.where(moving, np.arctan2(np.abs(sideways), np.abs(forward)), 0.0)


def colour_of(angle: float) -> Colour:
    """Return the colour of a piece of the trail with this sliding angle."""
    share = min(abs(angle) / _SLIDING_ANGLE, 1.0)
    red, green, blue = np.round((1.0 - share) * _ROLLING + share * _SLIDING).astype(int)
    return int(red), int(green), int(blue)


def draw(
    trail: Float[np.ndarray, "T 6"], steering: float, parameters: CarParameters
) -> Frame:
    """Return the picture of a car that came along a trail of ``CarState``.

    The front wheels are turned by ``steering``, in [−1, 1].
    """
    from PIL import ImageDraw

    canvas = _background().copy()
    pencil = ImageDraw.Draw(canvas)
    angles = slide(trail, parameters)[1:].tolist()
    pieces = pairwise(_pixels(trail[:, :2]).tolist())
    for (a, b), angle in zip(pieces, angles, strict=True):
        pencil.line([*a, *b], fill=colour_of(angle), width=4 * _OVERSAMPLING)
    x, y, heading = trail[-1, :3].tolist()
    pose = (x, y, heading + float(parameters.angle_offset))
    _draw_car(pencil, pose, steering * float(parameters.steering_limit), parameters)
    return np.array(canvas.reduce(_OVERSAMPLING))


def _draw_car(pencil: Any, pose: Pose, delta: float, parameters: CarParameters) -> None:
    front, rear = float(parameters.l_f), float(parameters.l_r)
    middle = np.array([(front - rear) / 2, 0.0])
    _fill(pencil, _box(*_BODY) + middle, pose, _CAR)
    windscreen = np.array([(0.02, -0.07), (0.1, -0.085), (0.1, 0.085), (0.02, 0.07)])
    _fill(pencil, windscreen + middle, pose, _GLASS)
    # Half of a wheel stands out, so that the front ones are seen to steer.
    for side in (-_BODY[1] / 2, _BODY[1] / 2):
        for along, turn in ((front, delta), (-rear, 0.0)):
            wheel = _moved(_box(*_WHEEL), (along, side, turn))
            _fill(pencil, wheel, pose, _TYRE)


@functools.cache
def _background() -> Any:
    from PIL import Image, ImageDraw

    (left, right), (low, high) = VIEW
    scale = PIXELS_PER_METRE * _OVERSAMPLING
    size = (round((right - left) * scale), round((high - low) * scale))
    canvas = Image.new("RGB", size, _FLOOR)
    pencil = ImageDraw.Draw(canvas)
    (west, east), (south, north) = ARENA
    corners = _pixels(np.array([(west, north), (east, south)]))
    pencil.rectangle(corners.ravel().tolist(), fill=_FIELD)
    for pose, colour in ((START, _START), (GOAL, _GOAL)):
        space = _moved(_box(_BODY[0] + 0.1, _BODY[1] + 0.1), pose)
        outline = [*map(tuple, _pixels(space).tolist())]
        pencil.line([*outline, *outline[:2]], fill=colour, width=3 * _OVERSAMPLING)
        arrow = np.array([(0.42, 0.0), (0.32, -0.06), (0.32, 0.06)])
        _fill(pencil, arrow, pose, colour)
    return canvas


def _box(length: float, width: float) -> Points:
    """Return the corners of a rectangle about the origin."""
    x, y = length / 2, width / 2
    return np.array([(-x, -y), (x, -y), (x, y), (-x, y)])


def _moved(points: Points, pose: Pose) -> Points:
    """Rotate points about the origin, then shift them."""
    x, y, angle = pose
    cos, sin = math.cos(angle), math.sin(angle)
    return points @ np.array([(cos, sin), (-sin, cos)]) + (x, y)


def _pixels(points: Points) -> Points:
    """Return where points of the floor are in the picture before it is reduced."""
    scale = PIXELS_PER_METRE * _OVERSAMPLING
    return (points - (VIEW[0][0], VIEW[1][1])) * (scale, -scale)


def _fill(pencil: Any, points: Points, pose: Pose, colour: Colour) -> None:
    corners = _pixels(_moved(points, pose)).tolist()
    pencil.polygon([*map(tuple, corners)], fill=colour)
