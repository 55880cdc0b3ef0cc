"""Names of methods and their variants, their colours, and formats of numbers."""

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

INK = "#222222"
"""Text, axes and the optimum."""
MUTED = "#767676"
"""Grid, marks and notes."""
COLUMN_INCHES = 3.5
"""Width of one column of a two-column paper."""
PAGE_INCHES = 7.16
"""Width of both columns and the gap between them."""
TEMPLATES = Path(__file__).parent / "templates"
UNKNOWN = "–"

BASELINE = "sombrl"
"""The method that others are compared with: it keeps all data."""
_NUMBER = re.compile(r"(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)")
_MOST_NAMED = 6  # names in one sentence


class SweepPoint(NamedTuple):
    """A variant named ``setting=value``: one point of a sweep of a method."""

    method: str
    setting: str
    value: float


def sweep_point(name: str) -> SweepPoint | None:
    """Return the point that “method setting=value” names; None for other names."""
    method, _, variant = name.partition(" ")
    setting, _, value = variant.partition("=")
    try:
        return SweepPoint(method, setting, float(value)) if setting else None
    except ValueError:
        return None


def natural_key(name: str) -> tuple[str | float, ...]:
    """Return a key that sorts numbers in names by value: w=2 before w=10."""
    # Splitting at a group alternates text and number, so keys can be compared.
    parts = _NUMBER.split(name)
    return tuple(float(part) if index % 2 else part for index, part in enumerate(parts))


def default_baseline(methods: Iterable[str]) -> str:
    """Return ``BASELINE``, or the variant that sets what is swept to zero.

    The latter if ``BASELINE`` was not run and exactly one variant does.
    """
    points = {name: sweep_point(name) for name in methods}
    zeros = [name for name, point in points.items() if point and not point.value]
    return zeros[0] if BASELINE not in points and len(zeros) == 1 else BASELINE


def first_few(names: Sequence[str]) -> list[str]:
    """Return as many names as a sentence bears, and the number of the others."""
    rest = len(names) - _MOST_NAMED
    return [*names[:_MOST_NAMED], *([f"{rest} more"] if rest > 0 else [])]


@dataclass(frozen=True)
class MethodStyle:
    """Name and look of a method in every figure."""

    name: str
    colour: str
    dash: str  # Line style in Matplotlib's names; tells methods apart without colour


# Okabe and Ito's palette, which colour-blind readers can tell apart.
_VERMILLION, _BLUE, _GREEN = "#D55E00", "#0072B2", "#009E73"
_PURPLE, _ORANGE, _SKY, _BLACK = "#CC79A7", "#E69F00", "#56B4E9", "#000000"
_KNOWN = {
    "sombrl": MethodStyle("SOMBRL", _VERMILLION, "solid"),
    "r-ombrl": MethodStyle("R-OMBRL", _BLUE, "dashed"),
    "sw-ombrl": MethodStyle("SW-OMBRL", _GREEN, "dashdot"),
}
_OTHER_COLOURS = (_PURPLE, _ORANGE, _SKY, _BLACK)
_SWEEP_COLOURS = (_BLUE, _GREEN, _PURPLE, _ORANGE, _SKY, _VERMILLION)
_SETTINGS = {"alpha": "α", "model": "model α", "policy": "policy α"}
DASHES = {"solid": "solid", "dashed": "dash", "dashdot": "dashdot", "dotted": "dot"}
"""Matplotlib's names of line styles, and Plotly's."""
_DASHES = list(DASHES)


def method_styles(methods: Iterable[str]) -> dict[str, MethodStyle]:
    """Return the style of each method.

    The paper's methods always look the same.  Each setting of a sweep has a colour and
    each value a shade of it, darker as it grows.  Others take the remaining colours in
    the order of their names.  If all are variants of one method, its name is left out.
    """
    methods = list(methods)
    points = {method: point for method in methods if (point := sweep_point(method))}
    others = sorted(set(methods) - set(points) - set(_KNOWN))
    bases = {method.partition(" ")[0] for method in methods}
    one_base = len(bases) == 1 < len(methods) and bases.isdisjoint(methods)
    styles = {}
    for method in methods:
        if method in points:
            look = _sweep_look(points[method], list(points.values()))
        elif method in _KNOWN:
            look = _KNOWN[method].colour, _KNOWN[method].dash
        else:
            rounds, index = divmod(others.index(method), len(_OTHER_COLOURS))
            look = _OTHER_COLOURS[index], _DASHES[(index + rounds) % len(_DASHES)]
        name = _variant_name(method) if one_base else method_name(method)
        styles[method] = MethodStyle(name, *look)
    return styles


def _sweep_look(point: SweepPoint, points: list[SweepPoint]) -> tuple[str, str]:
    settings = sorted({other.setting for other in points})
    values = sorted({other.value for other in points if other.setting == point.setting})
    share = values.index(point.value) / (len(values) - 1) if len(values) > 1 else 0.5
    colour, dash = setting_look(settings.index(point.setting))
    return shade(colour, share), dash


def setting_look(index: int) -> tuple[str, str]:
    """Return colour and line style of the setting with that index in a sweep."""
    return _SWEEP_COLOURS[index % len(_SWEEP_COLOURS)], _DASHES[index % len(_DASHES)]


def method_name(method: str) -> str:
    """Return a method's name as the paper writes it, its variant in brackets."""
    base, _, variant = method.partition(" ")
    if base not in _KNOWN:
        return method
    return _KNOWN[base].name + (f" ({_variant_name(method)})" if variant else "")


def _variant_name(method: str) -> str:
    point = sweep_point(method)
    if point is None:
        return method.partition(" ")[2]
    return f"{setting_name(point.setting)} = {point.value:g}"


def setting_name(setting: str) -> str:
    """Return a swept setting as the paper writes it."""
    return _SETTINGS.get(setting, setting)


def problem_name(label: str) -> str:
    """Return a problem's label as a heading: “a = 0.1” for a variant “a=0.1”."""
    setting, sign, value = label.partition("=")
    return f"{setting_name(setting.strip())} {sign} {value.strip()}" if sign else label


def shade(colour: str, share: float) -> str:
    """Return a light tint of a colour for share 0, itself for ½, a dark one for 1."""
    # Not all the way, so that the lightest is visible and the darkest keeps its hue.
    end, reach = (255, 0.4) if share < 0.5 else (0, 0.55)
    weight = reach * abs(2 * share - 1)
    mixed = [round((1 - weight) * part + weight * end) for part in _rgb(colour)]
    return "#{:02X}{:02X}{:02X}".format(*mixed)


def translucent(colour: str) -> str:
    """Return the colour of a band behind a line, for Plotly."""
    return "rgba({},{},{},0.18)".format(*_rgb(colour))


def _rgb(colour: str) -> list[int]:
    return [int(colour[start : start + 2], 16) for start in (1, 3, 5)]


def number(value: float | None) -> str:
    """Return a number with about three digits."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if size >= 100:
        text = f"{value:,.0f}"
    elif size >= 10:
        text = f"{value:.1f}"
    elif size >= 0.01:
        text = f"{value:.2f}"
    else:
        text = f"{value:.2g}"
    return text.replace("-", "−")


def percent(share: float | None) -> str:
    """Return a share in percent."""
    if share is None or not math.isfinite(share):
        return UNKNOWN
    digits = 0 if abs(share) >= 0.1 else 1
    # The space must not let a line break between a number and its sign.
    return f"{100 * share:,.{digits}f}\u00a0%".replace("-", "−")
