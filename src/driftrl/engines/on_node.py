"""A run on a node of a Ray cluster: what is carried out there, and what it reports.

Needs neither Ray nor JAX: it starts the worker, a process of its own, and watches it.
"""

import contextlib
import fcntl
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from driftrl.config.run import RunConfig
from driftrl.engines.local import Process
from driftrl.engines.syncing import Outbox, Piece, receive
from driftrl.training.process import cache_directory

_POLL_SECONDS = 0.2
SCRATCH = "DRIFTRL_SCRATCH"
"""Environment variable of a node: where runs are carried out that share no disk."""


@dataclass(frozen=True)
class Work:
    """A run as it is given to a node."""

    config: RunConfig
    directory: Path
    """Where it lies: for all to see, or for the driver alone."""
    is_shared: bool
    pieces: tuple[Piece, ...]
    """What there is of the run, if its directory is not shared."""
    options: tuple[str, ...]
    """Further ones of the worker."""
    environment: dict[str, str]
    """Variables that are to be the same wherever it runs."""


Message = tuple[Piece, ...] | int
"""What a node reports: first nothing, when it has begun; then files; at last the exit
status of the worker."""


def carry_out(work: Work) -> Iterator[Message]:
    """Run, resuming what is there; whoever leaves early ends the run."""
    os.environ.update(work.environment)
    with contextlib.ExitStack() as stack:
        directory, outbox = work.directory, None
        if not work.is_shared:
            directory = stack.enter_context(scratch()) / work.directory.name
            directory.mkdir()
            receive(directory, work.pieces)
            outbox = Outbox(directory)
            outbox.take()  # the driver has these
        job = Process(work.config, directory, work.options)
        stack.callback(job.stop)
        yield ()
        running = True
        while running:
            # Asked before looking at the files, lest the last ones be missed.
            running = job.process.poll() is None
            if outbox is not None and (pieces := outbox.take()):
                yield pieces
            time.sleep(_POLL_SECONDS * running)
    # Last of all: whoever hears it may end this process.
    yield job.process.returncode


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """Make a directory of one's own on this node, and remove it afterwards.

    Those of processes that were killed are removed as well.
    """
    root = Path(os.environ.get(SCRATCH) or cache_directory() / "scratch")
    root.mkdir(parents=True, exist_ok=True)
    with contextlib.ExitStack() as stack:
        with open(root / "lock", "a") as one_at_a_time:
            fcntl.flock(one_at_a_time, fcntl.LOCK_EX)
            for place in root.glob("run-*"):
                with contextlib.suppress(OSError):  # it is somebody's
                    _remove_abandoned(place)
            place = Path(tempfile.mkdtemp(prefix="run-", dir=root))
            owner = stack.enter_context(open(place / "owner", "a"))
            fcntl.flock(owner, fcntl.LOCK_EX)
        stack.callback(shutil.rmtree, place, ignore_errors=True)
        yield place


def _remove_abandoned(place: Path) -> None:
    with open(place / "owner", "a") as owner:
        fcntl.flock(owner, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(place, ignore_errors=True)
