"""Workers on this machine: what they read, how they fail, what they may import."""

import fcntl
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from driftrl.config.run import RunConfig
from driftrl.config.toml import toml_text
from driftrl.engines import local
from driftrl.engines.launcher import Ended, run_all
from driftrl.engines.local import LocalEngine, LocalJob, config_text, worker_command
from driftrl.envs.tasks import configure
from factories import TINY, rows_of, write_hostile_files

MORE_THAN_A_PIPE_HOLDS = b"x" * 1_000_000


def job_of(
    program: str, config: bytes, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Ended:
    """Run a program in place of the worker to its end."""
    command = [sys.executable, "-c", program]
    monkeypatch.setattr(local, "worker_command", lambda *_: command)
    job = LocalJob("a", config, directory)
    job.process.wait(60)
    ended = job.ended()
    assert ended is not None
    return ended


def test_a_worker_reads_its_whole_configuration(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log.txt").write_text("before\n")
    program = "import sys; print(len(sys.stdin.buffer.read()))"
    ended = job_of(program, MORE_THAN_A_PIPE_HOLDS, tmp_path, monkeypatch)
    assert ended == Ended()
    assert (tmp_path / "log.txt").read_text() == "before\n1000000\n"


@pytest.mark.parametrize(
    ("program", "status", "reason", "is_lost"),
    [
        ("import sys; print('1\\nlast'); sys.exit(3)", 3, "last", False),
        ("import os; os.kill(os.getpid(), 9)", -9, "signal 9", True),
        ("raise SystemExit(1)", 1, "printed nothing", False),
    ],
)
def test_a_failing_worker_is_reported_with_its_last_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    program: str,
    status: int,
    reason: str,
    is_lost: bool,
) -> None:
    ended = job_of(program, MORE_THAN_A_PIPE_HOLDS, tmp_path, monkeypatch)
    assert ended.failure is not None and ended.is_lost == is_lost
    assert (ended.failure.name, ended.failure.status) == ("a", status)
    assert reason in ended.failure.reason


def tiny(**changes: Any) -> RunConfig:
    return configure("pendulum", "sw-ombrl", {**TINY, "episodes": 1, **changes})


def test_a_worker_waits_for_the_previous_one_to_end(tmp_path: Path) -> None:
    lock = open(tmp_path / "lock", "a")  # noqa: SIM115 - closed by the timer
    fcntl.flock(lock, fcntl.LOCK_EX)
    threading.Timer(8.0, lock.close).start()
    config = tiny()
    done = subprocess.run(worker_command(tmp_path), input=config_text(config))
    assert done.returncode == 0 and lock.closed


RULE = """
from dataclasses import dataclass

@dataclass(frozen=True)
class Recent:
    episodes: int

    def first_retained(self, n, evidence):
        return max(1, n - self.episodes)
"""
CUSTOM: dict[str, Any] = {
    "name": "custom",
    "title": "t",
    "summary": "s",
    "task": "pendulum",
    "methods": ["sw-ombrl"],
    "seeds": [0],
    "settings": {
        **TINY,
        "episodes": 3,
        "forgetting": {"kind": "my_rules:Recent", "episodes": 1},
    },
}


def test_files_in_the_current_directory_are_not_executed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_hostile_files(tmp_path)
    monkeypatch.chdir(tmp_path)
    engine = LocalEngine(1)
    assert run_all([tiny()], tmp_path / "out", engine, on_status=lambda _: None) == ()
    assert list(tmp_path.glob("*.executed")) == []


def test_a_study_finds_a_users_rule_in_the_current_directory(
    tmp_path: Path,
) -> None:
    write_hostile_files(tmp_path)
    (tmp_path / "my_rules.py").write_text(RULE)
    (tmp_path / "study.toml").write_text(toml_text(CUSTOM))
    driver = "import sys; from driftrl.cli.main import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-P", "-c", driver, "study", "study.toml", "--out", "out"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(Path(local.__file__).parents[2])},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (run,) = tmp_path.glob("out/*/")
    assert [row["first_retained"] for row in rows_of(run)] == [1, 1, 2]
    assert list(tmp_path.glob("*.executed")) == []
