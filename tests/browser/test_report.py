"""The report as people use it: looked at, pointed at, clicked, saved, printed."""

import base64
import csv
import gzip
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrl.figures.aggregates import aggregates_of
from driftrl.records import COLUMNS
from driftrl.results.comparison import Comparison

pytestmark = [pytest.mark.browser, pytest.mark.timeout(300)]

PHONE = {
    "viewport": {"width": 390, "height": 844},
    "is_mobile": True,
    "has_touch": True,
    "device_scale_factor": 2,
}
DETAILS = {"span", "model_error", "coverage", "epistemic_std", "optimism"}
DETAILS |= {"temperature"}
FIGURES = DETAILS | {"curves", "finals", "differences", "run"}
TOGETHER = {"aggregate-profile", "aggregate-improvement"}
Open = Callable[..., Any]
SWITCH = "#plot-curves .legendtoggle >> nth={}"


def rows_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def hidden(opened: Any, key: str) -> set[str]:
    traces = opened.figure(key)["traces"]
    return {one["group"] for one in traces if one["visible"] == "legendonly"}


@pytest.mark.parametrize("name", ["one", "three"])
def test_every_figure_is_drawn_when_it_is_reached(open_page: Open, name: str) -> None:
    opened = open_page(name)
    boxes = opened.boxes()
    expected = FIGURES
    if name == "three":
        expected = {f"{place}-{key}" for place in (1, 2, 3) for key in FIGURES}
    assert set(boxes) == expected | TOGETHER
    at_first = opened.page.locator(".js-plotly-plot").count()
    assert at_first < len(boxes) / 2  # the rest waits until it is near
    for key in boxes:
        opened.draw(key)
        lines = f'[id="plot-{key}"] .scatterlayer .trace'
        assert opened.page.locator(lines).count() > 0
    assert opened.page.locator(".js-plotly-plot").count() == len(boxes)


def test_bands_are_one_standard_error_to_either_side(
    open_page: Open, study: Comparison
) -> None:
    opened = open_page("one")
    opened.draw("curves")
    traces = opened.figure("curves")["traces"]
    bands = [one["y"] for one in traces if one["band"]]
    for band, one in zip(bands, study.studies[0].methods, strict=False):
        np.testing.assert_allclose(band[:30], one.mean + one.stderr, rtol=1e-6)
        np.testing.assert_allclose(band[:29:-1], one.mean - one.stderr, rtol=1e-6)


def test_a_pointer_is_told_what_is_under_it(open_page: Open) -> None:
    opened = open_page("one")
    opened.draw("curves")
    # The panel of regret, in its middle.
    panel = opened.page.locator("#plot-curves .xy2 .plot, #plot-curves .xy2").first
    box = panel.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    label = opened.page.wait_for_selector("#plot-curves .hoverlayer .legend")
    said = label.text_content()
    assert all(name in said for name in ("SOMBRL", "R-OMBRL", "SW-OMBRL", "±"))


def test_a_click_on_a_name_hides_it_in_all_figures(open_page: Open) -> None:
    opened = open_page("one")
    opened.draw("curves")
    opened.draw("span")
    # The first name is that of the optimum.
    opened.page.click(SWITCH.format(1))
    opened.wait(
        "document.querySelector('#plot-curves').data.some(t => t.visible !== true)"
    )
    assert hidden(opened, "curves") == hidden(opened, "span") == {"SOMBRL"}
    opened.draw("coverage")  # it was not there yet when the name was clicked
    assert hidden(opened, "coverage") == {"SOMBRL"}
    # Back to the name, and at rest: Plotly loses a click on what it draws anew.
    opened.draw("curves")
    opened.page.wait_for_timeout(1000)
    opened.page.click(SWITCH.format(1))
    opened.wait(
        "document.querySelector('#plot-curves').data.every(t => t.visible === true)"
    )
    assert hidden(opened, "curves") == hidden(opened, "coverage") == set()


def test_two_clicks_show_a_name_alone(open_page: Open) -> None:
    opened = open_page("one")
    opened.draw("curves")
    opened.page.dblclick(SWITCH.format(2))
    opened.wait(
        "document.querySelector('#plot-curves').data.some(t => t.visible !== true)"
    )
    others = {"J*(θ), optimum", "SOMBRL", "SW-OMBRL", "θ"}
    assert hidden(opened, "curves") == others


