"""The paper's practical agent: SAC in the imagination of an ensemble; or SAC alone.

Which data is retained is not decided here: the agent learns what it is given, at the
rate at which transitions come in, as soon as there is enough to draw a batch from.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from driftrl.agents import sac
from driftrl.agents.base import Action, LearnContext, ModelMetrics, prediction_metrics
from driftrl.agents.device_replay import Holding, RingCache, row_of
from driftrl.agents.optimism_weight import with_weight
from driftrl.agents.replay import Replay, ordered
from driftrl.agents.rollouts import TaskFunctions
from driftrl.agents.theory_weight import theory_weight
from driftrl.agents.update import (
    Config,
    DeepState,
    current_weight,
    initial_state,
    measured,
    practise,
    renewed,
)
from driftrl.config.deep import EnsembleAgentConfig
from driftrl.errors import EnvironmentFault, require
from driftrl.models import ensemble
from driftrl.models.ensemble import EnsemblePrediction, EnsembleState
from driftrl.models.networks import MLP
from driftrl.types import Data, Episode, Precision, Transition

# Within an episode the model is normalised anew when the data have grown by this part.
_GROWTH = 1 / 20
# Units between two looks at the clock, where practice lasts for a time.
_STRETCH = 20
# Transitions that all members judge at once: a million would fill the memory.
_AT_ONCE = 2**15


@dataclass(frozen=True)
class DeepOnlineState:
    """What learning within an episode has to draw from."""

    held: Holding
    """The retained transitions, and those of the episode so far."""
    measure_at: int = 0
    """Number of transitions from which on the normalisation is measured again."""

    @property
    def size(self) -> int:
        """Number of transitions."""
        return self.held.ring.size


class DeepAgent:
    """Networks that learn between episodes, or at every step of one.

    The agent keeps the transitions that it was last given on the device, so that the
    next time only new ones have to get there.  What it learns does not depend on it.
    """

    precision: Precision = np.float32

    def __init__(
        self,
        sizes: tuple[int, int],
        config: Config,
        *,
        capacity: int,
        steps: int,
        known: TaskFunctions | None = None,
    ) -> None:
        """Make an agent.

        Args:
            sizes: Numbers of states and of actions.
            config: All settings.
            capacity: Transitions that it will learn from at once, at most; with more it
                still learns, but compiles again.
            steps: Decisions of an episode that runs its full time.
            known: The task's own condition of its end and its own reward, functions
                of (obs, action, next_obs) for one step, for ``imagination.termination
                = "known"`` and ``imagination.reward = "known"``.
        """
        self._sizes = sizes
        self._config = config
        self._capacity = max(capacity, steps, config.learning.learning_starts)
        self._steps = steps
        self._known = _wanted(config, known or TaskFunctions())
        self._cache = RingCache(sizes, steps)
        self._may_end = True
        if isinstance(config, EnsembleAgentConfig):
            self._may_end = config.imagination.termination != "absent"

    def initial_state(self, *, key: Key[Array, ""]) -> DeepState:
        """Return the agent before its first episode."""
        return initial_state(self._sizes, self._config, key=key)

    def learn(
        self,
        state: DeepState,
        data: Data,
        context: LearnContext,
        *,
        key: Key[Array, ""],
    ) -> DeepState:
        """Reset softly if it is time, then practise on exactly ``data``."""
        self._refuse_unexpected_end(data, context)
        reset_key, practice_key = jax.random.split(key)
        due = self._reset_due(context)
        if due:
            state = renewed(state, self._sizes, self._config, key=reset_key)
        state = replace(state, softly_reset=jnp.asarray(due))
        if self._config.learning.when == "episode" and self._enough(len(data)):
            replay = self._held(data).ring.replay
            state = measured(state, replay)
            state = self._practise_within(state, replay, context, practice_key)
        return self._with_theory(state, data, context)

    def _practise_within(
        self,
        state: DeepState,
        replay: Replay,
        context: LearnContext,
        key: Key[Array, ""],
    ) -> DeepState:
        """Practise as long as the context says."""
        if context.seconds is None:
            units = context.updates
            if units is None:
                units = self._config.learning.model_updates * context.collected
            return self._practise(state, replay, units, key)
        end, stretch = time.monotonic() + context.seconds, 0
        while time.monotonic() < end:
            own_key = jax.random.fold_in(key, stretch)
            state = self._practise(state, replay, _STRETCH, own_key)
            jax.block_until_ready(state.policy.updates)
            stretch += 1
        return state

    def policy(self, state: DeepState) -> "DeepPolicy":
        """Return the policy that a learned state drives."""
        return DeepPolicy(
            state, self._config, self._steps, trained=int(state.policy.updates) > 0
        )

    def begin_online(self, retained: Callable[[], Data]) -> DeepOnlineState | None:
        """Return the retained transitions, with room for an episode's."""
        if self._config.learning.when == "episode":
            return None
        return DeepOnlineState(self._held(retained()))

    def observe(
        self,
        state: DeepState,
        online: DeepOnlineState,
        transition: Transition,
        *,
        key: Key[Array, ""],
    ) -> tuple[DeepState, DeepOnlineState]:
        """Take in one transition, and practise.

        The normalisation is measured at the first practice of an episode, then when the
        data have grown by a twentieth, or by a batch if that is more: it hardly moves
        in between, and at every step it would cost more the more is retained.
        """
        held = self._cache.with_row(online.held, row_of(transition))
        online = replace(online, held=held)
        if not self._enough(online.size):
            return state, online
        replay = held.ring.replay
        if online.size >= online.measure_at:
            state = measured(state, replay)
            more = max(self._config.sac.batch_size, int(_GROWTH * online.size))
            online = replace(online, measure_at=online.size + more)
        units = self._config.learning.model_updates
        return self._practise(state, replay, units, key), online

    def warm_up(self, points: int, steps: int) -> None:
        """Compile everything that a run of up to ``points`` transitions needs."""
        key = jax.random.key(0)
        state = self.initial_state(key=key)
        renewed(state, self._sizes, self._config, key=key)
        blank, actions = (np.zeros((steps, size)) for size in self._sizes)
        rewards = np.zeros(steps)
        row = slice(1)  # however many there will be, they are written alike
        data = Data(
            blank[row], actions[row], rewards[row], blank[row], rewards[row] > 0
        )
        held = self._cache.holding(data, self._room_for(points))
        if self._config.learning.when == "step":
            seen = Transition(blank[0], actions[0], 0.0, blank[0], False, False)
            held = self._cache.with_row(held, row_of(seen))
        replay = held.ring.replay
        self._practise(measured(state, replay), replay, 0, key)
        self._with_theory(state, data, LearnContext(1, steps))
        untrained = self.policy(state)
        policy = replace(untrained, trained=True)
        for one in (untrained, policy, policy.deterministic()):
            one.act(blank[0], None, key=key)
        policy.model_metrics(Episode(blank, actions, rewards, blank, False))

    def _practise(
        self, state: DeepState, replay: Replay, units: int, key: Key[Array, ""]
    ) -> DeepState:
        count = jnp.asarray(units, jnp.int32)
        return practise(state, replay, count, self._config, self._known, key)

    def _held(self, data: Data) -> Holding:
        """Return the data on the device, with room for the steps of a online."""
        online = self._steps if self._config.learning.when == "step" else 0
        return self._cache.holding(data, self._room_for(len(data) + online))

    def _enough(self, retained: int) -> bool:
        """Say whether there is enough to draw batches from."""
        return retained >= self._config.learning.learning_starts

    def _room_for(self, transitions: int) -> int:
        """Return the rows to pad to: the capacity, doubled until all fit."""
        room = self._capacity
        while room < transitions:
            room *= 2
        return room

    def _reset_due(self, context: LearnContext) -> bool:
        rates, period = self._config.soft_reset, self._config.soft_reset.period
        if rates.model == rates.policy == 0:
            return False
        if period is None:
            return context.turned_over
        return context.episode > 1 and (context.episode - 1) % period == 0

    def _with_theory(
        self, state: DeepState, data: Data, context: LearnContext
    ) -> DeepState:
        """Return the state with the paper's λ_{n,m}, where that is the rule.

        The information gain of the data is taken from the ensemble's disagreement on
        it, ½ Σ_t Σ_j log(1 + σ_j²/σ_al²), as a Gaussian process has it step by step.
        """
        config = self._config
        if (
            not isinstance(config, EnsembleAgentConfig)
            or config.optimism.rule != "theory"
            or state.model is None
        ):
            return state
        gain, noise = _information(state.model, self._held(data).ring.replay)
        weight = theory_weight(
            float(gain), float(noise), self._sizes[0], context, config.optimism.theory
        )
        return replace(state, weight=with_weight(state.weight, weight))

    def _refuse_unexpected_end(self, data: Data, context: LearnContext) -> None:
        if self._may_end or not data.terminated.any():
            return
        raise EnvironmentFault(
            "The task ended before its time in an episode before episode "
            f"{context.episode}, but agent.imagination.termination = 'absent' says "
            "that it never does. Choose 'known' or 'learned', or make the environment "
            "report truncation where only the clock ran out."
        )


