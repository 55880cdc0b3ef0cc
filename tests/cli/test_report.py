"""``driftrl report``: what it writes, what it prints, and what it refuses."""

from pathlib import Path

import pytest

from driftrl.analysis import report as report_module
from driftrl.cli.main import main
from factories import write_study

ORACLE = "factories:made_up_optimum"


@pytest.fixture(autouse=True)
def without_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Write pages only: figures take seconds and have tests of their own."""
    monkeypatch.setattr(report_module, "_print_figures", lambda *_: [])


def contents(directory: Path) -> dict[str, bytes]:
    files = [path for path in directory.rglob("*") if path.is_file()]
    return {str(path): path.read_bytes() for path in files}


def test_a_report_lies_in_the_study(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path / "study", ("sombrl", "sw-ombrl"), (0, 1), 5)
    before = contents(study)
    assert main(["report", str(study), "--oracle", ORACLE]) == 0
    page = study / "report" / "report.html"
    assert str(page) in capsys.readouterr().out
    text = page.read_text()
    assert "lowest cumulative dynamic regret" in text
    page.unlink()
    assert contents(study) == before


def test_bad_directories_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("")
    study = str(write_study(tmp_path / "study", ("sombrl",), (0,), 3))
    for words in (
        [],
        [str(tmp_path / "missing")],
        [str(tmp_path / "empty")],
        [str(tmp_path / "file")],
        [study, "--returns", "--out", str(tmp_path / "file")],
        [study, study, "--returns", "--out", str(tmp_path / "out")],
    ):
        assert main(["report", *words]) == 2
        err = capsys.readouterr().err
        assert err.startswith("driftrl: ") and "Traceback" not in err


def test_what_cannot_be_read_is_said_and_never_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path / "study", ("sombrl",), (0, 1), 5)
    records = study / "pendulum-sombrl-s0" / "episodes.jsonl"
    with records.open("a") as file:
        file.write("oops\n")
    before = contents(study)
    out = tmp_path / "out"
    assert main(["report", str(study), "--returns", "--out", str(out)]) == 0
    assert contents(study) == before
    note = capsys.readouterr().err.removeprefix("driftrl: ").strip()
    assert "pendulum-sombrl-s0" in note
    warning = '<p class="warning">'
    assert f"{warning}{note[:30]}" in (out / "report.html").read_text()
