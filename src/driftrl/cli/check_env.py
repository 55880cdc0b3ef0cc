"""``driftrl check-env``: check a custom environment and print what a run assumes."""

import sys
from contextlib import redirect_stdout
from dataclasses import asdict, dataclass
from typing import Annotated

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.envs.check import check
from driftrl.envs.custom import load_factory


@dataclass(frozen=True)
class Arguments:
    """Which environment, and how long to try it."""

    environment: Annotated[str, tyro.conf.Positional]
    """MODULE:FACTORY, such as my_env:make_env; the current directory counts."""
    episodes: int = 5
    """Random episodes to run."""
    seconds: float = 20.0
    """Time after which no further step is taken."""
    seed: int = 0
    """Seed of the actions and of the resets."""
    json: bool = False
    """Print one JSON document instead of sentences."""


def main(argv: list[str]) -> int:
    """Check an environment and print the report; 1 if it can't be learned."""
    summary = (
        "Check a custom environment: what must be fixed before it can be learned, what "
        "to know, and what a run would assume. It runs random actions within their "
        "bounds: be careful with a real machine."
    )
    arguments = parse(Arguments, argv, "check-env", summary)
    name = arguments.environment
    with redirect_stdout(sys.stderr):  # what the environment prints
        report = check(
            load_factory(name),
            name,
            episodes=arguments.episodes,
            seconds=arguments.seconds,
            seed=arguments.seed,
        )
    if arguments.json:
        print_json({"ok": report.ok, **asdict(report)})
        return 0 if report.ok else 1
    print(f"{name} can {'' if report.ok else 'NOT '}be learned.")
    for title, sentences in (("Fix", report.errors), ("Warnings", report.warnings)):
        if sentences:
            print(f"\n{title}:")
            print("\n".join(f"  - {sentence}" for sentence in sentences))
    print("\nFound:")
    for fact, value in report.facts.items():
        print(f"  {fact:<20} {value}")
    if report.ok:
        print("\nA run would assume:")
        print_table(["setting", "value"], list(report.settings.items()))
    return 0 if report.ok else 1
