"""Several runs in one process, alike but for their seeds.

``python -m driftrl.engines.together_worker DIRECTORY… [--parent PID] [--report FD]``,
with their configurations on standard input, a NUL between two of them.  When a run has
ended, its number and exit status are written to the file descriptor FD, a line each.
What a run has to say is printed to the log in its directory.
"""

import argparse
import os
import sys
import tomllib
import traceback
from pathlib import Path

from driftrl.config import RunConfig
from driftrl.config_file import from_dict
from driftrl.engines.seam import LOG
from driftrl.engines.together import BETWEEN
from driftrl.errors import DriftrlError
from driftrl.training.process import end_with, prepare


def main() -> int:
    """Run, resuming what is there; return 0, or 1 if a run failed."""
    parser = argparse.ArgumentParser(prog="driftrl.engines.together_worker")
    parser.add_argument("directories", type=Path, nargs="+")
    parser.add_argument("--parent", type=int)
    parser.add_argument("--report", type=int)
    arguments = parser.parse_args()
    if arguments.parent is not None:
        end_with(arguments.parent)
    prepare(os.environ)
    texts = sys.stdin.buffer.read().split(BETWEEN)
    configs = [from_dict(RunConfig, tomllib.loads(text.decode())) for text in texts]
    places = dict(zip(configs, arguments.directories, strict=True))
    from driftrl.training.together import run_together

    def log(config: RunConfig, message: str) -> None:
        with open(places[config] / LOG, "a") as file:
            print(message, file=file)

    def report(config: RunConfig, error: BaseException | None) -> None:
        status = 0
        if error is not None:
            status, words = verdict(error)
            log(config, words)
        if arguments.report is not None:
            line = f"{configs.index(config)} {status}\n"
            os.write(arguments.report, line.encode())

    errors = run_together(list(places.items()), resume=True, on_end=report, warn=log)
    return int(any(error is not None for error in errors))


def verdict(error: BaseException) -> tuple[int, str]:
    """Return the exit status of a run that raised an error, and what to print."""
    if isinstance(error, DriftrlError):
        return error.exit_status, str(error)
    if isinstance(error, OSError):
        return 1, f"{type(error).__name__}: {error}"
    return 1, "".join(traceback.format_exception(error)).rstrip()


if __name__ == "__main__":
    sys.exit(main())
