"""The episodes of a recorded run, for analyses that need more than its records."""

from dataclasses import replace
from pathlib import Path

from driftrl.errors import require
from driftrl.memory.episodes import load_episode
from driftrl.records import CONFIG_FILE, Run, load_run
from driftrl.types import Episode

_MEMORY = "memory"


def load_single_run(directory: Path) -> Run:
    """Read the run in a directory, which must not be a study."""
    require(
        (directory / CONFIG_FILE).is_file(),
        f"{directory} is not the directory of a run: it has no {CONFIG_FILE}. Name one "
        "run, not a study.",
    )
    return load_run(directory)


def has_episodes(run: Run) -> bool:
    """Whether the run still has its episodes, not only its records."""
    return (run.directory / _MEMORY).is_dir()


def load_episodes(run: Run, newest: int | None = None) -> list[Episode]:
    """Return the newest episodes of a run, by default all."""
    require(
        has_episodes(run),
        f"{run.directory} has records but no {_MEMORY}/, which holds its episodes. "
        "`driftrl theory audit` needs the records only.",
    )
    last = len(run.records)
    first = 1 if newest is None else max(1, last - newest + 1)
    memory = run.directory / _MEMORY
    return [load_episode(memory, number) for number in range(first, last + 1)]


def observation_size(run: Run) -> int:
    """Return the number of observations of a run's agent."""
    environment = run.config.get("environment", {})
    if environment.get("observations"):  # a custom environment
        # With a limited rate the actions before are observed, too.
        is_limited = environment.get("limits", {}).get("rate", 2.0) < 2.0
        before = environment["actions"] if is_limited else 0
        return environment["observations"] + before
    from driftrl.envs.tasks import task_named

    task = task_named(run.task)
    variant = environment.get("observation", task.environment.observation)
    return task.sizes(replace(task.environment, observation=variant))[0]
