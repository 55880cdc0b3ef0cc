"""The Slurm engine: the runs of a study as an array of jobs.

The jobs go on without whoever submitted them.  The same command finds them again and
looks on, because a job's name leads to a file that says which runs it carries out.
"""

import contextlib
import io
import json
import re
import secrets
from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Self

from driftrl.config.engine import EngineConfig
from driftrl.config.run import RunConfig
from driftrl.engines.local import config_text, failure_of, worker_command
from driftrl.engines.seam import LOG, Ended, Failure, Job, episodes_done, last_words
from driftrl.engines.slurm_job import OneRun, has_begun, note, read_status
from driftrl.engines.slurm_queue import (
    Phase,
    Queue,
    array_spec,
    cancel,
    chosen_minutes,
    one_line,
    partitions,
    phase_of,
)
from driftrl.errors import InputError, counted, require
from driftrl.io import write_atomically

NOT_INSTALLED = "Slurm needs the extra 'slurm': pip install 'driftrl[slurm]'."
_FOLDER = ".slurm"  # of a study: what it and submitit keep of its jobs
_PREFIX = "driftrl-"
_YEAR_MINUTES = 60 * 24 * 365
_NO_END = 1_000_000  # time limits that submitit lets a job run into; we count others


class _SlurmJob:
    """A run that a job of Slurm carries out."""

    def __init__(
        self, job: str, config: RunConfig, directory: Path, engine: "SlurmEngine"
    ) -> None:
        self.id = job
        self._config, self._directory, self._engine = config, directory, engine
        self._folder = directory.parent / _FOLDER
        self._noted = ""

    @property
    def is_running(self) -> bool:
        """Whether it has begun; a job that was queued again waits."""
        return phase_of(self._engine.queue.state(self.id)) is Phase.RUNNING

    def ended(self) -> Ended | None:
        """Return how it ended, or None while it has not.

        The worker's own exit status says most.  Slurm is believed where there is none,
        and when a signal ended the worker, which may have been for want of memory.
        """
        state = self._engine.queue.state(self.id)
        status = read_status(self._folder, self.id)
        self._note(state if status is None else "FAILED" if status else "COMPLETED")
        if status is not None and status >= 0:
            return Ended(self._failure(status))
        phase = phase_of(state)
        if phase in (Phase.WAITING, Phase.RUNNING):
            return None
        if episodes_done(self._directory) >= self._config.episodes:
            return Ended()
        if phase is not Phase.STOPPED and status is not None:
            return Ended(self._failure(status), is_lost=True)
        begun = has_begun(self._folder, self.id)
        is_lost = phase is Phase.LOST or (phase is Phase.ENDED and begun)
        failure = Failure(
            self._config.name, 1, self._reason(state, begun), self._directory / LOG
        )
        return Ended(failure, is_lost)

    def stop(self) -> None:
        """Cancel it."""
        cancel(self.id)
        self._note("CANCELLED")

    def _failure(self, status: int) -> Failure | None:
        return failure_of(self._config.name, status, self._directory / LOG)

    def _reason(self, state: str, begun: bool) -> str:
        if state == "CANCELLED":
            return f"Job {self.id} was cancelled in Slurm."
        if state == "OUT_OF_MEMORY":
            memory = self._engine.config.resources.memory_gb
            return (
                f"It needs more memory than the {memory:g} GB of "
                "engine.resources.memory_gb."
            )
        if phase_of(state) is Phase.ENDED and not begun:
            printed = self._folder / f"{self.id}_0_log.err"
            return f"Job {self.id} could not start: {last_words(printed)}"
        return f"Slurm took job {self.id} away ({state or 'and forgot it'})."

    def _note(self, state: str) -> None:
        if state and state != self._noted:
            note(self._directory, self.id, state)
            self._noted = state


