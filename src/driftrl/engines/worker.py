"""One run in a process of its own: its configuration comes in on standard input.

``python -m driftrl.engines.worker DIRECTORY [--parent PID] [--track NAME]``, where PID
is the process that started it and without which it ends, and NAME a tracker.
"""

import argparse
import os
import sys
import threading
import time
import tomllib
from pathlib import Path

from driftrl.config import RunConfig
from driftrl.config_file import from_dict
from driftrl.errors import DriftrlError
from driftrl.training.process import prepare
from driftrl.training.tracking import tracking


def main() -> int:
    """Run, resuming what is there; return the exit status."""
    parser = argparse.ArgumentParser(prog="driftrl.engines.worker")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--parent", type=int)
    parser.add_argument("--track")
    arguments = parser.parse_args()
    if arguments.parent is not None:
        watch = threading.Thread(target=_end_with, args=(arguments.parent,))
        watch.daemon = True
        watch.start()
    prepare(os.environ)
    try:
        config = from_dict(RunConfig, tomllib.loads(sys.stdin.read()))
        from driftrl.training.loop import run

        place = arguments.directory
        with tracking(arguments.track, place, config, warn=_warn) as track:
            run(config, place, resume=True, on_episode=track, warn=_warn)
    except DriftrlError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except OSError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _warn(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone.

    Files are written atomically, so it may end at any moment.
    """
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
