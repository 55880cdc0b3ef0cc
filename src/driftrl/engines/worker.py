"""One run in a process of its own: its configuration comes in on standard input.

``python -m driftrl.engines.worker DIRECTORY [--parent PID] [--track NAME]``, where PID
is the process that started it and without which it ends, and NAME a tracker.
"""

import argparse
import os
import sys
import tomllib
from pathlib import Path

from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict
from driftrl.errors import DriftrlError
from driftrl.training.process import end_with, prepare
from driftrl.training.tracking import tracking


def main() -> int:
    """Run, resuming what is there; return the exit status."""
    parser = argparse.ArgumentParser(prog="driftrl.engines.worker")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--parent", type=int)
    parser.add_argument("--track")
    arguments = parser.parse_args()
    if arguments.parent is not None:
        end_with(arguments.parent)
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


if __name__ == "__main__":
    sys.exit(main())
