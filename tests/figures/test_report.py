"""The page: self-contained, escaped, complete, and the same every time."""

import dataclasses
import html
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import driftrl
import driftrl.figures
from driftrl.figures.part import Picture
from driftrl.figures.problems import problems_caption
from driftrl.figures.report import ALL, Origin, report_page
from driftrl.figures.wording import comparison_summary, number, study_summary
from driftrl.oracles.values import OracleTable
from driftrl.records import COLUMNS, Run
from driftrl.results.comparison import Comparison
from driftrl.results.origin import Source
from driftrl.results.regret import StudyRegret, compare_methods

PageData = Callable[[str], dict[str, Any]]
PageBytes = Callable[[str, str], bytes]


@pytest.fixture(scope="module")
def page(study: StudyRegret) -> str:
    return report_page(Comparison((study,)), "Falling torque", "Three agents.")


def without_plotly(page: str) -> str:
    """The page less Plotly's own code, which names addresses it never visits."""
    start = page.index("<script>/**\n* plotly.js")
    return page[:start] + page[page.index("</script>", start) :]


def without_code(page: str) -> str:
    """What is read on the page."""
    return re.sub("<script.*?</script>", "", page, flags=re.DOTALL)


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
    # The figures, the records, and the page's own code.
    assert len(re.findall(r"<script", without_plotly(page))) == 3


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


def test_figures_are_whole(page: str, page_data: PageData) -> None:
    layout = page_data(page)["figures"]["differences"]["layout"]
    title = layout["xaxis"]["title"]["text"]
    assert title == "difference in R<sub>30</sub> to SOMBRL"


