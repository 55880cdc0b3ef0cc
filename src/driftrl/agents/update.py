"""What SAC and model-based SAC share: when and how many updates, as compiled loops."""

import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key

from driftrl.agents.base import LearnContext, Policy
from driftrl.agents.replay import DeviceReplay, ReplayCache
from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.errors import EnvironmentFault
from driftrl.types import Data, Episode, Precision, Transition

# Within an episode, the model is normalised again when the data have grown by this.
_GROWTH = 1 / 20
# Updates between two looks at the clock, where training lasts for a given time.
_STRETCH = 20

Parameters = TypeVar("Parameters")
AgentState = TypeVar("AgentState")
"""A frozen pytree with the fields ``policy``, ``metrics`` and ``softly_reset``."""
Update = Callable[[Any, AgentState, DeviceReplay, Array], tuple[AgentState, Any]]
"""(settings, state, replay, key) ↦ state and metrics."""


@partial(jax.jit, static_argnames=("update", "settings"))
def train_steps(
    update: Update[AgentState],
    settings: Any,
    state: AgentState,
    replay: DeviceReplay,
    count: Int[Array, ""],
    key: Key[Array, ""],
) -> AgentState:
    """Run ``count`` updates as one compiled loop; metrics are the means over them."""

    def step(
        number: Int[Array, ""], carry: tuple[AgentState, Any]
    ) -> tuple[AgentState, Any]:
        state, sums = carry
        step_key = jax.random.fold_in(key, number)
        state, metrics = update(settings, state, replay, step_key)
        return state, jax.tree.map(jnp.add, sums, metrics)

    before: Any = state.metrics  # pyright: ignore[reportAttributeAccessIssue]
    zeros = jax.tree.map(jnp.zeros_like, before)
    state, sums = jax.lax.fori_loop(0, count, step, (state, zeros))
    share = 1.0 / jnp.maximum(count, 1).astype(jnp.float32)
    metrics = jax.tree.map(
        lambda old, total: jnp.where(count > 0, share * total, old), before, sums
    )
    return replace(state, metrics=metrics)  # pyright: ignore[reportArgumentType]


def mix(parameters: Parameters, fresh: Parameters, rate: float) -> Parameters:
    """Return the soft reset (1 − α)·φ + α·φ₀ of any pytree of parameters.

    α = 0 returns the parameters and α = 1 the fresh ones unchanged, even beside NaN.
    """
    if rate == 0:
        return parameters
    if rate == 1:
        return fresh
    return _mixed(parameters, fresh, jnp.asarray(rate, jnp.float32))


@jax.jit
def _mixed(
    parameters: Parameters, fresh: Parameters, rate: Float[Array, ""]
) -> Parameters:
    return jax.tree.map(
        lambda old, new: (1.0 - rate) * old + rate * new, parameters, fresh
    )


@dataclass(frozen=True)
class DeepOnlineState:
    """What learning within an episode passes on; the agent holds the transitions."""

    refresh_at: int = 0
    """Number of transitions at which the normalisation is computed again."""


