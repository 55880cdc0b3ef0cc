"""The RC car from above, as a picture: where it was, how it slid, where it must park.

Drawn with Pillow, which an extra of the installation brings, at twice the size and then
reduced: a few milliseconds a picture.
"""

import functools
import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from gymnasium.error import DependencyNotInstalled
from jaxtyping import Float, UInt8

from driftrl.envs.rccar import ARENA, GOAL, START, CarParameters

Frame = UInt8[np.ndarray, "height width 3"]
Points = Float[np.ndarray, "P 2"]
Colour = tuple[int, int, int]

VIEW = ((-1.6, 3.0), (-2.8, 2.2))  # m; above the arena there is room for a caption
PIXELS_A_METRE = 110
_FINER = 2  # times, before the picture is reduced

_BODY = (0.44, 0.2)  # m, length and width
_WHEEL = (0.11, 0.045)
_STILL = 0.1  # m/s, below which a direction of travel means little

_FLOOR: Colour = (228, 228, 224)
_FIELD: Colour = (247, 247, 245)
_LINES: Colour = (205, 205, 200)
_GOAL: Colour = (44, 140, 80)
_START: Colour = (150, 150, 150)
_CAR: Colour = (40, 60, 90)
_GLASS: Colour = (165, 190, 215)
_TYRE: Colour = (15, 15, 15)
_LOST: Colour = (200, 30, 30)
# Of the trail, by the drift angle: rolling, sliding, and across.
_CALM = np.array([70, 110, 170])
_WILD = np.array([240, 110, 20])
_WILD_AT = math.radians(40.0)


def slide(
    states: Float[np.ndarray, "T 6"], parameters: CarParameters
) -> Float[np.ndarray, " T"]:
    """Return the size of the drift angle of each state (see ``rccar.drift_angle``).

    It is 0 where the rear axle hardly moves.
    """
    heading = states[:, 2] + float(parameters.angle_offset)
    cos, sin = np.cos(heading), np.sin(heading)
    forward = states[:, 3] * cos + states[:, 4] * sin
    sideways = states[:, 4] * cos - states[:, 3] * sin
    sideways = sideways - float(parameters.l_r) * states[:, 5]
    moving = np.hypot(forward, sideways) > _STILL
    return np.where(moving, np.arctan2(np.abs(sideways), np.abs(forward)), 0.0)


def colour_of(angle: float) -> Colour:
    """Return the colour of a piece of the trail with this drift angle."""
    share = min(abs(angle) / _WILD_AT, 1.0)
    red, green, blue = np.round((1.0 - share) * _CALM + share * _WILD).astype(int)
    return int(red), int(green), int(blue)


def draw(
    trail: Float[np.ndarray, "T 6"], steering: float, parameters: CarParameters
) -> Frame:
    """Return the picture of a car that came along a trail of states.

    Args:
        trail: States of ``rccar.CarState``, the newest last.
        steering: What turns the front wheels, in [−1, 1].
        parameters: Which car.
    """
    canvas = _background().copy()
    pencil = _pencil(canvas)
    offset = float(parameters.angle_offset)
    places = _pixels(trail[:, :2]).tolist()
    angles = slide(trail, parameters)[1:].tolist()
    for (a, b), angle in zip(pairwise(places), angles, strict=True):
        pencil.line([*a, *b], fill=colour_of(angle), width=4 * _FINER)
    pose = (float(trail[-1, 0]), float(trail[-1, 1]), float(trail[-1, 2]) + offset)
    _draw_car(pencil, pose, steering * float(parameters.steering_limit), parameters)
    if not _inside(pose):
        _mark_lost(pencil, pose)
    return np.array(canvas.reduce(_FINER))


def _draw_car(
    pencil: Any,
    pose: tuple[float, float, float],
    delta: float,
    parameters: CarParameters,
) -> None:
    ahead, behind = float(parameters.l_f), float(parameters.l_r)
    middle = np.array([(ahead - behind) / 2, 0.0])
    _fill(pencil, _placed(_box(*_BODY) + middle, pose), _CAR)
    # The windscreen tells the front from the back.
    screen = np.array([(0.02, -0.07), (0.1, -0.085), (0.1, 0.085), (0.02, 0.07)])
    _fill(pencil, _placed(screen + middle, pose), _GLASS)
    # Half of a wheel stands out, so that the front ones are seen to steer.
    for side in (-_BODY[1] / 2, _BODY[1] / 2):
        for along, turn in ((ahead, delta), (-behind, 0.0)):
            wheel = _box(*_WHEEL, turn) + np.array([along, side])
            _fill(pencil, _placed(wheel, pose), _TYRE)


