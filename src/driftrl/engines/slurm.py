"""The Slurm engine: the runs of a study as an array of jobs, submitted by submitit.

Jobs go on without the driver.  A restarted driver finds them again by ``job.json`` in
the runs' directories.
"""

import contextlib
import io
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from driftrl.config.engine import EngineConfig
from driftrl.config.run import RunConfig
from driftrl.engines.launcher import (
    LOG,
    Ended,
    Job,
    ended_with,
    episodes_done,
    last_log_line,
)
from driftrl.engines.local import config_text, run_worker, worker_environment
from driftrl.engines.progress import JOB_FILE, read_job
from driftrl.errors import InputError, counted, require
from driftrl.io import write_atomically

_FOLDER = ".slurm"  # of a study: files of submitit
_ASK_SECONDS = 5.0  # between two calls of squeue, for all jobs together
_MAX_FRUITLESS = 3  # time limits in a row, without an episode between them
_NO_END = 1_000_000  # time limits after which submitit gives up; we count others

# States of squeue; a job in any other one waits.
_RUNNING = {"RUNNING", "COMPLETING", "RESIZING", "SIGNALING", "STAGE_OUT"}
_ENDED = {"COMPLETED", "FAILED"}
_STOPPED = {"CANCELLED", "DEADLINE", "OUT_OF_MEMORY"}
_LOST = {"TIMEOUT", "PREEMPTED", "NODE_FAIL", "BOOT_FAIL", "LAUNCH_FAILED", "REVOKED"}
_LOST |= {""}  # Slurm has forgotten it
_OVER = _ENDED | _STOPPED | _LOST


class RunInJob:
    """What a job does: one run.  submitit calls ``checkpoint`` near the time limit."""

    def __call__(self, call: dict[str, Any], fruitless: int = 0) -> None:
        """Run the worker, which resumes what is there.

        ``call`` are the arguments of ``run_worker``, ``fruitless`` the time limits in a
        row until now without an episode.
        """
        directory, job = Path(call["directory"]), _own_id()
        self._episodes = episodes_done(directory)
        _write_note(directory, job, "RUNNING", begun=True)
        status = run_worker(**{**call, "directory": directory})
        if status == -signal.SIGTERM:
            _requeue_if_running(job)
            sys.exit(1)
        _write_note(directory, job, "FAILED" if status else "COMPLETED", status=status)
        if status:
            sys.exit(1)

    def checkpoint(self, call: dict[str, Any], fruitless: int = 0) -> Any:
        """Return the call with which the job goes on later, or None to give up.

        A run whose episodes take longer than a job may would never end.
        """
        directory, job = Path(call["directory"]), _own_id()
        fruitless = 0 if episodes_done(directory) != self._episodes else fruitless + 1
        if fruitless < _MAX_FRUITLESS:
            _write_note(directory, job, "PENDING", begun=True)
            again = import_module("submitit.helpers").DelayedSubmission
            return again(RunInJob(), call, fruitless)
        with open(directory / LOG, "a") as log:
            print(
                f"No episode ended within the time limit of a job, {fruitless} times "
                "in a row. Set engine.resources.minutes to a larger value.",
                file=log,
            )
        _write_note(directory, job, "FAILED", status=1)
        return None


def _write_note(directory: Path, job: str, state: str, **more: Any) -> None:
    """Write down in a run's directory which job runs it, and how that stands.

    ``begun`` says that its worker was started, ``status`` is the worker's exit status.
    """
    note = {"engine": "slurm", "id": job, "state": state, **more}
    write_atomically(directory / JOB_FILE, json.dumps(note).encode())


def _read_note(directory: Path, job: str | None = None) -> dict[str, Any]:
    """Return what is written about a job; nothing if it is about another one."""
    note = read_job(directory)
    return note if job in (None, note.get("id")) else {}


def _own_id() -> str:
    """Return the id of this process's job, as squeue prints it."""
    array = os.environ.get("SLURM_ARRAY_JOB_ID")
    if array is None:
        return os.environ["SLURM_JOB_ID"]
    return f"{array}_{os.environ['SLURM_ARRAY_TASK_ID']}"


