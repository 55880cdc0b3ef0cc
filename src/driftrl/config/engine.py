"""What the runs of a study need of the machines they run on.

None of this is part of a run's own configuration: wherever it runs, a run is the same.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from driftrl.errors import at_least, positive, require

EngineName = Literal["local", "ray", "slurm"]
_ELSEWHERE = {
    "partition": "engine.slurm.partition",
    "account": "engine.slurm.account",
    "array": "engine.slurm.at_once",
    "cpus-per-task": "engine.resources.cores",
    "mem": "engine.resources.memory_gb",
    "time": "engine.resources.minutes",
}
# What finds jobs again, resumes them, or reads what sbatch prints depends on these.
_NEEDED_AS_IS = (
    *("job-name", "output", "error", "open-mode", "signal", "requeue", "no-requeue"),
    *("nodes", "ntasks", "ntasks-per-node", "wrap"),
    *("parsable", "quiet", "test-only", "wait", "clusters"),
)


@dataclass(frozen=True)
class Resources:
    """What one run is given."""

    cores: int = 1
    """Cores of a processor."""
    accelerators: int = 0
    """Graphics processors, or the like."""
    memory_gb: float = 2.0
    """Memory in gigabytes."""
    minutes: int = 0
    """Longest time of one job, after which it is queued again and resumed; 0 for the
    cluster's own limit."""

    def __post_init__(self) -> None:
        at_least("engine.resources.cores", self.cores, 1)
        at_least("engine.resources.accelerators", self.accelerators, 0)
        positive("engine.resources.memory_gb", self.memory_gb)
        at_least("engine.resources.minutes", self.minutes, 0)


@dataclass(frozen=True)
class RayConfig:
    """Which Ray cluster."""

    address: str = ""
    """Address of a running cluster, or auto to find one; empty starts a local one."""
    shared_disk: bool = True
    """Whether its workers see the directory of the results; otherwise files are sent
    back as they are written."""


@dataclass(frozen=True)
class SlurmConfig:
    """Which part of a Slurm cluster."""

    partition: str = ""
    """Partition that the jobs go to."""
    account: str = ""
    """Account that pays for them; empty for the user's default."""
    at_once: int = 0
    """Most jobs of one array that run at a time; 0 for no limit."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further options of sbatch by their long names, such as qos or constraint; true
    for one that takes no value."""
    setup: tuple[str, ...] = ()
    """Lines of shell that each job executes before its run, on the cluster."""

    def __post_init__(self) -> None:
        at_least("engine.slurm.at_once", self.at_once, 0)
        for name, value in self.extra.items():
            _check_option(name, value)
        for line in self.setup:
            require(
                bool(line.strip()) and _is_one_line(line),
                "engine.slurm.setup must be lines of shell, one a text; received "
                f"{line!r}.",
            )


def _check_option(name: str, value: Any) -> None:
    """Refuse what is no option of sbatch, or one that driftrl sets itself."""
    place = "engine.slurm.extra"
    require(
        re.fullmatch("[A-Za-z]+([-_][A-Za-z]+)*", name) is not None,
        f"{place} has the key {name!r}. Keys are the long names of sbatch's options, "
        "of letters with - or _ between them, such as qos.",
    )
    flag = name.lower().replace("_", "-")
    elsewhere = _ELSEWHERE.get(flag)
    require(elsewhere is None, f"{place} can't set {name!r}; {elsewhere} does.")
    require(
        flag not in _NEEDED_AS_IS,
        f"{place} can't set {name!r}: how driftrl follows its jobs depends on it.",
    )
    is_number = isinstance(value, int | float) and value is not False
    # Options are lines of a script: behind a line's end the shell would execute them.
    is_text = isinstance(value, str) and bool(value) and _is_one_line(value)
    require(
        is_number or is_text,
        f"{place}.{name} must be a number, true, or a text of one line; received "
        f"{value!r}.",
    )


def _is_one_line(text: str) -> bool:
    return not any(ord(letter) < 32 or ord(letter) == 127 for letter in text)


@dataclass(frozen=True)
class EngineConfig:
    """The ``[engine]`` table of a study."""

    resources: Resources = field(default_factory=Resources)
    ray: RayConfig = field(default_factory=RayConfig)
    slurm: SlurmConfig = field(default_factory=SlurmConfig)
    patience_minutes: float = 60.0
    """How long a run may be without a finished episode before it is stopped."""

    def __post_init__(self) -> None:
        positive("engine.patience_minutes", self.patience_minutes)
