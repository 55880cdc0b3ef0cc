"""The RC car from above: the way it came, where it started, and where it must park.

Drawn with Pillow at twice the size and then reduced; a few milliseconds a picture.
"""

import math
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

_LENGTH, _WIDTH = 0.44, 0.2  # m
_FLOOR, _FIELD, _TRAIL = (228, 228, 224), (247, 247, 245), (70, 110, 170)
_CAR, _START_COLOUR, _GOAL_COLOUR = (40, 60, 90), (150, 150, 150), (44, 140, 80)


def draw(trail: Float[np.ndarray, "T 6"]) -> Frame:
    """Return the picture of a car that came along a trail of ``CarState``."""
    from PIL import Image, ImageDraw

    (left, right), (low, high) = VIEW
    size = (round((right - left) * _SCALE), round((high - low) * _SCALE))
    canvas = Image.new("RGB", size, _FLOOR)
    pencil = ImageDraw.Draw(canvas)
    (west, east), (south, north) = ARENA
    corners = _pixels(np.array([(west, north), (east, south)]))
    pencil.rectangle(corners.ravel().tolist(), fill=_FIELD)
    for pose, colour in ((START, _START_COLOUR), (GOAL, _GOAL_COLOUR)):
        _place_car(pencil, pose, colour, _FIELD)
    way = _pixels(trail[:, :2]).ravel().tolist()
    pencil.line(way, fill=_TRAIL, width=4 * _OVERSAMPLING)
    _place_car(pencil, tuple(trail[-1, :3].tolist()), _CAR, _CAR)
    return np.array(canvas.reduce(_OVERSAMPLING))


def _place_car(pencil: Any, pose: Pose, colour: tuple[int, ...], fill: Any) -> None:
    """Draw the outline of a car with an arrow ahead of it: which way it stands."""
    middle = (float(NOMINAL.l_f) - float(NOMINAL.l_r)) / 2
    box = np.array([(-1, -1), (1, -1), (1, 1), (-1, 1)]) * (_LENGTH / 2, _WIDTH / 2)
    arrow = np.array([(0.42, 0.0), (0.32, -0.06), (0.32, 0.06)])
    x, y, angle = pose
    cos, sin = math.cos(angle), math.sin(angle)
    box[:, 0] += middle
    for points, inside in ((box, fill), (arrow, colour)):
        moved = points @ np.array([(cos, sin), (-sin, cos)]) + (x, y)
        corners = [*map(tuple, _pixels(moved).tolist())]
        pencil.polygon(corners, inside, colour, 3 * _OVERSAMPLING)


def _pixels(points: Points) -> Points:
    """Return where points of the floor are in the picture before it is reduced."""
    return (points - (VIEW[0][0], VIEW[1][1])) * (_SCALE, -_SCALE)
