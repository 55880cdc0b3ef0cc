"""The local engine with the seeds of a configuration in one process.

Runs that are alike but for their seeds are one group, and a group is one worker
(``driftrl.engines.together_worker``): it tells of each run when that has ended.
"""

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from driftrl.config import RunConfig
from driftrl.engines.local import config_text, failure_of, start_worker
from driftrl.engines.seam import LOG, Ended, Failure, Job

_CLOSE_SECONDS = 10.0
BETWEEN = b"\0"
"""What stands between two configurations on the standard input of a worker."""


def together_engine(runs: Sequence[RunConfig], workers: int) -> "TogetherEngine":
    """Return the engine for these runs.

    Raises:
        InputError: One of them can't share a program with its other seeds.
    """
    # Brings JAX, which whoever only asks for help can do without.
    from driftrl.training.together import check_shareable

    for run in runs:
        check_shareable(run)
    return TogetherEngine(workers)


def worker_command(directories: Sequence[Path], report: int) -> list[str]:
    """Return the command that carries out runs; it reads their configurations.

    Args:
        directories: Where they lie, or are to lie.
        report: File descriptor through which it tells how each has ended.
    """
    module, parent = "driftrl.engines.together_worker", str(os.getpid())
    options = ("--parent", parent, "--report", str(report))
    return [sys.executable, "-m", module, *options, *map(str, directories)]


@dataclass(eq=False)
class Group:
    """Runs that are alike but for their seeds: waiting, under way, or over."""

    kind: RunConfig
    """What they have in common."""
    members: list[tuple[RunConfig, Path]] = field(default_factory=list)
    process: subprocess.Popen[bytes] | None = None
    """None before it is their turn."""
    stopped_for: str = ""
    """The run on whose account the process was killed."""
    _reports: int = -1
    _told: dict[int, int] = field(default_factory=dict)

    @property
    def log(self) -> Path:
        """Where the process prints what belongs to no run in particular."""
        return self.members[0][1] / LOG

    @property
    def is_running(self) -> bool:
        """Whether the process is under way."""
        return self.process is not None and self.process.poll() is None

    def launch(self) -> None:
        """Start the process."""
        self._reports, told_through = os.pipe()
        os.set_blocking(self._reports, False)
        command = worker_command([place for _, place in self.members], told_through)
        told = BETWEEN.join(config_text(config) for config, _ in self.members)
        self.process = start_worker(command, told, self.log, kept_open=[told_through])
        os.close(told_through)

    def ended(self, number: int) -> Ended | None:
        """Return how a member ended, or None while it has not."""
        if self.process is None:
            return None
        status = self.process.poll()  # before the reports, lest the last be missed
        self._read_reports()
        config, directory = self.members[number]
        if number in self._told:
            told = self._told[number]
            return Ended(failure_of(config.name, told, directory / LOG))
        if status is None:
            return None
        if self.stopped_for:
            reason = f"It shared a program with {self.stopped_for}, which was stopped."
            failure = Failure(config.name, status, reason, directory / LOG)
            return Ended(failure, is_lost=self.stopped_for != config.name)
        failure = failure_of(config.name, status or 1, self.log)
        assert failure is not None
        return Ended(replace(failure, log=directory / LOG))

    def stop(self, number: int) -> None:
        """Kill the process, on account of a member; one that waits is not started."""
        self.stopped_for = self.stopped_for or self.members[number][0].name
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        """Wait for a process that has no more to tell, and leave nothing behind."""
        if self.process is None:
            return
        try:
            self.process.wait(_CLOSE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        if self._reports >= 0:
            os.close(self._reports)
            self._reports = -1

    def _read_reports(self) -> None:
        """Take in what the worker has told: a line of number and exit status a run."""
        if self._reports < 0:
            return
        try:
            # Lines are short and written at once: none comes in halves.
            text = os.read(self._reports, 1 << 16)
        except BlockingIOError:
            return
        for line in text.decode().splitlines():
            number, status = (int(word) for word in line.split())
            self._told[number] = status
        if not text:  # whoever could tell more is gone
            os.close(self._reports)
            self._reports = -1


class GroupJob:
    """A run of a group."""

    def __init__(self, engine: "TogetherEngine", group: Group, number: int) -> None:
        """Be member ``number`` of the group."""
        self._engine = engine
        self._group = group
        self._number = number

    @property
    def is_running(self) -> bool:
        """Whether it has begun, and does not wait for a worker."""
        return self._group.is_running

    def ended(self) -> Ended | None:
        """Return how it ended, or None while it has not."""
        self._engine.launch_if_free(self._group)
        return self._group.ended(self._number)

    def stop(self) -> None:
        """Kill the process of the group."""
        self._group.stop(self._number)


class TogetherEngine:
    """Groups of runs on the cores of this machine, a process each.

    All runs of a study are handed in at once, since their order is that of the seeds;
    groups then wait here for one of the workers.  A run that hangs is stopped with its
    group, and the others of that group begin again without it, from where they stood.
    """

    most_at_once = 100_000
    restarts_lost = True

    def __init__(self, workers: int) -> None:
        """Make an engine with so many processes at once."""
        self._workers = workers
        self._groups: list[Group] = []

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Put each into the group of its kind, as long as that has not begun."""
        return [self._job(config, directory) for config, directory in runs]

    def launch_if_free(self, group: Group) -> None:
        """Start a group that waits, if there is a worker for it."""
        if group.process is not None or group.stopped_for:
            return
        if sum(one.is_running for one in self._groups) < self._workers:
            group.launch()

    def leave(self, jobs: Sequence[Job]) -> None:
        """Kill the processes."""
        for job in jobs:
            job.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for group in self._groups:
            group.close()

    def _job(self, config: RunConfig, directory: Path) -> Job:
        from driftrl.training.together import but_for_seed

        kind = but_for_seed(config)
        waiting = (
            group
            for group in self._groups
            if group.kind == kind and group.process is None and not group.stopped_for
        )
        group = next(waiting, None)
        if group is None:
            group = Group(kind)
            self._groups.append(group)
        group.members.append((config, directory))
        return GroupJob(self, group, len(group.members) - 1)
