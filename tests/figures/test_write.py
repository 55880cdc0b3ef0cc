"""A report on disk: every file, whole, or none."""

import os
from pathlib import Path

import pytest

from driftrl.errors import InputError
from driftrl.figures.write import write_report
from driftrl.regret import OracleTable
from driftrl.results.records import Run


def test_a_report_is_seven_whole_files(
    tmp_path: Path, runs: list[Run], table: OracleTable
) -> None:
    directory = tmp_path / "study" / "report"
    directory.mkdir(parents=True)
    (directory / "report.html").write_text("an older report")
    paths = write_report(runs, table, directory, "Falling torque", "Three agents.")
    assert [path.name for path in paths] == [
        "regret.png",
        "regret.pdf",
        "overview.png",
        "overview.pdf",
        "final_regret.png",
        "final_regret.pdf",
        "report.html",
    ]
    assert sorted(os.listdir(directory)) == sorted(path.name for path in paths)
    for path in paths:
        start, end = {
            ".png": (b"\x89PNG", b"IEND\xaeB`\x82"),
            ".pdf": (b"%PDF", b"%%EOF"),
            ".html": (b"<!DOCTYPE html>", b"</html>"),
        }[path.suffix]
        content = path.read_bytes().strip()
        assert content.startswith(start)
        assert content.endswith(end)


def test_nothing_is_written_when_there_is_nothing_to_say(
    tmp_path: Path, runs: list[Run], table: OracleTable
) -> None:
    short = OracleTable(table.entries[:3], "a few")
    with pytest.raises(InputError, match="has no J"):
        write_report(runs, short, tmp_path / "report", "title", "")
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="it is a file, not a directory"):
        write_report(runs, table, tmp_path / "file", "title", "")
