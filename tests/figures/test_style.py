"""Colours stay with their methods, and Matplotlib stays as it was."""

import itertools

import matplotlib
import pytest
from matplotlib.figure import Figure

from driftrl.figures.style import (
    method_name,
    method_styles,
    printed_style,
    problem_name,
    render,
    shade,
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


def test_more_methods_repeat_colours_with_other_dashes() -> None:
    styles = method_styles([*"abcdefghijklmnop"])
    assert len({(style.colour, style.dash) for style in styles.values()}) == 16


def test_a_sweep_has_a_colour_for_each_setting_and_a_shade_for_each_value() -> None:
    names = [
        "r-ombrl alpha=1",
        "r-ombrl alpha=0.2",
        "r-ombrl alpha=0",
        "r-ombrl model=1",
    ]
    styles = method_styles(names)
    alphas = [styles[f"r-ombrl alpha={value}"] for value in ("0", "0.2", "1")]
    assert alphas[1].colour == shade(alphas[1].colour, 0.5) == "#0072B2"
    assert [style.colour for style in alphas] == [
        shade("#0072B2", share) for share in (0.0, 0.5, 1.0)
    ]
    assert len({style.dash for style in alphas}) == 1
    other = styles["r-ombrl model=1"]
    assert other.colour == "#009E73"  # alone, so neither light nor dark
    assert other.dash != alphas[0].dash
    assert [style.name for style in styles.values()] == [
        *("α = 1", "α = 0.2", "α = 0", "model α = 1"),
    ]


def test_shades_by_hand() -> None:
    # 40 % of the way to white, 55 % of the way to black.
    assert shade("#000000", 0.0) == "#666666"
    assert shade("#FFFFFF", 1.0) == "#737373"
    assert shade("#646464", 0.75) == "#484848"


def test_names_say_the_method_unless_all_are_of_one() -> None:
    mixed = method_styles(["sombrl", "r-ombrl H=3", "sw-ombrl theory"])
    assert [style.name for style in mixed.values()] == [
        *("SOMBRL", "R-OMBRL (H = 3)", "SW-OMBRL (theory)"),
    ]
    alone = method_styles(["sw-ombrl base", "sw-ombrl plain"])
    assert [style.name for style in alone.values()] == ["base", "plain"]
    beside = method_styles(["sw-ombrl", "sw-ombrl plain"])
    assert [style.name for style in beside.values()] == ["SW-OMBRL", "SW-OMBRL (plain)"]
    assert method_name("r-ombrl policy=0.5") == "R-OMBRL (policy α = 0.5)"
    assert method_name("other w=5") == "other w=5"


def test_labels_of_problems_become_headings() -> None:
    assert problem_name("a=0.025") == "a = 0.025"
    assert problem_name("rate = 0.1, start = 5") == "rate = 0.1, start = 5"
    assert problem_name("fast") == "fast"


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
