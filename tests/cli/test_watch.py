"""What ``driftrl watch`` sees of runs, and that none of them notices it."""

import fcntl
import io
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from driftrl.cli import watch
from driftrl.cli.main import main
from driftrl.config.toml import to_dict, toml_text
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.results.progress import (
    Job,
    RunProgress,
    Watcher,
    _tail,
    held_locks,
    study_seconds_left,
)
from driftrl.training.study import find_study, read_study

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


def row(episode: int, **changes: Any) -> str:
    known = {"episode": episode, "theta": 2.0, "return_executed": -500.0}
    told = {**known, "return_eval": None, "wall_s": 3.0, **changes}
    return json.dumps(told) + "\n"


def begin(directory: Path, rows: int, *, episodes: int = 4, method: str = "sombrl"):
    """Write a run of so many episodes as it lies on the disk."""
    directory.mkdir(parents=True)
    config = configure("pendulum", method, {"episodes": episodes})
    (directory / "config.toml").write_text(toml_text(to_dict(config)))
    (directory / "lock").touch()
    (directory / "log.txt").touch()
    if rows:
        text = "".join(row(n) for n in range(1, rows + 1))
        (directory / "episodes.jsonl").write_text(text)
    return directory


@pytest.fixture
def study(tmp_path: Path) -> Path:
    """One run finished, one that failed, one stopped, one that has not begun."""
    (tmp_path / "study.toml").write_text(STUDY)
    begin(tmp_path / "pendulum-sombrl-s0", 4)
    begin(tmp_path / "pendulum-sw-ombrl-s0", 2, method="sw-ombrl")
    failed = begin(tmp_path / "pendulum-sombrl-s1", 1)
    (failed / "log.txt").write_text("It began.\n\nValueError: all is lost\n")
    return tmp_path


def looked(directory: Path) -> dict[str, RunProgress]:
    planned = watch.planned_runs(directory)
    return {run.name: run for run in Watcher(directory, planned).look()}


def test_each_run_has_its_state(study: Path) -> None:
    runs = looked(study)
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
    assert (stopped.theta, stopped.achieved, stopped.error) == (2.0, -500.0, "")
    assert (waiting.episodes, waiting.planned, waiting.seconds_left) == (0, 4, None)


def test_a_warning_before_the_newest_episode_is_no_failure(study: Path) -> None:
    place = study / "pendulum-sombrl-s1"
    os.utime(place / "log.txt", (1.0, 1.0))
    assert looked(study)[place.name].state == "stopped"


def test_a_locked_run_is_running_and_does_not_notice(study: Path) -> None:
    lock = study / "pendulum-sw-ombrl-s0" / "lock"
    with open(lock, "a") as held:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert looked(study)[lock.parent.name].state == "running"
        # It is still held, by whom it was.
        with open(lock, "a") as other, pytest.raises(BlockingIOError):
            fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert looked(study)[lock.parent.name].state == "stopped"


def test_looking_never_stops_a_run_that_starts(tmp_path: Path) -> None:
    lock = begin(tmp_path / "run", 1) / "lock"
    watcher = Watcher(tmp_path)
    until = time.monotonic() + 0.3
    script = (
        "import fcntl, sys\n"
        "for _ in range(5000):\n"
        "    with open(sys.argv[1], 'a') as file:\n"
        "        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
    )
    taking = subprocess.Popen([sys.executable, "-c", script, str(lock)])
    while taking.poll() is None or time.monotonic() < until:
        watcher.look()
    assert taking.wait() == 0


def test_a_lock_of_another_file_with_this_inode_is_none(tmp_path: Path) -> None:
    path, locks = tmp_path / "lock", tmp_path / "locks"
    path.touch()
    line = "1: FLOCK  ADVISORY  WRITE {} 00:01:{} 0 EOF\n"
    inode = path.stat().st_ino
    locks.write_text(line.format(os.getpid(), inode))
    assert held_locks({"a": path}, locks) == set()
    with open(path):
        assert held_locks({"a": path, "b": tmp_path / "no"}, locks) == {"a"}
    locks.write_text("1: -> " + line.format(os.getpid(), inode)[3:])
    assert held_locks({"a": path}, locks) == set()
    assert held_locks({"a": path}, tmp_path / "missing") is None


def test_without_a_list_of_locks_recent_writing_counts(tmp_path: Path) -> None:
    place = begin(tmp_path / "run", 1)
    watcher = Watcher(tmp_path, locks=tmp_path / "missing")
    assert watcher.look()[0].state == "running"
    for name in ("lock", "episodes.jsonl", "log.txt"):
        os.utime(place / name, (1.0, 1.0))
    assert watcher.look()[0].state == "stopped"


