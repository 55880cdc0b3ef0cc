"""What ``driftrl watch`` shows of runs, read from their files."""

import io
import json
import os
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from driftrl.cli import watch
from driftrl.cli.main import main
from driftrl.cli.progress import duration
from driftrl.config.toml import to_dict
from driftrl.engines.progress import RunProgress, read_progress, study_seconds_left
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.records import encode_record
from driftrl.training.study import read_study
from factories import record, write_run

STUDY = """
name = "small"
title = "Small"
summary = "Small."
task = "pendulum"
methods = ["sombrl", "sw-ombrl"]
seeds = [0, 1]
preset = "short"

[presets.short]
episodes = 4

[presets.long]
episodes = 9
"""


def begin(directory: Path, rows: int, *, episodes: int = 4, method: str = "sombrl"):
    """Write a run of so many episodes, which nothing runs."""
    config = to_dict(configure("pendulum", method, {"episodes": episodes}))
    records = [
        record(n, return_executed=-500.0, wall_s=3.0) for n in range(1, rows + 1)
    ]
    config = {key: value for key, value in config.items() if value is not None}
    write_run(directory, records, **config)
    (directory / "log.txt").touch()
    return directory


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """One run finished, one failed, one stopped, one that has not begun."""
    (tmp_path / "study.toml").write_text(STUDY)
    begin(tmp_path / "pendulum-sombrl-s0", 4)
    begin(tmp_path / "pendulum-sw-ombrl-s0", 2, method="sw-ombrl")
    failed = begin(tmp_path / "pendulum-sombrl-s1", 1)
    (failed / "log.txt").write_text("It began.\n\nValueError: all is lost\n")
    return tmp_path


def runs_in(directory: Path) -> dict[str, RunProgress]:
    runs = read_progress(directory, read_study(directory / "study.toml").runs())
    return {run.name: run for run in runs}


def test_each_run_has_its_state(study: Path) -> None:
    runs = runs_in(study)
    assert {name: run.state for name, run in runs.items()} == {
        "pendulum-sombrl-s0": "finished",
        "pendulum-sw-ombrl-s0": "stopped",
        "pendulum-sombrl-s1": "failed",
        "pendulum-sw-ombrl-s1": "waiting",
    }
    assert list(runs)[:2] == ["pendulum-sombrl-s0", "pendulum-sw-ombrl-s0"]
    assert runs["pendulum-sombrl-s1"].error == "ValueError: all is lost"
    stopped, waiting = runs["pendulum-sw-ombrl-s0"], runs["pendulum-sw-ombrl-s1"]
    assert (stopped.episodes, stopped.planned, stopped.seconds_left) == (2, 4, 6.0)
    assert (stopped.theta, stopped.last_return, stopped.error) == (2.0, -500.0, "")
    assert (waiting.episodes, waiting.planned, waiting.seconds_left) == (0, 4, None)


def test_a_warning_before_the_newest_episode_is_no_failure(study: Path) -> None:
    os.utime(study / "pendulum-sombrl-s1" / "log.txt", (1.0, 1.0))
    assert runs_in(study)["pendulum-sombrl-s1"].state == "stopped"


def test_a_run_with_a_recent_heartbeat_is_running(study: Path) -> None:
    heartbeat = study / "pendulum-sombrl-s1" / "heartbeat"
    heartbeat.touch()
    assert runs_in(study)["pendulum-sombrl-s1"].state == "running"
    old = time.time() - 61
    os.utime(heartbeat, (old, old))
    assert runs_in(study)["pendulum-sombrl-s1"].state == "failed"


@pytest.mark.parametrize(
    ("job_state", "state", "shown"),
    [
        ("PENDING", "waiting", "slurm pending"),
        ("RUNNING", "running", "slurm running"),
        ("TIMEOUT", "failed", "slurm timeout"),
        ("ODD", "stopped", "slurm odd"),
    ],
)
def test_the_state_of_a_job_is_shown(
    tmp_path: Path, job_state: str, state: str, shown: str
) -> None:
    place = begin(tmp_path / "run", 1)
    job = {"engine": "slurm", "id": "12_3", "state": job_state}
    (place / "job.json").write_text(json.dumps(job))
    (run,) = read_progress(tmp_path)
    assert run.state == state and watch._cells(run)[1] == shown
    begin(tmp_path / "run", 4)
    (run,) = read_progress(tmp_path)
    assert watch._cells(run)[1] == "finished"
    (place / "job.json").write_text('{"engine": "sl')
    assert read_progress(tmp_path)[0].job is None


