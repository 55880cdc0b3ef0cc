"""``driftrl check-env``: is my environment usable, and what would be assumed of it."""

import math
import sys
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.envs.advice import default_rows, remarks, rows, verdict
from driftrl.envs.custom import factory_named
from driftrl.envs.inspection import Findings, defaults_for, inspect
from driftrl.envs.trial import described
from driftrl.errors import DriftrlError, InputError


@dataclass(frozen=True)
class Arguments:
    """Which environment, and how long to try it."""

    environment: Annotated[str, tyro.conf.Positional]
    """MODULE:FACTORY, such as my_machine:make_env; the current directory counts."""
    episodes: int = 5
    """Random episodes to drive."""
    seconds: float = 20.0
    """Time after which no more is driven."""
    seed: int = 0
    """Seed of the actions and of the resets."""
    json: bool = False
    """Print one JSON document instead of sentences."""


def main(argv: list[str]) -> int:
    """Inspect an environment and say what was found; 1 if it can't be learned."""
    summary = (
        "Say what an environment of one's own is like, what must be mended before it "
        "can be learned, and what a run on it would assume. It is driven with random "
        "actions within its bounds: mind a real machine."
    )
    arguments = parse(Arguments, argv, "check-env", summary)
    # What the environment prints must not get into the document.
    with redirect_stdout(sys.stderr):
        found = inspect(
            _factory(arguments.environment),
            arguments.environment,
            episodes=arguments.episodes,
            seconds=arguments.seconds,
            seed=arguments.seed,
        )
    if arguments.json:
        print_json(_document(found))
    else:
        _print(found)
    return 0 if found.learnable else 1


def _factory(spec: str) -> Any:
    try:
        return factory_named(spec)
    except DriftrlError:
        raise
    except Exception as error:  # a module of the user's may raise anything
        raise InputError(
            f"Importing the module of {spec!r} raised {described(error)}."
        ) from error


def _print(found: Findings) -> None:
    print(verdict(found))
    for number, fault in enumerate(found.faults, start=1):
        print(f"  {number}. {fault}")
    if known := remarks(found):
        print("\nWorth knowing:")
        for sentence in known:
            print(f"  - {sentence}")
    print("\nFound:")
    for name, value in rows(found):
        print(f"  {name:<20} {value}")
    if not found.learnable:
        return
    print("\nA run would start from:")
    print_table(["setting", "value", "because"], default_rows(defaults_for(found)))


def _document(found: Findings) -> dict[str, Any]:
    defaults = None if found.sizes is None else asdict(defaults_for(found))
    return _plain(
        {
            "environment": found.name,
            "learnable": found.learnable,
            "must_mend": found.faults,
            "worth_knowing": remarks(found),
            "found": asdict(found),
            "defaults": defaults,
        }
    )


def _plain(value: Any) -> Any:
    """Return nested data as JSON knows it, with None for what is not finite."""
    if isinstance(value, dict):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
