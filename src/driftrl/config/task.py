"""What a task is."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from driftrl.config.run import AgentConfig, Clock, EnvironmentConfig, EvaluationConfig
from driftrl.drift.schedules import Schedule
from driftrl.errors import require, unknown_name
from driftrl.memory.forgetting import Unit

REFERENCE_RATE = 100e9
"""Multiplications and additions a second, to which ``Task.minutes`` refers."""


@dataclass(frozen=True)
class Task:
    """A system that drifts, and the settings a run on it starts from."""

    name: str
    summary: str
    """One sentence: the system and what it must do."""
    drifts: str
    """What θ is, with its unit."""
    gymnasium_id: str
    """The registered environment, for ``gymnasium.make``."""
    state_size: int
    """Numbers observed, in the variant "paper"."""
    action_size: int
    starts: tuple[str, ...]
    """The starts that ``environment.start`` may name."""
    nominal: float
    """θ before the drift, which the known reward refers to."""
    drift: Schedule
    episodes: int
    reset_period: int
    """H of R-OMBRL."""
    window: int
    """w of SW-OMBRL."""
    environment: EnvironmentConfig
    agent: AgentConfig
    evaluation: EvaluationConfig
    plant: str = "pendulum"
    """The simulator: "pendulum", "rccar", "custom", or a MuJoCo model."""
    forgets_in: Unit = "episodes"
    """Unit of H and w."""
    clock: Clock = "episodes"
    """What the schedule counts."""
    more_observations: Mapping[str, int] = field(default_factory=dict)
    """Sizes of the other variants that ``environment.observation`` may name."""
    may_end: bool = False
    """Whether there are states in which it has failed (``environment.terminates``)."""
    minutes: float = 0.0
    """What a whole run takes on one core that multiplies matrices of 256 × 256 at
    ``REFERENCE_RATE``: measured, or extrapolated from a few episodes to many hours."""
    notes: str = ""
    """What was assumed of a custom environment."""

    def check_environment(self, environment: EnvironmentConfig) -> None:
        """Refuse what the system does not offer."""
        observed, actions = self.sizes(environment)
        observed -= actions * environment.limits.observes_action
        environment.limits.check_sizes(observed, actions)
        require(
            environment.start in self.starts,
            f"Task {self.name!r} has no start {environment.start!r}; "
            f"environment.start may be {' or '.join(self.starts)}.",
        )
        for name, offered, usual in (
            ("terminates", self.may_end, False),
            ("noise_std", self.plant == "pendulum", 0),
        ):
            value = getattr(environment, name)
            require(
                offered or value == usual,
                f"Task {self.name!r} does not offer environment.{name}: it must be "
                f"{usual}, received {value!r}.",
            )

    def sizes(self, environment: EnvironmentConfig) -> tuple[int, int]:
        """Return the numbers of observations and actions.

        Where an action's rate is limited, the one before is observed.
        """
        observed = {"paper": self.state_size, **self.more_observations}
        if environment.observation not in observed:
            raise unknown_name(
                f"environment.observation of task {self.name!r}:",
                environment.observation,
                observed,
            )
        before = self.action_size * environment.limits.observes_action
        return observed[environment.observation] + before, self.action_size
