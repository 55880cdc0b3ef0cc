"""The few exception types of driftrl.

Every message says what was wrong, what was received, and what to do.  The command
line prints the message alone and exits with the ``exit_status`` of the type.
"""

import difflib
import errno
import math
from collections.abc import Iterable
from typing import Any


class DriftrlError(Exception):
    """Base of everything driftrl raises on purpose; never raised itself."""

    exit_status = 1


class InputError(DriftrlError):
    """What the user asked for is not possible: a bad name, value, file or directory."""

    exit_status = 2


class EnvironmentFault(DriftrlError):
    """The environment answered something no learner may be fed (NaN, a wrong shape)."""


class EpisodeAborted(DriftrlError):
    """The episode under way was stopped, and must not be learned from."""

    out_of_bounds = False
    """Whether the machine left a limit of its states: the same again would, too."""
    end: tuple[Any, float] | None = None
    """Observation and reward, where a limit of the machine's states was left."""


class RobotUnavailable(DriftrlError):
    """The robot did not respond for as long as the learner was willing to wait."""


class CorruptFile(DriftrlError):
    """A file of a run is damaged, and nothing older can stand in for it."""


def advice(error: OSError) -> str:
    """Return what the system refused, where, and what to do."""
    path = f" ({error.filename})" if error.filename else ""
    refused = f"{error.strerror or error}{path}. Finished episodes are kept."
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    if path and not full:
        return f"{refused} Choose another directory (--out), or fix this one."
    remedy = "Free some space" if full else "Fix the cause"
    return f"{refused} {remedy}, then run the same command again (`run` with --resume)."


def unknown_name(kind: str, received: Any, known: Iterable[str]) -> InputError:
    """Return the error for a misspelt name, with the nearest known one suggested."""
    known = sorted(known)
    text = received if isinstance(received, str) else ""
    near = difflib.get_close_matches(text[:100], known, n=1, cutoff=0.5)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    listed = f"Known: {', '.join(known)}." if known else "There is none."
    return InputError(f"Unknown {kind} {shown(received)}. {hint}{listed}")


def require(condition: bool, message: str) -> None:
    """Raise ``InputError(message)`` unless ``condition`` holds."""
    if not condition:
        raise InputError(message)


def shown(value: Any) -> str:
    """Return what was received as it is quoted in messages: never long."""
    try:
        text = repr(value)
    except ValueError:  # Python refuses to print integers of thousands of digits
        text = "an integer of thousands of digits"
    return text if len(text) <= 120 else f"{text[:117]}..."


def at_least(name: str, value: float, least: float) -> None:
    """Refuse a setting that is not a number of at least ``least``."""
    if not least <= value < math.inf:
        raise _out_of_range(name, f"be a number of at least {least:g}", value)


def all_at_least(config: Any, table: str, **least: float) -> None:
    """Refuse settings of a table, such as ``agent.model``, below these numbers."""
    for name, number in least.items():
        at_least(f"{table}.{name}", getattr(config, name), number)


def positive(name: str, value: float) -> None:
    """Refuse a setting that is not a positive number."""
    if not 0 < value < math.inf:
        raise _out_of_range(name, "be positive", value)


def share(name: str, value: float) -> None:
    """Refuse a setting that is not a number from 0 to 1."""
    if not 0 <= value <= 1:
        raise _out_of_range(name, "lie in [0, 1]", value)


def _out_of_range(name: str, what: str, value: float) -> InputError:
    return InputError(f"{name} must {what}, received {shown(value)}.")


def counted(count: int, noun: str) -> str:
    """Return “1 run” or “3 runs”, for sentences."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
