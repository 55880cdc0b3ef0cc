"""What a job of Slurm does: one run, in a process of its own beside this one.

submitit imports this on the machines of the cluster, where every job has its copy in
memory, so nothing large is imported here.  The files of a run may be left at any
moment: to go on with it, the same worker is started again.
"""

import json
import os
import signal
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from driftrl.io import write_atomically

JOB = "job.json"
"""File in a run's directory: engine, id and last known state of its job."""
_BEGUN = "begun"
_MOST_FRUITLESS = 3  # time limits in a row, without an episode between them


def note(directory: Path, job: str, state: str) -> None:
    """Write down which job carries out a run and how it stands, for whoever watches."""
    told = {"engine": "slurm", "id": job, "state": state}
    write_atomically(directory / JOB, json.dumps(told).encode())


def read_status(folder: Path, job: str) -> int | None:
    """Return the exit status of a job's worker; None before it has ended by itself."""
    text = _read(_status_file(folder, job))
    return None if text in ("", _BEGUN) else int(text)


def has_begun(folder: Path, job: str) -> bool:
    """Say whether a job has come as far as to start its worker."""
    return _read(_status_file(folder, job)) != ""


class OneRun:
    """What submitit calls, and asks to ``checkpoint`` before the job's time is over."""

    def __call__(
        self, command: list[str], config: str, log: str, folder: str, fruitless: int = 0
    ) -> None:
        """Carry out a run, from where it stands.

        Args:
            command: The worker's.
            config: The run, as the text that the worker reads.
            log: File in the run's directory to which the worker prints.
            folder: Where the study keeps what it knows of its jobs.
            fruitless: Time limits in a row until now in which no episode ended.
        """
        directory, job = Path(log).parent, own_id()
        self._episodes = _newest_checkpoint(directory)
        _write_status(Path(folder), job, _BEGUN)
        note(directory, job, "RUNNING")
        with open(log, "ab") as printed:
            worker = subprocess.Popen(
                [*command, "--parent", str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=printed,
                stderr=printed,
                preexec_fn=_leave_warnings_to_parent,
            )
        try:
            worker.communicate(config.encode())
        finally:  # also when submitit ends this process, to have the job queued again
            worker.kill()
            status = worker.wait()
        if status == -signal.SIGTERM:
            _queue_again_unless_taken(job)
            sys.exit(1)
        _write_status(Path(folder), job, str(status))
        note(directory, job, "FAILED" if status else "COMPLETED")
        if status:
            sys.exit(status if status > 0 else 128 - status)

    def checkpoint(
        self, command: list[str], config: str, log: str, folder: str, fruitless: int = 0
    ) -> Any:
        """Return what the job is to do when its turn comes again, or None to give up.

        A run that needs longer for an episode than a job may take would never end.
        """
        directory, job = Path(log).parent, own_id()
        moved = _newest_checkpoint(directory) != self._episodes
        fruitless = 0 if moved else fruitless + 1
        if fruitless < _MOST_FRUITLESS:
            note(directory, job, "PENDING")
            again = import_module("submitit.helpers").DelayedSubmission
            return again(OneRun(), command, config, log, folder, fruitless)
        with open(log, "a") as printed:
            print(
                f"No episode ended within the time limit of a job, {fruitless} times "
                "in a row: give engine.resources.minutes a larger value.",
                file=printed,
            )
        _write_status(Path(folder), job, "1")
        note(directory, job, "FAILED")
        return None


def own_id() -> str:
    """Return the id of the job that this process belongs to, as squeue prints it."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array is None:
        return os.environ["SLURM_JOB_ID"]
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"


def _leave_warnings_to_parent() -> None:
    """Let the worker live when Slurm warns that time is short; submitit acts on it."""
    for warning in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(warning, signal.SIG_IGN)


def _queue_again_unless_taken(job: str) -> None:
    """Give up a place that Slurm asked for, and queue for another.

    When it takes the place at once, by preemption or at someone's wish, the job's state
    has changed already and what becomes of it is decided.  Where preemption leaves a
    time of grace the job still counts as running, and would count as failed.
    """
    asked = ["squeue", "--noheader", "--jobs", job, "--format", "%T"]
    state = subprocess.run(asked, capture_output=True, text=True).stdout.strip()
    if state == "RUNNING":
        subprocess.run(["scontrol", "requeue", job], check=False)


def _newest_checkpoint(directory: Path) -> str:
    # As training.checkpoint names them; that module would import JAX.
    names = (path.name for path in (directory / "checkpoint").glob("[0-9]*"))
    return max(names, default="")


def _status_file(folder: Path, job: str) -> Path:
    return folder / f"{job}.status"


def _write_status(folder: Path, job: str, text: str) -> None:
    write_atomically(_status_file(folder, job), text.encode())


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except FileNotFoundError:
        return ""
