"""Effort of the SAC oracle for one J*(θ).  Imports no JAX."""

from dataclasses import dataclass, field

from driftrl.config.deep import SACConfig


@dataclass(frozen=True)
class SACOracleSettings:
    """The trainings behind one value, and the grid of θ on which they are made."""

    seeds: int = 3
    """Trainings at one θ; the best counts, the others enter its error."""
    steps: int = 12_000
    """Steps that a training collects."""
    updates: int = 5
    """Updates of SAC for every step."""
    random_steps: int = 600
    """Steps with random actions before learning starts."""
    evaluate_every: int = 200
    """Steps between two evaluations; the updates are made in between, at once."""
    episodes: int = 5
    """Episodes of an evaluation."""
    test_episodes: int = 30
    """Fresh episodes on which the best policy of a training is tested at the end."""
    least_error: float = 0.1
    """Smallest error as a share of |J*|: all trainings may miss the same, as on the
    pendulum, where they stay up to a tenth below the optimum."""
    spacing: float = 0.1
    """Distance of the grid's θ, as a share of the task's nominal one."""
    sac: SACConfig = field(
        default_factory=lambda: SACConfig(
            hidden=(64, 64),
            critic="residual",
            batch_size=128,
            learning_rate=1e-3,
            tau=0.01,
        )
    )

    def __str__(self) -> str:
        return f"{self.seeds} seeds × {self.steps} steps × {self.updates} updates"

    @property
    def evaluations(self) -> int:
        """Evaluations in one training."""
        return (self.steps - self.random_steps) // self.evaluate_every


_LONG = SACOracleSettings(
    seeds=1,
    steps=60_000,
    updates=1,
    random_steps=2_000,
    evaluate_every=2_000,
    episodes=2,
    test_episodes=5,
    spacing=0.2,
    sac=SACConfig(
        hidden=(128, 128), critic="residual", batch_size=128, learning_rate=1e-3
    ),
)


def settings_for(plant: str) -> SACOracleSettings:
    """Return the default effort for a plant."""
    return SACOracleSettings() if plant == "pendulum" else _LONG
