"""The local engine: one process a run, as many at once as there are cores."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from driftrl.config.run import RunConfig
from driftrl.config.toml import to_dict, toml_text
from driftrl.engines.seam import LOG, Ended, Failure, Job, last_words
from driftrl.training.process import prepare


def worker_command(directory: Path, *options: str) -> list[str]:
    """Return the command that carries out a run; it reads the configuration."""
    return [sys.executable, "-m", "driftrl.engines.worker", str(directory), *options]


def config_text(config: RunConfig) -> bytes:
    """Return what that command reads."""
    return toml_text(to_dict(config)).encode()


def failure_of(name: str, status: int, log: Path) -> Failure | None:
    """Return why an ended process failed, or None if it did not."""
    if status == 0:
        return None
    reason = f"Killed by signal {-status}." if status < 0 else last_words(log)
    return Failure(name, status, reason, log)


def start_worker(
    command: Sequence[str], told: bytes, log: Path, *, kept_open: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start a worker and tell it what to do.

    Args:
        command: The worker.
        told: What it reads on its standard input.
        log: Where it prints; what is there stays.
        kept_open: File descriptors that it shares.
    """
    environment = dict(os.environ)
    prepare(environment)
    with open(log, "ab") as printed:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=printed,
            stderr=printed,
            env=environment,
            pass_fds=kept_open,
            start_new_session=True,  # Ctrl-C is for whoever started it
        )
    assert process.stdin is not None
    # One that has ended already can't be told anything; its exit status says why.
    with contextlib.suppress(BrokenPipeError), process.stdin as standard_input:
        standard_input.write(told)
    return process


class Process:
    """A run under way in a process of its own on this machine."""

    is_running = True

    def __init__(
        self, config: RunConfig, directory: Path, options: Sequence[str] = ()
    ) -> None:
        """Start it.

        Args:
            config: The run.
            directory: Where it lies, or is to lie.
            options: Further ones of the worker.
        """
        self._name = config.name
        self._log = directory / LOG
        command = worker_command(directory, "--parent", str(os.getpid()), *options)
        self.process = start_worker(command, config_text(config), self._log)

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

    most_at_once: int
    options: tuple[str, ...] = ()
    """Further ones of the worker."""
    restarts_lost = False  # what kills a process here may do it again: little memory

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Start a process for each."""
        return [Process(config, directory, self.options) for config, directory in runs]

    def leave(self, jobs: Sequence[Job]) -> None:
        """Kill the processes."""
        for job in jobs:
            job.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass
