"""The report: its tables, figures and embedded data are those of the frame."""

import base64
import gzip
import html
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import driftrl
from driftrl.analysis import report as report_module
from driftrl.analysis.report import file_endings
from driftrl.analysis.style import number
from driftrl.errors import InputError
from driftrl.records import COLUMNS
from factories import made_up_optimum, record, write_run, write_study

NAMES = {"sombrl": "SOMBRL", "r-ombrl": "R-OMBRL", "sw-ombrl": "SW-OMBRL"}


def page_of(directory: Path, oracle: Any = made_up_optimum, **options: Any) -> str:
    out = directory.parent / f"{directory.name}-report"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_module, "_print_figures", lambda *_: [])
        options |= {"oracle": oracle, "warn": lambda note: None}
        path = driftrl.report(directory, out, **options)[-1]
    return path.read_text()


@pytest.fixture(scope="session")
def page(study: Path) -> str:
    return page_of(study)


def embedded(page: str) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    (text,) = re.findall(r'id="data">([^<]*)</script>', page)
    data = json.loads(gzip.decompress(base64.b64decode(text)))
    return data["figures"], data["runs"]


def records_of(page: str) -> pl.DataFrame:
    """Return the embedded records of all runs."""
    runs = [
        pl.DataFrame({**run["text"], **run["columns"]}) for run in embedded(page)[1]
    ]
    return pl.concat(runs, how="vertical_relaxed")


def tables(page: str, kind: str = "") -> list[list[list[str]]]:
    """Return the cells of the tables of a class as plain text."""
    found = []
    for body in re.findall(rf"<table{kind}>(.*?)</table>", page, flags=re.DOTALL):
        rows = re.findall(r"<tr>(.*?)</tr>", body, flags=re.DOTALL)
        found.append(
            [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row, re.DOTALL) for row in rows]
        )
    return [[[text(cell) for cell in row] for row in table] for table in found]


def text(markup: str) -> str:
    plain = html.unescape(re.sub(r"<[^>]+>", " ", markup))
    return re.sub(r"\s+", " ", plain).strip()


def words(page: str) -> str:
    return page[: page.index('<script type="application/gzip"')]


def span(row: dict[str, Any], name: str) -> str:
    low, high = (row[f"{name}{end}"] for end in ("low", "high"))
    return f"{number(low)} to {number(high)}"


def test_the_table_of_methods_is_that_of_regret(page: str, frame: pl.DataFrame) -> None:
    (table,) = tables(page, ' class="methods"')
    for cells, row in zip(table[1:], driftrl.regret(frame).to_dicts(), strict=True):
        difference = ["–", "–"]
        if row["paired_seeds"]:
            both = f"{span(row, 'difference_')} {span(row, 'difference_bootstrap_')}"
            difference = [number(row["difference"]), both]
        assert cells[:6] == [
            *(NAMES[row["method"]], str(row["seeds"])),
            f"{number(row['regret'])} ± {number(row['standard_error'])}",
            f"{span(row, '')} {span(row, 'bootstrap_')}",
            *difference,
        ]
        assert cells[7] == number(row["minutes"])


def test_the_table_of_all_runs_is_that_of_compare(
    page: str, frame: pl.DataFrame
) -> None:
    (table,) = tables(page, ' class="aggregate"')
    for cells, row in zip(table[1:], driftrl.compare(frame).to_dicts(), strict=True):
        numbers = [
            f"{number(row[name])} {span(row, f'{name}_')}"
            for name in ("iqm", "mean", "median")
        ]
        assert cells[:5] == [NAMES[row["method"]], str(row["runs"]), *numbers]


def test_the_summary_names_the_best_method(page: str, frame: pl.DataFrame) -> None:
    best = driftrl.regret(frame).sort("regret").row(0, named=True)
    (summary,) = re.findall(r'<div class="summary">(.*?)</div>', page, re.DOTALL)
    expected = f"{number(best['regret'])} ± {number(best['standard_error'])}"
    assert f"{NAMES[best['method']]} has the lowest" in text(summary)
    assert expected in text(summary) and "over 4 seeds" in text(summary)


def test_the_embedded_records_are_those_of_the_frame(
    page: str, frame: pl.DataFrame
) -> None:
    order = ["method", "seed", "episode"]
    records, expected = records_of(page).sort(order), frame.sort(order)
    numbers = [name for name in COLUMNS if name != "span_losses"]
    for name in (*numbers, "optimal_return", "cumulative_regret", "run", "problem"):
        assert records[name].to_list() == expected[name].to_list()


