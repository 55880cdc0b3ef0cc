"""``driftrl report``: one study or several, where it goes, and what it refuses."""

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import pytest

from driftrl.cli.main import main
from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run, encode_record
from driftrl.types import EpisodeRecord

ROW = EpisodeRecord(1, 2.0, 9, 5.0, None, False, 1, 0, 1.0, None, None, None, 1.5)


@pytest.fixture(autouse=True)
def known_optimum(monkeypatch: pytest.MonkeyPatch) -> None:
    def oracle(runs: Sequence[Run], *_: object, **__: object) -> OracleTable:
        return OracleTable((OracleValue(2.0, 10.0, 0.0),), "by hand")

    monkeypatch.setattr("driftrl.oracles.optimal_returns_of_runs", oracle)


@pytest.fixture(autouse=True)
def no_printed_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matplotlib's figures are tested elsewhere and take a second each."""
    monkeypatch.setattr("driftrl.figures.write._print_problems", lambda *_: [])
    monkeypatch.setattr("driftrl.figures.write.aggregate_figure", lambda _: None)


def write_study(directory: Path, returns: float = 5.0) -> Path:
    for method in ("sombrl", "sw-ombrl"):
        for seed in (0, 1):
            place = directory / f"pendulum-{method}-s{seed}"
            place.mkdir(parents=True)
            (place / "config.toml").write_text(
                f'task = "pendulum"\nmethod = "{method}"\nseed = {seed}\nepisodes = 3\n'
                '[versions]\ndriftrl = "0.1.0"\n'
            )
            value = returns + seed + 2 * (method == "sw-ombrl")
            rows = [replace(ROW, episode=n, return_executed=value) for n in (1, 2, 3)]
            text = "".join(encode_record(row) + "\n" for row in rows)
            (place / "episodes.jsonl").write_text(text)
    return directory


def contents(directory: Path) -> dict[str, bytes]:
    files = (path for path in directory.rglob("*") if path.is_file())
    return {str(path): path.read_bytes() for path in files}


def words(page: Path) -> str:
    return re.sub("<script.*?</script>", "", page.read_text(), flags=re.DOTALL)


def test_a_report_lies_in_its_study_or_where_it_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path / "study")
    assert main(["report", str(study)]) == 0
    assert f"driftrl report {study}</code>" in words(study / "report/report.html")
    out = tmp_path / "deep" / "elsewhere"
    assert main(["report", str(study), "--out", str(out)]) == 0
    assert str(out / "report.html") in capsys.readouterr().out
    assert f"report {study} --out {out}</code>" in words(out / "report.html")


def test_several_studies_share_a_page(tmp_path: Path) -> None:
    first = write_study(tmp_path / "first")
    second = write_study(tmp_path / "second", returns=6.0)
    (second / "study.toml").write_text('title = "The <second>"\nsummary = "Better."\n')
    out = tmp_path / "both"
    assert main(["report", str(first), str(second), "--out", str(out)]) == 0
    page = words(out / "report.html")
    assert "<h1>first and second</h1>" in page
    assert "<h2>2 studies</h2>" in page
    assert "The &lt;second&gt;<small>Better.</small></td><td>4</td>" in page
    # R_3 of SOMBRL is 15 and 12 in the first study, and 3 less in the second.
    assert "SOMBRL (second) ends 3.00 (22\u00a0%) below SOMBRL (first)" in page
    assert "driftrl study study.toml --out runs/second" in page


def test_several_studies_need_a_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    studies = [str(write_study(tmp_path / name)) for name in ("a", "b")]
    assert main(["report", *studies]) == 2
    assert "lies in none of them: say where, with --out DIR." in capsys.readouterr().err
    assert not (tmp_path / "a" / "report").exists()


def test_studies_of_the_same_name_have_longer_names(tmp_path: Path) -> None:
    studies = [str(write_study(tmp_path / name / "study")) for name in ("a", "b")]
    assert main(["report", *studies, "--out", str(tmp_path / "out")]) == 0
    assert "<h1>a/study and b/study</h1>" in words(tmp_path / "out/report.html")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "Which results? Name the directory of a study or run."),
        (["study", "study", "--out", "x"], "is named twice. Name each directory once."),
        (["study", "empty", "--out", "x"], "empty is empty."),
        (["study/nothing"], "study/nothing"),
        (["a_file"], "a_file is a file; a report is about results. Name the directory"),
        (["study", "--out", "a_file"], "a_file is a file, not a directory."),
        (["study", "--out", "a_file/below"], "a_file is a file, not a directory."),
    ],
)
def test_refusals_are_sentences_and_leave_everything_as_it_was(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    names: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    write_study(Path("study"))
    Path("empty").mkdir()
    Path("a_file").write_text("mine")
    before = contents(tmp_path)
    assert main(["report", *names]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err and err.count("\n") == 1
    assert contents(tmp_path) == before


def test_the_place_is_looked_at_before_anything_is_computed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def compute(*_: object, **__: object) -> None:
        raise AssertionError("an oracle may take hours")

    monkeypatch.setattr("driftrl.cli.report.compare", compute)
    (tmp_path / "a_file").write_text("mine")
    study = write_study(tmp_path / "study")
    assert main(["report", str(study), "--out", str(tmp_path / "a_file")]) == 2


def test_a_study_of_calibration_is_reported_alone(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        "driftrl.cli.report.is_calibration", lambda one: one.name == "calibration"
    )
    study = write_study(tmp_path / "study")
    other = str(tmp_path / "calibration")
    assert main(["report", str(study), other, "--out", str(tmp_path / "x")]) == 2
    assert "name it alone, and leave out --out." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            '{"episode": 4, "theta": 2.',
            "The last row of pendulum-sombrl-s0 is torn and was not read.",
        ),
        (
            '{"episode": 4}\n',
            "Left out: pendulum-sombrl-s0: Line 4 of {} has no column 'theta', so it "
            "is damaged or of a version of driftrl unlike this one. Delete the run's "
            "directory and repeat the study.",
        ),
        (
            'oops\n{"episode": 5}\n',
            "Left out: pendulum-sombrl-s0: Line 4 of {} is not strict JSON: Expecting "
            "value. Delete the run's directory and repeat the study.",
        ),
    ],
)
def test_what_cannot_be_read_is_said_and_never_changed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, said: str
) -> None:
    study = write_study(tmp_path / "study")
    records = study / "pendulum-sombrl-s0" / "episodes.jsonl"
    with records.open("a") as file:
        file.write(line)
    before = contents(study)
    assert main(["report", str(study), "--out", str(tmp_path / "out")]) == 0
    assert contents(study) == before
    said = said.format(records)
    assert capsys.readouterr().err == f"driftrl: warning: {said}\n"
    page = words(tmp_path / "out/report.html")
    (box,) = re.findall('<div class="summary">.*?</div>', page, flags=re.DOTALL)
    assert f'<p class="warning">{escape(said)}</p>' in box
    rows = 12 if "torn" in said else 9
    assert f"{rows} recorded episodes" in page