def _requeue_if_running(job: str) -> None:
    """Requeue a job that was asked to end but that Slurm still counts as running.

    So it is where preemption leaves a grace time; the job would count as failed.
    """
    state = _call("squeue", "--noheader", "--jobs", job, "--format", "%T").stdout
    if state.strip() == "RUNNING":
        _call("scontrol", "requeue", job)


class _SlurmJob:
    """A run in a job of Slurm."""

    def __init__(
        self, job: str, config: RunConfig, directory: Path, engine: "SlurmEngine"
    ) -> None:
        self.id = job
        self._config, self._directory, self._engine = config, directory, engine

    @property
    def is_running(self) -> bool:
        """False while it waits in the queue, also once more."""
        return self._engine.state(self.id) in _RUNNING

    def ended(self) -> Ended | None:
        """Return how it ended, or None while it has not.

        The worker's exit status counts first; Slurm's state counts where there is none,
        and if a signal ended the worker, perhaps because memory was short.
        """
        state = self._engine.state(self.id)
        note = _read_note(self._directory, self.id)
        status, has_begun = note.get("status"), "begun" in note
        if status is None and state not in ("", note.get("state")):
            more = {"begun": True} if has_begun else {}
            _write_note(self._directory, self.id, state, **more)
        if status is not None and status >= 0:
            return ended_with(status, self._directory / LOG)
        if state not in _OVER:
            return None
        if episodes_done(self._directory) >= self._config.episodes:
            return Ended()
        if status is not None and state not in _STOPPED:
            return ended_with(status, self._directory / LOG)
        is_lost = state in _LOST or (state in _ENDED and has_begun)
        return Ended(self._reason(state, has_begun), is_lost)

    def stop(self) -> None:
        """Cancel it."""
        _call("scancel", self.id)
        _write_note(self._directory, self.id, "CANCELLED")

    def _reason(self, state: str, has_begun: bool) -> str:
        if state == "OUT_OF_MEMORY":
            memory = self._engine.config.resources.memory_gb
            return f"It needs more memory than engine.resources.memory_gb = {memory:g}."
        if state in _ENDED and not has_begun:
            log = self._directory.parent / _FOLDER / f"{self.id}_0_log.err"
            return f"Job {self.id} could not start: {last_log_line(log)}"
        return f"Slurm ended job {self.id} ({state.lower() or 'and forgot it'})."


