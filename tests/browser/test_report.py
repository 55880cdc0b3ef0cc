"""The report as people use it: looked at, clicked, saved, on a phone, on paper."""

import io
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

PHONE = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}
FIGURES = {
    *("curves", "span", "model_error", "coverage"),
    *("epistemic_std", "optimism", "temperature"),
}
Open = Callable[..., Any]


def test_every_figure_is_drawn_when_it_is_reached(open_page: Open) -> None:
    opened = open_page("two")
    boxes = opened.boxes()
    own = {f"{place}-{key}" for place in (1, 2) for key in FIGURES}
    assert set(boxes) == own | {"run"}
    assert opened.page.locator(".js-plotly-plot").count() < len(boxes) / 2
    for key in boxes:
        opened.draw(key)
        traces = f'[id="plot-{key}"] .scatterlayer .trace'
        assert opened.page.locator(traces).count() > 0


def test_a_pointer_shows_the_numbers_under_it(open_page: Open) -> None:
    opened = open_page("one")
    opened.draw("1-curves")
    box = opened.page.locator("#plot-1-curves .xy2").first.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    label = opened.page.wait_for_selector("#plot-1-curves .hoverlayer .legend")
    text = label.text_content()
    assert all(name in text for name in ("SOMBRL", "R-OMBRL", "SW-OMBRL", "±"))


def test_a_click_on_a_name_hides_the_method_in_all_figures(open_page: Open) -> None:
    opened = open_page("one")
    button = "section button.method[data-method='sombrl']"

    def hidden(key: str) -> set[str]:
        opened.draw(key)
        return {one["method"] for one in opened.traces(key) if not one["visible"]}

    assert hidden("1-curves") == hidden("1-span") == set()
    opened.page.click(button)
    assert opened.page.get_attribute(button, "aria-pressed") == "false"
    # The last has not been drawn before.
    for key in ("1-curves", "1-span", "1-coverage"):
        assert hidden(key) == {"sombrl"}
    opened.page.click(button)
    assert hidden("1-curves") == hidden("1-coverage") == set()


def test_a_run_is_chosen_and_shown(open_page: Open, frame: pl.DataFrame) -> None:
    opened = open_page("one")
    opened.draw("run")
    labels = opened.page.locator("#run option").all_text_contents()
    assert labels[:4] == [f"pendulum-sombrl-s{seed}" for seed in range(4)]
    groups = opened.page.locator("#run optgroup").all()
    names = [group.get_attribute("label") for group in groups]
    assert names == ["SOMBRL", "R-OMBRL", "SW-OMBRL"]
    opened.page.select_option("#run", "6")
    assert opened.page.text_content("#facts").startswith(f"{labels[6]}: R = ")
    shown = {one["column"]: one["y"] for one in opened.traces("run")}
    rows = frame.filter(run=labels[6]).sort("episode")
    for column in ("theta", "return_eval", "temperature", "optimal_return"):
        assert shown[column] == rows[column].to_list()
    assert shown["model_error"][0] is None  # there was no model yet
    assert shown["model_error"][1:] == rows["model_error"].to_list()[1:]
    assert shown["span"] == (rows["episode"] - rows["first_retained"]).to_list()
    opened.page.click("button.step[value='1']")
    assert opened.page.input_value("#run") == "7"
    opened.page.select_option("#run", "0")
    opened.page.click("button.step[value='-1']")
    assert opened.page.input_value("#run") == "11"


def test_all_records_are_saved(open_page: Open, frame: pl.DataFrame) -> None:
    name, text = open_page("one").download("#download")
    assert name == "pendulum-episodes.csv"
    rows = pl.read_csv(io.StringIO(text))
    order = ["method", "seed", "episode"]
    rows, expected = rows.sort(order), frame.sort(order)
    for column in ("return_eval", "cumulative_regret", "soft_reset", "first_retained"):
        assert rows[column].to_list() == expected[column].to_list()


def test_a_phone_scrolls_tables_and_not_the_page(open_page: Open) -> None:
    opened = open_page("two", PHONE)
    for key in opened.boxes():
        opened.draw(key)
    widths = opened.page.evaluate(
        "() => [document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert widths[0] <= widths[1] == 390
    assert opened.page.locator(".scroll.cut table.methods").count() == 2
    # A legend sticks to the top of its own figures only.
    opened.draw("run")
    tops = [one.bounding_box()["y"] for one in opened.page.locator(".legend").all()]
    assert all(top < 0 for top in tops)
    legends = opened.page.locator(".legend").all()
    assert all(one.bounding_box()["height"] < 0.31 * 844 for one in legends)
    # A finger on a figure scrolls.
    assert opened.page.evaluate(
        "() => document.getElementById('plot-1-curves').layout.dragmode === false"
    )


def test_paper_has_every_figure_and_no_buttons(open_page: Open) -> None:
    opened = open_page("one")
    document = opened.page.pdf(format="A4")
    assert document.startswith(b"%PDF")
    drawn = opened.page.locator(".js-plotly-plot").count()
    assert drawn == len(opened.boxes()) - 1  # no run was chosen to be printed
    opened.page.emulate_media(media="print")
    assert not opened.page.is_visible("#download")
    assert opened.page.is_visible("button.method >> nth=0")
