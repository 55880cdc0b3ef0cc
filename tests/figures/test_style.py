"""Colours stay with their methods, and Matplotlib stays as it was."""

import itertools

import matplotlib
import pytest
from matplotlib.figure import Figure

from driftrl.figures.style import (
    method_name,
    method_styles,
    printed_style,
    render,
)


def test_the_papers_methods_look_the_same_whoever_else_is_drawn() -> None:
    alone = method_styles(["sw-ombrl"])["sw-ombrl"]
    among = method_styles(["adaptive", "sw-ombrl", "sombrl", "r-ombrl", "zero"])
    assert among["sw-ombrl"] == alone
    assert method_styles(["sw_ombrl"])["sw_ombrl"] == alone
    assert [method_name(m) for m in ("sombrl", "r-ombrl", "adaptive")] == [
        "SOMBRL",
        "R-OMBRL",
        "adaptive",
    ]


def test_seven_methods_have_seven_colours() -> None:
    names = ["sombrl", "r-ombrl", "sw-ombrl", "a", "b", "c", "d"]
    styles = method_styles(names)
    assert len({style.colour for style in styles.values()}) == 7
    assert len(method_styles([*names, "e"])) == 8


def test_colours_stay_apart_in_greyscale_or_by_dash() -> None:
    def grey(colour: str) -> float:
        red, green, blue = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    styles = method_styles(["sombrl", "r-ombrl", "sw-ombrl"]).values()
    for one, other in itertools.combinations(styles, 2):
        assert (
            one.dash != other.dash or abs(grey(one.colour) - grey(other.colour)) > 0.2
        )


def test_settings_are_left_as_they_were() -> None:
    own = {"font.size": 23.0, "lines.markersize": 99.0}
    with matplotlib.rc_context(own):  # type: ignore[arg-type]
        before = dict(matplotlib.rcParams)
        with printed_style():
            assert matplotlib.rcParams["font.size"] == 8
            # Not the reader's own setting, but what the figure was designed with.
            assert matplotlib.rcParams["lines.markersize"] == 6.0
        render(Figure(), "png")
        assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize(("kind", "magic"), [("png", b"\x89PNG"), ("pdf", b"%PDF")])
def test_rendering_is_the_same_every_time(kind: str, magic: bytes) -> None:
    def draw() -> bytes:
        with printed_style():
            figure = Figure(figsize=(2, 1))
            figure.subplots().plot([1, 2], [3, 4])
        return render(figure, kind)

    first = draw()
    assert first.startswith(magic)
    assert b"CreationDate" not in first
    assert draw() == first
