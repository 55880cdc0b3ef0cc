"""What a job of Slurm does, with shells in the place of workers."""

import json
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import Any

import pytest

from driftrl.engines.slurm_job import OneRun, has_begun, note, read_status

# A job has no JAX when it starts its worker; these tests may have.
pytestmark = pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")


@pytest.fixture
def job(slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The directory of a run that this process carries out as task 3 of job 7."""
    for name, value in (("JOB_ID", "9"), ("ARRAY_JOB_ID", "7"), ("ARRAY_TASK_ID", "3")):
        monkeypatch.setenv(f"SLURM_{name}", value)
    (tmp_path / "run").mkdir()
    (tmp_path / "folder").mkdir()
    return tmp_path / "run"


def carry_out(directory: Path, script: str) -> None:
    """Let a job's task do with a shell what it does with the worker."""
    log, folder = directory / "log.txt", directory.parent / "folder"
    OneRun()(["sh", "-c", script], "text\n", str(log), str(folder))


def told_state(directory: Path) -> str:
    noted = json.loads((directory / "job.json").read_bytes())
    assert noted["engine"] == "slurm" and noted["id"] == "7_3"
    return noted["state"]


def test_a_task_hands_over_the_run_and_keeps_its_status(job: Path) -> None:
    folder = job.parent / "folder"
    assert not has_begun(folder, "7_3") and read_status(folder, "7_3") is None
    carry_out(job, f"cat; cat {job}/job.json {folder}/7_3.status")
    assert (job / "log.txt").read_text() == (
        'text\n{"engine": "slurm", "id": "7_3", "state": "RUNNING"}begun'
    )
    assert read_status(folder, "7_3") == 0 and has_begun(folder, "7_3")
    assert told_state(job) == "COMPLETED"


@pytest.mark.parametrize(
    ("script", "status", "left_with"),
    [("echo why; exit 2", 2, 2), ("kill -KILL $$", -signal.SIGKILL, 137)],
)
def test_a_task_fails_as_its_worker_does(
    job: Path, script: str, status: int, left_with: int
) -> None:
    with pytest.raises(SystemExit) as left:
        carry_out(job, script)
    assert left.value.code == left_with
    assert read_status(job.parent / "folder", "7_3") == status
    assert told_state(job) == "FAILED"


@pytest.mark.parametrize(
    ("state", "requeued"), [("RUNNING", ["requeue 7_3"]), ("COMPLETING", [])]
)
def test_a_task_that_is_asked_to_go_queues_again_unless_slurm_does(
    job: Path, slurm: Any, state: str, requeued: list[str]
) -> None:
    slurm.answer("squeue", f"echo {state}")
    with pytest.raises(SystemExit) as left:
        carry_out(job, "kill -TERM $$")
    assert left.value.code == 1
    assert slurm.calls("scontrol") == requeued
    folder = job.parent / "folder"
    assert has_begun(folder, "7_3") and read_status(folder, "7_3") is None


def test_a_worker_is_not_ended_by_a_warning_and_not_left_behind(job: Path) -> None:
    carry_out(job, "kill -USR2 $$; kill -USR1 $$; echo lives")
    assert (job / "log.txt").read_text() == "lives\n"

    def interrupt(number: int, frame: Any) -> None:
        raise SystemExit(255)  # as submitit does when it has queued the job again

    old = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.3)
    began = time.monotonic()
    try:
        with pytest.raises(SystemExit):
            carry_out(job, f"echo $$ > {job}/pid; exec sleep 60")
    finally:
        signal.signal(signal.SIGALRM, old)
    assert time.monotonic() - began < 30, "it was waited for, not ended"
    worker = int((job / "pid").read_text())
    gone = subprocess.run(["sh", "-c", f"kill -0 {worker}"], stderr=subprocess.DEVNULL)
    assert gone.returncode != 0
    assert read_status(job.parent / "folder", "7_3") is None


def test_three_time_limits_without_an_episode_are_enough(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    helpers = types.ModuleType("submitit.helpers")
    helpers.__dict__["DelayedSubmission"] = lambda task, *arguments: arguments
    monkeypatch.setitem(sys.modules, "submitit.helpers", helpers)
    task, folder = OneRun(), job.parent / "folder"
    task(["true"], "", str(job / "log.txt"), str(folder))
    (folder / "7_3.status").unlink()
    asked = (["true"], "", str(job / "log.txt"), str(folder))
    assert task.checkpoint(*asked) == (*asked, 1)
    assert told_state(job) == "PENDING"
    assert task.checkpoint(*asked, 1) == (*asked, 2)
    assert task.checkpoint(*asked, 2) is None
    assert read_status(folder, "7_3") == 1 and told_state(job) == "FAILED"
    assert (
        "3 times in a row: give engine.resources.minutes"
        in (job / "log.txt").read_text()
    )
    (job / "checkpoint" / "000001").mkdir(parents=True)
    assert task.checkpoint(*asked, 2) == (*asked, 0)


def test_a_job_without_an_array_has_its_own_id(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SLURM_ARRAY_JOB_ID")
    carry_out(job, "true")
    assert read_status(job.parent / "folder", "9") == 0


def test_a_note_replaces_the_one_before(tmp_path: Path) -> None:
    for state in ("PENDING", "RUNNING"):
        note(tmp_path, "1", state)
    assert json.loads((tmp_path / "job.json").read_bytes())["state"] == "RUNNING"
    assert [path.name for path in tmp_path.iterdir()] == ["job.json"]