def test_a_run_is_chosen_and_shown(open_page: Open, study: Comparison) -> None:
    opened = open_page("one")
    opened.draw("run")
    options = opened.page.locator(".one-run option")
    runs = study.studies[0].runs
    assert options.all_text_contents() == [run.label for run in runs]
    groups = opened.page.locator(".one-run optgroup")
    assert [one.get_attribute("label") for one in groups.all()] == [
        *("SOMBRL", "R-OMBRL", "SW-OMBRL")
    ]
    opened.page.select_option(".one-run select", "6")
    facts = opened.page.text_content(".one-run .facts")
    assert facts.startswith(f"{runs[6].label}: R = ")
    figure = opened.figure("run")
    shown = {one["column"]: one["y"] for one in figure["traces"]}
    records = runs[6].records
    assert shown["return_eval"] == [row.return_eval for row in records]
    assert shown["temperature"] == [row.temperature for row in records]
    assert shown["span"] == [row.episode - row.first_retained for row in records]
    assert shown.keys() >= {"theta", "optimum", "model_error", "coverage", "optimism"}
    assert np.isnan(shown["model_error"][0])  # there was no model yet
    (resets,) = figure["shapes"]
    assert resets["path"] == "M7.5,0V1M14.5,0V1M21.5,0V1M28.5,0V1"
    opened.page.click(".one-run button[value='1']")
    assert opened.page.input_value(".one-run select") == "7"
    opened.page.select_option(".one-run select", "0")
    opened.page.click(".one-run button[value='-1']")
    assert opened.page.input_value(".one-run select") == str(len(runs) - 1)


def test_the_data_of_a_figure_is_saved(open_page: Open, study: Comparison) -> None:
    opened = open_page("one")
    opened.draw("curves")
    name, text = opened.download("figure:has(#plot-curves) button.csv")
    assert name == "falling-torque-curves.csv"
    rows = rows_of(text)
    assert list(rows[0]) == ["quantity", "method", "episode", "mean", "standard_error"]
    for one in study.studies[0].methods:
        own = [
            row
            for row in rows
            if (row["quantity"], row["method"]) == ("regret", one.method)
        ]
        assert [int(row["episode"]) for row in own] == list(range(1, 31))
        for column, values in {"mean": one.mean, "standard_error": one.stderr}.items():
            found = [float(row[column]) for row in own]
            np.testing.assert_allclose(found, values, rtol=1e-6)
    # θ, J*, and regret and return of three methods.
    assert len(rows) == 8 * 30


def test_intervals_that_are_drawn_are_saved(open_page: Open, study: Comparison) -> None:
    opened, (whole,) = open_page("one"), study.studies
    _, text = opened.download("figure:has(#plot-finals) button.csv")
    rows = rows_of(text)
    assert list(rows[0]) == ["method", "of", "seed", "regret", "lower", "upper"]
    seeds = {
        (row["method"], row["seed"]): row["regret"]
        for row in rows
        if row["of"] == "one seed"
    }
    means = {row["method"]: row for row in rows if row["of"] == "mean"}
    for one in whole.methods:
        for seed, value in zip(one.seeds, one.final.values, strict=True):
            saved = float(seeds[one.method, str(seed)])
            assert saved == pytest.approx(value, rel=1e-6)
        row, interval = means[one.method], one.final.student
        found = [float(row[name]) for name in ("regret", "lower", "upper")]
        expected = [one.final.mean, interval.low, interval.high]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    _, text = opened.download("figure:has(#plot-differences) button.csv")
    assert list(rows_of(text)[0])[:4] == ["method", "baseline", "of", "seed"]
    aggregates = aggregates_of(study)
    assert aggregates is not None
    _, text = opened.download("figure:has(#plot-aggregate-profile) button.csv")
    shares = [row for row in rows_of(text) if row["method"] == "sombrl"]
    profile = aggregates.methods["sombrl"].profile
    for name, expected in {
        "threshold": aggregates.thresholds,
        "share_of_runs": profile.value,
        "lower": profile.interval.low,
        "upper": profile.interval.high,
    }.items():
        found = [float(row[name]) for row in shares]
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    _, text = opened.download("figure:has(#plot-aggregate-improvement) button.csv")
    for row in rows_of(text):
        chance = aggregates.methods[row["method"]].improvement
        assert chance is not None and row["baseline"] == "sombrl"
        assert float(row["probability"]) == pytest.approx(float(chance.value))
        assert float(row["lower"]) == pytest.approx(float(chance.interval.low))
        assert float(row["upper"]) == pytest.approx(float(chance.interval.high))


def test_a_figure_is_saved_before_it_was_seen(open_page: Open) -> None:
    opened = open_page("one")
    for key in ("temperature", "run"):
        assert opened.page.locator(f"#plot-{key}.js-plotly-plot").count() == 0
        button = f"figure:has(#plot-{key}) button.csv"
        with opened.page.expect_download() as coming:
            opened.page.evaluate("one => document.querySelector(one).click()", button)
        assert len(rows_of(coming.value.path().read_text())) >= 30


