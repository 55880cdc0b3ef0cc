"""The local engine: one process a run, as many at once as there are cores."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from driftrl.config.run import RunConfig
from driftrl.config.toml import to_dict, toml_text
from driftrl.engines.launcher import LOG, Ended, Job, ended_with
from driftrl.errors import at_least
from driftrl.plugins import SEARCH_VARIABLE
from driftrl.training.process import cores, prepare

_POLL_SECONDS = 0.2


def worker_command(directory: Path, *options: str) -> list[str]:
    """Return the command that runs a configuration, which it reads from stdin.

    Without -P the current directory would come first on the import path, and a file
    numpy.py there would be executed.
    """
    module = "driftrl.engines.worker"
    parent = ("--parent", str(os.getpid()))
    return [sys.executable, "-P", "-m", module, str(directory), *parent, *options]


def worker_environment() -> dict[str, str]:
    """Return the variables that are to be the same wherever a run runs."""
    wanted: dict[str, str] = {}
    prepare(wanted)
    del wanted["JAX_COMPILATION_CACHE_DIR"]  # a path of this machine
    wanted[SEARCH_VARIABLE] = os.getcwd()
    return {name: os.environ.get(name, value) for name, value in wanted.items()}


def config_text(config: RunConfig) -> str:
    """Return a configuration as the worker reads it."""
    return toml_text(to_dict(config))


class LocalJob:
    """A run in its own process on this machine."""

    is_running = True

    def __init__(
        self, config: str, directory: Path, options: Sequence[str] = ()
    ) -> None:
        """Start the worker, which reads this configuration."""
        self._log = directory / LOG
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                worker_command(directory, *options),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **worker_environment()},
                start_new_session=True,  # Ctrl-C is for its parent
            )
        assert self.process.stdin is not None
        # A worker that has ended already reads nothing; its exit status says why.
        with contextlib.suppress(BrokenPipeError), self.process.stdin as stdin:
            stdin.write(config.encode())

    def ended(self) -> Ended | None:
        """Return how the process ended, or None while it has not.

        It never counts as lost: what killed it may do so again, such as little memory.
        """
        status = self.process.poll()
        return None if status is None else Ended(ended_with(status, self._log).reason)

    def stop(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()


def run_worker(
    config: str, directory: Path, options: Sequence[str], environment: dict[str, str]
) -> int:
    """Run a worker on a node of a cluster, and return its exit status.

    Whatever ends this call, such as an exception of a signal, ends the worker.
    """
    os.environ.update(environment)
    job = LocalJob(config, directory, options)
    try:
        while job.process.poll() is None:
            time.sleep(_POLL_SECONDS)
    finally:
        job.stop()
    return job.process.returncode


class LocalEngine:
    """Runs on this machine, by default as many at once as it has cores."""

    def __init__(
        self, workers: int | None = None, options: tuple[str, ...] = ()
    ) -> None:
        self.max_jobs = cores() if workers is None else workers
        self.options = options  # of the worker
        at_least("--workers", self.max_jobs, 1)

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Start a process for each run."""
        return [LocalJob(config_text(run), path, self.options) for run, path in runs]

    def shutdown(self, jobs: Sequence[Job]) -> None:
        """Kill the processes."""
        for job in jobs:
            job.stop()
