"""Settings of the planning agent: Gaussian process, iCEM and the weight of optimism.

Like ``driftrl.config.run``: frozen, validated on construction, one sentence per field.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from driftrl.errors import all_at_least, positive, require


@dataclass(frozen=True)
class GPConfig:
    """Gaussian-process dynamics."""

    kernel: Literal["se", "matern32", "matern52", "linear"] = "se"
    """Covariance function, with one length scale per input, shared by all outputs."""
    noise_std: float = 0.01
    """Noise σ in units of the outputs' spread, as long as it is not learned."""
    learn_noise: bool = False
    """Whether the marginal likelihood also decides the noise."""
    fit_steps: int = 30
    """Most steps of L-BFGS on the marginal likelihood at a refit."""
    fit_points: int = 300
    """Most points the marginal likelihood is computed on, spread over the data."""
    refit_every: int = 1
    """Episodes between refits of the hyperparameters; in between, only data change."""
    compression: float = 0.0
    """Share of σ² that planning may neglect to use fewer points; 0 is exact."""

    def __post_init__(self) -> None:
        positive("agent.model.noise_std", self.noise_std)
        least = {"fit_steps": 0, "fit_points": 2, "refit_every": 1, "compression": 0}
        all_at_least(self, "agent.model", **least)


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
        least = {"horizon": 1, "samples": 1, "elites": 1, "iterations": 1}
        all_at_least(self, "agent.planner", **least, noise_exponent=0)
        require(
            self.elites <= self.samples,
            f"agent.planner.elites = {self.elites} must not exceed "
            f"agent.planner.samples = {self.samples}: they are the best few.",
        )
        require(
            0 <= self.carried <= 1 and 0 <= self.momentum < 1,
            "agent.planner.carried must lie in [0, 1] and agent.planner.momentum in "
            f"[0, 1), received {self.carried!r} and {self.momentum!r}.",
        )
        positive("agent.planner.initial_std", self.initial_std)

    @property
    def carried_elites(self) -> int:
        """Number of elites that stay a candidate."""
        return max(1, round(self.carried * self.elites))


@dataclass(frozen=True)
class TheoryConfig:
    """What the theory's λ_{n,m} = R_max·T·β_n/σ assumes."""

    rkhs_bound: float = 1.0
    """B, the bound on the norm of the dynamics that β assumes."""
    failure_probability: float = 0.1
    """δ, the probability with which the confidence may fail."""
    reward_max: float = 1.0
    """R_max, the range of the reward."""

    def __post_init__(self) -> None:
        all_at_least(self, "agent.optimism.theory", rkhs_bound=0, reward_max=0)
        require(
            0 < self.failure_probability < 1,
            "agent.optimism.theory.failure_probability must lie strictly between 0 "
            f"and 1, received {self.failure_probability!r}.",
        )


@dataclass(frozen=True)
class OptimismConfig:
    """The weight λ of epistemic uncertainty in the planning objective."""

    rule: Literal["constant", "theory"] = "constant"
    """Constant λ, or the paper's λ_{n,m} (far larger than useful)."""
    weight: float = 1.0
    """λ if constant, in units of reward for an uncertainty as large as the changes."""
    bonus: str = "norm"
    """‖σ‖₂ ("norm"), "information_gain", or your own function as "module:function"."""
    theory: TheoryConfig = field(default_factory=TheoryConfig)

    def __post_init__(self) -> None:
        all_at_least(self, "agent.optimism", weight=0)


@dataclass(frozen=True)
class GPAgentConfig:
    """Plans at every decision, optimistically, on a Gaussian process."""

    kind: ClassVar[str] = "gp"

    model: GPConfig = field(default_factory=GPConfig)
    planner: ICEMConfig = field(default_factory=ICEMConfig)
    optimism: OptimismConfig = field(default_factory=OptimismConfig)
