"""``driftrl``: run a command, and print what goes wrong as a sentence.

Exit status: 0 done, 1 a run failed, 2 bad input, 130 stopped by Ctrl-C.
"""

import importlib
import os
import sys

import driftrl
from driftrl.errors import DriftrlError, advice, unknown_name
from driftrl.plugins import add_search_directory
from driftrl.training.process import prepare

# Name, one line of help.  A command's module is imported when it is asked for.
COMMANDS = {
    "demo": "reproduce the paper's first figure on this machine",
    "list": "list tasks, methods, schedules, parameters or studies",
    "run": "run one method on one task",
    "import": "start a run from a log of the machine",
    "study": "run many, and finish what is unfinished",
    "oracle": "print J*(θ), how it was obtained, and its error",
    "regret": "compute the cumulative dynamic regret of recorded runs",
    "watch": "show what is running, how far, how well",
    "health": "say whether the controller of a run still works",
    "reproduce": "reproduce a figure of the paper",
    "report": "write figures and one HTML page from recorded runs",
    "theory": "choose H and w by the bound or from data; audit σ",
    "play": "record the newest policy of a run as a video",
    "export": "export the newest policy of a run for a robot",
    "check-env": "check an environment of yours",
    "robot": "serve a robot, or its simulated twin, to a learner",
}
_MODULES = {"list": "listing", "import": "importing"}


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
        # The reader went away (`driftrl list | head`).
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        print(f"driftrl: {advice(error)}", file=sys.stderr)
        return 1


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0
    command = argv[0]
    if command == "--version":
        print(driftrl.__version__)
        return 0
    if command not in COMMANDS:
        raise unknown_name("command", command, COMMANDS)
    add_search_directory(os.getcwd())
    prepare(os.environ)  # before JAX is imported
    module = _MODULES.get(command, command.replace("-", "_"))
    function = importlib.import_module(f"driftrl.cli.{module}").main
    if command == "run":  # its flags depend on the task
        return function(argv[1:])
    from driftrl.cli.options import call

    return call(function, argv[1:], command) or 0


def _overview() -> str:
    rows = "\n".join(f"  {name:<9} {line}" for name, line in COMMANDS.items())
    return (
        "usage: driftrl COMMAND [OPTIONS]\n\n"
        "Control systems whose dynamics change while they are being learned.\n\n"
        f"{rows}\n\n`driftrl COMMAND --help` lists the options of a command, "
        "`driftrl --version` the version."
    )


if __name__ == "__main__":
    sys.exit(main())