def _wanted(config: Config, known: TaskFunctions) -> TaskFunctions:
    """Return of what is known that which the settings ask for."""
    if not isinstance(config, EnsembleAgentConfig):
        return TaskFunctions()
    settings = config.imagination
    require(
        settings.termination != "known" or known.termination is not None,
        "agent.imagination.termination = 'known' needs the condition under which the "
        "task ends, and this task offers none. Choose 'learned' if it can end, or "
        "'absent' if it never does.",
    )
    require(
        settings.reward != "known" or known.reward is not None,
        "agent.imagination.reward = 'known' needs the reward as a function, and this "
        "task offers none. Choose 'learned'.",
    )
    return TaskFunctions(
        termination=known.termination if settings.termination == "known" else None,
        reward=known.reward if settings.reward == "known" else None,
    )


@dataclass(frozen=True)
class DeepPolicy:
    """A tanh-normal actor; before it has learned anything, actions are uniform."""

    state: DeepState
    config: Config
    steps: int
    trained: bool
    noisy: bool = True

    @property
    def weight(self) -> float:
        """λ that its imagined rewards were weighted with; 0 without a model."""
        if not isinstance(self.config, EnsembleAgentConfig):
            return 0.0
        return float(current_weight(self.state, self.config))

    @property
    def metrics(self) -> Mapping[str, Any]:
        """How it was learned; read once an episode, so not before it is asked for."""
        return _notes(self.state)

    def begin(self) -> None:
        """Carry nothing from one decision to the next."""

    def act(
        self, obs: Float[np.ndarray, " S"], carry: None, *, key: Key[Array, ""]
    ) -> tuple[Action, None]:
        """Return the action for ``obs``, in [−1, 1]: drawn, or the mode."""
        seen = np.asarray(obs, np.float32)
        if not self.trained:
            action = _uniform_action(self.state.policy.actor, key)
        else:
            action = sac.act(
                self.state.policy.actor, seen, key=key if self.noisy else None
            )
        return np.asarray(action, np.float64), carry

    def deterministic(self) -> "DeepPolicy":
        """Return the policy that takes the mode of the distribution."""
        return replace(self, noisy=False)

    def model_metrics(self, episode: Episode) -> ModelMetrics:
        """Judge the ensemble on an episode it has not seen."""
        model = self.state.model
        if model is None or not self.trained:
            return ModelMetrics()
        rows = max(self.steps, len(episode))
        obs = np.zeros((rows, episode.obs.shape[1]), np.float32)
        actions = np.zeros((rows, episode.actions.shape[1]), np.float32)
        obs[: len(episode)], actions[: len(episode)] = episode.obs, episode.actions
        found = _predict_all(model, jnp.asarray(obs), jnp.asarray(actions))
        states = episode.obs.shape[1]
        return prediction_metrics(
            episode,
            *(
                np.asarray(part, np.float64)[: len(episode), :states]
                for part in (found.mean, found.epistemic_std, found.aleatoric_std)
            ),
        )


