"""The command line as a user meets it: what it prints, and its exit status."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from driftrl.cli.main import COMMANDS, main
from driftrl.errors import InputError
from driftrl.training.checkpoint import saved_checkpoints

TINY = [
    *(
        "--environment.sim_steps",
        "20",
        "--agent.planner.samples",
        "8",
        "--agent.planner.elites",
        "2",
    ),
    *(
        "--agent.planner.iterations",
        "1",
        "--agent.planner.horizon",
        "2",
        "--agent.model.fit-steps",
        "1",
    ),
]


def said(capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    captured = capsys.readouterr()
    return captured.out, captured.err


def test_overview_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0 and main(["--help"]) == 0
    out, _ = said(capsys)
    assert all(f"  {name} " in out for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        status = main([command, "--help"])
    except SystemExit as ended:
        status = ended.code
    assert status == 0
    assert f"driftrl {command}" in said(capsys)[0]


@pytest.mark.parametrize(
    "what", ["tasks", "methods", "schedules", "parameters", "studies"]
)
def test_lists_in_words_and_json(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", what, "--json"]) == 0
    rows = json.loads(said(capsys)[0])
    assert main(["list", what]) == 0
    table = said(capsys)[0]
    assert rows and all(row["name"] in table for row in rows)


def test_numbers_of_a_task_are_numbers(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "tasks", "--json"]) == 0
    rows = {row["name"]: row for row in json.loads(said(capsys)[0])}
    cheetah, humanoid = rows["halfcheetah"], rows["humanoid"]
    assert (cheetah["observations"], cheetah["actions"]) == (17, 6)
    assert (cheetah["episodes"], cheetah["steps"]) == (1000, 500)
    assert (cheetah["reset_period"], cheetah["window"]) == (200, 200)
    assert cheetah["schedule"]["theta_min"] == 0.2
    assert cheetah["minutes_here"] > 10
    assert (humanoid["clock"], humanoid["forgets_in"]) == ("steps", "transitions")


@pytest.mark.parametrize(
    ("argv", "sentence"),
    [
        (["rnu"], "Unknown command 'rnu'. Did you mean 'run'"),
        (["run"], "Which task?"),
        (["run", "pendulm"], "Did you mean 'pendulum'"),
        (["run", "pendulum", "--method", "sombr"], "Did you mean 'sombrl'"),
        (["run", "pendulum", "--forgetting.window", "0"], "at least 1; received 0"),
        (["run", "pendulum", "--drift.theta-min", "3"], "at most theta_max"),
        (["run", "pendulum", "--environment.noise-std", "-1"], "at least 0"),
        (["run", "pendulum", "--drift.kind", "lineer"], "Did you mean 'linear'"),
        (["run", "pendulum", "--config", "no.toml"], "Cannot read no.toml"),
        (["study", "gp_pendul"], "Did you mean 'gp_pendulum'"),
        (["study", "gp_pendulum", "--workers", "0"], "at least 1, received 0"),
        (["oracle", "pendlum"], "Did you mean 'pendulum'"),
        (["regret", "no/such/place"], "no/such/place"),
        (["report", "no/such/place"], "no/such/place"),
    ],
)
def test_bad_input_is_a_sentence_and_status_two(
    argv: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv) == 2
    out, err = said(capsys)
    assert sentence in err and "Traceback" not in err and out == ""


def test_an_unknown_flag_suggests_the_nearest(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["run", "pendulum", "--forgetting.windw", "3"])
    assert ended.value.code == 2
    assert "--forgetting.window" in said(capsys)[1]


def test_run_resume_and_refuse(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["run", "pendulum", "--episodes", "2", "--out", str(tmp_path / "r"), *TINY]
    assert main(argv) == 0
    out, _ = said(capsys)
    assert "   2/2 " in out and f"Results are in {tmp_path}/r/episodes.jsonl" in out
    assert main(argv) == 2
    assert "--resume" in said(capsys)[1]
    before = (tmp_path / "r" / "episodes.jsonl").read_bytes()
    assert main([*argv, "--resume"]) == 0
    assert (tmp_path / "r" / "episodes.jsonl").read_bytes() == before
    # The run that is there says what it is, and may become longer.
    said(capsys)
    assert (
        main(["run", "--resume", "--out", str(tmp_path / "r"), "--episodes", "3"]) == 0
    )
    out, err = said(capsys)
    assert "   3/3 " in out and out.splitlines()[1].endswith("  done") and err == ""
    config = (tmp_path / "r" / "config.toml").read_text()
    assert 'method = "sw-ombrl"' in config and "[versions]" in config
    assert 'jax = "' in config and 'driftrl = "' in config
    # A stored configuration runs again, as it is.
    again = ["run", "pendulum", "--config", str(tmp_path / "r" / "config.toml")]
    assert main([*again, "--out", str(tmp_path / "again"), "--resume"]) == 0
    assert "again holds no run yet: a new one begins" in said(capsys)[1]
    assert (tmp_path / "again" / "episodes.jsonl").exists()


def test_a_full_disk_is_a_sentence(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    import driftrl.training.run_directory as module

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "state.npz"))

    argv = ["run", "pendulum", "--episodes", "3", "--out", str(tmp_path / "r"), *TINY]
    honest = module.save_checkpoint
    monkeypatch.setattr(
        module,
        "save_checkpoint",
        lambda directory, episodes, state: (
            honest(directory, episodes, state) if episodes < 2 else full()
        ),
    )
    assert main(argv) == 1
    err = said(capsys)[1]
    assert "No space left on device" in err and "kept" in err and "Traceback" not in err
    assert "make room, and run the same command again" in err
    monkeypatch.undo()
    assert main([*argv, "--resume"]) == 0
    assert len((tmp_path / "r" / "episodes.jsonl").read_text().splitlines()) == 3


def test_a_place_that_can_not_be_written_is_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    argv = ["run", "pendulum", *TINY, "--out"]
    for out, reason in (
        (tmp_path / "file" / "r", "Not a directory"),
        (tmp_path / "file", "File exists"),
        (Path("/proc/r"), "No such file or directory"),
    ):
        assert main([*argv, str(out)]) == 1
        err = said(capsys)[1]
        assert f"driftrl: {reason} ({out}). " in err and "make room" not in err
        assert "Choose another place (--out), or mend this one." in err


@pytest.mark.parametrize(
    ("number", "remedy"),
    [
        (errno.ENOSPC, "make room"),
        (errno.EDQUOT, "make room"),
        (errno.EMFILE, "mend that"),
    ],
)
def test_what_helps_depends_on_what_the_system_says(
    number: int,
    remedy: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fail(_: list[str]) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("driftrl.cli.listing.main", fail)
    assert main(["list"]) == 1
    assert f"driftrl: {os.strerror(number)}. " in (err := said(capsys)[1])
    assert f"is kept: {remedy}, and run the same command again" in err


def test_input_errors_end_with_their_own_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def raise_input(_: list[str]) -> int:
        raise InputError("This is wrong.")

    monkeypatch.setattr("driftrl.cli.listing.main", raise_input)
    assert main(["list"]) == 2
    assert said(capsys) == ("", "driftrl: This is wrong.\n")


@pytest.mark.kill
def test_ctrl_c_stops_at_once_and_says_how_to_go_on(tmp_path: Path) -> None:
    out = tmp_path / "r"
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "driftrl", "run", "pendulum"),
            *("--episodes", "9999", "--out", str(out), *TINY),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(os.environ),
        text=True,
    )
    patience = time.monotonic() + 60
    # Later ones replace it within milliseconds: any from the second on will do.
    while max(saved_checkpoints(out / "checkpoint"), default=0) < 2:
        assert time.monotonic() < patience and process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "--resume" in err and "Traceback" not in err


def test_a_length_that_is_assumed_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("driftrl.training.loop.run", lambda *_, **__: None)
    argv = ["run", "tests.envs.test_custom:Press", "--out", str(tmp_path / "r")]
    assert main(argv) == 0
    assert "no length of an episode: 1000 steps are assumed" in said(capsys)[1]
    assert main([*argv, "--environment.sim_steps", "30"]) == 0
    assert said(capsys)[1] == ""