def test_torn_and_damaged_files(tmp_path: Path) -> None:
    path = begin(tmp_path / "run", 3) / "episodes.jsonl"
    first, second, third = path.read_text().splitlines(keepends=True)
    path.write_text(first + second + third[:20])
    assert read_progress(tmp_path)[0].episodes == 2
    path.write_text(first + second + third)
    assert read_progress(tmp_path)[0].episodes == 3
    path.write_text(first + second + "what?\n")
    (run,) = read_progress(tmp_path)
    assert (run.state, run.episodes) == ("failed", 2) and "episodes.jsonl" in run.error
    path.write_text(first)  # a resumed run may have fewer rows than before
    assert read_progress(tmp_path)[0].episodes == 1
    (tmp_path / "run" / "config.toml").write_text("[")
    (run,) = read_progress(tmp_path)
    assert run.state == "failed" and "config.toml" in run.error


def test_the_pace_is_that_of_recent_episodes(tmp_path: Path) -> None:
    path = begin(tmp_path / "run", 200, episodes=2000) / "episodes.jsonl"
    (run,) = read_progress(tmp_path)
    assert (run.episodes, run.seconds, run.seconds_left) == (200, 3.0, 5400.0)
    with open(path, "a") as file:
        file.write(encode_record(record(201, wall_s=900.0)) + "\n")
    (run,) = read_progress(tmp_path)
    # The machine was asleep during one episode, which does not change the median.
    assert (run.episodes, run.seconds) == (201, 3.0)


def some(state: Any, episodes: int, seconds: float | None) -> RunProgress:
    return RunProgress("a", state, "pendulum", 10, episodes, seconds=seconds)


def test_the_time_left_is_shared_by_the_running_ones() -> None:
    # 8·3 + 6·5 + 10·4 s of work: 94 s by two; the run of 30 s is not the longest.
    runs = [some("running", 2, 3.0), some("running", 4, 5.0), some("waiting", 0, None)]
    assert study_seconds_left(runs) == pytest.approx(47.0)
    # One that takes longer than its share of the work.
    runs = [some("running", 0, 60.0), some("running", 9, 1.0)]
    assert study_seconds_left(runs) == pytest.approx(600.0)
    assert study_seconds_left([some("finished", 10, 3.0)]) == 0.0
    assert study_seconds_left([some("stopped", 2, 3.0)]) is None
    assert study_seconds_left([some("running", 0, None)]) is None


def test_one_table_without_a_terminal(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["watch", str(study)]) == 1
    out = capsys.readouterr().out
    assert "pendulum-sw-ombrl-s1" in out
    assert "1 finished, 1 waiting, 1 stopped, 1 failed; 7 of 16 episodes" in out
    assert "ValueError: all is lost" in out
    assert main(["watch", str(study / "pendulum-sw-ombrl-s0"), "--once"]) == 0
    out = capsys.readouterr().out
    assert "pendulum-sw-ombrl-s0" in out and "2/4" in out and "sombrl-s1" not in out


def test_one_document(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (study / "pendulum-sombrl-s1" / "log.txt").write_text("")
    assert main(["watch", str(study), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["seconds_left"] is None and len(document["runs"]) == 4
    finished = document["runs"][0]
    assert (finished["state"], finished["last_return"]) == ("finished", -500.0)
    assert (finished["job"], finished["seconds_left"]) == (None, 0.0)


def test_what_can_not_be_watched(
    study: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "empty").mkdir()
    for name in ("none", "study.toml", "empty"):
        with pytest.raises(InputError):
            watch.main(tmp_path / name)
    # A study that can't be read shows the runs that are there.
    (study / "study.toml").write_text(STUDY.replace("sw-ombrl", "sw-ombr"))
    assert main(["watch", str(study)]) == 1
    captured = capsys.readouterr()
    assert "sw-ombr" in captured.err
    assert "sw-ombrl-s1" not in captured.out and "sombrl-s0" in captured.out


@pytest.mark.parametrize("interrupts", [False, True])
def test_it_refreshes_until_all_have_ended_or_ctrl_c(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupts: bool
) -> None:
    begin(tmp_path / "run", 2)
    waits: list[float] = []

    def sleep(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            if interrupts:
                raise KeyboardInterrupt
            begin(tmp_path / "run", 4)

    console = Console(force_terminal=True, width=120, file=io.StringIO())
    monkeypatch.setattr(watch, "Console", lambda highlight: console)
    monkeypatch.setattr("driftrl.cli.watch.time.sleep", sleep)
    assert watch.main(tmp_path) == 0
    shown = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert waits == [2.0, 2.0] and "2/4" in shown
    assert ("4/4" in shown) != interrupts


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.0, "0 s"),
        (0.3, "less than 1 s"),
        (42.4, "42 s"),
        (200.0, "3 min 20 s"),
        (7500.0, "2 h 5 min"),
    ],
)
def test_durations(seconds: float, words: str) -> None:
    assert duration(seconds) == words
