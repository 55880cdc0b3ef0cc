"""The agents of networks: when and how many updates, as compiled loops.

``SACAgent`` learns by SAC from the collected transitions alone; ``ModelBasedAgent``
extends it by a model.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from driftrl.agents import sac
from driftrl.agents.base import Action, Agent, LearnContext, ModelMetrics, State
from driftrl.agents.replay import DeviceReplay, ReplayCache
from driftrl.agents.sac import Metrics, SACState
from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.errors import require
from driftrl.models.networks import MLP
from driftrl.types import Data, Episode, Precision, Transition

# Within an episode, the model is normalised again when the data have grown by this.
_GROWTH = 1 / 20
# Updates between two looks at the clock, where training lasts for a given time.
_STRETCH = 20

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


class SACAgentState(eqx.Module):
    """Everything that the model-free agent learns; a pytree of arrays."""

    policy: SACState
    metrics: Metrics
    """Means over the last updates."""
    softly_reset: Bool[Array, ""]
    """Whether the last call of ``learn`` began with a soft reset."""


def update(
    config: SACAgentConfig,
    state: SACAgentState,
    replay: DeviceReplay,
    key: Key[Array, ""],
) -> tuple[SACAgentState, Metrics]:
    """Take the policy updates that belong to one (absent) update of a model."""
    updates = config.learning.policy_updates
    policy, metrics = sac.train_on(state.policy, replay, updates, config.sac, key)
    return replace(state, policy=policy), metrics


class SACAgent(Agent):
    """SAC that learns between episodes, or at every step of one.

    The agent keeps the data it was last given on the device, to copy only new
    transitions.  What it learns does not depend on that.
    """

    precision: Precision = np.float32
    _update: Update[Any] = staticmethod(update)

    def __init__(
        self,
        sizes: tuple[int, int],
        config: SACAgentConfig | EnsembleAgentConfig,
        *,
        capacity: int,
        steps: int,
    ) -> None:
        """Make an agent for ``sizes`` = (states, actions) and episodes of ``steps``.

        ``capacity`` is the expected maximum of retained transitions; more recompile.
        """
        self._sizes = sizes
        self._settings: Any = config
        self._sac = config.sac
        self._learning = config.learning
        self._resets = config.soft_reset
        self._capacity = max(capacity, steps, config.learning.learning_starts)
        self._steps = steps
        self._replay = ReplayCache(sizes, steps)

    def initial_state(self, *, key: Key[Array, ""]) -> State:
        """Return the state before the first episode."""
        return SACAgentState(
            policy=sac.init(*self._sizes, self._sac, key=jax.random.split(key, 3)[2]),
            metrics=sac.no_metrics(),
            softly_reset=jnp.zeros((), bool),
        )

    def policy(self, state: State) -> "ActorPolicy":
        """Return the policy of a state."""
        return actor_policy(state, state.metrics)

    def soft_reset(self, state: State, key: Key[Array, ""]) -> State:
        """Mix the networks with fresh ones, φ ← (1 − α)·φ + α·φ₀."""
        fresh = sac.init(*self._sizes, self._sac, key=jax.random.split(key)[1])
        policy = sac.soft_reset(state.policy, fresh, self._resets.policy)
        return replace(state, policy=policy)

    def refresh(self, state: State, replay: DeviceReplay) -> State:
        """Normalise by the transitions of the replay; without a model, nothing is."""
        del replay
        return state

    def learn(
        self, state: State, data: Data, context: LearnContext, *, key: Key[Array, ""]
    ) -> State:
        """Reset softly if it is time, then train on exactly ``data``."""
        require(
            self._learning.when == "episode"
            or (context.updates is None and context.seconds is None),
            "agent.learning.when = 'step' has learned within the episode: learn() "
            "takes neither updates nor seconds.",
        )
        reset_key, train_key = jax.random.split(key)
        due = self._reset_due(context)
        if due:
            state = self.soft_reset(state, reset_key)
        state = replace(state, softly_reset=jnp.asarray(due))
        if self._learning.when == "episode" and self._enough(len(data)):
            replay = self._load(data)
            state = self.refresh(state, replay)
            state = self._train_between(state, replay, context, train_key)
        return state

    def begin_online(self, retained: Callable[[], Data]) -> int | None:
        """Load the retained transitions, with room for an episode's.

        The online state is the number of transitions at which to normalise again.
        """
        if self._learning.when == "episode":
            return None
        self._load(retained())
        return 0

    def observe(
        self, state: State, online: int, transition: Transition, *, key: Key[Array, ""]
    ) -> tuple[State, int]:
        """Store one transition, and train.

        The normalisation is computed before the first update of an episode, then when
        the data have grown by a twentieth, or by a batch if that is more.
        """
        replay, size = self._replay.append(transition), self._replay.size
        if not self._enough(size):
            return state, online
        if size >= online:
            state = self.refresh(state, replay)
            online = size + max(self._sac.batch_size, int(_GROWTH * size))
        return self._train(state, replay, self._learning.model_updates, key), online

    def warm_up(self, points: int, steps: int) -> None:
        """Compile everything that a run of up to ``points`` transitions needs."""
        key = jax.random.key(0)
        state = self.initial_state(key=key)
        self.soft_reset(state, key)
        obs, actions = (np.zeros((steps, size)) for size in self._sizes)
        rewards = np.zeros(steps)
        row = slice(1)  # writes are chunked, so that any number compiles the same
        data = Data(obs[row], actions[row], rewards[row], obs[row], rewards[row] > 0)
        replay = self._replay.load(data, self._room_for(points))
        if self._learning.when == "step":
            transition = Transition(obs[0], actions[0], 0.0, obs[0], False, False)
            replay = self._replay.append(transition)
        context = LearnContext(1, steps, updates=0)
        self._train_between(self.refresh(state, replay), replay, context, key)
        untrained = self.policy(state)
        policy = replace(untrained, trained=True)
        for variant in (untrained, policy, policy.deterministic()):
            variant.act(obs[0], None, key=key)
        policy.model_metrics(Episode(obs, actions, rewards, obs, False))

    def _train(
        self, state: State, replay: DeviceReplay, count: int, key: Key[Array, ""]
    ) -> State:
        updates = jnp.asarray(count, jnp.int32)
        return train_steps(self._update, self._settings, state, replay, updates, key)

    def _train_between(
        self,
        state: State,
        replay: DeviceReplay,
        context: LearnContext,
        key: Key[Array, ""],
    ) -> State:
        """Train for as many updates, or as long, as the context says.

        The first time, that is for everything that was collected until then.
        """
        if context.seconds is None:
            return self._train(state, replay, self._updates(state, context), key)
        end, stretch = time.monotonic() + context.seconds, 0
        while time.monotonic() < end:
            stretch_key = jax.random.fold_in(key, stretch)
            state = self._train(state, replay, _STRETCH, stretch_key)
            jax.block_until_ready(state)
            stretch += 1
        return state

    def _updates(self, state: State, context: LearnContext) -> int:
        if context.updates is not None:
            return context.updates
        fresh = int(state.policy.updates) == 0
        collected = self._replay.size if fresh else context.collected
        return self._learning.model_updates * collected

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


@dataclass(frozen=True)
class ActorPolicy:
    """Draws actions from a tanh-normal actor; uniform before the first update."""

    actor: MLP
    trained: bool
    columns: Mapping[str, Array]
    """Training metrics on the device, by column of EpisodeRecord."""
    optimism: Float[Array, ""] | float = 0.0
    """λ."""
    evaluate: Callable[[Episode, float], ModelMetrics] = lambda *_: ModelMetrics()
    """Evaluates the model on an episode; without a model there are no metrics."""
    noisy: bool = True
    guard: Callable[[Any, Array], Array] = lambda obs, action: action
    """(obs, action) ↦ the action that is taken."""

    @property
    def weight(self) -> float:
        """The weight λ of optimism in its objective."""
        return float(self.optimism)

    @property
    def metrics(self) -> Mapping[str, Any]:
        """Training metrics to record, by column of EpisodeRecord."""
        values = {k: v.item() for k, v in jax.device_get(self.columns).items()}
        return values if self.trained else {"soft_reset": values["soft_reset"]}

    def begin(self) -> None:
        """Return None: there is no carry."""
        return None

    def act(
        self, obs: Float[np.ndarray, " S"], carry: None, *, key: Key[Array, ""]
    ) -> tuple[Action, None]:
        """Return the action for ``obs``, in [−1, 1]: drawn, or the mode."""
        if not self.trained:
            action = _uniform_action(self.actor, key)
        else:
            single = np.asarray(obs, np.float32)
            action = sac.act(self.actor, single, key=key if self.noisy else None)
            action = self.guard(single, action)
        return np.asarray(action, np.float64), carry

    def modes(self, obs: Float[np.ndarray, "N S"]) -> Float[np.ndarray, "N A"]:
        """Return the actions without exploration for many observations."""
        return np.asarray(_modes(self.actor, np.asarray(obs, np.float32)), np.float64)

    def deterministic(self) -> "ActorPolicy":
        """Return the policy that takes the mode of the distribution."""
        return replace(self, noisy=False)

    def model_metrics(self, episode: Episode, scale: float = 1.0) -> ModelMetrics:
        """Evaluate the model on an episode that it has not been trained on."""
        return self.evaluate(episode, scale) if self.trained else ModelMetrics()


def actor_policy(state: State, metrics: Metrics) -> ActorPolicy:
    """Return the policy of an agent's state, with the metrics of SAC to record."""
    columns = {
        "soft_reset": state.softly_reset,
        "temperature": jnp.exp(state.policy.log_temperature),
        "entropy": metrics.entropy,
        "q": metrics.q,
        "critic_loss": metrics.critic_loss,
    }
    return ActorPolicy(state.policy.actor, int(state.policy.updates) > 0, columns)


@jax.jit
def _modes(actor: MLP, obs: Float[Array, "N S"]) -> Float[Array, "N A"]:
    return jax.vmap(lambda row: sac.policy(actor, row).mode())(obs)


@jax.jit
def _uniform_action(actor: MLP, key: Key[Array, ""]) -> Float[Array, " A"]:
    size = actor.layers[-1].bias.shape[0] // 2
    return jax.random.uniform(key, (size,), minval=-1.0)
