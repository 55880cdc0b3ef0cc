"""The data of a recorded run, for commands that look at it again."""

import contextlib
from dataclasses import replace
from pathlib import Path

from driftrl.errors import CorruptFile, require
from driftrl.memory.episodes import load_episode
from driftrl.records import CONFIG_FILE, Run, load_run
from driftrl.types import Episode

_MEMORY = "memory"


def single_run(directory: Path) -> Run:
    """Read the run in a directory, which must be that of one run."""
    require(directory.is_dir(), f"There is no directory {directory}.")
    require(
        (directory / CONFIG_FILE).is_file(),
        f"{directory} is not the directory of a run: it has no {CONFIG_FILE}. Name one "
        "run, not a study.",
    )
    return load_run(directory)


def has_memory(run: Run) -> bool:
    """Return whether the episodes of a run are at hand, and not its records alone."""
    return (run.directory / _MEMORY).is_dir()


def episodes_of(run: Run, newest: int) -> list[Episode]:
    """Return the newest episodes of a run."""
    memory = run.directory / _MEMORY
    require(
        has_memory(run),
        f"{run.directory} has no {_MEMORY}/, only records: what the episodes held is "
        "not known any more. `driftrl theory audit` needs no more than the records.",
    )
    last = len(run.records)
    numbers = range(max(1, last - newest + 1), last + 1)
    return [load_episode(memory, number) for number in numbers]


def observations_of(run: Run) -> int:
    """Return how many numbers the agent of a run observes.

    The whole configuration is not read for that: records outlive their version.
    """
    if run.records and has_memory(run):
        with contextlib.suppress(CorruptFile):
            return episodes_of(run, 1)[0].obs.shape[1]
    environment = run.config.get("environment", {})
    if environment.get("observations"):  # a custom environment
        return environment["observations"]
    from driftrl.envs.tasks import task_named

    task = task_named(run.task)
    variant = environment.get("observation", task.environment.observation)
    return task.sizes(replace(task.environment, observation=variant))[0]