class DeepAgent(ABC, Generic[AgentState]):
    """Networks that learn between episodes, or at every step of one.

    The agent keeps the data it was last given on the device, to copy only new
    transitions.  What it learns does not depend on that.
    """

    precision: Precision = np.float32

    def __init__(
        self,
        sizes: tuple[int, int],
        config: EnsembleAgentConfig | SACAgentConfig,
        *,
        capacity: int,
        steps: int,
        may_terminate: bool = True,
    ) -> None:
        """Make an agent.

        Args:
            sizes: Numbers of states and of actions.
            config: All settings.
            capacity: Expected maximum of retained transitions; more will recompile.
            steps: Decisions of an episode that is not cut short.
            may_terminate: Whether the task may end before its time.
        """
        self._sizes = sizes
        self._learning = config.learning
        self._batch_size = config.sac.batch_size
        self._resets = config.soft_reset
        self._capacity = max(capacity, steps, config.learning.learning_starts)
        self._steps = steps
        self._may_terminate = may_terminate
        self._replay = ReplayCache(sizes, steps)

    @abstractmethod
    def initial_state(self, *, key: Key[Array, ""]) -> AgentState:
        """Return the state before the first episode."""

    @abstractmethod
    def policy(self, state: AgentState) -> Policy:
        """Return the policy of a state."""

    @abstractmethod
    def _soft_reset(self, state: AgentState, key: Key[Array, ""]) -> AgentState:
        """Mix networks with fresh ones."""

    @abstractmethod
    def _refresh(self, state: AgentState, replay: DeviceReplay) -> AgentState:
        """Normalise by the transitions of the replay."""

    @abstractmethod
    def _train(
        self,
        state: AgentState,
        replay: DeviceReplay,
        count: Int[Array, ""],
        key: Key[Array, ""],
    ) -> AgentState:
        """Run ``count`` updates."""

    @abstractmethod
    def _finish(
        self, state: AgentState, data: Data, context: LearnContext
    ) -> AgentState:
        """Do what follows the updates of an episode."""

    def learn(
        self,
        state: AgentState,
        data: Data,
        context: LearnContext,
        *,
        key: Key[Array, ""],
    ) -> AgentState:
        """Reset softly if it is time, then train on exactly ``data``."""
        self._check_termination(data, context)
        reset_key, train_key = jax.random.split(key)
        due = self._reset_due(context)
        if due:
            state = self._soft_reset(state, reset_key)
        state = replace(state, softly_reset=jnp.asarray(due))  # pyright: ignore[reportArgumentType]
        if self._learning.when == "episode" and self._enough(len(data)):
            replay = self._load(data)
            state = self._refresh(state, replay)
            state = self._train_between(state, replay, context, train_key)
        return self._finish(state, data, context)

    def begin_online(self, retained: Callable[[], Data]) -> DeepOnlineState | None:
        """Load the retained transitions, with room for an episode's."""
        if self._learning.when == "episode":
            return None
        self._load(retained())
        return DeepOnlineState()

    def observe(
        self,
        state: AgentState,
        online: DeepOnlineState,
        transition: Transition,
        *,
        key: Key[Array, ""],
    ) -> tuple[AgentState, DeepOnlineState]:
        """Store one transition, and train.

        The normalisation is computed before the first update of an episode, then when
        the data have grown by a twentieth, or by a batch if that is more.
        """
        replay, size = self._replay.append(transition), self._replay.size
        if not self._enough(size):
            return state, online
        if size >= online.refresh_at:
            state = self._refresh(state, replay)
            more = max(self._batch_size, int(_GROWTH * size))
            online = DeepOnlineState(refresh_at=size + more)
        count = jnp.asarray(self._learning.model_updates, jnp.int32)
        return self._train(state, replay, count, key), online

    def warm_up(self, points: int, steps: int) -> None:
        """Compile everything that a run of up to ``points`` transitions needs."""
        key = jax.random.key(0)
        state = self.initial_state(key=key)
        self._soft_reset(state, key)
        obs, actions = (np.zeros((steps, size)) for size in self._sizes)
        rewards = np.zeros(steps)
        row = slice(1)  # writes are chunked, so that any number compiles the same
        data = Data(obs[row], actions[row], rewards[row], obs[row], rewards[row] > 0)
        replay = self._replay.load(data, self._room_for(points))
        if self._learning.when == "step":
            transition = Transition(obs[0], actions[0], 0.0, obs[0], False, False)
            replay = self._replay.append(transition)
        count = jnp.asarray(0, jnp.int32)
        self._train(self._refresh(state, replay), replay, count, key)
        self._finish(state, data, LearnContext(1, steps))
        untrained: Any = self.policy(state)
        policy = replace(untrained, trained=True)
        for variant in (untrained, policy, policy.deterministic()):
            variant.act(obs[0], None, key=key)
        policy.model_metrics(Episode(obs, actions, rewards, obs, False))

    def _train_between(
        self,
        state: AgentState,
        replay: DeviceReplay,
        context: LearnContext,
        key: Key[Array, ""],
    ) -> AgentState:
        """Train for as many updates, or as long, as the context says."""
        if context.seconds is None:
            updates = context.updates
            if updates is None:
                updates = self._learning.model_updates * context.collected
            return self._train(state, replay, jnp.asarray(updates, jnp.int32), key)
        end, stretch = time.monotonic() + context.seconds, 0
        count = jnp.asarray(_STRETCH, jnp.int32)
        while time.monotonic() < end:
            stretch_key = jax.random.fold_in(key, stretch)
            state = self._train(state, replay, count, stretch_key)
            jax.block_until_ready(state)
            stretch += 1
        return state

    def _load(self, data: Data) -> DeviceReplay:
        """Return the data on the device, with room for the steps of an episode."""
        online = self._steps if self._learning.when == "step" else 0
        return self._replay.load(data, self._room_for(len(data) + online))

    def _enough(self, retained: int) -> bool:
        return retained >= self._learning.learning_starts

    def _room_for(self, transitions: int) -> int:
        """Return the capacity, doubled until all transitions fit."""
        room = self._capacity
        while room < transitions:
            room *= 2
        return room

    def _reset_due(self, context: LearnContext) -> bool:
        if self._resets.model == self._resets.policy == 0:
            return False
        if self._resets.period is None:
            return context.turned_over
        return context.episode > 1 and (context.episode - 1) % self._resets.period == 0

    def _check_termination(self, data: Data, context: LearnContext) -> None:
        if self._may_terminate or not data.terminated.any():
            return
        raise EnvironmentFault(
            f"The task terminated before episode {context.episode}, but "
            "agent.imagination.termination = 'absent' says that it never does. Choose "
            "'known' or 'learned', or make the environment report truncation where "
            "only the time ran out."
        )
