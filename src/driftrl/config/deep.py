"""Settings of the deep agents: ensemble, imagination, SAC, updates and soft resets.

Like ``driftrl.config.run``: frozen, validated on construction, one sentence per field.
"""

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from driftrl.errors import all_at_least, positive, require, share


def _widths(name: str, hidden: tuple[int, ...]) -> None:
    require(
        len(hidden) > 0 and all(width >= 1 for width in hidden),
        f"{name} needs at least one layer of at least one unit, received {hidden!r}.",
    )


@dataclass(frozen=True)
class EnsembleConfig:
    """Dynamics and reward as an ensemble of networks."""

    members: int = 5
    """Number of networks; their disagreement is the epistemic uncertainty."""
    hidden: tuple[int, ...] = (256, 256)
    """Units of each hidden layer."""
    loss: Literal["mse", "homoscedastic", "likelihood"] = "mse"
    """Squared error; the same with a noise of every output; likelihood, for inputs too.
    """
    separate_batches: bool = False
    """Whether every member draws its own batch, or all share one."""
    learning_rate: float = 3e-4
    """Step size of Adam."""
    gradient_clip: float = 0.5
    """Largest global norm of a gradient."""
    batch_size: int | None = None
    """Transitions in one update of a member; by default as many as the policy's."""
    weight_decay: float = 0.0
    """Decay of the weights, in units of the step size."""
    steps: int = 1
    """Gradient steps in one update, where the policy's gradient is the model's."""
    averaging: float = 1.0
    """How far the networks that predict move, at a gradient step, towards those that
    are trained; 1: they are the same."""

    def __post_init__(self) -> None:
        require(
            self.members >= 2,
            f"agent.model.members must be at least 2, received {self.members!r}: the "
            "uncertainty is the disagreement between members.",
        )
        _widths("agent.model.hidden", self.hidden)
        all_at_least(self, "agent.model", learning_rate=0, weight_decay=0, steps=1)
        if self.batch_size is not None:
            all_at_least(self, "agent.model", batch_size=1)
        positive("agent.model.gradient_clip", self.gradient_clip)
        positive("agent.model.averaging", self.averaging)
        share("agent.model.averaging", self.averaging)


@dataclass(frozen=True)
class SACConfig:
    """Soft actor-critic."""

    hidden: tuple[int, ...] = (256, 256)
    """Units of each hidden layer of the actor, and of critics that are not residual."""
    activation: Literal["relu", "silu"] = "relu"
    """Of the actor, and of critics without a residual block."""
    critic: Literal["plain", "residual", "bounded"] = "plain"
    """Plain; a residual block; layer normalisation and targets in a tracked range."""
    critics: int = 2
    """Number of critics.  The smallest value counts; where the policy's gradient is the
    model's, the smaller of two in targets, and the mean for the actor."""
    batch_size: int = 256
    """Transitions in one update."""
    learning_rate: float = 3e-4
    """Step size of Adam, for actor, critics and temperature."""
    temperature_rate: float = 1.0
    """Step size of the temperature, in units of the others'."""
    gradient_clip: float = 0.5
    """Largest global norm of a gradient."""
    discount: float = 0.99
    """Discount γ per decision."""
    centering: bool = False
    """Subtract the average reward from every reward, so that critics hold differences
    from it alone (Naik et al., 2024): for tasks without an end."""
    tau: float = 0.005
    """τ: how far the target critics move towards the critics at an update."""
    initial_temperature: float = 1.0
    """α at the start."""
    target_entropy: float | None = None
    """Entropy that α is tuned to; by default minus the number of actions."""

    def __post_init__(self) -> None:
        _widths("agent.sac.hidden", self.hidden)
        least = {"batch_size": 1, "critics": 2, "learning_rate": 0}
        all_at_least(self, "agent.sac", temperature_rate=0, **least)
        share("agent.sac.discount", self.discount)
        share("agent.sac.tau", self.tau)
        positive("agent.sac.gradient_clip", self.gradient_clip)
        positive("agent.sac.initial_temperature", self.initial_temperature)


@dataclass(frozen=True)
class ImaginationConfig:
    """Rollouts of the policy in the learned model."""

    horizon: int = 2
    """K: decisions that an imagined rollout lasts."""
    dynamics: Literal["mean", "member"] = "mean"
    """Follow the mean of the ensemble, or a member: another one at every step."""
    bonus: str = "norm"
    """‖σ‖₂ ("norm"), "information_gain", or your own function as "module:function"."""
    termination: Literal["absent", "known", "learned"] = "absent"
    """When a rollout ends: never, by the task's own condition, or by a network."""
    reward: Literal["learned", "known"] = "learned"
    """Reward of a rollout: learned by the model, or the task's own function."""
    collected: bool = False
    """Whether critics learn from collected transitions too, as they always do where the
    policy's gradient is the critic's: it helps where a fall ends an episode."""
    from_starts: float = 0.0
    """Share of rollouts that begin where episodes began; others begin anywhere."""

    def __post_init__(self) -> None:
        all_at_least(self, "agent.imagination", horizon=1)
        share("agent.imagination.from_starts", self.from_starts)


