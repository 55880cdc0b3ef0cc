"""The page: self-contained, escaped, complete, and the same every time."""

import base64
import dataclasses
import html
import json
import re
from pathlib import Path

import polars
import pytest

import driftrl.figures
from driftrl.figures.report import ALL, report_page
from driftrl.figures.sections import Picture
from driftrl.figures.wording import comparison_summary, study_summary
from driftrl.regret import OracleTable, StudyRegret, compare_methods
from driftrl.results.comparison import Comparison
from driftrl.results.table import csv_text, records_table


@pytest.fixture(scope="module")
def page(study: StudyRegret) -> str:
    return report_page(Comparison((study,)), "Falling torque", "Three agents.")


def without_plotly(page: str) -> str:
    """The page less Plotly's own code, which names addresses it never visits."""
    start = page.index("<script>/**\n* plotly.js")
    return page[:start] + page[page.index("</script>", start) :]


def embedded_text(page: str) -> str:
    found = re.search(
        r'<script type="application/json" id="figures">(.*?)</script>', page
    )
    assert found
    return found[1]


def embedded_figures(page: str) -> dict[str, dict]:
    return json.loads(embedded_text(page))


def hostile(study: StudyRegret, text: str) -> StudyRegret:
    """The same study with a text for a method, a task and everything else free."""
    runs = [
        dataclasses.replace(
            run,
            config={
                **run.config,
                "task": text,
                "method": text if run.method == "sw-ombrl" else run.method,
                "note": f"{text}{run.method}",
            },
        )
        for run in study.runs
    ]
    return compare_methods(runs, OracleTable(study.table.entries, text))


def test_plotly_is_embedded_exactly_once(page: str) -> None:
    assert page.count("* plotly.js v") == 1
    assert len(re.findall(r"<script", without_plotly(page))) == 2


def test_nothing_refers_to_the_network(page: str) -> None:
    own = without_plotly(page)
    assert "http://" not in own
    assert "https://" not in own
    sources = re.findall(r'\b(?:src|href|action|data)\s*=\s*"([^"]*)"', own)
    assert sources
    assert all(source.startswith("data:") for source in sources)
    assert not re.search(r"@import|url\(|<iframe|<object|<form", own)
    assert "default-src 'none'" in own
    assert "connect-src" not in own


def test_plotly_has_no_button_that_sends_the_data_away(page: str) -> None:
    assert "showSendToCloud: false" in page
    assert 'plotlyServerURL: ""' in page


def test_figures_cannot_end_the_element_they_are_embedded_in(page: str) -> None:
    assert "<" not in embedded_text(page)
    title = embedded_figures(page)["differences"]["layout"]["xaxis"]["title"]["text"]
    assert title == "difference in R<sub>30</sub> to SOMBRL"


def test_every_method_is_in_table_and_figures(page: str, study: StudyRegret) -> None:
    own = without_plotly(page)
    figures = embedded_figures(page)
    for name in ("SOMBRL", "R-OMBRL", "SW-OMBRL"):
        assert f"</span>{name}</td>" in own
        for key in ("returns", "regret", "span", "model_error", "coverage"):
            assert name in [trace.get("name") for trace in figures[key]["data"]]
    assert set(figures) == {
        "theta",
        "returns",
        "regret",
        "span",
        "model_error",
        "coverage",
        "epistemic_std",
        "differences",
    }
    for key in figures:
        assert f'id="plot-{key}"' in own


def test_the_summary_and_the_table_say_the_computed_numbers(
    page: str, study: StudyRegret
) -> None:
    text = html.unescape(without_plotly(page))
    for sentence in study_summary(study):
        assert sentence in text
    one = study.methods[1]
    assert f"<td>{one.final.mean:,.0f} ± {one.final.stderr:,.0f}</td>" in text
    assert "<td>0.75</td>" in text  # thirty episodes of a second and a half
    assert "dynamic programming on a 401 × 401 grid." in text


def test_settings_that_differ_are_told_from_those_that_do_not(page: str) -> None:
    cells = '<td class="code">{}</td>'
    row = "".join(
        cells.format(cell)
        for cell in ("forgetting.kind", "sombrl", "r-ombrl", "sw-ombrl")
    )
    assert row in page
    assert cells.format("model.noise_std") + cells.format("0.01") in page
    assert cells.format("version") + cells.format("0.1.0") in page


def test_the_records_can_be_downloaded(page: str, study: StudyRegret) -> None:
    found = re.search(r'download="([^"]*)" href="data:text/csv;base64,([^"]*)"', page)
    assert found
    text = base64.b64decode(found[2]).decode()
    assert found[1] == "pendulum-episodes.csv"
    assert text == csv_text(records_table(study.runs))
    assert polars.read_csv(text.encode()).height == 450


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</script><script>alert(1)</script>",
        "a&b <b>'c'</b>",
    ],
)
def test_text_from_files_is_escaped(study: StudyRegret, text: str) -> None:
    page = report_page(Comparison((hostile(study, text),)), text, text)
    assert text not in without_plotly(page)
    assert html.escape(text) in page
    assert len(re.findall(r"<script", without_plotly(page))) == 2
    names = [trace.get("name") for trace in embedded_figures(page)["regret"]["data"]]
    assert html.escape(text) in names  # Plotly reads labels as HTML, too


