"""One run in a process of its own: its configuration comes in on standard input.

``python -m driftrl.training.worker DIRECTORY PARENT < config.toml``, where PARENT is
the process that started it and without which it ends.
"""

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


def main() -> int:
    """Run, resuming what is there; return the exit status."""
    directory, parent = Path(sys.argv[1]), int(sys.argv[2])
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()
    prepare(os.environ)
    try:
        config = from_dict(RunConfig, tomllib.loads(sys.stdin.read()))
        from driftrl.training.loop import run

        run(
            config,
            directory,
            resume=True,
            on_episode=lambda record: None,
            warn=lambda message: print(message, file=sys.stderr, flush=True),
        )
    except DriftrlError as error:
        print(error, file=sys.stderr)
        return error.exit_status
    except OSError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    return 0


def _end_with(parent: int) -> None:
    """End this process when the one that started it is gone.

    Files are written atomically, so it may end at any moment.
    """
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


if __name__ == "__main__":
    sys.exit(main())
