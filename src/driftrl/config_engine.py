"""What the runs of a study need of the machines they run on.

None of this is part of a run's own configuration: wherever it runs, a run is the same.
"""

from dataclasses import dataclass, field
from typing import Literal

from driftrl.errors import at_least, positive

EngineName = Literal["local", "ray", "slurm"]


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