@functools.cache
def _background() -> Any:
    image = _module("Image")
    (left, right), (low, high) = VIEW
    scale = PIXELS_A_METRE * _FINER
    size = (round((right - left) * scale), round((high - low) * scale))
    canvas = image.new("RGB", size, _FLOOR)
    pencil = _pencil(canvas)
    (west, east), (south, north) = ARENA
    pencil.rectangle(_corners((west, north), (east, south)), fill=_FIELD)
    for x in range(math.ceil(west), math.floor(east) + 1):
        pencil.line(_corners((x, south), (x, north)), fill=_LINES, width=_FINER)
    for y in range(math.ceil(south), math.floor(north) + 1):
        pencil.line(_corners((west, y), (east, y)), fill=_LINES, width=_FINER)
    for pose, colour in ((START, _START), (GOAL, _GOAL)):
        _draw_place(pencil, pose, colour)
    _draw_legend(pencil)
    return canvas


def _draw_legend(pencil: Any) -> None:
    """Draw the colours of the trail with their drift angles."""
    (west, _), (south, _) = VIEW
    x, y = _corners((west + 0.3, south + 0.45))
    wide, high, pieces = 120 * _FINER, 8 * _FINER, 60
    for piece in range(pieces):
        angle = _WILD_AT * (piece + 0.5) / pieces
        edges = [
            x + wide * piece / pieces,
            y,
            x + wide * (piece + 1) / pieces,
            y + high,
        ]
        pencil.rectangle(edges, fill=colour_of(angle))
    font = _module("ImageFont").load_default(11 * _FINER)
    words = "drift angle", "0°", f"{math.degrees(_WILD_AT):.0f}°"
    places = (x, y - 16 * _FINER), (x, y + high), (x + wide - 16 * _FINER, y + high)
    for word, place in zip(words, places, strict=True):
        pencil.text(place, word, font=font, fill=_TYRE)


def _draw_place(pencil: Any, pose: tuple[float, float, float], colour: Colour) -> None:
    """Draw a parking space with an arrow that says where its front is."""
    space = _placed(_box(_BODY[0] + 0.1, _BODY[1] + 0.1), pose)
    outline = [*map(tuple, _pixels(space).tolist())]
    pencil.line([*outline, *outline[:2]], fill=colour, width=3 * _FINER, joint="curve")
    tip = np.array([(0.42, 0.0), (0.32, -0.06), (0.32, 0.06)])
    _fill(pencil, _placed(tip, pose), colour)


def _mark_lost(pencil: Any, pose: tuple[float, float, float]) -> None:
    """Draw a dot at the edge of the picture where the car is beyond it."""
    margin = 0.1
    x, y = (
        min(max(value, low + margin), high - margin)
        for value, (low, high) in zip(pose, VIEW, strict=False)
    )
    x, y = _corners((x, y))
    size = 7 * _FINER
    pencil.ellipse([x - size, y - size, x + size, y + size], fill=_LOST)


def _inside(pose: tuple[float, float, float]) -> bool:
    pairs = zip(pose, VIEW, strict=False)
    return all(low <= value <= high for value, (low, high) in pairs)


def _box(length: float, width: float, turn: float = 0.0) -> Points:
    """Return the corners of a rectangle about the origin, turned."""
    x, y = length / 2, width / 2
    return _placed(np.array([(-x, -y), (x, -y), (x, y), (-x, y)]), (0.0, 0.0, turn))


def _placed(points: Points, pose: tuple[float, float, float]) -> Points:
    x, y, angle = pose
    cos, sin = math.cos(angle), math.sin(angle)
    return points @ np.array([(cos, sin), (-sin, cos)]) + (x, y)


def _pixels(points: Points) -> Points:
    """Return where points of the floor are in the picture before it is reduced."""
    (left, _), (_, high) = VIEW
    scale = PIXELS_A_METRE * _FINER
    return (points - (left, high)) * (scale, -scale)


def _corners(*points: tuple[float, float]) -> list[float]:
    return _pixels(np.array(points, float)).ravel().tolist()


def _fill(pencil: Any, points: Points, colour: Colour) -> None:
    corners: Sequence[tuple[float, ...]] = [*map(tuple, _pixels(points).tolist())]
    pencil.polygon(corners, fill=colour)


def _pencil(canvas: Any) -> Any:
    return _module("ImageDraw").Draw(canvas)


def _module(name: str) -> Any:
    try:
        import PIL.Image
        import PIL.ImageDraw
        import PIL.ImageFont
    except ImportError as error:
        raise DependencyNotInstalled(
            "The car is drawn with Pillow: pip install 'driftrl[video]'."
        ) from error
    return getattr(PIL, name)
