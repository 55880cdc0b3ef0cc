"""The paper's tables and figure: worked out by hand, and as the pages have them."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from factories import record, script, write_run

ROOT = Path(__file__).parents[1]
tables: Any = script("paper_tables")
PAGES = [
    path
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    if "<!-- table:" in path.read_text()
]


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """Two methods and two seeds, whose returns after the onset are at most 5.

    SW-OMBRL's second seed meets the new θ an episode earlier than the others.
    """
    runs = {
        ("sombrl", 0): (4, [1.0, 2.0, 3.0], [1.0, 2.0, 30.0]),
        ("sombrl", 1): (4, [2.0, 2.0, 2.0], [3.0, 3.0, 3.0]),
        ("sw-ombrl", 0): (4, [4.0, 4.0, 4.0], [1.0, 1.0, 1.0]),
        ("sw-ombrl", 1): (3, [3.0, 5.0, 3.0, -50.0], [1.0, 1.0, 1.0, 9.0]),
    }
    for (method, seed), (onset, returns, errors) in runs.items():
        before = [
            record(n, theta=1.0, return_executed=9.0, model_error=7.0, coverage=0.9)
            for n in range(1, onset)
        ]
        after = [
            record(n, theta=0.5, return_executed=j, model_error=e, coverage=0.5)
            for n, (j, e) in enumerate(zip(returns, errors, strict=True), start=onset)
        ]
        settings: dict[str, Any] = {"variant": "a=0.1", "method": method, "seed": seed}
        settings |= {"task": "hopper", "environment": {"parameter": "gear"}}
        name = f"study/hopper-{method}-a=0.1-s{seed}"
        write_run(tmp_path / name, [*before, *after], **settings)
    return tmp_path / "study"


def test_methods_are_judged_from_the_onset_on(study: Path) -> None:
    """J* is 5, the best that was shown: regrets 9 and 9, and 3 and 4."""
    sombrl, window = tables.rows_of(study)
    assert sombrl.problem == window.problem == "hopper a=0.1" and sombrl.is_shown
    assert sombrl.regret.values.tolist() == [9.0, 9.0] and sombrl.difference is None
    assert window.regret.values.tolist() == [3.0, 4.0]
    # t with one degree of freedom is 12.706, and the standard error 0.5.
    assert window.difference.mean == -5.5
    half = 12.7062 * 0.5
    assert window.difference.student == pytest.approx((-5.5 - half, -5.5 + half), 1e-5)
    assert (sombrl.episodes, sombrl.seeds) == (3, 2)
    assert sombrl.reached == pytest.approx(0.4)
    assert window.reached == pytest.approx((4 / 5 + 11 / 15) / 2)
    assert sombrl.coverage == pytest.approx((0.9, 0.5))
    assert sombrl.model_error == (2.0 + 3.0) / 2  # of the medians
    assert (sombrl.seconds, window.seconds) == (6.0, 6.0)


def test_a_variant_of_the_same_drift_is_a_problem_of_its_own(study: Path) -> None:
    for run in list(study.iterdir()):
        text = (run / "config.toml").read_text().replace("a=0.1", "scratch")
        other = study / run.name.replace("a=0.1", "scratch")
        other.mkdir()
        (other / "config.toml").write_text(text)
        rows = (run / "episodes.jsonl").read_bytes()
        (other / "episodes.jsonl").write_bytes(rows)
    found = tables.rows_of(study)
    assert [row.problem for row in found] == ["hopper a=0.1"] * 2 + [
        "hopper scratch"
    ] * 2
    assert [row.method for row in found] == ["sombrl", "sw-ombrl"] * 2
    assert found[3].difference.mean == found[1].difference.mean == -5.5


def test_pages_are_filled_from_archives(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tested = [
        {"problem": "hopper a=0.1", "method": "sombrl", "seed": seed, "model_error": e}
        for seed, errors in enumerate([(0.1, 0.3), (0.4, 0.4)])
        for e in errors
    ]
    (study / tables.TEST_SET).write_text(json.dumps(tested))
    with tarfile.open(tmp_path / "made.tar.gz", "w:gz") as archive:
        archive.add(study, "made")
    monkeypatch.setattr(tables, "RECORDS", tmp_path)
    page = "before\n<!-- table: made:hopper -->\n| 9 |\n<!-- end -->\nafter\n"
    filled = tables.updated(page)
    assert filled.startswith("before\n") and filled.endswith("\nafter\n")
    head, _, sombrl, window = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in filled.splitlines()
        if line.startswith("|")
    ]
    cells = dict(zip(head, sombrl, strict=True))
    assert cells["problem"] == "hopper a=0.1 \\*" and cells["regret"] == "9.00 ± 0"
    # The means of the seeds are 0.2 and 0.4.
    assert cells["error, common test set"] == "0.30 ± 0.10"
    assert "−5.50 [−11.9, 0.85]" in window  # not bold: it holds 0
    assert tables.updated(filled) == filled
    assert "hopper" not in tables.updated(page.replace(":hopper", ":ant"))
    path = tmp_path / "page.md"
    path.write_text(page)
    tables.main(["--write", str(path)])
    assert path.read_text() == filled


def test_the_figure_is_relative_to_sombrl(study: Path, tmp_path: Path) -> None:
    (axes,) = tables.at_a_glance(tables.rows_of(study)).axes
    (bar, mark) = axes.lines[1:3]  # after the legend's
    half = 12.7062 * 0.5
    ends = [100 * (-5.5 - half) / 9, 100 * (-5.5 + half) / 9]
    assert bar.get_xdata() == pytest.approx(ends, rel=1e-5)
    assert mark.get_xdata() == pytest.approx([100 * -5.5 / 9])
    assert mark.get_markerfacecolor() == "white"  # the interval holds 0
    tables.main(["--figure", str(tmp_path / "f.png"), str(study)])
    assert (tmp_path / "f.png").stat().st_size > 10_000


def test_rows_of_a_file_become_means_over_seeds(
    study: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [
        {"method": method, "seed": seed, "share": value + 0.2 * seed}
        for method, value in (("sombrl", 1.0), ("sw-ombrl", 3.0))
        for seed in (0, 1)
    ]
    (study / "shares.json").write_text(json.dumps(rows))
    with tarfile.open(tmp_path / "made.tar.gz", "w:gz") as archive:
        archive.add(study, "made")
    monkeypatch.setattr(tables, "RECORDS", tmp_path)
    lines = tables.named_table("made/shares.json").splitlines()
    assert lines[0] == "| method | seeds | share |"
    # The standard error of x and x + 0.2 is 0.1.
    assert lines[2:] == [
        "| sombrl | 2 | 1.10 ± 0.10 |",
        "| sw-ombrl | 2 | 3.10 ± 0.10 |",
    ]


@pytest.mark.slow  # all published records are read
@pytest.mark.filterwarnings("ignore:This is driftrl")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_tables_of_pages_are_those_of_the_records(page: Path) -> None:
    """Otherwise: python experiments/paper_tables.py --write docs/*.md."""
    text = page.read_text()
    assert tables.updated(text) == text