def test_an_oracle_that_is_beaten_is_shown(study: StudyRegret) -> None:
    entries = tuple(
        dataclasses.replace(entry, value=entry.value - 60)
        for entry in study.table.entries
    )
    beaten = compare_methods(study.runs, OracleTable(entries, "too low"))
    page = html.unescape(
        without_plotly(report_page(Comparison((beaten,)), "title", ""))
    )
    assert beaten.warnings
    for warning in beaten.warnings:
        assert f"<li>{warning}</li>" in page
    assert "Runs did beat it" in page


def test_unfinished_runs_are_listed(unfinished: StudyRegret) -> None:
    page = report_page(Comparison((unfinished,)), "title", "")
    assert "<td>17 of 30</td>" in page
    assert "<td>0 of 30</td>" in page
    lengths = [len(trace["y"]) for trace in embedded_figures(page)["regret"]["data"]]
    assert lengths == [44, 22, 0, 17]


def test_a_single_run_has_a_page(single: StudyRegret) -> None:
    page = report_page(Comparison((single,)), "title", "")
    assert "plot-differences" not in page
    assert page.count("No model was learned.") == 2
    assert "nan" not in without_plotly(page).lower().replace("provenance", "")


@pytest.fixture(scope="module")
def page_of_rates(rates: Comparison) -> str:
    # The first bytes of a PNG of 600 pixels, which is all that a page reads of it.
    header = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (600).to_bytes(4)
    pictures = {
        ALL: [Picture("All <rates>", "A caption.", header)],
        "a=1": [Picture("One rate", "Another.", header)],
    }
    return report_page(rates, "Falling torque", "Three rates.", pictures)


def test_several_problems_have_a_section_each(
    page_of_rates: str, rates: Comparison
) -> None:
    own = without_plotly(page_of_rates)
    assert re.findall(r'<a href="(#[^"]*)">([^<]*)</a>', own) == [
        *(
            ("#problem-1", "a = 0.025"),
            ("#problem-2", "a = 0.1"),
            ("#problem-3", "a = 1"),
        )
    ]
    assert re.findall(r'<section id="([^"]*)"><h2>([^<]*)</h2>', own) == [
        *(("problem-1", "a = 0.025"), ("problem-2", "a = 0.1"), ("problem-3", "a = 1"))
    ]
    text = html.unescape(own)
    for sentence in comparison_summary(rates):
        assert f"<p>{sentence}</p>" in text
    for study in rates.studies:
        for sentence in study_summary(study):
            assert sentence in text
    assert own.count("<h3>Methods</h3>") == own.count("<h3>Oracle</h3>") == 3
    assert re.findall(r'download="([^"]*)"', own) == [
        f"pendulum-a={rate}-episodes.csv" for rate in ("0.025", "0.1", "1")
    ]


def test_figures_of_problems_are_told_apart(page_of_rates: str) -> None:
    figures = embedded_figures(page_of_rates)
    assert len(figures) == 3 * 8
    places = re.findall(r'id="plot-([^"]*)"', page_of_rates)
    assert sorted(places) == sorted(figures)
    assert {key.partition("-")[0] for key in figures} == {"1", "2", "3"}


def test_pictures_stand_first_or_in_their_section(page_of_rates: str) -> None:
    own = without_plotly(page_of_rates)
    whole, part = (
        own.index("<h2>All &lt;rates&gt;</h2>"),
        own.index("<h4>One rate</h4>"),
    )
    assert own.index("<nav>") < whole < own.index('id="problem-1"')
    assert own.index('id="problem-3"') < part
    images = re.findall(r'<img alt="([^"]*)" width="([^"]*)" src="(data:[^,]*),', own)
    assert images == [
        ("All &lt;rates&gt;", "300", "data:image/png;base64"),
        ("One rate", "300", "data:image/png;base64"),
    ]


def test_one_problem_needs_no_navigation(page: str) -> None:
    own = without_plotly(page)
    assert "<nav>" not in own
    assert "<section" not in own
    assert "<h2>Methods</h2>" in own


def test_the_same_study_gives_the_same_page(study: StudyRegret, page: str) -> None:
    again = report_page(Comparison((study,)), "Falling torque", "Three agents.")
    assert again == page


def test_assets_lie_beside_the_code() -> None:
    folder = Path(driftrl.figures.__file__ or "").parent
    assert {"report.css", "report.js"} <= {path.name for path in folder.iterdir()}