def test_every_method_is_in_table_and_figures(page: str, page_data: PageData) -> None:
    own = without_code(page)
    figures = page_data(page)["figures"]
    for name in ("SOMBRL", "R-OMBRL", "SW-OMBRL"):
        assert f"</span>{name}</td>" in own
        for key in ("curves", "span", "model_error", "coverage"):
            assert name in [trace.get("name") for trace in figures[key]["data"]]
    assert set(figures) == {
        *("curves", "finals", "differences", "run"),
        *("span", "model_error", "coverage", "epistemic_std"),
        *("aggregate-profile", "aggregate-improvement"),
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


def test_the_page_holds_the_records_exactly(
    page: str, study: StudyRegret, page_data: PageData, page_bytes: PageBytes
) -> None:
    header = page_data(page)["records"][""]
    assert header["file"] == "pendulum-episodes.csv"
    assert header["rows"] == [30] * 15 and header["every"] == 1
    assert header["flags"] == ["terminated", "soft_reset"]
    numbers = np.frombuffer(page_bytes(page, "records-"), "<f8")
    columns = dict(zip(header["columns"], numbers.reshape(-1, 450), strict=True))
    records = [record for run in study.runs for record in run.records]
    recorded = {
        name: np.array([getattr(record, name) for record in records], float)
        for name in COLUMNS
    }
    optimum = study.table.column("value", recorded["theta"])
    np.testing.assert_array_equal(columns.pop("optimum"), optimum)
    for name, values in columns.items():
        np.testing.assert_array_equal(values, recorded[name])
    lost = COLUMNS.keys() - columns.keys() - {"episode"}
    assert all(np.isnan(recorded[name]).all() for name in lost)
    assert [run["seed"] for run in header["runs"]] == [0, 1, 2, 3, 4] * 3


def test_a_run_can_be_chosen(page: str, page_data: PageData) -> None:
    data = page_data(page)
    columns = [trace["meta"]["column"] for trace in data["figures"]["run"]["data"]]
    assert columns == [
        *("theta", "optimum", "return_executed", "model_error", "coverage"),
        *("optimism", "span"),
    ]
    assert '<div class="one-run" data-part=""><h2>One run</h2>' in page
    assert "temperature" not in without_code(page)
    run = data["records"][""]["runs"][5]
    assert run["label"] == "pendulum-r-ombrl-s0"
    assert run["resets"] == [] and run["episodes"] == 30
    assert run["facts"].endswith(" after 30 episodes, 0.75 minutes")


def test_soft_resets_of_a_run_are_known_to_the_page(
    ablation: StudyRegret, page_data: PageData
) -> None:
    page = report_page(Comparison((ablation,)), "Soft resets", "")
    data = page_data(page)
    assert data["records"][""]["runs"][0]["resets"] == [8, 15, 22, 29]
    drawn = {trace["meta"]["column"] for trace in data["figures"]["run"]["data"]}
    assert {"return_eval", "return_executed", "temperature"} <= drawn
    assert "Dotted lines mark soft resets." in page


@pytest.mark.parametrize(
    "text",
    [
        "<script>alert(1)</script>",
        '"><img src=x onerror=alert(1)>',
        "</script><script>alert(1)</script>",
        "a&b <b>'c'</b>",
    ],
)
def test_text_from_files_is_escaped(
    study: StudyRegret, text: str, page_data: PageData
) -> None:
    place = study.runs[0].directory.parent
    source = Source(text, place, text, text, f"a = {json.dumps(text)}")
    origin = Origin((source, source), text)
    page = report_page(Comparison((hostile(study, text),)), text, text, None, origin)
    assert text not in without_plotly(page)
    assert html.escape(text) in page
    assert len(re.findall(r"<script", without_plotly(page))) == 3
    traces = page_data(page)["figures"]["curves"]["data"]
    # Plotly reads labels as HTML, too.
    assert html.escape(text) in [trace.get("name") for trace in traces]


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


def test_unfinished_runs_are_listed(
    unfinished: StudyRegret, page_data: PageData
) -> None:
    page = report_page(Comparison((unfinished,)), "title", "")
    assert "<td>17 of 30</td>" in page
    assert "<td>0 of 30</td>" in page
    data = page_data(page)
    traces = data["figures"]["curves"]["data"]
    # θ; regret of both methods; J*; returns of both.
    assert [len(trace["y"]) for trace in traces] == [30, 22, 17, 30, 22, 17]
    assert data["records"][""]["rows"] == [30, 22, 17]


def test_a_single_run_has_a_page(single: StudyRegret) -> None:
    page = report_page(Comparison((single,)), "title", "")
    assert "plot-differences" not in page
    assert page.count("No model was learned.") == 2
    assert "nan" not in without_code(page).lower().replace("provenance", "")


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
    links = [
        *(
            ("#problem-1", "a = 0.025"),
            ("#problem-2", "a = 0.1"),
            ("#problem-3", "a = 1"),
        )
    ]
    # Of the navigation, and of the table of problems.
    assert re.findall(r'<a href="(#[^"]*)">([^<]*)</a>', own) == links * 2
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
    assert re.findall(r'title="([^"]*)">download', own) == [
        f"pendulum-a={rate}-episodes.csv" for rate in ("0.025", "0.1", "1")
    ]


def test_figures_of_problems_are_told_apart(
    page_of_rates: str, page_data: PageData
) -> None:
    figures = page_data(page_of_rates)["figures"]
    places = re.findall(r'id="plot-([^"]*)"', page_of_rates)
    assert sorted(places) == sorted(figures)
    owners = [key.partition("-")[0] for key in figures]
    assert {owner: owners.count(owner) for owner in owners} == {
        **{"aggregate": 2, "1": 8, "2": 8, "3": 8}
    }


def test_the_table_of_problems_has_a_score_for_every_method(
    page_of_rates: str, rates: Comparison
) -> None:
    for study in rates.studies:
        for one in study.methods:
            said = f"{number(one.final.mean)} ± {number(one.final.stderr)}"
            is_best = one.final.mean == min(two.final.mean for two in study.methods)
            cell = f"<strong>{said}</strong>" if is_best else said
            assert f"<td>{cell}</td>" in page_of_rates


def test_of_many_methods_the_table_has_the_best_and_the_baseline(
    rates: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftrl.figures.overview._MOST_COLUMNS", 2)
    page = report_page(rates, "Rates", "")
    assert "<th>Problem</th><th>Best</th><th>Baseline</th>" in page
    baseline = rates.studies[0].methods[0].final
    said = f"{number(baseline.mean)} ± {number(baseline.stderr)}"
    assert f"</span>SOMBRL<small>{said}</small></td></tr>" in page


def test_pictures_stand_first_or_in_their_section(page_of_rates: str) -> None:
    own = without_plotly(page_of_rates)
    whole, part = (
        own.index("<h2>All &lt;rates&gt;</h2>"),
        own.index("<h4>One rate</h4>"),
    )
    assert own.index("<nav>") < whole < own.index('id="problem-1"')
    assert own.index('id="problem-3"') < part
    images = re.findall(
        r'<div class="scroll"><img alt="([^"]*)" width="([^"]*)" style="([^"]*)" '
        r'src="(data:[^,]*),',
        own,
    )
    # No narrower than can be read, and a small one no wider than it is.
    assert images == [
        ("All &lt;rates&gt;", "300", "min-width:300px", "data:image/png;base64"),
        ("One rate", "300", "min-width:300px", "data:image/png;base64"),
    ]


def test_a_line_that_is_not_drawn_is_not_spoken_of(
    runs: list[Run], study: StudyRegret, page: str
) -> None:
    said = "the dotted line marks where θ begins to change"
    assert said in page and said in problems_caption([study])
    # θ has changed from the first episode on, so that it never began to.
    late = [
        dataclasses.replace(row, episode=row.episode - 10)
        for run in runs
        for row in run.records[10:]
    ]
    falling = [
        dataclasses.replace(run, records=tuple(late[20 * n : 20 * n + 20]))
        for n, run in enumerate(runs)
    ]
    other = compare_methods(falling, study.table)
    assert said not in report_page(Comparison((other,)), "A title", "")
    assert said not in problems_caption([other])


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
    found = {path.name for path in folder.iterdir()}
    assert {"report.css", "report.js", "page_data.js", "one_run.js"} <= found


def test_a_study_too_large_for_a_page_is_thinned_and_the_page_says_so(
    study: StudyRegret, page_data: PageData, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Means and errors: six panels of three methods over thirty episodes.
    monkeypatch.setattr("driftrl.figures.report._CURVE_NUMBERS", 6 * 3 * 30 * 2 // 4)
    monkeypatch.setattr("driftrl.figures.report._RECORD_BYTES", 2_000)
    page = report_page(Comparison((study,)), "title", "")
    data, text = page_data(page), without_code(page)
    lines = data["figures"]["curves"]["data"]
    assert {(line["x0"], line["dx"]) for line in lines} == {(2, 4)}
    assert "One of 4 episodes is drawn, the last among them." in text
    header = data["records"][""]
    assert header["width"] == 4 and header["every"] > 1
    assert (
        f"Numbers are rounded to 4 digits and one of {header['every']} episodes is "
        "kept, for the page would be too large otherwise." in text
    )
    assert f"The table has {sum(header['rows'])} rows with the columns" in text


def test_commands_and_versions_are_on_the_page(study: StudyRegret) -> None:
    place = study.runs[0].directory.parent
    text = 'name = "falling"\ntitle = "Falling <torque>"\n'
    source = Source("falling", place, "Falling", "", text)
    origin = Origin((source,), "driftrl report 'my study'")
    page = without_code(report_page(Comparison((study,)), "title", "", None, origin))
    assert f"<code>driftrl study study.toml --out runs/{place.name}</code>" in page
    assert f"<pre><code>{html.escape(text)}</code></pre>" in page
    assert html.escape("driftrl report 'my study'") in page
    assert "--config pendulum-sombrl-s0/config.toml" in page
    assert f"driftrl {driftrl.__version__} made this page by" in page


def test_versions_that_differ_are_counted(study: StudyRegret) -> None:
    runs = [
        dataclasses.replace(
            run, config={**run.config, "versions": {"jax": f"0.{run.seed // 3}"}}
        )
        for run in study.runs
    ]
    page = report_page(Comparison((compare_methods(runs, study.table),)), "title", "")
    assert '<td class="code">0.0 (9 runs), 0.1 (6 runs)</td>' in page
    assert "versions.jax" not in without_code(page)