class SlurmEngine:
    """Runs on the cluster that this machine belongs to."""

    max_jobs = 1000  # Slurm's default for the size of an array

    def __init__(self, config: EngineConfig, options: tuple[str, ...] = ()) -> None:
        """Look for the cluster; ``options`` are the worker's."""
        require(
            find_spec("submitit") is not None,
            "Slurm needs the extra 'slurm': pip install 'driftrl[slurm]'.",
        )
        self.config, self._options = config, options
        self._states: dict[str, str] | None = None
        self._asked = 0.0
        self._listed()

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Find the jobs of these runs, and submit one array for the other runs."""
        absolute = [(config, directory.absolute()) for config, directory in runs]
        jobs = {path: self._job_of(path) for _, path in absolute}
        new = [run for run in absolute if not jobs[run[1]]]
        if new:
            jobs |= self._submit(new)
        return [_SlurmJob(jobs[path], run, path, self) for run, path in absolute]

    def shutdown(self, jobs: Sequence[Job]) -> None:
        """Leave the jobs to Slurm, and say how to cancel them."""
        ids = [job.id for job in jobs if isinstance(job, _SlurmJob)]
        if ids:
            arrays = dict.fromkeys(job.partition("_")[0] for job in ids)
            left = counted(len(ids), "job")
            print(f"{left} left to Slurm; to cancel: scancel {' '.join(arrays)}")

    def state(self, job: str) -> str:
        """Return the state of a job, at most 5 s old; empty if Slurm forgot it."""
        return self._listed().get(job, "")

    def _listed(self) -> dict[str, str]:
        """Return the states of all jobs of this user.

        submitit would ask sacct, which needs accounting; many clusters have none.
        """
        if self._states is None or time.monotonic() - self._asked >= _ASK_SECONDS:
            wanted = ("--noheader", "--array", "--states=all", "--format=%i %T")
            done = _call("squeue", f"--user={os.getuid()}", *wanted)
            self._asked = time.monotonic()
            if done.returncode == 0:
                rows = (line.split() for line in done.stdout.splitlines())
                self._states = {row[0]: row[1] for row in rows if len(row) == 2}
            elif self._states is None:
                raise InputError(f"Slurm does not answer: {_one_line(done.stderr)}")
            # Else the old answer holds: jobs must not be taken for lost, and restarted.
        return self._states

    def _job_of(self, directory: Path) -> str:
        """Return the job of a run, or nothing if it has ended or there is none."""
        note = _read_note(directory)
        job = note.get("id", "")
        return "" if "status" in note or self.state(job) in _OVER else job

    def _submit(self, runs: Sequence[tuple[RunConfig, Path]]) -> dict[Path, str]:
        """Submit an array, and return its jobs by the directories of their runs."""
        study = runs[0][1].parent
        # submitit pickles these into its folder, and the jobs read them: only strings,
        # and a class by its name.
        calls = [
            {
                "config": config_text(config),
                "directory": str(directory),
                "options": self._options,
                "environment": worker_environment(),
            }
            for config, directory in runs
        ]
        name = re.sub(r"[^\w.-]", "-", f"driftrl-{study.name}")
        parameters = sbatch_parameters(self.config, name)
        ids = _submit_array(study / _FOLDER, parameters, calls)
        self._states = {**self._listed(), **dict.fromkeys(ids, "PENDING")}
        jobs = dict(zip((directory for _, directory in runs), ids, strict=True))
        for directory, job in jobs.items():
            if not _read_note(directory, job):  # else it runs already
                _write_note(directory, job, "PENDING")
        return jobs


def sbatch_parameters(config: EngineConfig, name: str) -> dict[str, Any]:
    """Return what submitit asks sbatch for; ``name`` is that of the jobs."""
    resources, slurm = config.resources, config.slurm
    extra = {key.replace("-", "_"): value for key, value in slurm.extra.items()}
    return {
        "job_name": name,
        "time": resources.minutes,
        "cpus_per_task": resources.cores,
        "mem": f"{round(1024 * resources.memory_gb)}M",
        "partition": slurm.partition or None,
        "account": slurm.account or None,
        "gpus_per_node": resources.accelerators or None,
        # Slurm checks only every half minute which jobs to warn, so that a job of one
        # minute must be warned late, or it would be warned at once.
        "signal_delay_s": min(60, max(5, 5 * resources.minutes)),
        "array_parallelism": slurm.at_once or SlurmEngine.max_jobs,
        "setup": list(slurm.setup),
        # Since version 22.05 a step does not inherit this from its job.
        "srun_args": [f"--cpus-per-task={resources.cores}"],
        "additional_parameters": {"requeue": True, **extra},
    }


def _submit_array(
    folder: Path, parameters: dict[str, Any], calls: list[dict[str, Any]]
) -> list[str]:
    """Return the ids of newly submitted jobs, one for each call."""
    # -P: else the job would import from the current directory first.
    python = f"{shlex.quote(sys.executable)} -P"
    executor = import_module("submitit").SlurmExecutor(
        folder, max_num_timeout=_NO_END, python=python
    )
    errors = import_module("submitit.core.utils")
    executor.update_parameters(**parameters)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # the error has it as well
            jobs = executor.map_array(RunInJob(), calls)
    except (errors.FailedJobError, errors.FailedSubmissionError) as error:
        raise InputError(f"Slurm refuses the jobs: {_one_line(str(error))}") from None
    return [job.job_id for job in jobs]


def _one_line(message: str) -> str:
    """Return the error message of a Slurm command as one sentence."""
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    bare = [re.sub(r"^(s\w+: )?((error|fatal): )?", "", line) for line in lines]
    return f"{'; '.join(bare).rstrip('.') or 'it does not say why'}."


def _call(*command: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "no answer in 120 s")
    except OSError as error:
        raise InputError(
            f"Can't run {command[0]}: {error.strerror}. Start studies for Slurm on a "
            "machine of its cluster, such as the login node."
        ) from None
