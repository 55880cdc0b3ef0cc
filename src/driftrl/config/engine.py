"""What the runs of a study need of the machines they run on.

None of this is part of a run's configuration: a run is the same wherever it runs.
"""

import re
from dataclasses import dataclass, field
from typing import Any, Literal

from driftrl.errors import all_at_least, positive, require

EngineName = Literal["local", "ray", "slurm"]
# Options of sbatch that [engine.resources] and [engine.slurm] set, and those on which
# finding, resuming and following jobs depends.
_RESERVED = (
    *("partition", "account", "array", "cpus-per-task", "mem", "time", "chdir"),
    *("job-name", "output", "error", "open-mode", "signal", "requeue", "no-requeue"),
    *("nodes", "ntasks", "ntasks-per-node", "wrap"),
    *("parsable", "quiet", "test-only", "wait", "clusters"),
)


@dataclass(frozen=True)
class Resources:
    """What one run gets."""

    cores: int = 1
    """Processor cores."""
    accelerators: int = 0
    """GPUs or similar."""
    memory_gb: float = 2.0
    """Memory in gigabytes."""
    minutes: int = 60
    """Time limit of one Slurm job, after which it is requeued and resumed."""

    def __post_init__(self) -> None:
        all_at_least(self, "engine.resources", cores=1, accelerators=0, minutes=1)
        positive("engine.resources.memory_gb", self.memory_gb)


@dataclass(frozen=True)
class RayConfig:
    """Which Ray cluster; its nodes must see the directory of the results."""

    address: str = ""
    """Address of a running cluster, or auto to find one; empty starts a local one."""


@dataclass(frozen=True)
class SlurmConfig:
    """Which part of a Slurm cluster."""

    partition: str = ""
    """Partition of the jobs; empty for the default one."""
    account: str = ""
    """Account of the jobs; empty for the user's default."""
    at_once: int = 0
    """Most jobs of one array that run at a time; 0 for no limit."""
    extra: dict[str, Any] = field(default_factory=dict)
    """Further options of sbatch by their long names, such as qos or constraint; true
    for one that takes no value."""
    setup: tuple[str, ...] = ()
    """Shell commands that each job executes before its run, one a string."""

    def __post_init__(self) -> None:
        all_at_least(self, "engine.slurm", at_once=0)
        for name, value in self.extra.items():
            _check_option(name, value)
        for line in self.setup:
            require(
                _is_one_line(line),
                f"engine.slurm.setup must be lines of shell; received {line!r}.",
            )


def _check_option(name: str, value: Any) -> None:
    """Refuse what is no option of sbatch, and options that driftrl sets."""
    require(
        re.fullmatch("[A-Za-z]+([-_][A-Za-z]+)*", name) is not None,
        f"engine.slurm.extra has the key {name!r}. Keys are long names of sbatch's "
        "options, such as qos.",
    )
    require(
        name.lower().replace("_", "-") not in _RESERVED,
        f"engine.slurm.extra can't set {name!r}: driftrl sets it. See engine.resources "
        "and engine.slurm for what you can choose.",
    )
    # Options are lines of a script: after a line break the shell would execute them.
    is_valid = _is_one_line(value) if isinstance(value, str) else value is not False
    require(
        is_valid and isinstance(value, str | int | float),
        f"engine.slurm.extra.{name} must be a number, true, or a text of one line; "
        f"received {value!r}.",
    )


def _is_one_line(text: str) -> bool:
    return bool(text.strip()) and not any(ord(c) < 32 or ord(c) == 127 for c in text)


@dataclass(frozen=True)
class EngineConfig:
    """The ``[engine]`` table of a study."""

    resources: Resources = field(default_factory=Resources)
    ray: RayConfig = field(default_factory=RayConfig)
    slurm: SlurmConfig = field(default_factory=SlurmConfig)
    patience_minutes: float = 60.0
    """How long a run may go without finishing an episode before it is stopped."""

    def __post_init__(self) -> None:
        positive("engine.patience_minutes", self.patience_minutes)