@jax.jit
def _uniform_action(actor: MLP, key: Key[Array, ""]) -> Float[Array, " A"]:
    size = actor.layers[-1].bias.shape[0] // 2
    return jax.random.uniform(key, (size,), minval=-1.0)


@jax.jit
def _predict_all(
    model: EnsembleState, obs: Float[Array, "T S"], actions: Float[Array, "T A"]
) -> EnsemblePrediction:
    return jax.vmap(partial(ensemble.predict, model))(obs, actions)


@jax.jit
def _information(
    model: EnsembleState, replay: Replay
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return ½ Σ_t Σ_j log(1 + σ_j²/σ_al²) of the data, and the mean relative σ_al."""

    def judged(
        pair: tuple[Float[Array, " S"], Float[Array, " A"]],
    ) -> tuple[Float[Array, " O"], Float[Array, " O"], Float[Array, " O"]]:
        found = ensemble.predict(model, *pair)
        return found.epistemic_std, found.aleatoric_std, found.scale

    rows = ordered(replay)
    pairs, count = (rows.obs, rows.actions), len(rows.rewards)
    if count <= _AT_ONCE:
        epistemic, aleatoric, scale = jax.vmap(judged)(pairs)
    else:
        epistemic, aleatoric, scale = jax.lax.map(judged, pairs, batch_size=_AT_ONCE)
    valid = jnp.arange(count) < replay.size
    ratio = epistemic[:, :-1] / aleatoric[:, :-1]
    gains = 0.5 * jnp.sum(jnp.log1p(ratio**2), axis=1)
    noise = jnp.mean(aleatoric[:, :-1] / scale[:, :-1], axis=1)
    size = jnp.maximum(replay.size, 1).astype(gains.dtype)
    mean_noise = jnp.sum(jnp.where(valid, noise, 0.0)) / size
    fallback = jnp.asarray(ensemble.ASSUMED_NOISE, noise.dtype)
    return (
        jnp.sum(jnp.where(valid, gains, 0.0)),
        jnp.where(replay.size > 0, mean_noise, fallback),
    )


def _notes(state: DeepState) -> dict[str, float | bool]:
    """Return what learning left to be recorded, in one transfer."""
    seen, temperature, softly_reset, updates = jax.device_get(
        (
            state.notes,
            jnp.exp(state.policy.log_temperature),
            state.softly_reset,
            state.policy.updates,
        )
    )
    notes: dict[str, float | bool] = {"soft_reset": bool(softly_reset)}
    if int(updates) == 0:
        return notes
    notes |= {
        "temperature": float(temperature),
        "entropy": float(seen.entropy),
        "q": float(seen.q),
        "critic_loss": float(seen.critic_loss),
    }
    if state.model is not None:
        notes |= {"model_loss": float(seen.model_loss), "bonus": float(seen.bonus)}
    return notes
