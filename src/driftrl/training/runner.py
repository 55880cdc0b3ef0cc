"""The local runner: one process a run, as many at once as there are cores."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from driftrl.config import RunConfig
from driftrl.config_file import to_dict, toml_text
from driftrl.training.checkpoint import saved_checkpoints
from driftrl.training.process import prepare

_POLL_SECONDS = 0.3


@dataclass(frozen=True)
class Failure:
    """A run that did not finish."""

    name: str
    status: int
    """Exit status; negative is the signal that killed it."""
    reason: str
    """Last line that it printed."""
    log: Path


@dataclass(frozen=True)
class Status:
    """How far a study is."""

    episodes_done: int
    episodes_total: int
    running: tuple[str, ...]
    runs_done: int
    runs_total: int
    failures: tuple[Failure, ...]


class _Worker:
    """A run under way in a process of its own."""

    def __init__(self, config: RunConfig, directory: Path) -> None:
        self.config = config
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self._log = open(directory / "log.txt", "ab")  # noqa: SIM115 - see finish()
        environment = dict(os.environ)
        prepare(environment)
        command = [sys.executable, "-m", "driftrl.training.worker"]
        self.process = subprocess.Popen(
            [*command, str(directory), str(os.getpid())],
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=self._log,
            env=environment,
            start_new_session=True,  # Ctrl-C is for the runner, which then stops these
        )
        assert self.process.stdin is not None
        self.process.stdin.write(toml_text(to_dict(config)).encode())
        self.process.stdin.close()

    def failure(self) -> Failure | None:
        """Return why the ended process failed, or None if it did not."""
        self._log.close()
        status = self.process.returncode
        if status == 0:
            return None
        path = self.directory / "log.txt"
        lines = path.read_text(errors="replace").strip().splitlines()
        said = lines[-1] if lines else "It printed nothing."
        reason = f"Killed by signal {-status}." if status < 0 else said
        return Failure(self.config.name, status, reason, path)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        self._log.close()


def episodes_done(directory: Path) -> int:
    """Return the number of episodes that a run can be resumed after."""
    return max(saved_checkpoints(directory / "checkpoint"), default=0)


def run_all(
    runs: Sequence[RunConfig],
    out: Path,
    *,
    workers: int,
    on_status: Callable[[Status], None],
) -> tuple[Failure, ...]:
    """Run what is unfinished, each in ``out/<its name>``, and return what failed.

    A run that fails or is killed leaves the others alone.  When this function is left
    by an exception (Ctrl-C), the processes are killed; their files stay resumable.
    """
    total = sum(run.episodes for run in runs)
    waiting = [r for r in runs if episodes_done(out / r.name) < r.episodes]
    finished = len(runs) - len(waiting)
    active: list[_Worker] = []
    failures: list[Failure] = []
    try:
        while waiting or active:
            while waiting and len(active) < workers:
                config = waiting.pop(0)
                active.append(_Worker(config, out / config.name))
            time.sleep(_POLL_SECONDS)
            for worker in [w for w in active if w.process.poll() is not None]:
                active.remove(worker)
                failure = worker.failure()
                failures += [failure] if failure else []
                finished += failure is None
            done = sum(min(episodes_done(out / r.name), r.episodes) for r in runs)
            names = tuple(worker.config.name for worker in active)
            on_status(Status(done, total, names, finished, len(runs), tuple(failures)))
    finally:
        for worker in active:
            worker.stop()
    return tuple(failures)