def test_each_run_says_its_result(page: str, frame: pl.DataFrame) -> None:
    figures, runs = embedded(page)
    assert len(runs) == 12
    for entry in runs:
        final = frame.filter(run=entry["label"], episode=30)["cumulative_regret"][0]
        assert f"R = {number(final)} after 30 episodes" in entry["facts"]
        assert entry["resets"] == [8, 15, 22, 29]
    columns = {trace["meta"]["column"] for trace in figures["run"]["data"]}
    assert columns == {
        *("theta", "optimal_return", "return_executed", "return_eval", "model_error"),
        *("coverage", "optimism", "temperature", "span"),
    }


def test_curves_are_means_with_standard_errors(page: str, frame: pl.DataFrame) -> None:
    figures, _ = embedded(page)
    lines = {
        (trace["meta"]["quantity"], trace["meta"].get("method")): trace
        for trace in figures["1-curves"]["data"]
        if "quantity" in trace["meta"]
    }
    columns = {"regret": "cumulative_regret", "returns": "achieved_return"}
    for quantity, column in columns.items():
        for method in NAMES:
            rows = frame.filter(method=method).sort("seed", "episode")
            values = rows[column].to_numpy().reshape(4, 30)
            line = lines[quantity, method]
            np.testing.assert_allclose(line["y"], values.mean(axis=0), rtol=1e-6)
            error = values.std(axis=0, ddof=1) / 2
            np.testing.assert_allclose(line["customdata"], error, rtol=1e-6)
    theta = lines["theta", None]
    np.testing.assert_allclose(theta["y"], frame[:30]["theta"], rtol=1e-6)
    assert {key.partition("-")[2] for key in figures if key != "run"} == {
        *("curves", "span", "model_error", "coverage"),
        *("epistemic_std", "optimism", "temperature"),
    }


def test_every_figure_has_its_box(page: str) -> None:
    boxes = re.findall(r'id="plot-([^"]*)"', page)
    assert sorted(boxes) == sorted(embedded(page)[0])


def test_nothing_refers_to_the_network(page: str) -> None:
    own = words(page) + page[page.rindex("<script>") :]
    assert not re.findall(r"https?://|//\w+\.\w+", own)
    links = r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"(?!data:)"
    assert not re.findall(links, page)
    policy = re.findall(r'Content-Security-Policy" content="([^"]*)"', page)
    assert len(policy) == 1 and policy[0].startswith("default-src 'none';")
    assert "fetch(" not in own and "XMLHttpRequest" not in own


def test_the_same_study_gives_the_same_page(study: Path, page: str) -> None:
    assert page_of(study) == page


def test_settings_that_differ_are_told_from_those_that_do_not(page: str) -> None:
    different, common = (
        {row[0]: row[1:] for row in table[1:]}
        for table in tables(page)
        if table[0][0] == "Setting"
    )
    assert different == {"forgetting.kind": list(NAMES)}
    assert common["drift.rate"] == ["1.0"] and "seed" not in common


def test_text_from_files_is_escaped(tmp_path: Path) -> None:
    evil = "<script>alert(1)</script>"
    study = write_study(tmp_path / "s", ("sombrl",), (0,), 3, agent={"kind": evil})
    (study / "study.toml").write_text(f"title = '{evil}'\nsummary = '{evil}'\n")
    page = page_of(study)
    assert evil not in page and page.count(html.escape(evil)) >= 4
    assert json.dumps(evil)[1:-1] not in words(page)


def test_several_problems_have_a_section_each(
    rates: Path, rates_frame: pl.DataFrame
) -> None:
    page = page_of(rates)
    assert re.findall(r'<section id="([^"]*)"', page) == ["problem-1", "problem-2"]
    (table,) = tables(page, ' class="problems"')
    regret = driftrl.regret(rates_frame)
    for cells, label in zip(table[1:], ("a=0.1", "a=0.5"), strict=True):
        rows = regret.filter(problem=label).to_dicts()
        assert cells == [
            f"a = {label[2:]} regret, 20 episodes",
            *(f"{number(r['regret'])} ± {number(r['standard_error'])}" for r in rows),
        ]
    figures, runs = embedded(page)
    assert {"1-curves", "2-curves", "run"} <= set(figures)
    assert {run["group"] for run in runs} == {
        f"a = {rate}: {name}" for rate in (0.1, 0.5) for name in ("SOMBRL", "SW-OMBRL")
    }


def test_without_an_optimum_returns_are_compared(study: Path) -> None:
    page = page_of(study, "none")
    (table,) = tables(page, ' class="methods"')
    frame = driftrl.load(study, oracle="none")
    means = frame.group_by("method", "seed").agg(pl.col("achieved_return").mean())
    for cells, method in zip(table[1:], NAMES, strict=True):
        values = means.filter(method=method)["achieved_return"]
        assert cells[2].startswith(number(float(values.mean() or 0)))
        late = frame.filter(pl.col("method") == method, pl.col("episode") > 20)
        assert cells[6].startswith(number(float(late["achieved_return"].mean() or 0)))
    pairs = means.pivot("method", index="seed", values="achieved_return")
    gain = (pairs["sw-ombrl"] - pairs["sombrl"]).mean()
    assert table[3][4] == number(float(gain or 0))
    assert "1-regret" not in embedded(page)[0] and "Mean return" in words(page)
    assert words(page).count("J* was not asked for") == 1


def test_an_oracle_that_is_beaten_is_said(tmp_path: Path) -> None:
    rows = [record(n, return_executed=0.5) for n in (1, 2)]
    write_run(tmp_path / "s" / "a", rows)
    page = page_of(tmp_path / "s", lambda theta: 0.0)
    assert "is not an optimum at θ = 2" in words(page)


def test_unfinished_runs_and_those_not_started_are_listed(tmp_path: Path) -> None:
    study = write_study(tmp_path / "s", ("sombrl",), (0, 1), 5)
    write_run(study / "half", [record(1), record(2)], seed=7, episodes=9)
    write_run(study / "none", [], seed=8, episodes=9)
    page = page_of(study)
    assert "pendulum-sombrl-s7 (2 of 9)" in words(page)
    assert "Not started: pendulum-sombrl-s8" in words(page)
    assert "numbers are taken at episode 2" in words(page)


def test_a_single_run_has_a_page(tmp_path: Path) -> None:
    run = write_run(tmp_path / "one", [record(1)])
    page = page_of(run, "none")
    (table,) = tables(page, ' class="methods"')
    assert table[1][:6] == ["SOMBRL", "1", "−1.00", "–", "–", "–"]
    assert "aggregate" not in page[page.index("<body>") :][:20_000]
    figures, (entry,) = embedded(page)
    assert set(figures) == {"1-curves", "1-span", "run"}
    assert entry["label"] == "one"


def test_two_studies_on_one_page(study: Path, rates: Path, tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(report_module, "_print_figures", lambda *_: [])
        path = driftrl.report([study, rates], tmp_path, oracle=made_up_optimum)[-1]
    page = words(path.read_text())
    assert f"<td>{study.name}</td>" in page and f"<td>{rates.name}</td>" in page
    with pytest.raises(InputError, match="--out"):
        driftrl.report([study, rates])


def test_commands_and_versions_are_on_the_page(tmp_path: Path) -> None:
    versions = {"driftrl": driftrl.__version__, "numpy": "2.0"}
    study = write_study(tmp_path / "s", ("sombrl",), (0, 1), 3, versions=versions)
    config = study / "pendulum-sombrl-s1" / "config.toml"
    config.write_text(config.read_text().replace('"2.0"', '"2.1"'))
    (study / "study.toml").write_text('title = "T"\n')
    page = text(words(page_of(study)))
    assert "driftrl study study.toml --out runs/s" in page
    assert "versions.numpy differs by seed" in page


def test_files_are_figures_and_a_page(tmp_path: Path) -> None:
    study = write_study(tmp_path / "s", ("sombrl", "sw-ombrl"), (0, 1), 12)
    paths = driftrl.report(study, tmp_path / "out", oracle=made_up_optimum)
    names = ("regret", "overview")
    expected = [f"{name}.{kind}" for name in names for kind in ("png", "pdf")]
    assert [path.name for path in paths] == [*expected, "report.html"]
    written = {path.name for path in (tmp_path / "out").iterdir()}
    assert written == {*expected, "report.html"}


def test_files_of_problems_can_be_told_apart() -> None:
    assert file_endings(["a"]) == [""]
    assert file_endings(["ant a = 1", "b/c"]) == ["-anta=1", "-b_c"]
    assert file_endings(["a/b", "a:b"]) == ["-1", "-2"]
    assert file_endings(["a" * 101, "b"]) == ["-1", "-2"]
