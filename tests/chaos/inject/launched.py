"""A process that has imported what commands need, and forks for each of them."""

import importlib
import os
import sys
from pathlib import Path

from driftrl.training.process import prepare

prepare(os.environ)
for name in ("cli.run", "cli.study", "robot.client", "training.loop", "agents.sac"):
    importlib.import_module(f"driftrl.{name}")
main = importlib.import_module("driftrl.cli.main").main


def run(words: list[str], fault: str, printed: Path) -> None:
    """Run a command under a fault, here or in the processes that it starts."""
    with printed.open("w") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    if fault:
        os.environ["CHAOS"] = fault
        importlib.import_module("chaos.inject.sitecustomize")
    sys.exit(main(words))
