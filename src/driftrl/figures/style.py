"""One look for all figures: a colour for each method, sizes for a printed column."""

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from matplotlib import style
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure

from driftrl.results.variants import SweepPoint, sweep_point

INK = "#222222"
"""Text, axes, and the optimum."""
MUTED = "#767676"
"""What should be seen second: grid, marks, references."""

COLUMN_INCHES = 3.5
"""Width of one column of a two-column paper."""
PAGE_INCHES = 7.16
"""Width of both columns with the gap between them."""
PNG_DPI = 300


@dataclass(frozen=True)
class MethodStyle:
    """How one method is named and drawn everywhere."""

    name: str
    colour: str
    dash: str
    """Line style, in Matplotlib's names; tells methods apart without colour."""


# Okabe and Ito's palette, made to stay distinct for colour-blind readers.
_VERMILLION, _BLUE, _GREEN = "#D55E00", "#0072B2", "#009E73"
_PURPLE, _ORANGE, _SKY, _BLACK = "#CC79A7", "#E69F00", "#56B4E9", "#000000"

_KNOWN = {
    "sombrl": MethodStyle("SOMBRL", _VERMILLION, "solid"),
    "r-ombrl": MethodStyle("R-OMBRL", _BLUE, "dashed"),
    "sw-ombrl": MethodStyle("SW-OMBRL", _GREEN, "dashdot"),
}
_OTHERS = (
    (_PURPLE, "solid"),
    (_ORANGE, "dashed"),
    (_SKY, "dashdot"),
    (_BLACK, "dotted"),
)
_SWEEP_COLOURS = (_BLUE, _GREEN, _PURPLE, _ORANGE, _SKY, _VERMILLION)
_SETTINGS = {"alpha": "α", "model": "model α", "policy": "policy α"}
_TINT_REACH, _SHADE_REACH = 0.4, 0.55
_DASHES = ("solid", "dashed", "dashdot", "dotted")


def method_styles(methods: Iterable[str]) -> dict[str, MethodStyle]:
    """Return the style of each method.

    The paper's methods always look the same.  Of a sweep, each setting has a colour and
    each value a shade of it, darker as it grows.  Others take the remaining colours in
    order of their names, over and over with other dashes if there are many.  If all are
    variants of one method, its name is left out.
    """
    methods = list(methods)
    points = {method: point for method in methods if (point := sweep_point(method))}
    others = sorted(set(methods) - set(points))
    others = [method for method in others if _key(method) not in _KNOWN]
    bases = {method.partition(" ")[0] for method in methods}
    is_one = len(bases) == 1 < len(methods) and bases.isdisjoint(methods)
    named = _variant_name if is_one else method_name
    styles = {}
    for method in methods:
        if _key(method) in _KNOWN:
            styles[method] = _KNOWN[_key(method)]
            continue
        look = (
            _point_look(points[method], list(points.values()))
            if method in points
            else _other_look(others.index(method))
        )
        styles[method] = MethodStyle(named(method), *look)
    return styles


def _variant_name(method: str) -> str:
    point = sweep_point(method)
    return point_name(point) if point else method.partition(" ")[2]


def _other_look(place: int) -> tuple[str, str]:
    """Return colour and dash of the method in that place, among those without any."""
    again = place // len(_OTHERS)
    colour, dash = _OTHERS[place % len(_OTHERS)]
    return colour, _DASHES[(_DASHES.index(dash) + again) % len(_DASHES)]


def method_name(method: str) -> str:
    """Return a method's name as the paper writes it, its variant in brackets."""
    if _key(method) in _KNOWN:
        return _KNOWN[_key(method)].name
    base = method.partition(" ")[0]
    if _key(base) not in _KNOWN:
        return method
    return f"{method_name(base)} ({_variant_name(method)})"


def setting_name(setting: str) -> str:
    """Return a swept setting as the paper writes it."""
    return _SETTINGS.get(setting, setting)


def point_name(point: SweepPoint) -> str:
    """Return “setting = value”."""
    return f"{setting_name(point.setting)} = {point.value:g}"


def problem_name(label: str) -> str:
    """Return a problem's label as a heading: “a = 0.1” for a variant “a=0.1”."""
    setting, sign, value = label.partition("=")
    return f"{setting_name(setting.strip())} {sign} {value.strip()}" if sign else label


def setting_colours(settings: Iterable[str]) -> dict[str, str]:
    """Return a colour for each setting, in the order in which they come."""
    return {
        setting: _SWEEP_COLOURS[place % len(_SWEEP_COLOURS)]
        for place, setting in enumerate(dict.fromkeys(settings))
    }


def shade(colour: str, share: float) -> str:
    """Return a colour’s light tint for share 0, itself for ½, its dark one for 1."""
    # Not all the way, so that the lightest is seen on paper and the darkest has a hue.
    end, reach = (1.0, _TINT_REACH) if share < 0.5 else (0.0, _SHADE_REACH)
    weight = reach * abs(2 * share - 1)
    red, green, blue = ((1 - weight) * part + weight * end for part in to_rgb(colour))
    return to_hex((red, green, blue)).upper()


def _point_look(point: SweepPoint, points: Sequence[SweepPoint]) -> tuple[str, str]:
    """Return colour and dash of a point among all that are swept."""
    settings = sorted({one.setting for one in points})
    values = sorted({one.value for one in points if one.setting == point.setting})
    share = values.index(point.value) / (len(values) - 1) if len(values) > 1 else 0.5
    colour = setting_colours(settings)[point.setting]
    dash = _DASHES[settings.index(point.setting) % len(_DASHES)]
    return shade(colour, share), dash


def _key(method: str) -> str:
    return method.lower().replace("_", "-")


@contextmanager
def printed_style() -> Iterator[None]:
    """Draw with the settings of a printed figure, and leave Matplotlib as it was."""
    settings = {
        # STIX comes with Matplotlib and matches Times, so every machine draws the same.
        "font.family": "STIXGeneral",
        "mathtext.fontset": "stix",
        "font.size": 8,
        "axes.labelsize": 8,
        "axes.titlesize": 8,
        "xtick.labelsize": 7,
        "ytick.labelsize": 7,
        "legend.fontsize": 8,
        "legend.frameon": False,
        "text.color": INK,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "axes.linewidth": 0.6,
        "xtick.major.width": 0.6,
        "ytick.major.width": 0.6,
        "xtick.major.size": 2.5,
        "ytick.major.size": 2.5,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "lines.linewidth": 1.3,
        "lines.solid_capstyle": "round",
        "axes.grid": True,
        "axes.axisbelow": True,
        "grid.color": "#E4E4E4",
        "grid.linewidth": 0.5,
        "pdf.fonttype": 42,  # text stays text, as publishers ask
    }
    # "default" first: the reader's own settings must not change a figure.
    with style.context(["default", settings]):
        yield


def render(figure: Figure, kind: str) -> bytes:
    """Return the figure as the bytes of a ``png`` or ``pdf`` file.

    The same figure gives the same bytes: no date is written into the file.
    """
    buffer = io.BytesIO()
    metadata = {"CreationDate": None} if kind == "pdf" else None
    with printed_style():
        figure.savefig(buffer, format=kind, dpi=PNG_DPI, metadata=metadata)
    return buffer.getvalue()