@pytest.mark.parametrize(
    ("state", "seen", "told"),
    [
        ("PENDING", "waiting", "slurm pending"),
        ("RUNNING", "running", "slurm running"),
        ("TIMEOUT", "failed", "slurm timeout"),
        ("ODD", "stopped", "slurm odd"),
    ],
)
def test_what_an_engine_says_of_a_run_is_shown(
    tmp_path: Path, state: str, seen: str, told: str
) -> None:
    place = begin(tmp_path / "run", 1)
    job = {"engine": "slurm", "id": "12_3", "state": state}
    (place / "job.json").write_text(json.dumps(job))
    (run,) = Watcher(tmp_path).look()
    assert run.state == seen and watch._state_in_words(run) == told
    (place / "episodes.jsonl").write_text("".join(row(n) for n in range(1, 5)))
    (run,) = Watcher(tmp_path).look()
    assert watch._state_in_words(run) == "finished"
    (place / "job.json").write_text('{"engine": "sl')
    assert Watcher(tmp_path).look()[0].job is None


def test_a_torn_last_line_is_not_read_and_a_damaged_one_is_told(
    tmp_path: Path,
) -> None:
    place = begin(tmp_path / "run", 2)
    rows = (place / "episodes.jsonl").read_text()
    (place / "episodes.jsonl").write_text(rows + row(3)[:20])
    watcher = Watcher(tmp_path)
    assert watcher.look()[0].episodes == 2
    (place / "episodes.jsonl").write_text(rows + row(3))
    assert watcher.look()[0].episodes == 3
    (place / "episodes.jsonl").write_text(rows + "what?\n")
    (run,) = watcher.look()
    assert run.state == "failed" and "newest row" in run.error
    # A resumed run has fewer rows than before.
    (place / "episodes.jsonl").write_text(row(1))
    assert watcher.look()[0].episodes == 1
    (place / "config.toml").write_text("[")
    (run,) = watcher.look()
    assert run.state == "failed" and "config.toml is not valid TOML" in run.error


def test_only_the_tail_of_what_has_changed_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = begin(tmp_path / "run", 1000, episodes=2000)
    with open(place / "episodes.jsonl", "a") as file:
        file.write(row(1001, wall_s=900.0))  # asleep: the median does not mind
    path = place / "episodes.jsonl"
    assert len(_tail(path)) == 16_384 < path.stat().st_size
    watcher = Watcher(tmp_path)
    (run,) = watcher.look()
    assert (run.episodes, run.seconds, run.seconds_left) == (1001, 3.0, 2997.0)
    opened: list[str] = []
    before = open

    def noting(path: Any, *rest: Any) -> Any:
        opened.append(str(path))
        return before(path, *rest)

    monkeypatch.setattr("driftrl.results.progress.open", noting, raising=False)
    assert watcher.look() == [run] and opened == []
    with before(place / "episodes.jsonl", "a") as file:
        file.write(row(1002))
    assert watcher.look()[0].episodes == 1002
    assert opened == [str(place / "episodes.jsonl")]


