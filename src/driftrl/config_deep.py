"""Settings of the deep agent: ensemble, imagination, SAC and soft resets.

Like ``driftrl.config``: frozen, validated on construction, one sentence a field.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, Literal

from driftrl.errors import require


def _at_least(name: str, value: float, least: float) -> None:
    require(
        math.isfinite(value) and value >= least,
        f"{name} must be a number of at least {least:g}, received {value!r}.",
    )


def _share(name: str, value: float) -> None:
    require(
        math.isfinite(value) and 0 <= value <= 1,
        f"{name} must lie in [0, 1], received {value!r}.",
    )


def _widths(name: str, hidden: tuple[int, ...]) -> None:
    require(
        len(hidden) > 0 and all(width >= 1 for width in hidden),
        f"{name} needs at least one layer of at least one unit, received {hidden!r}.",
    )


@dataclass(frozen=True)
class EnsembleConfig:
    """Dynamics and reward as an ensemble of networks."""

    kind: ClassVar[str] = "ensemble"

    members: int = 5
    """Number of networks; their disagreement is the epistemic uncertainty."""
    hidden: tuple[int, ...] = (256, 256)
    """Units of each hidden layer."""
    loss: Literal["mse", "likelihood"] = "mse"
    """Squared error with a constant noise, or a learned noise by likelihood."""
    separate_batches: bool = False
    """Whether every member draws its own batch, or all share one."""
    learning_rate: float = 3e-4
    """Step size of Adam."""
    gradient_clip: float = 0.5
    """Largest global norm of a gradient."""

    def __post_init__(self) -> None:
        require(
            self.members >= 2,
            f"model.members must be at least 2, received {self.members!r}: one network "
            "has nobody to disagree with.",
        )
        _widths("model.hidden", self.hidden)
        _at_least("model.learning_rate", self.learning_rate, 0)
        require(
            self.gradient_clip > 0,
            f"model.gradient_clip must be positive, received {self.gradient_clip!r}.",
        )


@dataclass(frozen=True)
class SACConfig:
    """Soft actor-critic."""

    hidden: tuple[int, ...] = (256, 256)
    """Units of each hidden layer of the actor and of plain critics."""
    critic: Literal["plain", "residual"] = "plain"
    """Plain critics, or a residual block with layer normalisation."""
    batch: int = 256
    """Transitions in one update."""
    learning_rate: float = 3e-4
    """Step size of Adam, for actor, critics and temperature."""
    gradient_clip: float = 0.5
    """Largest global norm of a gradient."""
    discount: float = 0.99
    """γ, a decision."""
    target_rate: float = 0.005
    """τ: how far the target critics move towards the critics at an update."""
    initial_temperature: float = 1.0
    """α at the start."""
    target_entropy: float | None = None
    """Entropy that α is tuned to; by default minus the number of actions."""

    def __post_init__(self) -> None:
        _widths("sac.hidden", self.hidden)
        _at_least("sac.batch", self.batch, 1)
        _at_least("sac.learning_rate", self.learning_rate, 0)
        _share("sac.discount", self.discount)
        _share("sac.target_rate", self.target_rate)
        require(
            self.gradient_clip > 0 and self.initial_temperature > 0,
            "sac.gradient_clip and sac.initial_temperature must be positive, received "
            f"{self.gradient_clip!r} and {self.initial_temperature!r}.",
        )


@dataclass(frozen=True)
class ImaginationConfig:
    """Rollouts of the policy in the learned model."""

    steps: int = 2
    """K: decisions that an imagined rollout lasts."""
    dynamics: Literal["mean", "member"] = "mean"
    """Follow the mean of the ensemble, or one member drawn a step."""
    bonus: Literal["norm", "information_gain"] = "norm"
    """‖σ‖₂, or mean_j log(1 + σ_j²/σ_al²)."""

    def __post_init__(self) -> None:
        _at_least("imagination.steps", self.steps, 1)


@dataclass(frozen=True)
class SoftResetConfig:
    """Parameters pulled towards fresh ones, φ ← (1−α)φ + αφ₀."""

    model: float = 0.2
    """α₁ of the ensemble."""
    policy: float = 0.2
    """α₂ of actor and critics."""
    period: int | None = None
    """Episodes between soft resets; by default those of the forgetting rule."""

    def __post_init__(self) -> None:
        _share("soft_reset.model", self.model)
        _share("soft_reset.policy", self.policy)
        if self.period is not None:
            _at_least("soft_reset.period", self.period, 1)
