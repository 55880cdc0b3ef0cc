"""``driftrl``: find the command, run it, and turn what goes wrong into a sentence.

Exit status: 0 done, 1 a run failed, 2 bad input, 130 stopped by Ctrl-C.
"""

import errno
import importlib
import os
import sys

import driftrl
from driftrl.errors import DriftrlError, unknown_name

# Name, module, one line of help.  A module is imported only when it is asked for.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("driftrl.cli.demo", "the paper's first figure, made on this machine"),
    "list": (
        "driftrl.cli.listing",
        "the tasks, methods, schedules and studies",
    ),
    "run": ("driftrl.cli.run", "one method on one task"),
    "study": ("driftrl.cli.study", "many runs, finishing what is unfinished"),
    "oracle": ("driftrl.cli.oracle", "J*(θ), how it was obtained, and its error"),
    "regret": ("driftrl.cli.regret", "cumulative dynamic regret of recorded runs"),
    "watch": ("driftrl.cli.watch", "what is running, how far, how well"),
    "reproduce": ("driftrl.cli.reproduce", "a figure of the paper, in one line"),
    "report": ("driftrl.cli.report", "figures and one HTML page from recorded runs"),
    "theory": ("driftrl.cli.theory", "H and w from the bound or from data; is σ right"),
    "play": ("driftrl.cli.play", "the newest policy of a run, as a video"),
    "export": ("driftrl.cli.export", "the newest policy of a run, for a robot"),
    "check-env": ("driftrl.cli.check_env", "is my environment usable, and how"),
    "robot": ("driftrl.cli.robot", "a machine, or its twin, for a learner on a wire"),
    "bench": ("driftrl.cli.bench", "speed of this machine and of the learner on it"),
}

# Nothing more can be written there, until something is removed.
_FULL = (errno.ENOSPC, errno.EDQUOT)


def main(argv: list[str] | None = None) -> int:
    """Run the command line ``argv`` and return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    try:
        return _dispatch(argv)
    except DriftrlError as error:
        print(f"driftrl: {error}", file=sys.stderr)
        return error.exit_status
    except KeyboardInterrupt:
        print("driftrl: stopped.", file=sys.stderr)
        return 130
    except BrokenPipeError:
        # The reader went away (`driftrl list | head`): nobody is left to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"driftrl: {_told(error)}", file=sys.stderr)
        return 1


def _told(error: OSError) -> str:
    """Say what the system refused, where, and what helps."""
    place = f" ({error.filename})" if error.filename else ""
    refused = f"{error.strerror or error}{place}. What was finished before is kept"
    if place and error.errno not in _FULL:
        return f"{refused}. Choose another place (--out), or mend this one."
    remedy = "make room" if error.errno in _FULL else "mend that"
    return (
        f"{refused}: {remedy}, and run the same command again (a `run` with --resume)."
    )


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    if argv[0] == "--version":
        print(driftrl.__version__)
        return 0
    if argv[0] not in COMMANDS:
        raise unknown_name("command", argv[0], COMMANDS)
    module, _ = COMMANDS[argv[0]]
    return importlib.import_module(module).main(argv[1:])


def _overview() -> str:
    rows = [f"  {name:<9} {line}" for name, (_, line) in COMMANDS.items()]
    return "\n".join(
        [
            "usage: driftrl COMMAND …",
            "",
            "Control of systems whose dynamics change while they are being learned.",
            "",
            *rows,
            "",
            "driftrl COMMAND --help tells more; driftrl --version says which this is.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
