"""What a session asks of an agent, and what an agent is told.

An agent is a few functions of a state.  The state holds everything that learning
changes and goes into a checkpoint whole; the agent itself knows its settings, and may
keep what saves it time, as long as nothing that it returns depends on it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
from jaxtyping import Array, Float, Key

from driftrl.types import Data, Episode, Precision, Transition

Action = Float[np.ndarray, " A"]
Carry = Any
"""What a policy hands from one decision to the next, such as a plan."""
State = Any
"""What an agent knows between two episodes; each agent has a type of its own."""
OnlineState = Any
"""What learning within an episode hands from one step to the next."""


@dataclass(frozen=True)
class LearnContext:
    """When a policy is learned, and from what."""

    episode: int
    """Number n of the episode that the policy will drive."""
    steps: int
    """Decisions T of an episode."""
    sliding: bool = False
    """Whether data is forgotten bit by bit, as by a window, or all at once."""
    collected: int = 0
    """Transitions of the episode that has just ended: they set the rate of updates."""
    turned_over: bool = False
    """Whether the forgetting rule's clock has come round: soft resets follow it."""
    updates: int | None = None
    """Units of practice, where they are not to follow from ``collected``."""
    seconds: float | None = None
    """Time to practise for, where neither sets an end to it."""


@dataclass(frozen=True)
class ModelMetrics:
    """How well a model foresaw an episode that it had not seen (see EpisodeRecord)."""

    model_error: float | None = None
    coverage: float | None = None
    epistemic_std: float | None = None
    predictive_loss: float | None = None


def prediction_metrics(
    episode: Episode,
    mean: Float[np.ndarray, "T S"],
    epistemic_std: Float[np.ndarray, "T S"],
    aleatoric_std: Float[np.ndarray, "T S"],
) -> ModelMetrics:
    """Judge predictions of an episode's next states, in units of the true changes."""
    spread = (episode.next_obs - episode.obs).std(axis=0)
    spread = np.where(spread > 0, spread, 1.0)
    error = np.abs(episode.next_obs - mean)
    total = np.sqrt(epistemic_std**2 + aleatoric_std**2)
    return ModelMetrics(
        model_error=float(np.sqrt(np.mean((error / spread) ** 2))),
        coverage=float(np.mean(error <= 2.0 * total)),
        epistemic_std=float(np.mean(np.linalg.norm(epistemic_std / spread, axis=1))),
    )


@runtime_checkable
class Policy(Protocol):
    """What acts within an episode; it does not learn."""

    @property
    def weight(self) -> float:
        """λ that it was learned or plans with."""
        ...

    @property
    def notes(self) -> Mapping[str, Any]:
        """More to record about how it was learned, by column of EpisodeRecord."""
        ...

    def begin(self) -> Carry:
        """Return what to carry into the first decision of an episode."""
        ...

    def act(
        self, obs: Float[np.ndarray, " S"], carry: Carry, *, key: Key[Array, ""]
    ) -> tuple[Action, Carry]:
        """Return the action for ``obs``, in [−1, 1], and what to carry on."""
        ...

    def deterministic(self) -> "Policy":
        """Return the policy as it is judged: without what it does to explore."""
        ...

    def model_metrics(self, episode: Episode) -> ModelMetrics:
        """Judge the model on an episode it has not seen; blank if it has no model."""
        ...


@runtime_checkable
class Agent(Protocol):
    """What learns policies."""

    @property
    def precision(self) -> Precision:
        """The precision in which it reads data: to store more would be in vain."""
        ...

    def initial_state(self, *, key: Key[Array, ""]) -> State:
        """Return the agent before its first episode."""
        ...

    def learn(
        self, state: State, data: Data, context: LearnContext, *, key: Key[Array, ""]
    ) -> State:
        """Return the agent after an episode, having learned from exactly ``data``."""
        ...

    def policy(self, state: State) -> Policy:
        """Return the policy that a learned state drives."""
        ...

    def warm_up(self, points: int, steps: int) -> None:
        """Compile what episodes of ``steps`` on up to ``points`` transitions need."""
        ...

    def begin_online(self, retained: Callable[[], Data]) -> OnlineState | None:
        """Return what learning within an episode needs; None if it waits."""
        ...

    def observe(
        self,
        state: State,
        online: OnlineState,
        transition: Transition,
        *,
        key: Key[Array, ""],
    ) -> tuple[State, OnlineState]:
        """Learn within an episode, if ``begin_online`` returned a online."""
        ...
