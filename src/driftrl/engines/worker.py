"""One run in its own process; its configuration is read from standard input.

``python -P -m driftrl.engines.worker DIRECTORY [--parent PID] [--track NAME]``: the
worker ends as soon as PID is no longer its parent; NAME is a tracker.
"""

import argparse
import fcntl
import os
import signal
import sys
import time
import tomllib
from pathlib import Path

from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict
from driftrl.errors import DriftrlError, advice
from driftrl.training.process import end_with, prepare

_LOCK_SECONDS = 30.0  # the previous worker of a killed driver needs a moment to end


def main() -> int:
    """Run, resuming what is there; return the exit status."""
    parser = argparse.ArgumentParser(prog="driftrl.engines.worker")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--parent", type=int)
    parser.add_argument("--track")
    arguments = parser.parse_args()
    for warning in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(warning, signal.SIG_IGN)  # of Slurm, to the process above
    if arguments.parent is not None:
        end_with(arguments.parent)
    prepare(os.environ)
    directory = arguments.directory
    try:
        config = from_dict(RunConfig, tomllib.loads(sys.stdin.read()))
        # JAX, which they import, reads what was prepared.
        from driftrl.tracking import tracking
        from driftrl.training.loop import run

        _wait_for_lock(directory / "lock")
        with tracking(arguments.track, directory, config, warn=_warn) as track:
            run(config, directory, resume=True, on_episode=track, warn=_warn)
    except DriftrlError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except OSError as error:
        print(advice(error), file=sys.stderr)
        return 1
    return 0


def _wait_for_lock(path: Path) -> None:
    """Wait until no process holds the lock, or for so long that the run may refuse."""
    latest = time.monotonic() + _LOCK_SECONDS
    while path.is_file() and time.monotonic() < latest:
        with open(path) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                time.sleep(0.2)


def _warn(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
