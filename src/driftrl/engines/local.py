"""The local engine: one process a run, as many at once as there are cores."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from driftrl.config.run import RunConfig
from driftrl.config.toml import to_dict, toml_text
from driftrl.engines.launcher import LOG, Ended, Job, failure_of
from driftrl.plugins import SEARCH_VARIABLE
from driftrl.training.process import prepare


def worker_command(directory: Path, *options: str) -> list[str]:
    """Return the command that runs a configuration, which it reads from stdin.

    Without -P the current directory would come first on the import path, and a file
    numpy.py there would be executed.
    """
    module = "driftrl.engines.worker"
    return [sys.executable, "-P", "-m", module, str(directory), *options]


def worker_environment() -> dict[str, str]:
    """Return the variables that are to be the same wherever a run runs."""
    wanted: dict[str, str] = {}
    prepare(wanted)
    del wanted["JAX_COMPILATION_CACHE_DIR"]  # a path of this machine
    wanted[SEARCH_VARIABLE] = os.getcwd()
    return {name: os.environ.get(name, value) for name, value in wanted.items()}


def config_text(config: RunConfig) -> bytes:
    """Return a configuration as the worker reads it."""
    return toml_text(to_dict(config)).encode()


class LocalJob:
    """A run in its own process on this machine."""

    is_running = True

    def __init__(
        self, name: str, config: bytes, directory: Path, options: Sequence[str] = ()
    ) -> None:
        """Start the worker, which reads this configuration."""
        self._name, self._log = name, directory / LOG
        with open(self._log, "ab") as log:
            self.process = subprocess.Popen(
                worker_command(directory, "--parent", str(os.getpid()), *options),
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env={**os.environ, **worker_environment()},
                start_new_session=True,  # Ctrl-C is for its parent
            )
        assert self.process.stdin is not None
        # A worker that has ended already reads nothing; its exit status says why.
        with contextlib.suppress(BrokenPipeError), self.process.stdin as stdin:
            stdin.write(config)

    def ended(self) -> Ended | None:
        """Return how the process ended, or None while it has not."""
        status = self.process.poll()
        if status is None:
            return None
        return Ended(failure_of(self._name, status, self._log), is_lost=status < 0)

    def stop(self) -> None:
        """Kill the process."""
        self.process.kill()
        self.process.wait()


@dataclass(frozen=True)
class LocalEngine:
    """Runs on the cores of this machine."""

    max_jobs: int
    options: tuple[str, ...] = ()
    """Further options of the worker."""
    restarts_lost = False  # what killed a process here may do so again: little memory

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Start a process for each run."""
        return [
            LocalJob(config.name, config_text(config), directory, self.options)
            for config, directory in runs
        ]

    def shutdown(self, jobs: Sequence[Job]) -> None:
        """Kill the processes."""
        for job in jobs:
            job.stop()
