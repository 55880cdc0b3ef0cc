"""The interface between a session and an agent.

An agent is a few functions of a state.  The state holds everything that learning
changes and is checkpointed whole; the agent holds its settings, and caches that do not
affect what it returns.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float, Key

from driftrl.types import Data, Episode, Precision, Transition

_AGE_DISCOUNT = 0.7
_PRIOR_WEIGHT = 0.1

Action = Float[np.ndarray, " A"]
Carry = Any
"""What a policy passes from one decision to the next, such as a plan."""
State = Any
"""What an agent has learned so far; each agent has its own type."""
OnlineState = Any
"""What learning within an episode passes from one step to the next."""


@dataclass(frozen=True)
class LearnContext:
    """Everything but the data that a call of ``learn`` depends on."""

    episode: int
    """Number n of the episode that the new policy will act in."""
    steps: int
    """Decisions T per episode."""
    collected: int = 0
    """Transitions of the episode that has just ended; sets the number of updates."""
    turned_over: bool = False
    """Whether the clock of the forgetting rule has turned over: soft resets follow."""
    updates: int | None = None
    """Number of updates, instead of a number derived from ``collected``."""
    seconds: float | None = None
    """Train for this long instead."""
    degraded: bool = False
    """Whether returns have dropped, as ``health`` says."""


@dataclass(frozen=True)
class ModelMetrics:
    """How well a model predicted an episode before learning from it.

    None for an agent without a model; see the columns of EpisodeRecord.
    """

    model_error: float | None = None
    coverage: float | None = None
    epistemic_std: float | None = None
    predictive_loss: float | None = None
    error_quantile: float | None = None
    noise_free_error: float | None = None
    interval_scale: float | None = None


def prediction_metrics(
    episode: Episode,
    mean: Float[np.ndarray, "T S"],
    epistemic_std: Float[np.ndarray, "T S"],
    aleatoric_std: Float[np.ndarray, "T S"],
    scale: float = 1.0,
) -> ModelMetrics:
    """Compare predictions of an episode's next states with what happened.

    Error and epistemic std are in units of the spread of the true changes.  The stated
    σ is ``scale``·√(epistemic² + aleatoric²): coverage is the share within ± 2σ, and
    the predictive loss −log N(x'; mean, σ²) in nats, summed over the state's
    dimensions, averaged over transitions.  The quantile is without the scale, and the
    noise-free error without what the model takes for noise, √(mean error² − mean σ²).
    """
    spread = (episode.next_obs - episode.obs).std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    error = np.abs(episode.next_obs - mean)
    explained = np.mean((aleatoric_std / spread) ** 2)
    squared = np.mean((error / spread) ** 2)
    total = np.sqrt(epistemic_std**2 + aleatoric_std**2)
    stated = scale * total
    loss = 0.5 * (error / stated) ** 2 + np.log(stated) + 0.5 * np.log(2.0 * np.pi)
    return ModelMetrics(
        model_error=float(np.sqrt(squared)),
        coverage=float(np.mean(error <= 2.0 * stated)),
        epistemic_std=float(np.mean(np.linalg.norm(epistemic_std / spread, axis=1))),
        predictive_loss=float(np.mean(loss.sum(axis=1))),
        error_quantile=float(np.quantile(error / total, 0.95)),
        noise_free_error=float(np.sqrt(max(squared - explained, 0.0))),
        interval_scale=scale,
    )


def interval_scale(quantiles: Sequence[float | None]) -> float:
    """Return the factor of σ for which μ ± 2σ would have held 95 % of recent episodes.

    ``quantiles`` are the 95 % quantiles of |error|/σ of every past episode, each taken
    before it was learned from.  Half of a quantile is the factor of its episode, and
    the result a weighted mean: an episode weighs 0.7 times as much as the next one, and
    a first guess of 1 weighs a tenth of the newest.
    """
    known = [value for value in quantiles if value is not None]
    weights = _AGE_DISCOUNT ** np.arange(len(known))[::-1]
    total = _PRIOR_WEIGHT + float(np.dot(weights, np.asarray(known) / 2.0))
    return total / (_PRIOR_WEIGHT + float(weights.sum()))


@runtime_checkable
class Policy(Protocol):
    """Acts within an episode, without learning."""

    @property
    def weight(self) -> float:
        """The weight λ of optimism in its objective."""
        ...

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Training metrics to record, by column of EpisodeRecord."""
        ...

    def begin(self) -> Carry:
        """Return the carry for the first decision of an episode."""
        ...

    def act(
        self, obs: Float[np.ndarray, " S"], carry: Carry, *, key: Key[Array, ""]
    ) -> tuple[Action, Carry]:
        """Return the action for ``obs``, in [−1, 1], and the next carry."""
        ...

    def deterministic(self) -> "Policy":
        """Return the policy without exploration noise, as it is evaluated."""
        ...

    def model_metrics(self, episode: Episode, scale: float = 1.0) -> ModelMetrics:
        """Evaluate the model on an episode that it has not been trained on.

        ``scale`` multiplies the σ that it states.
        """
        ...


@runtime_checkable
class Agent(Protocol):
    """Learns policies."""

    precision: Precision  # The precision in which it reads data

    def initial_state(self, *, key: Key[Array, ""]) -> State:
        """Return the state before the first episode."""
        ...

    def learn(
        self, state: State, data: Data, context: LearnContext, *, key: Key[Array, ""]
    ) -> State:
        """Return the state after learning from exactly ``data``."""
        ...

    def policy(self, state: State) -> Policy:
        """Return the policy of a state."""
        ...

    def warm_up(self, points: int, steps: int) -> None:
        """Compile everything for episodes of ``steps`` and up to ``points`` rows."""
        ...

    def begin_online(self, retained: Callable[[], Data]) -> OnlineState | None:
        """Return what learning within an episode needs; None if it does not learn."""
        del retained
        return None

    def observe(
        self,
        state: State,
        online: OnlineState,
        transition: Transition,
        *,
        key: Key[Array, ""],
    ) -> tuple[State, OnlineState]:
        """Learn from one transition; called only if ``begin_online`` is not None."""
        del transition, key
        return state, online
