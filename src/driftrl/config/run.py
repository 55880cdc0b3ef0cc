"""What a run is: frozen dataclasses, one sentence per field, validated on construction.

Schedules and forgetting rules are pure data that evaluates itself, so a configuration
holds the objects themselves (``driftrl.drift``, ``driftrl.memory.forgetting``) and not
a second description of them.  The settings of agents are in ``driftrl.config.gp`` and
``driftrl.config.deep``; files and dictionaries are in ``driftrl.config.toml``.  Nothing
here imports JAX: a command line that only asks for help starts at once.
"""

import re
from dataclasses import dataclass, field, replace
from typing import Literal

from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.config.gp import GPAgentConfig
from driftrl.config.limits import InitialConfig, LimitsConfig
from driftrl.drift.schedules import Exponential, Schedule
from driftrl.errors import all_at_least, at_least, require, shown
from driftrl.memory.forgetting import ForgettingRule, KeepAll, require_rule


@dataclass(frozen=True)
class EnvironmentConfig:
    """How the task's environment is set up, for training and evaluation alike."""

    sim_steps: int = 200
    """Length of an episode in steps of the simulator."""
    action_repeat: int = 1
    """Simulator steps for which one decision is held; rewards are summed."""
    start: str = "hanging"
    """Where an episode starts: one of the starts that the task offers."""
    noise_std: float = 0.0
    """Standard deviation of the Gaussian process noise on the state at a decision."""
    parameter: str = "torque"
    """What θ sets: one of the parameters that the task offers."""
    setter: str = ""
    """Import path MODULE:FUNCTION of what sets parameters of a custom environment, a
    function of (env, {name: value}); empty if it has a method set_parameters."""
    observation: str = "paper"
    """What is observed: one of the variants that the task offers."""
    terminates: bool = False
    """Whether an episode ends where the task says that it has failed."""
    observations: int = 0
    """Numbers that a custom environment observes; 0 if the task says it."""
    actions: int = 0
    """Numbers that command a custom environment; 0 if the task says it."""
    low: tuple[float, ...] = ()
    """What actions of −1 command there, in its units; empty for −1."""
    high: tuple[float, ...] = ()
    """What actions of 1 command there, in its units; empty for 1."""
    limits: LimitsConfig = field(default_factory=LimitsConfig)

    def __post_init__(self) -> None:
        all_at_least(self, "environment", sim_steps=1, action_repeat=1, noise_std=0)
        require(
            self.sim_steps % self.action_repeat == 0,
            f"environment.sim_steps = {self.sim_steps} is not a multiple of "
            f"environment.action_repeat = {self.action_repeat}; choose one that is.",
        )

    @property
    def steps(self) -> int:
        """Decisions in an episode that runs its full time."""
        return self.sim_steps // self.action_repeat


@dataclass(frozen=True)
class EvaluationConfig:
    """How the policy of an episode is judged on the frozen system."""

    episodes: int = 0
    """Extra rollouts after each episode; with 0 the executed episode is the measure."""

    def __post_init__(self) -> None:
        all_at_least(self, "evaluation", episodes=0)


@dataclass(frozen=True)
class ExtraDrift:
    """A parameter that drifts in addition to the one that θ sets."""

    parameter: str
    """One of the parameters that the task offers."""
    schedule: Schedule
    """Its values, on the same clock as θ."""


Clock = Literal["episodes", "steps"]
"""What schedules count: n, or the decisions taken before episode n, or before a step of
it where θ drifts within episodes."""

NO_END = 10**12
"""Decisions that a plant takes without a reset, in continuing operation."""

AgentConfig = GPAgentConfig | EnsembleAgentConfig | SACAgentConfig
"""Any agent that comes with driftrl."""


@dataclass(frozen=True)
class RunConfig:
    """One run: a task that drifts, an agent that learns it, and a seed."""

    task: str
    """Name of the task: see `driftrl list tasks`."""
    method: str
    """Name of the method: see `driftrl list methods`."""
    seed: int = 0
    """Seed of every random stream of the run."""
    episodes: int = 30
    """Number N of episodes."""
    variant: str = ""
    """Distinguishes runs of one method with different settings."""
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    drift: Schedule = field(default_factory=Exponential)
    extra_drifts: tuple[ExtraDrift, ...] = ()
    """More parameters that drift at the same time."""
    continuing: bool = False
    """Whether the machine is never reset: segments of environment.sim_steps take the
    place of episodes.  Policies are not evaluated then."""
    background: bool = False
    """In continuing operation, whether learning runs beside the next segment, so that
    the machine never waits; its policy acts one segment later."""
    recovery: Literal["operator", "policy"] = "operator"
    """After a fall in continuing operation, a new segment begins where an operator puts
    the machine, or the policy goes on from where it is."""
    event_cost: float = 0.0
    """Subtracted from the reward of a fall in continuing operation."""
    clock: Clock = "episodes"
    """What schedules count: episodes, or decisions taken before the episode."""
    drift_every: int = 0
    """Decisions after which θ follows its schedule again, on a clock of steps; 0 if θ
    is constant within an episode."""
    forgetting: ForgettingRule = field(default_factory=KeepAll)
    agent: AgentConfig = field(default_factory=GPAgentConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)
    initial: InitialConfig = field(default_factory=InitialConfig)

    def __post_init__(self) -> None:
        at_least("episodes", self.episodes, 1)
        at_least("seed", self.seed, 0)
        require(self.seed < 2**63, f"seed must be below 2^63, not {shown(self.seed)}.")
        require(
            re.fullmatch(r"[\w.=-]{0,100}", self.variant) is not None,
            "variant becomes part of a directory's name: at most 100 letters, digits "
            f"and . _ = - only, received {shown(self.variant)}.",
        )
        at_least("drift_every", self.drift_every, 0)
        require(
            self.drift_every == 0 or self.clock == "steps",
            f"drift_every = {self.drift_every} needs clock = 'steps': within an "
            f"episode a schedule of {self.clock} does not change.",
        )
        at_least("event_cost", self.event_cost, 0)
        require(
            self.continuing or not self.background,
            "background = true needs continuing = true: between episodes there is time "
            "to learn.",
        )
        require(
            not self.background
            or isinstance(self.agent, GPAgentConfig)
            or self.agent.learning.when == "episode",
            "background = true needs agent.learning.when = 'episode': it learns beside "
            "the control loop, 'step' within it.",
        )
        require_rule(self.forgetting)
        require(
            callable(self.drift),
            "drift must be a function of the clock that returns θ, such as Constant(2);"
            f" received {shown(self.drift)}.",
        )

    def in_segments(self, steps: int | None = None) -> "RunConfig":
        """Return the run in continuing operation, in segments of so many decisions."""
        environment = self.environment
        if steps is not None:
            at_least("segment", steps, 1)
            sim_steps = steps * environment.action_repeat
            environment = replace(environment, sim_steps=sim_steps)
        return replace(self, continuing=True, environment=environment)

    @property
    def plant_environment(self) -> EnvironmentConfig:
        """Return the environment as the plant has it: in segments, without an end."""
        if not self.continuing:
            return self.environment
        endless = NO_END * self.environment.action_repeat
        return replace(self.environment, sim_steps=endless)

    @property
    def name(self) -> str:
        """Name of the run's directory within its study."""
        variant = f"-{self.variant}" if self.variant else ""
        task = self.task.replace(":", ".")
        return f"{task}-{self.method}{variant}-s{self.seed}"
