"""Directories of results in which something is missing, torn or of another version."""

from pathlib import Path

import pytest

from driftrl.config.run import RunConfig
from driftrl.errors import CorruptFile, InputError
from driftrl.records import Run, encode_record
from driftrl.results.reading import planned_names, read_runs, version_notes
from driftrl.types import EpisodeRecord

ROW = EpisodeRecord(1, 2.0, 9, 5.0, None, False, 1, 0, 1.0, None, None, None, 1.5)
CONFIG = 'task = "pendulum"\nmethod = "{}"\nseed = {}\nepisodes = 1\n'
STUDY = 'task = "pendulum"\nmethods = ["sombrl", "sw-ombrl"]\nseeds = [0, 1]\n'


def write_run(directory: Path, method: str, seed: int) -> Path:
    place = directory / f"pendulum-{method}-s{seed}"
    place.mkdir(parents=True)
    (place / "config.toml").write_text(CONFIG.format(method, seed))
    (place / "episodes.jsonl").write_text(encode_record(ROW) + "\n")
    return place


def test_everything_in_order_needs_no_words(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    for method in ("sw-ombrl", "sombrl"):
        for seed in (1, 0):
            write_run(tmp_path, method, seed)
    found = read_runs(tmp_path)
    assert [run.label for run in found.runs] == [
        *("pendulum-sombrl-s0", "pendulum-sombrl-s1"),
        *("pendulum-sw-ombrl-s0", "pendulum-sw-ombrl-s1"),
    ]
    assert found.notes == ()


def test_runs_that_the_study_names_are_missed(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    write_run(tmp_path, "sombrl", 0)
    (tmp_path / "pendulum-sombrl-s1").mkdir()  # as it is before a run begins
    (write_run(tmp_path, "sw-ombrl", 0) / "config.toml").unlink()
    assert read_runs(tmp_path).notes == (
        "Left out: pendulum-sw-ombrl-s0: no config.toml.",
        "Nothing is recorded of 2 runs that study.toml names: pendulum-sombrl-s1, "
        "pendulum-sw-ombrl-s1.",
    )


def test_many_missing_runs_are_counted(tmp_path: Path) -> None:
    text = STUDY.replace("[0, 1]", str(list(range(10))))
    (tmp_path / "study.toml").write_text(text)
    write_run(tmp_path, "sombrl", 0)
    (note,) = read_runs(tmp_path).notes
    assert note.startswith("Nothing is recorded of 19 runs that study.toml names: pe")
    assert note.endswith(" and 13 more.") and note.count("pendulum-") == 6


def test_names_are_those_of_the_runs(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(
        'task = "pendulum"\nmethods = ["sombrl", "sw-ombrl"]\nseeds = [3]\n'
        '[[variants]]\nname = "w=2"\nmethods = ["sw-ombrl"]\n'
        '[[variants]]\ntask = "mine:Cart"\n'
    )
    assert planned_names(tmp_path) == [
        RunConfig(task, method, 3, variant=variant).name
        for task, method, variant in [
            ("pendulum", "sw-ombrl", "w=2"),
            ("mine:Cart", "sombrl", ""),
            ("mine:Cart", "sw-ombrl", ""),
        ]
    ]


@pytest.mark.parametrize(
    "text", ["seeds = 3\n", "variants = [1]\nseeds = [1]\n", "x ="]
)
def test_a_study_that_could_not_be_run_names_nothing(tmp_path: Path, text: str) -> None:
    (tmp_path / "study.toml").write_text(text)
    assert planned_names(tmp_path) == []


def test_a_damaged_configuration_leaves_its_run_out(tmp_path: Path) -> None:
    write_run(tmp_path, "sombrl", 0)
    (write_run(tmp_path, "sombrl", 1) / "config.toml").write_text("task =")
    found = read_runs(tmp_path)
    assert len(found.runs) == 1
    (note,) = found.notes
    assert note.startswith("Left out: pendulum-sombrl-s1: ") and "valid TOML" in note


def test_a_first_row_that_is_torn_is_told(tmp_path: Path) -> None:
    place = write_run(tmp_path, "sombrl", 0)
    (place / "episodes.jsonl").write_text('{"episode": 1')
    for directory in (tmp_path, place):
        found = read_runs(directory)
        assert found.runs[0].records == ()
        assert found.notes == (
            "The last row of pendulum-sombrl-s0 is torn and was not read.",
        )


def test_one_run_that_is_damaged_is_refused(tmp_path: Path) -> None:
    place = write_run(tmp_path, "sombrl", 0)
    (place / "episodes.jsonl").write_text("oops\n")
    with pytest.raises(CorruptFile, match="Line 1 of .* Delete the run's directory"):
        read_runs(place)
    with pytest.raises(InputError, match="No run in .* can be read. Left out: pend"):
        read_runs(tmp_path)


def run_of(version: str | None, seed: int) -> Run:
    versions = {} if version is None else {"versions": {"driftrl": version}}
    return Run(Path(f"run-s{seed}"), versions, ())


def test_versions_are_told_where_they_differ() -> None:
    assert version_notes([run_of("1.0", 0), run_of(None, 1)], "1.0") == []
    assert version_notes([run_of("2.0", 0), run_of("2.0", 1)], "1.0") == [
        "This is driftrl 1.0; runs were made by driftrl 2.0 (all of them)."
    ]
    runs = [run_of("2.0", n) for n in range(7)] + [run_of("3.0", 7), run_of("1.0", 8)]
    (note,) = version_notes(runs, "1.0")
    assert "by driftrl 2.0 (7 runs), 3.0 (run-s7). The others were made by" in note
