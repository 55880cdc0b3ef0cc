"""What Slurm says: its partitions, and the states of a user's jobs."""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from driftrl.errors import InputError, require, unknown_name

_ASK_SECONDS = 5.0  # between two questions to the controller, however many jobs
_COMMANDS = ("sbatch", "squeue", "sinfo", "scancel", "scontrol", "srun")


class Phase(Enum):
    """What a job's state means for its run."""

    WAITING = "waits for a place"
    RUNNING = "has a place"
    ENDED = "ended by itself"
    STOPPED = "was stopped, and would be again"
    LOST = "was taken away, and may be started again"


PHASES = {
    "PENDING": Phase.WAITING,
    "CONFIGURING": Phase.WAITING,
    "REQUEUED": Phase.WAITING,
    "REQUEUE_HOLD": Phase.WAITING,
    "REQUEUE_FED": Phase.WAITING,
    "RESV_DEL_HOLD": Phase.WAITING,
    "SPECIAL_EXIT": Phase.WAITING,
    "SUSPENDED": Phase.WAITING,
    "STOPPED": Phase.WAITING,
    "RUNNING": Phase.RUNNING,
    "COMPLETING": Phase.RUNNING,
    "RESIZING": Phase.RUNNING,
    "SIGNALING": Phase.RUNNING,
    "STAGE_OUT": Phase.RUNNING,
    "COMPLETED": Phase.ENDED,
    "FAILED": Phase.ENDED,
    "CANCELLED": Phase.STOPPED,
    "DEADLINE": Phase.STOPPED,
    "OUT_OF_MEMORY": Phase.STOPPED,
    "TIMEOUT": Phase.LOST,
    "PREEMPTED": Phase.LOST,
    "NODE_FAIL": Phase.LOST,
    "BOOT_FAIL": Phase.LOST,
    "LAUNCH_FAILED": Phase.LOST,
    "REVOKED": Phase.LOST,
}
"""By the names that squeue prints."""


def phase_of(state: str) -> Phase:
    """Return what a state means; "" is that of a job which Slurm has forgotten.

    A state that is not known here is no reason to start a run a second time.
    """
    return Phase.LOST if state == "" else PHASES.get(state, Phase.WAITING)


@dataclass(frozen=True)
class Queued:
    """A job as squeue lists it."""

    state: str
    name: str


def parse_queue(text: str) -> dict[str, Queued]:
    """Return the jobs of a list with the columns id, state and name.

    Example:
        >>> parse_queue("8_0 PENDING other job")
        {'8_0': Queued(state='PENDING', name='other job')}
    """
    rows = (line.split(maxsplit=2) for line in text.splitlines())
    return {row[0]: Queued(row[1], "".join(row[2:])) for row in rows if len(row) > 1}


class Queue:
    """A user's jobs, all of them in one question now and then."""

    def __init__(self) -> None:
        self._jobs: dict[str, Queued] | None = None
        self._asked = 0.0
        self._complained = False

    def jobs(self) -> dict[str, Queued]:
        """Return the jobs by their ids, as they were a few seconds ago at most."""
        if self._jobs is None or time.monotonic() - self._asked >= _ASK_SECONDS:
            self._ask()
        assert self._jobs is not None
        return self._jobs

    def state(self, job: str) -> str:
        """Return the state of a job; empty if Slurm does not know it any more."""
        found = self.jobs().get(job)
        return found.state if found else ""

    def add(self, jobs: Iterable[str], name: str) -> None:
        """Count jobs as waiting that were submitted since Slurm was asked."""
        self._jobs = {**self.jobs(), **{job: Queued("PENDING", name) for job in jobs}}

    def _ask(self) -> None:
        wanted = ("--noheader", "--array", "--states", "all", "--format", "%i %T %j")
        done = _run("squeue", "--user", str(os.getuid()), *wanted)
        self._asked = time.monotonic()
        if done.returncode == 0:
            self._jobs, self._complained = parse_queue(done.stdout), False
            return
        # Without its answer jobs would be taken for lost, and be submitted twice.
        require(self._jobs is not None, f"Slurm does not answer: {_said(done)}")
        if not self._complained:
            complaint = f"driftrl: Slurm does not answer, asking again: {_said(done)}"
            print(complaint, file=sys.stderr, flush=True)
            self._complained = True


@dataclass(frozen=True)
class Partition:
    """A part of a cluster, and how long its jobs may take; None for ever."""

    is_default: bool
    default_minutes: int | None
    most_minutes: int | None