def test_the_preset_that_was_begun_with_is_found(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    assert {run.planned for run in looked(tmp_path).values()} == {4}
    begin(tmp_path / "pendulum-sombrl-s0", 1, episodes=9)
    assert {run.planned for run in looked(tmp_path).values()} == {9}


def test_settings_are_compared_as_they_are_stored(tmp_path: Path) -> None:
    path = tmp_path / "study.toml"
    text = STUDY.replace('"pendulum"', '"halfcheetah"').replace("4", "7")
    path.write_text(text + "agent = { sac = { hidden = [8, 8] } }\n")
    run = read_study(path, "long").runs()[3]
    (tmp_path / run.name).mkdir()
    text = toml_text({**to_dict(run), "versions": {"jax": "1"}})
    (tmp_path / run.name / "config.toml").write_text(text)
    planned = watch.planned_runs(tmp_path)
    assert {config["episodes"] for config in planned.values()} == {9}


def some(state: Any, episodes: int, seconds: float | None) -> RunProgress:
    config = {"task": "pendulum", "episodes": 10}
    return RunProgress("a", state, config, episodes, seconds=seconds)


def test_the_time_left_is_shared_by_those_who_run() -> None:
    # 8·3 + 6·5 + 10·4 s of work: 94 s by two; the run of 30 s is not the longest.
    runs = [some("running", 2, 3.0), some("running", 4, 5.0), some("waiting", 0, None)]
    assert study_seconds_left(runs) == pytest.approx(47.0)
    # One that is longer than its share of the work.
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
    assert "pendulum-sw-ombrl-s1" in out and "-301.8" in out  # J*(2), which is shipped
    assert "1 finished, 1 waiting, 1 stopped, 1 failed; 7 of 16 episodes" in out
    assert "nothing is running" in out
    assert "Failed: pendulum-sombrl-s1: ValueError: all is lost" in out


def test_one_document(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (study / "pendulum-sombrl-s1" / "log.txt").write_text("")
    assert main(["watch", str(study), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["seconds_left"] is None
    finished = told["runs"][0]
    assert (finished["state"], finished["return"]) == ("finished", -500.0)
    assert finished["optimum"] == pytest.approx(-301.85, abs=0.01)
    assert (finished["job"], finished["seconds_left"]) == (None, 0.0)


def test_a_single_run(study: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(study / "pendulum-sw-ombrl-s0"), "--once"]) == 0
    out = capsys.readouterr().out
    assert "pendulum-sw-ombrl-s0" in out and "2/4" in out and "sombrl-s1" not in out


def test_a_small_terminal_shows_what_needs_a_look(study: Path) -> None:
    console = Console(width=100, height=9, record=True, file=io.StringIO())
    runs = list(looked(study).values())
    console.print(watch._screen(runs, watch._Optima(), console))
    text = console.export_text()
    assert text.index("failed") < text.index("stopped") and "waiting" in text
    assert "… and 1 more runs" in text and "ValueError: all is lost" in text


LONG = [
    RunProgress(
        f"pendulum-decay-{method}-fast-s{seed}",
        "running",
        {"task": "pendulum", "episodes": 1000},
        999,
        theta=0.125,
        achieved=-163_456.7 - seed,
        seconds=12.34,
        job=Job("slurm", f"7_{seed}", "RUNNING"),
    )
    for seed, method in enumerate(("sombrl", "r-ombrl", "sw-ombrl"))
]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (120, ["run", "state", "episode", "θ", "return", "J*", "s/episode", "left"]),
        (80, ["run", "state", "episode", "θ", "return", "J*", "left"]),
        (60, ["run", "state", "episode", "return", "J*"]),
        (59, ["run", "state", "episode", "return"]),
        (45, ["run", "state", "episode"]),
    ],
)
def test_a_narrow_terminal_cuts_no_number_and_no_state(
    width: int, columns: list[str]
) -> None:
    console = Console(width=width, height=30, record=True, file=io.StringIO())
    console.print(watch._screen(LONG, watch._Optima(), console))
    lines = console.export_text().splitlines()
    assert lines[0].split() == columns and max(map(len, lines)) <= width
    for seed in range(3):
        words = lines[1 + seed].split()
        assert words[1:3] == ["slurm", "running"]
        assert words[0].endswith(f"-fast-s{seed}") and "…" not in "".join(words[1:])
        assert ("999/1000" in words) == ("episode" in columns)
        assert (f"{-163_456.7 - seed:.1f}" in words) == ("return" in columns)
    assert " ".join(lines[5:]) == "3 running; 2997 of 3000 episodes; 12 s left"


def test_names_lose_their_middle() -> None:
    assert watch._shortened("pendulum-sombrl-s0", 18) == "pendulum-sombrl-s0"
    assert watch._shortened("pendulum-sombrl-s0", 10) == "pen…brl-s0"
    assert watch._shortened("pendulum-sombrl-s0", 2) == "…0"


@pytest.mark.parametrize(
    ("made", "sentence"),
    [
        (None, "There is no directory"),
        ("file", "is a file, not a directory of runs"),
        ("empty", "There are no runs in"),
        ("calibration", "holds a study of calibration"),
    ],
)
def test_what_can_not_be_watched(
    tmp_path: Path, made: str | None, sentence: str
) -> None:
    place = tmp_path / "place"
    if made == "file":
        place.touch()
    elif made is not None:
        place.mkdir()
    if made == "calibration":
        path = find_study("calibration_under_drift")
        (place / "study.toml").write_bytes(path.read_bytes())
    with pytest.raises(InputError, match=sentence):
        watch.main([str(place)])


def test_it_looks_after_some_time(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="--every must be positive, received 0"):
        watch.main([str(tmp_path), "--every", "0"])


def test_a_study_that_can_not_be_read_shows_what_is_there(
    study: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (study / "study.toml").write_text(STUDY.replace("sw-ombrl", "sw-ombr"))
    assert main(["watch", str(study)]) == 1
    captured = capsys.readouterr()
    assert "runs that have not begun are not shown" in captured.err
    assert "sw-ombrl-s1" not in captured.out and "sombrl-s0" in captured.out


def test_it_refreshes_until_all_have_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = begin(tmp_path / "run", 2)
    waits: list[float] = []

    def finish_later(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 2:
            text = "".join(row(n) for n in range(1, 5))
            (place / "episodes.jsonl").write_text(text)

    monkeypatch.setattr("driftrl.cli.watch.time.sleep", finish_later)
    console = Console(force_terminal=True, width=120, file=io.StringIO())
    runs = watch._refreshed(Watcher(tmp_path), watch._Optima(), console, 0.5)
    assert waits == [0.5, 0.5] and runs[0].state == "finished"
    shown = console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]
    assert "2/4" in shown and "4/4" in shown and "1 finished" in shown


def test_ctrl_c_leaves_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin(tmp_path / "run", 2)

    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("driftrl.cli.watch.time.sleep", interrupt)
    monkeypatch.setattr(
        "driftrl.cli.watch.Console",
        lambda highlight: Console(force_terminal=True, width=120, file=io.StringIO()),
    )
    assert watch.main([str(tmp_path)]) == 0
