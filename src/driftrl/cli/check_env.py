"""``driftrl check-env``: check a custom environment and print what a run assumes."""

import sys
from contextlib import redirect_stdout
from dataclasses import asdict
from typing import Annotated

import tyro

from driftrl.cli.options import print_json, print_table
from driftrl.envs.check import check
from driftrl.envs.custom import load_factory


def main(
    environment: Annotated[str, tyro.conf.Positional],
    *,
    episodes: int = 5,
    seconds: float = 20.0,
    seed: int = 0,
    json: bool = False,
) -> int:
    """Check a custom environment: what to fix, what to know, what a run would assume.

    It runs random actions within their bounds: be careful with a real machine.

    Args:
        environment: MODULE:FACTORY, such as my_env:make_env in this directory.
        episodes: Random episodes to run.
        seconds: Time after which no further step is taken.
        seed: Seed of the actions and of the resets.
        json: Print one JSON document instead of sentences.
    """
    with redirect_stdout(sys.stderr):  # what the environment prints
        factory = load_factory(environment)
        limits = {"episodes": episodes, "seconds": seconds, "seed": seed}
        report = check(factory, environment, **limits)
    if json:
        print_json({"ok": report.ok, **asdict(report)})
        return 0 if report.ok else 1
    print(f"{environment} can {'' if report.ok else 'NOT '}be learned.")
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
