"""A report on disk: every file, whole, or none."""

import os
from pathlib import Path

import pytest

from driftrl.errors import InputError
from driftrl.figures.write import file_endings, write_report
from driftrl.results.comparison import Comparison
from driftrl.results.regret import StudyRegret


def test_a_report_is_nine_whole_files(tmp_path: Path, study: StudyRegret) -> None:
    directory = tmp_path / "study" / "report"
    directory.mkdir(parents=True)
    (directory / "report.html").write_text("an older report")
    paths = write_report(
        Comparison((study,)), directory, "Falling torque", "Three agents."
    )
    assert [path.name for path in paths] == [
        "regret.png",
        "regret.pdf",
        "overview.png",
        "overview.pdf",
        "final_regret.png",
        "final_regret.pdf",
        "aggregate.png",
        "aggregate.pdf",
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


def test_a_file_is_not_written_into(tmp_path: Path, study: StudyRegret) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="file is a file, not a directory"):
        write_report(Comparison((study,)), tmp_path / "file", "title", "")
    assert (tmp_path / "file").read_text() == ""


def test_several_problems_have_one_figure_for_all_and_three_each(
    tmp_path: Path, rates: Comparison
) -> None:
    two = Comparison(rates.studies[:1], waiting=("a=7",))
    paths = write_report(two, tmp_path, "Falling torque", "Three rates.")
    assert [path.name for path in paths] == [
        *("problems.png", "problems.pdf"),
        *("regret-a=0.025.png", "regret-a=0.025.pdf"),
        *("overview-a=0.025.png", "overview-a=0.025.pdf"),
        *("final_regret-a=0.025.png", "final_regret-a=0.025.pdf"),
        *("aggregate.png", "aggregate.pdf", "report.html"),
    ]
    assert paths[-1].read_text().count("<img ") == 1


def test_a_sweep_has_its_figures_in_files_and_on_the_page(
    tmp_path: Path, ablation: StudyRegret
) -> None:
    paths = write_report(Comparison((ablation,)), tmp_path, "Soft resets", "")
    assert [path.name for path in paths[6:]] == [
        *("sweep.png", "sweep.pdf", "sweep_returns.png", "sweep_returns.pdf"),
        *("aggregate.png", "aggregate.pdf", "report.html"),
    ]
    assert paths[-1].read_text().count("<img ") == 2


def test_files_of_problems_can_be_told_apart() -> None:
    assert file_endings([""]) == [""]
    assert file_endings(["a=0.1", "rate = 1, x = ä/b"]) == ["-a=0.1", "-rate=1_x=ä_b"]
    assert file_endings(["a/b", "a|b"]) == ["-1", "-2"]


def test_a_figure_of_all_problems_has_room_for_few_methods(
    tmp_path: Path, rates: Comparison, monkeypatch: pytest.MonkeyPatch
) -> None:
    def name_alone(_: object, directory: Path, name: str) -> list[Path]:
        (directory / f"{name}.png").write_bytes(b"")
        return [directory / f"{name}.png", directory / f"{name}.pdf"]

    monkeypatch.setattr("driftrl.figures.write._write_figure", name_alone)
    monkeypatch.setattr("driftrl.figures.write.FIGURES", {})
    two = Comparison(rates.studies[:1], waiting=("a=7",))
    names = {path.name for path in write_report(two, tmp_path, "Rates", "")}
    assert "problems.png" in names
    monkeypatch.setattr("driftrl.figures.write.MOST_METHODS", 2)
    fewer = {path.name for path in write_report(two, tmp_path, "Rates", "")}
    assert names - fewer == {"problems.png", "problems.pdf"}
