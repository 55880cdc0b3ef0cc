"""Workers on this machine: what they read, how they fail, what they may import."""

import fcntl
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from driftrl.config.toml import toml_text
from driftrl.engines import local, worker
from driftrl.engines.launcher import Ended
from driftrl.engines.local import LocalJob
from factories import TINY, rows_of, write_hostile_files

MORE_THAN_A_PIPE_HOLDS = "x" * 1_000_000


def job_of(
    program: str, config: str, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Ended:
    """Run a program in place of the worker to its end."""
    command = [sys.executable, "-c", program]
    monkeypatch.setattr(local, "worker_command", lambda *_: command)
    job = LocalJob(config, directory)
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
    ("program", "reason"),
    [
        ("import sys; print('1\\nlast'); sys.exit(3)", "last"),
        ("import os; os.kill(os.getpid(), 9)", "signal 9"),
        ("raise SystemExit(1)", "printed nothing"),
    ],
)
def test_a_failing_worker_is_reported_with_its_last_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, reason: str
) -> None:
    ended = job_of(program, MORE_THAN_A_PIPE_HOLDS, tmp_path, monkeypatch)
    assert reason in ended.reason and not ended.is_lost


NODE = """
import os, sys, time
print(os.environ["OMP_NUM_THREADS"], len(sys.stdin.read()), flush=True)
time.sleep({seconds})
sys.exit(3)
"""


@pytest.mark.parametrize("seconds", [0.3, 100])
def test_a_node_runs_the_worker_and_ends_it_when_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    command = [sys.executable, "-c", NODE.format(seconds=seconds)]
    monkeypatch.setattr(local, "worker_command", lambda *_: command)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    call = ("12345", tmp_path, (), {"OMP_NUM_THREADS": "7"})
    if seconds < 1:
        assert local.run_worker(*call) == 3
        assert (tmp_path / "log.txt").read_text() == "7 5\n"
        return
    # A background job of a shell ignores Ctrl-C; this test must not.
    previous = signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        local.run_worker(*call)
    signal.signal(signal.SIGINT, previous)
    listed = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not any(b"time.sleep(100)" in words for words in listed)


def test_a_worker_waits_for_the_previous_one_to_end(tmp_path: Path) -> None:
    lock = open(tmp_path / "lock", "a")  # noqa: SIM115 - closed by the timer
    fcntl.flock(lock, fcntl.LOCK_EX)
    threading.Timer(0.5, lock.close).start()
    worker._wait_for_lock(tmp_path / "lock")
    assert lock.closed


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


def test_a_study_finds_a_users_rule_in_the_current_directory(tmp_path: Path) -> None:
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
