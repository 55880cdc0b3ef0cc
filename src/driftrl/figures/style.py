"""One look for all figures: a colour for each method, sizes for a printed column."""

import io
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from matplotlib import style
from matplotlib.figure import Figure

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


def method_styles(methods: Iterable[str]) -> dict[str, MethodStyle]:
    """Return the style of each method.

    The paper's methods always look the same; others take the remaining colours in order
    of their names, over and over if there are many.
    """
    methods = list(methods)
    others = sorted(method for method in methods if _key(method) not in _KNOWN)
    styles = {}
    for method in methods:
        if _key(method) in _KNOWN:
            styles[method] = _KNOWN[_key(method)]
        else:
            colour, dash = _OTHERS[others.index(method) % len(_OTHERS)]
            styles[method] = MethodStyle(method, colour, dash)
    return styles


def method_name(method: str) -> str:
    """Return a method's name as the paper writes it."""
    return method_styles([method])[method].name


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