def partitions() -> dict[str, Partition]:
    """Return the partitions of the cluster that this machine belongs to.

    Raises:
        InputError: It belongs to none, or that does not answer.
    """
    missing = [name for name in _COMMANDS if shutil.which(name) is None]
    require(
        not missing,
        f"This machine has no {', '.join(missing)}. Studies go to Slurm from a machine "
        "of its cluster, such as the login node.",
    )
    done = _run("sinfo", "--all", "--noheader", "--format", "%P|%L|%l")
    require(done.returncode == 0, f"Slurm does not answer: {_said(done)}")
    return parse_partitions(done.stdout)


def parse_partitions(text: str) -> dict[str, Partition]:
    """Return partitions from a list of name, default and longest time.

    Example:
        >>> parse_partitions("short*|n/a|1:30:00")
        {'short': Partition(is_default=True, default_minutes=None, most_minutes=90)}
    """
    rows = (line.split("|") for line in text.splitlines())
    return {
        name.removesuffix("*"): Partition(
            name.endswith("*"), minutes_of(default), minutes_of(most)
        )
        for name, default, most in rows
    }


def minutes_of(text: str) -> int | None:
    """Return whole minutes of a time as Slurm prints it; None for ever.

    Example:
        >>> [minutes_of(t) for t in ("30:00", "1:00:00", "2-00:10:00", "infinite")]
        [30, 60, 2890, None]
    """
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):\d+", text.strip())
    if found is None:
        return None
    days, hours, minutes = (int(part or 0) for part in found.groups())
    return (24 * days + hours) * 60 + minutes


def chosen_minutes(known: dict[str, Partition], asked: str, minutes: int) -> int | None:
    """Return the time limit of jobs for the partition that was asked for.

    Args:
        known: The partitions.
        asked: Name of one, or several with commas between; empty for the default.
        minutes: Time limit that was asked for; 0 for the partition's own.

    Raises:
        InputError: There is no such partition, none to choose, or the limit is beyond
            what it allows.
    """
    default = [name for name, partition in known.items() if partition.is_default]
    require(
        bool(asked or default),
        "This Slurm cluster has no default partition, and none was asked for. Choose "
        f"one by --partition, or as engine.slurm.partition: {', '.join(known)}.",
    )
    names = asked.split(",") if asked else default
    for name in names:
        if name not in known:
            raise unknown_name("partition", name, known)
        most = known[name].most_minutes
        require(
            most is None or minutes <= most,
            f"engine.resources.minutes is {minutes}, but partition {name!r} allows "
            f"{most} at most.",
        )
    if minutes:
        return minutes
    own = (known[name].default_minutes or known[name].most_minutes for name in names)
    return min((limit for limit in own if limit), default=None)


def array_spec(jobs: Sequence[str]) -> str:
    """Return ids as scancel reads them, those of an array together.

    Example:
        >>> array_spec(["7_0", "7_1", "7_2", "7_5", "9"])
        "'7_[0-2,5]' 9"
    """
    arrays: dict[str, list[int]] = {}
    for job in jobs:
        array, _, index = job.partition("_")
        arrays.setdefault(array, []).extend([int(index)] if index else [])
    return " ".join(
        # In quotes, for some shells take brackets for the names of files.
        f"'{array}_[{_ranges(indices)}]'" if indices else array
        for array, indices in arrays.items()
    )


def _ranges(indices: Iterable[int]) -> str:
    spans: list[list[int]] = []
    for index in sorted(indices):
        if spans and index == spans[-1][-1] + 1:
            spans[-1] = [spans[-1][0], index]
        else:
            spans.append([index])
    return ",".join("-".join(map(str, span)) for span in spans)


def cancel(job: str) -> None:
    """End a job at once."""
    _run("scancel", job)


def one_line(message: str) -> str:
    """Return what a command of Slurm complains of, as one sentence.

    Example:
        >>> one_line("sbatch: error: No such account")
        'No such account.'
    """
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    bare = [re.sub(r"^(s\w+: )?((error|fatal): )?", "", line) for line in lines]
    return f"{'; '.join(bare).rstrip('.') or 'it does not say why'}."


def _said(done: "subprocess.CompletedProcess[str]") -> str:
    return one_line(done.stderr)


def _run(*command: str) -> "subprocess.CompletedProcess[str]":
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=120)
    except subprocess.TimeoutExpired:
        return subprocess.CompletedProcess(command, 1, "", "no answer in 120 s")
    except OSError as error:
        raise InputError(f"{command[0]} can't be run: {error.strerror}.") from None