def test_a_run_without_configuration_is_not_dropped_in_silence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path / "study")
    (study / "pendulum-sombrl-s0" / "config.toml").unlink()
    (study / "report").mkdir()  # is no run
    assert main(["regret", str(study)]) == 0
    out, err = capsys.readouterr()
    assert err == "driftrl: warning: Left out: pendulum-sombrl-s0: no config.toml.\n"
    assert "sw-ombrl" in out
    assert main(["regret", str(study), "--json"]) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    assert notes == ["Left out: pendulum-sombrl-s0: no config.toml."]


def test_nothing_is_left_if_no_run_can_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path / "study")
    for path in study.glob("*/episodes.jsonl"):
        path.write_text("oops\n")
    before = contents(study)
    for command in ("report", "regret"):
        assert main([command, str(study)]) == 2
        err = capsys.readouterr().err
        assert f"No run in {study} can be read. Left out: pendulum-sombrl-s0: " in err
        assert err.count("Left out") == 4 and err.count("\n") == 1
    assert contents(study) == before


def test_runs_of_another_version_are_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study = write_study(tmp_path / "study")
    path = study / "pendulum-sw-ombrl-s1" / "config.toml"
    text = path.read_text().replace('"0.1.0"', '"9.9.9"')
    text += "[environment]\nwind = 2.0\n"
    path.write_text("novelty = 3\n" + text)
    assert main(["report", str(study)]) == 0
    version = (
        "This is driftrl 0.1.0; runs were made by driftrl 9.9.9 "
        "(pendulum-sw-ombrl-s1). The others were made by this one or do not say; "
        "numbers of different versions may not be comparable."
    )
    err = capsys.readouterr().err
    page = words(study / "report/report.html")
    assert f"driftrl: warning: {version}\n" in err and version in page
    for key in ("novelty", "environment.wind"):
        said = (
            f"driftrl 0.1.0 does not know the setting '{key}' in the config.toml of "
            "pendulum-sw-ombrl-s1: what it changes is not taken into account here."
        )
        assert f"driftrl: warning: {said}\n" in err and escape(said) in page
    # It is a problem of its own, for which no machine can be asked.
    assert "J* is not known for the environment of pendulum-sw-ombrl-s1" in page


def test_trainings_are_announced_before_they_begin(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("driftrl.oracles.trainings_missing", lambda *_: 4)
    study = write_study(tmp_path / "study")
    said = (
        "driftrl: for J*(θ) of pendulum, SAC is trained 4 times now, some minutes "
        f"each; what is finished is kept for later. `driftrl report {study} --returns` "
        "shows returns without it.\n"
    )
    assert main(["regret", str(study)]) == 0
    assert capsys.readouterr().err == said
    assert main(["report", str(study), "--returns"]) == 0
    assert capsys.readouterr().err == ""


def test_columns_of_a_later_version_are_left_alone(tmp_path: Path) -> None:
    study = write_study(tmp_path / "study")
    for path in study.glob("*/episodes.jsonl"):
        path.write_text(path.read_text().replace("}", ', "invented_later": 1.0}'))
    assert main(["report", str(study)]) == 0


def test_many_problems_are_printed_when_asked(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[int] = []

    def note(*_: object) -> list[Path]:
        asked.append(1)
        return []

    monkeypatch.setattr("driftrl.figures.write._print_problems", note)
    monkeypatch.setattr("driftrl.figures.write.MOST_PROBLEMS", 0)
    study = write_study(tmp_path / "study")
    assert main(["report", str(study)]) == 0
    assert "It has 1 problem: --all-figures prints" in capsys.readouterr().out
    assert not asked
    assert main(["report", str(study), "--all-figures"]) == 0
    assert "--all-figures" not in capsys.readouterr().out
    assert asked == [1]
