"""The command line as a user meets it: what it prints, and its exit status."""

import contextlib
import importlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from driftrl.cli.main import COMMANDS, main
from driftrl.records import read_records
from driftrl.training import study
from driftrl.training.checkpoint import saved_checkpoints

TINY = [
    *("--environment.sim_steps", "20", "--agent.planner.samples", "8"),
    *("--agent.planner.elites", "2", "--agent.planner.iterations", "1"),
    *("--agent.planner.horizon", "2", "--agent.model.fit-steps", "1"),
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
def test_lists_in_words_and_json(
    what: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"gp_pendulum": study.find_study("gp_pendulum")}
    monkeypatch.setattr(study, "shipped_studies", lambda: one)
    assert main(["list", what, "--json"]) == 0
    rows = json.loads(said(capsys)[0])
    assert main(["list", what]) == 0
    table = said(capsys)[0]
    assert rows and all(row["name"] in table for row in rows)


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ("rnu", "'run'"),
        ("run", "Which task"),
        ("run --method sac pendulum", "comes first"),
        ("run pendulm", "'pendulum'"),
        ("run pendulum --method sombr", "'sombrl'"),
        ("run pendulum --forgetting.window 0", "received 0"),
        ("run pendulum --drift.kind lineer", "'linear'"),
        ("run pendulum --drift nowhere:f", "no module 'nowhere'"),
        ("run pendulum --forgetting my_rules:Lag --forgetting.leg 3", "'leg'"),
        ("run pendulum --forgetting my_rules:nothing", "'nothing'"),
        ("run pendulum --config no.toml", "no.toml"),
        ("study gp_pendul", "'gp_pendulum'"),
        ("study gp_pendulum --workers 0", "received 0"),
        ("oracle pendlum", "'pendulum'"),
        ("regret no/such/place", "no/such/place"),
        ("report no/such/place", "no/such/place"),
    ],
)
@pytest.mark.usefixtures("my_rules")
def test_bad_input_is_a_sentence_and_status_two(
    argv: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(argv.split()) == 2
    out, err = said(capsys)
    assert words in err and "Traceback" not in err and out == ""


@pytest.fixture
def my_rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stand in a directory with a module of the user's."""
    (tmp_path / "my_rules.py").write_text(
        "class Lag:\n"
        "    def __init__(self, lag, names=()):\n"
        "        self.lag, self.names = lag, names\n"
        "    def first_retained(self, n, evidence):\n"
        "        assert len(evidence.returns) == n - 1\n"
        "        return max(1, n - self.lag)\n"
        "def fade(clock):\n"
        "    return 2.0 / clock\n"
    )
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setenv("DRIFTRL_PLUGIN_PATH", "")
    monkeypatch.chdir(tmp_path)
    yield
    sys.modules.pop("my_rules", None)


@pytest.mark.usefixtures("my_rules")
def test_a_rule_and_a_schedule_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--forgetting", "my_rules:Lag", "--forgetting.lag", "2"]
    flags += ["--forgetting.names", "a", "b", "--drift", "my_rules:fade"]
    assert main(["run", "pendulum", *flags, "--episodes", "4", *TINY]) == 0
    out = Path("runs/pendulum-custom-Lag-s0")
    assert str(out) in said(capsys)[0]
    rows = read_records(out / "episodes.jsonl")
    assert [row.first_retained for row in rows] == [1, 1, 1, 2]
    assert [row.theta for row in rows] == [2.0, 1.0, 2 / 3, 0.5]
    config = tomllib.loads((out / "config.toml").read_text())
    assert config["drift"] == {"kind": "my_rules:fade"}
    rule = {"kind": "my_rules:Lag", "lag": 2, "names": ["a", "b"]}
    assert config["forgetting"] == rule
    # Resumed, it is the same rule; with --change its settings are others.
    again = ["run", "--resume", "--out", str(out), "--episodes"]
    assert main([*again, "5"]) == 0
    assert main([*again, "7", "--change", "--forgetting.lag", "1"]) == 0
    rows = read_records(out / "episodes.jsonl")
    assert [row.first_retained for row in rows[4:]] == [3, 4, 6]


def test_help_shows_placeholders_and_no_empty_defaults(
    capsys: pytest.CaptureFixture[str],
) -> None:
    for argv in (["run", "pendulum-decay"], ["export"], ["demo"], ["study"], ["run"]):
        with contextlib.suppress(SystemExit):
            main([*argv, "--help"])
        out = said(capsys)[0]
        assert "None" not in out and "(default: )" not in out and "{fixed}" not in out


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
    assert "   3/3 " in out and err == ""
    config = (tmp_path / "r" / "config.toml").read_text()
    assert 'method = "sw-ombrl"' in config and "[versions]" in config
    assert 'jax = "' in config and 'driftrl = "' in config
    # A stored configuration runs again, as it is.
    again = ["run", "pendulum", "--config", str(tmp_path / "r" / "config.toml")]
    assert main([*again, "--out", str(tmp_path / "again"), "--resume"]) == 0
    assert "again holds no run yet: a new one begins" in said(capsys)[1]
    assert (tmp_path / "again" / "episodes.jsonl").exists()


def test_a_full_disk_is_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module: Any = importlib.import_module("driftrl.training.run_directory")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device", str(tmp_path / "state.npz"))

    argv = ["run", "pendulum", "--episodes", "3", "--out", str(tmp_path / "r"), *TINY]
    honest = module.save_checkpoint
    monkeypatch.setattr(
        module,
        "save_checkpoint",
        lambda directory, episodes, *state: (
            honest(directory, episodes, *state) if episodes < 2 else full()
        ),
    )
    assert main(argv) == 1
    err = said(capsys)[1]
    assert "No space left on device" in err and "Traceback" not in err
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
        assert f"driftrl: {reason} ({out}). " in err and "--out" in err


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
    assert "1000 steps" in said(capsys)[1]
    assert main([*argv, "--environment.sim_steps", "30"]) == 0
    assert said(capsys)[1] == ""