class SlurmEngine:
    """Runs on the cluster that this machine belongs to."""

    most_at_once = 1000  # Slurm's default for the size of an array
    restarts_lost = True

    def __init__(self, config: EngineConfig, options: tuple[str, ...] = ()) -> None:
        """Look for the cluster.

        Args:
            config: What a run needs, and which partition and account.
            options: Further ones of the worker.

        Raises:
            InputError: There is no Slurm here, or not the partition.
        """
        require(find_spec("submitit") is not None, NOT_INSTALLED)
        self.config = config
        self.queue = Queue()
        self._options = options
        self._minutes = chosen_minutes(
            partitions(), config.slurm.partition, config.resources.minutes
        )

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Find the jobs that carry out these runs, and submit one for each other.

        All that are submitted together are one array.
        """
        here = [(config, directory.absolute()) for config, directory in runs]
        folder = here[0][1].parent / _FOLDER
        jobs = self._found(folder)
        jobs |= self._submit(folder, [run for run in here if run[0].name not in jobs])
        return [
            _SlurmJob(jobs[config.name], config, directory, self)
            for config, directory in here
        ]

    def leave(self, jobs: Sequence[Job]) -> None:
        """Leave the jobs to Slurm, and say how to end them."""
        ids = [job.id for job in jobs if isinstance(job, _SlurmJob)]
        if ids:
            print(
                f"{counted(len(ids), 'job')} left to Slurm; to cancel: scancel "
                f"{array_spec(ids)}"
            )

    def _found(self, folder: Path) -> dict[str, str]:
        """Return the jobs of a study that have not ended, by the names of their runs.

        Not job.json but the names of jobs tell, for an array may be under way of which
        nothing could be written down any more.
        """
        arrays = {
            path.stem: json.loads(path.read_bytes())
            for path in folder.glob(f"{_PREFIX}*.json")
        }
        found: dict[str, str] = {}
        for job, queued in self.queue.jobs().items():
            going = phase_of(queued.state) in (Phase.WAITING, Phase.RUNNING)
            if going and queued.name in arrays and read_status(folder, job) is None:
                index = int(job.partition("_")[2] or 0)
                found[arrays[queued.name][index]] = job
        return found

    def _submit(
        self, folder: Path, runs: Sequence[tuple[RunConfig, Path]]
    ) -> dict[str, str]:
        """Submit an array, and return its jobs by the names of their runs."""
        if not runs:
            return {}
        names = [config.name for config, _ in runs]
        folder.mkdir(exist_ok=True)
        study = re.sub(r"[^\w.-]", "-", folder.parent.name)
        name = f"{_PREFIX}{study}-{secrets.token_hex(4)}"
        write_atomically(folder / f"{name}.json", json.dumps(names).encode())
        parameters = sbatch_parameters(self.config, self._minutes, name)
        # submitit pickles what a job is to do into its folder, and the job reads that:
        # only plain strings go in, besides a class by its name.
        tasks = (
            [worker_command(directory, *self._options) for _, directory in runs],
            [config_text(config).decode() for config, _ in runs],
            [str(directory / LOG) for _, directory in runs],
            [str(folder)] * len(runs),
        )
        jobs = dict(zip(names, _submitted(folder, parameters, tasks), strict=True))
        self.queue.add(jobs.values(), name)
        return jobs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass


def sbatch_parameters(
    config: EngineConfig, minutes: int | None, name: str
) -> dict[str, Any]:
    """Return what submitit asks sbatch for.

    Args:
        config: What a run needs, and which partition and account.
        minutes: Time limit of a job; None for none.
        name: The job's name.
    """
    resources, slurm = config.resources, config.slurm
    extra = {key.replace("-", "_"): value for key, value in slurm.extra.items()}
    limit = minutes or _YEAR_MINUTES  # submitit always asks for one
    parameters: dict[str, Any] = {
        "job_name": name,
        "time": limit,
        "cpus_per_task": resources.cores,
        "mem": f"{round(1024 * resources.memory_gb)}M",
        "partition": slurm.partition or None,
        "account": slurm.account or None,
        "gpus_per_node": resources.accelerators or None,
        # Slurm looks every half minute whom to warn, so that a job of one minute must
        # be warned late, or it would be at once.
        "signal_delay_s": min(60, max(5, 5 * limit)),
        "array_parallelism": slurm.at_once or SlurmEngine.most_at_once,
        "setup": list(slurm.setup) or None,
        # Since version 22.05 a step does not take this from its job.
        "srun_args": [f"--cpus-per-task={resources.cores}"],
        "additional_parameters": {"requeue": True, **extra},
    }
    return {key: value for key, value in parameters.items() if value is not None}


def _submitted(
    folder: Path, parameters: dict[str, Any], tasks: tuple[list[Any], ...]
) -> list[str]:
    """Return the ids of newly submitted jobs, one for each task.

    Raises:
        InputError: sbatch refuses them.
    """
    executor = import_module("submitit").SlurmExecutor(folder, max_num_timeout=_NO_END)
    errors = import_module("submitit.core.utils")
    executor.update_parameters(**parameters)
    try:
        with contextlib.redirect_stderr(io.StringIO()):  # which is in the error as well
            jobs = executor.map_array(OneRun(), *tasks)
    except (errors.FailedJobError, errors.FailedSubmissionError) as error:
        raise InputError(f"Slurm refuses the jobs: {one_line(str(error))}") from None
    return [job.job_id for job in jobs]
