"""How much work the SAC oracle puts into one J*(θ).  No JAX here."""

from dataclasses import dataclass, field

from driftrl.config.deep import SACConfig
from driftrl.errors import at_least, positive, require, share


@dataclass(frozen=True)
class SACOracleSettings:
    """The trainings behind one value, and the grid of θ that they are made on."""

    seeds: int = 3
    """Trainings of one θ; the best counts, the others say how sure that is."""
    decisions: int = 12_000
    """Decisions that a training collects."""
    updates: int = 5
    """Updates of SAC for every decision."""
    random_decisions: int = 600
    """Decisions at the start that are drawn evenly, before anything is learned."""
    evaluate_every: int = 200
    """Decisions between two evaluations; the updates are made in between, at once."""
    late: float = 0.5
    """Share of the evaluations, the last ones, among which the best policy is found."""
    episodes: int = 5
    """Episodes of an evaluation."""
    judging_episodes: int = 30
    """Fresh episodes on which the best policy of a training is judged at the end."""
    least_error: float = 0.1
    """Share of |J*| that the error is at least: all trainings may miss the same, as
    they do on the pendulum, where they stay up to a tenth behind the optimum."""
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
    """Smaller and quicker than what a learner uses that has few data."""

    def __post_init__(self) -> None:
        counts = (
            "seeds",
            "updates",
            "random_decisions",
            "evaluate_every",
            "episodes",
            "judging_episodes",
        )
        for name in counts:
            at_least(f"The oracle's {name}", getattr(self, name), 1)
        share("The oracle's late", self.late)
        share("The oracle's least_error", self.least_error)
        positive("The oracle's spacing", self.spacing)
        least = self.random_decisions + self.evaluate_every
        require(
            self.decisions >= least,
            f"The oracle's decisions = {self.decisions} leave no time to learn: it "
            f"takes {self.random_decisions} random ones and {self.evaluate_every} "
            f"up to an evaluation, so at least {least}.",
        )

    def __str__(self) -> str:
        return (
            f"{self.seeds} seeds × {self.decisions} decisions × {self.updates} updates"
        )

    @property
    def evaluations(self) -> int:
        """Evaluations in one training."""
        return (self.decisions - self.random_decisions) // self.evaluate_every

    @property
    def late_evaluations(self) -> int:
        """How many of them, the last ones, are late; at least one is."""
        return max(1, round(self.late * self.evaluations))


_LONG = SACOracleSettings(
    seeds=1,
    decisions=60_000,
    updates=1,
    random_decisions=2_000,
    evaluate_every=2_000,
    episodes=2,
    judging_episodes=5,
    spacing=0.2,
    sac=SACConfig(
        hidden=(128, 128), critic="residual", batch_size=128, learning_rate=1e-3
    ),
)


def settings_for(plant: str) -> SACOracleSettings:
    """Return how much work J*(θ) of a plant is worth unless something else is asked."""
    return SACOracleSettings() if plant == "pendulum" else _LONG