@dataclass(frozen=True)
class DeepOptimismConfig:
    """The weight λ of epistemic uncertainty in the reward of imagined transitions."""

    rule: Literal["constant", "tuned"] = "constant"
    """Constant λ, or tuned online as in MaxInfoRL."""
    weight: float = 1.0
    """λ if constant, and where tuning starts; 0 is greedy."""
    learning_rate: float = 3e-4
    """Step size of Adam on log λ, where λ is tuned."""

    def __post_init__(self) -> None:
        all_at_least(self, "agent.optimism", weight=0, learning_rate=0)
        require(
            self.rule != "tuned" or self.weight > 0,
            "agent.optimism.weight must be positive where λ is tuned, since its "
            f"logarithm is what moves; received {self.weight!r}.",
        )


@dataclass(frozen=True)
class LearningConfig:
    """How often, when, and from how much data the networks are updated."""

    when: Literal["episode", "step"] = "episode"
    """Between episodes, as a robot needs, or with the same total at every step."""
    model_updates: int = 5
    """U: updates of the model for every transition that was collected."""
    policy_updates: int = 5
    """A: updates of actor and critics for every update of the model."""
    learning_starts: int = 256
    """Retained transitions below which nothing is updated; at least one batch."""
    model_first: int = 0
    """Gradient steps of the model before the policy learns, if through the model."""
    candidates: int = 1
    """Policies of an episode's updates that are evaluated in the model; with several,
    the best one acts, or the one that acted before if it is better still."""

    def __post_init__(self) -> None:
        least = {"model_updates": 1, "policy_updates": 1, "learning_starts": 1}
        all_at_least(self, "agent.learning", model_first=0, candidates=1, **least)


@dataclass(frozen=True)
class SoftResetConfig:
    """Parameters pulled towards fresh ones, φ ← (1−α)φ + αφ₀."""

    model: float = 0.2
    """α₁ of the ensemble."""
    policy: float = 0.2
    """α₂ of actor and critics."""
    period: int | None = None
    """Episodes between soft resets; by default on the clock of the forgetting rule."""

    def __post_init__(self) -> None:
        share("agent.soft_reset.model", self.model)
        share("agent.soft_reset.policy", self.policy)
        if self.period is not None:
            all_at_least(self, "agent.soft_reset", period=1)


def _batch_fits(sac: SACConfig, learning: LearningConfig) -> None:
    require(
        sac.batch_size <= learning.learning_starts,
        f"agent.sac.batch_size = {sac.batch_size} is larger than "
        f"agent.learning.learning_starts = {learning.learning_starts}. Use a smaller "
        "batch or start learning later.",
    )


@dataclass(frozen=True)
class EnsembleAgentConfig:
    """Trains a policy in an ensemble's imagination, optimistically.

    The defaults here are those that learned best (docs/learner.md); the parts' own are
    the paper's.
    """

    kind: ClassVar[str] = "ensemble"

    policy_gradient: Literal["model", "critic"] = "model"
    """Through K imagined steps of the model, or of the critic alone as in MBPO."""
    model: EnsembleConfig = EnsembleConfig(
        hidden=(128, 128),
        loss="homoscedastic",
        separate_batches=True,
        learning_rate=1e-3,
        gradient_clip=10.0,
        batch_size=256,
        weight_decay=1e-4,
        steps=2,
    )
    imagination: ImaginationConfig = ImaginationConfig(horizon=3, dynamics="member")
    optimism: DeepOptimismConfig = DeepOptimismConfig(rule="constant", weight=0.2)
    sac: SACConfig = SACConfig(
        hidden=(128, 128),
        activation="silu",
        critic="bounded",
        critics=3,
        batch_size=128,
        learning_rate=1e-3,
        gradient_clip=10.0,
        tau=0.02,
        initial_temperature=0.1,
    )
    learning: LearningConfig = LearningConfig(
        model_updates=1, policy_updates=1, learning_starts=256
    )
    soft_reset: SoftResetConfig = SoftResetConfig(model=0.0, policy=0.0)

    def __post_init__(self) -> None:
        _batch_fits(self.sac, self.learning)


@dataclass(frozen=True)
class SACAgentConfig:
    """Trains a policy by SAC on the collected transitions alone: no model."""

    kind: ClassVar[str] = "sac"

    sac: SACConfig = field(default_factory=SACConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    soft_reset: SoftResetConfig = field(default_factory=SoftResetConfig)

    def __post_init__(self) -> None:
        _batch_fits(self.sac, self.learning)
