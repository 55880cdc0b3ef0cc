"""What a run is: frozen dataclasses, one sentence a field, validated on construction.

Schedules and forgetting rules are pure data that evaluates itself, so a configuration
holds the objects themselves (``driftrl.drift``, ``driftrl.memory.forgetting``) and not
a second description of them.  Files and dictionaries are in ``driftrl.config_file``.
Nothing here imports JAX: a command line that only asks for help starts at once.
"""

import math
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from driftrl.drift.schedules import Exponential, Schedule
from driftrl.errors import require
from driftrl.memory.forgetting import Forgetting, KeepAll


def _at_least(name: str, value: float, least: float) -> None:
    require(
        math.isfinite(value) and value >= least,
        f"{name} must be a number of at least {least:g}, received {value!r}.",
    )


@dataclass(frozen=True)
class EnvironmentConfig:
    """How the task's environment is set up, for training and evaluation alike."""

    steps: int = 200
    """Length of an episode in steps of the simulator."""
    action_repeat: int = 1
    """Simulator steps for which one decision is held; rewards are summed."""
    start: str = "hanging"
    """Where an episode starts: one of the starts that the task offers."""
    noise_std: float = 0.0
    """Standard deviation of the Gaussian process noise on the state at a decision."""

    def __post_init__(self) -> None:
        _at_least("environment.steps", self.steps, 1)
        _at_least("environment.action_repeat", self.action_repeat, 1)
        _at_least("environment.noise_std", self.noise_std, 0)
        require(
            self.steps % self.action_repeat == 0,
            f"environment.steps = {self.steps} is not a multiple of "
            f"environment.action_repeat = {self.action_repeat}; choose one that is.",
        )

    @property
    def decisions(self) -> int:
        """Decisions in an episode that runs its full time."""
        return self.steps // self.action_repeat


@dataclass(frozen=True)
class GPConfig:
    """Gaussian-process dynamics."""

    kind: ClassVar[str] = "gp"

    kernel: Literal["se", "matern32", "matern52", "linear"] = "se"
    """Covariance function, with one length scale an input, shared by all outputs."""
    noise_std: float = 0.01
    """Noise σ in units of the outputs' spread, as long as it is not learned."""
    learn_noise: bool = False
    """Whether the marginal likelihood also decides the noise."""
    fit_steps: int = 30
    """Most steps of L-BFGS on the marginal likelihood at a refit."""
    fit_points: int = 300
    """Most points the marginal likelihood is computed on, spread over the data."""
    refit_every: int = 1
    """Episodes between refits; in between, data is appended and dropped only."""
    compression: float = 0.0
    """Share of σ² that planning may neglect to use fewer points; 0 is exact."""

    def __post_init__(self) -> None:
        require(
            math.isfinite(self.noise_std) and self.noise_std > 0,
            f"model.noise_std must be positive, received {self.noise_std!r}.",
        )
        _at_least("model.fit_steps", self.fit_steps, 0)
        _at_least("model.fit_points", self.fit_points, 2)
        _at_least("model.refit_every", self.refit_every, 1)
        _at_least("model.compression", self.compression, 0)


@dataclass(frozen=True)
class ICEMConfig:
    """The planner: improved cross-entropy method."""

    horizon: int = 10
    """Decisions that a plan looks ahead."""
    samples: int = 200
    """Action sequences drawn in an iteration."""
    elites: int = 20
    """Best sequences to which mean and spread move."""
    iterations: int = 4
    """Rounds of drawing and selecting for one decision."""
    carried: float = 0.3
    """Share of the elites that stays a candidate in the next round and decision."""
    noise_exponent: float = 1.0
    """Colour β of the sampled noise, power 1/f^β: 0 white, 1 pink, 2 brown."""
    initial_std: float = 0.5
    """Spread of the first round around the previous plan; actions lie in [-1, 1]."""
    momentum: float = 0.1
    """Share of the old mean and spread that is kept when they move to the elites."""

    def __post_init__(self) -> None:
        for name in ("horizon", "samples", "elites", "iterations"):
            _at_least(f"planner.{name}", getattr(self, name), 1)
        _at_least("planner.noise_exponent", self.noise_exponent, 0)
        require(
            self.elites <= self.samples,
            f"planner.elites = {self.elites} must not exceed planner.samples = "
            f"{self.samples}: elites are the best few of the samples.",
        )
        require(
            0 <= self.carried <= 1 and 0 <= self.momentum < 1,
            "planner.carried must lie in [0, 1] and planner.momentum in [0, 1), "
            f"received {self.carried!r} and {self.momentum!r}.",
        )
        require(
            self.initial_std > 0,
            f"planner.initial_std must be positive, received {self.initial_std!r}.",
        )

    @property
    def carried_elites(self) -> int:
        """Number of elites that stay a candidate."""
        return max(1, round(self.carried * self.elites))


@dataclass(frozen=True)
class OptimismConfig:
    """The weight λ of epistemic uncertainty in the planning objective."""

    rule: Literal["constant", "theory"] = "constant"
    """Constant λ, or the paper's λ_{n,m} = R_max·T·β_n/σ (far larger than useful)."""
    weight: float = 1.0
    """λ if constant, in units of reward for an uncertainty as large as the changes."""
    rkhs_bound: float = 1.0
    """B, the bound on the norm of the dynamics that the theory's β assumes."""
    failure_probability: float = 0.1
    """δ, the probability with which the theory's confidence may fail."""
    reward_max: float = 1.0
    """R_max, the range of the reward that the theory's λ assumes."""

    def __post_init__(self) -> None:
        _at_least("optimism.weight", self.weight, 0)
        _at_least("optimism.rkhs_bound", self.rkhs_bound, 0)
        _at_least("optimism.reward_max", self.reward_max, 0)
        require(
            0 < self.failure_probability < 1,
            "optimism.failure_probability must lie strictly between 0 and 1, "
            f"received {self.failure_probability!r}.",
        )


@dataclass(frozen=True)
class EvaluationConfig:
    """How the policy of an episode is judged on the frozen system."""

    episodes: int = 0
    """Extra rollouts after each episode; with 0 the executed episode is the measure."""

    def __post_init__(self) -> None:
        _at_least("evaluation.episodes", self.episodes, 0)


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
    """Tells runs of one method with different settings apart in a study."""
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    drift: Schedule = field(default_factory=Exponential)
    forgetting: Forgetting = field(default_factory=KeepAll)
    model: GPConfig = field(default_factory=GPConfig)
    planner: ICEMConfig = field(default_factory=ICEMConfig)
    optimism: OptimismConfig = field(default_factory=OptimismConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        _at_least("episodes", self.episodes, 1)
        _at_least("seed", self.seed, 0)
        require(
            all(letter.isalnum() or letter in "._=" for letter in self.variant),
            "variant becomes part of a directory's name: letters, digits and . _ = "
            f"only, received {self.variant!r}.",
        )

    @property
    def name(self) -> str:
        """Name of the run's directory within its study."""
        variant = f"-{self.variant}" if self.variant else ""
        return f"{self.task}-{self.method}{variant}-s{self.seed}"