@pytest.mark.parametrize("level", [0, 1, 6, 9])
def test_data_is_unpacked_as_it_was(open_page: Open, level: int) -> None:
    opened = open_page("one")
    noise = np.random.default_rng(level).integers(0, 256, 70_000, np.uint8).tobytes()
    words = " ".join(str(n * n % 977) for n in range(40_000)).encode()
    for data in (b"", b"a", b"a" * 1000, b"abc" * 5, noise, words, words + noise):
        packed = base64.b64encode(gzip.compress(data, level, mtime=0)).decode()
        found = opened.page.evaluate(
            """text => {
              const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
              return Array.from(new Inflating(bytes).whole());
            }""",
            packed,
        )
        assert bytes(found) == data


def test_the_records_are_saved_as_they_were(open_page: Open, study: Comparison) -> None:
    opened = open_page("one")
    name, text = opened.download("button.records")
    assert name == "pendulum-episodes.csv"
    rows = rows_of(text)
    records = [(run, record) for run in study.studies[0].runs for record in run.records]
    kept = [column for column in COLUMNS if column in rows[0]]
    assert set(COLUMNS) - set(kept) == {
        *("entropy", "q", "critic_loss", "model_loss", "bonus")
    }
    for row, (run, record) in zip(rows, records, strict=True):
        assert (row["task"], row["method"]) == ("pendulum", run.method)
        assert int(row["seed"]) == run.seed
        for column in kept:
            value = getattr(record, column)
            if COLUMNS[column] is bool:
                assert row[column] == str(value).lower()
            else:
                found = float(row[column]) if row[column] else None
                assert found == value


@pytest.mark.parametrize("name", ["one", "three"])
def test_a_phone_scrolls_in_one_direction_alone(open_page: Open, name: str) -> None:
    opened = open_page(name, PHONE)
    for key in opened.boxes():
        opened.draw(key)
    widths = opened.page.evaluate(
        "[document.documentElement.scrollWidth, window.innerWidth]"
    )
    assert widths == [390, 390]
    outside = opened.page.evaluate(
        """Array.from(document.querySelectorAll(".main-svg, select, button"))
           .filter(one => one.getBoundingClientRect().right > 391).length"""
    )
    assert outside == 0


def test_paper_has_every_figure_and_nothing_to_click(open_page: Open) -> None:
    opened = open_page("one")
    page = opened.page
    opened.draw("run")
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")
    for key in opened.boxes():
        box = page.locator(f'[id="plot-{key}"] .main-svg').first.bounding_box()
        assert 0 < box["width"] <= 680
    assert page.locator("button:visible, select:visible").count() == 0
    assert page.locator("details.long:visible").count() == 0
    assert page.locator("details[open]:visible").count() >= 1
    page.emulate_media(media="screen")
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    opened.wait("document.querySelector('#plot-curves .main-svg').clientWidth > 900")


def test_the_page_prints_itself_whole(open_page: Open) -> None:
    opened = open_page("one")
    # It was not scrolled: what is not drawn by now is drawn for the paper.
    document = opened.page.pdf(format="A4")
    assert document.startswith(b"%PDF")
    drawn = opened.page.locator(".js-plotly-plot").count()
    assert drawn >= len(opened.boxes()) - 1  # the run is read when it is looked at


def test_a_page_that_is_printed_at_once_has_its_figures(
    browser: Any, pages: dict[str, Path]
) -> None:
    page = browser.new_page()
    page.goto(pages["one"].as_uri())
    page.pdf(format="A4")
    boxes = page.locator(".plot").count()
    assert page.locator(".plot .scatterlayer .trace").count() >= boxes - 1
    assert page.locator(".js-plotly-plot").count() >= boxes - 1
    page.close()


def test_a_phone_can_read_pictures_and_is_told_what_is_cut(open_page: Open) -> None:
    opened = open_page("pictured", PHONE)
    box = opened.page.locator("figure.picture .scroll.cut")
    box.wait_for()
    assert box.locator("img").bounding_box()["width"] == 720
    assert opened.page.evaluate("document.documentElement.scrollWidth") == 390
    hint = "box => getComputedStyle(box, '::before').content"
    assert "scroll sideways to see the rest" in box.evaluate(hint)
    assert opened.page.locator(".scroll.cut:has(table)").count() >= 1
    wide = open_page("pictured")
    assert wide.page.locator("figure.picture .scroll.cut").count() == 0


def test_the_page_links_to_its_problems(open_page: Open) -> None:
    opened = open_page("three")
    opened.page.click("nav a >> nth=2")
    opened.page.wait_for_selector('[id="plot-3-curves"] .main-svg')
    assert opened.page.evaluate("location.hash") == "#problem-3"
