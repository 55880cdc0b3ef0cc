"""Soft actor-critic: a tanh-normal policy, twin critics and a tuned temperature.

``update`` is one gradient step of everything on one batch, pure and not compiled, so
that others can scan it over batches of their own.  ``SACAgent`` is the model-free
agent: SAC on the collected transitions alone.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from driftrl.agents import losses
from driftrl.agents.base import Action, LearnContext, ModelMetrics
from driftrl.agents.replay import Batch, DeviceReplay
from driftrl.agents.update import DeepAgent, mix, train_steps
from driftrl.config.deep import SACAgentConfig, SACConfig
from driftrl.errors import require
from driftrl.models.networks import (
    HIDDEN_GAIN,
    MLP,
    ResidualMLP,
    adam,
    apply_gradients,
    stacked,
)
from driftrl.types import Data, Episode

LOG_STD_MIN = -10.0
LOG_STD_MAX = 2.0

Critics = MLP | ResidualMLP
BatchBonus = Callable[[Float[Array, "B S"], Float[Array, "B A"]], Float[Array, " B"]]
"""λ·b(s, a) of a whole batch at once, so that a model is evaluated in one pass."""
Part = TypeVar("Part")
Aux = TypeVar("Aux")


class TanhNormal(eqx.Module):
    """The distribution of a = tanh(u), u ~ N(μ, σ²), for one observation.

    By the change of variables::

        log π(a) = Σ_i log N(u_i; μ_i, σ_i²) − log(1 − tanh² u_i)
        log(1 − tanh² u) = 2·(log 2 − u − softplus(−2u))

    The density is evaluated at the latent u, never at an action: near ±1 an action no
    longer determines u, while the right-hand side stays exact.
    """

    mean: Float[Array, " A"]
    """μ."""
    log_std: Float[Array, " A"]
    """log σ."""

    def sample(
        self, noise: Float[Array, " A"]
    ) -> tuple[Float[Array, " A"], Float[Array, ""]]:
        """Return a = tanh(μ + σ·noise) and log π(a), for standard normal ``noise``.

        Both are differentiable in μ and σ.
        """
        latent = self.mean + jnp.exp(self.log_std) * noise
        normal = -0.5 * noise**2 - self.log_std - 0.5 * math.log(2.0 * math.pi)
        return jnp.tanh(latent), jnp.sum(normal - log_slope(latent))

    def mode(self) -> Float[Array, " A"]:
        """Return the deterministic action, tanh(μ)."""
        return jnp.tanh(self.mean)


def log_slope(latent: Float[Array, " A"]) -> Float[Array, " A"]:
    """Return log d tanh(u)/du = log(1 − tanh² u), finite for any u."""
    return 2.0 * (math.log(2.0) - latent - jax.nn.softplus(-2.0 * latent))


class SACState(eqx.Module):
    """The networks and optimisers of SAC; a pytree of arrays."""

    actor: MLP
    critics: Critics
    """Q₁ and Q₂ as one network, every parameter with a leading axis of 2."""
    target_critics: Critics
    """Q̄₁ and Q̄₂, which follow the critics slowly."""
    actor_optimiser: PyTree
    critic_optimiser: PyTree
    log_temperature: Float[Array, ""]
    temperature_optimiser: PyTree
    updates: Int[Array, ""]
    """Number of updates so far."""


class Metrics(NamedTuple):
    """Metrics of one update, or their mean over several, before the update."""

    critic_loss: Float[Array, ""]
    actor_loss: Float[Array, ""]
    q: Float[Array, ""]
    """Mean of both critics on the batch."""
    entropy: Float[Array, ""]
    """Mean of −log π at the policy's actions."""


def init(
    state_size: int, action_size: int, config: SACConfig, *, key: Key[Array, ""]
) -> SACState:
    """Return fresh networks; the targets start as copies of the critics."""
    require(
        state_size >= 1 and action_size >= 1,
        "SAC needs at least one state and one action dimension, received "
        f"{state_size} and {action_size}.",
    )
    actor_key, *critic_keys = jax.random.split(key, 3)
    sizes = (state_size, *config.hidden, 2 * action_size)
    actor = MLP(sizes, jax.nn.relu, last_gain=1.0, key=actor_key)
    inputs = state_size + action_size
    critics = stacked([_critic(inputs, config, k) for k in critic_keys])
    return _init_state(actor, critics, config)


@partial(jax.jit, static_argnames="config")
def _init_state(actor: MLP, critics: Critics, config: SACConfig) -> SACState:
    optimiser = _optimiser(config)
    log_temperature = jnp.full((), math.log(config.initial_temperature), float)
    return SACState(
        actor=actor,
        critics=critics,
        target_critics=critics,
        actor_optimiser=optimiser.init(actor),  # pyright: ignore[reportArgumentType]
        critic_optimiser=optimiser.init(critics),  # pyright: ignore[reportArgumentType]
        log_temperature=log_temperature,
        temperature_optimiser=optimiser.init(log_temperature),
        updates=jnp.zeros((), jnp.int32),
    )


def _critic(inputs: int, config: SACConfig, key: Key[Array, ""]) -> Critics:
    if config.critic == "residual":
        return ResidualMLP(inputs, config.hidden[0], 1, key=key)
    sizes = (inputs, *config.hidden, 1)
    return MLP(sizes, jax.nn.relu, last_gain=HIDDEN_GAIN, key=key)


def _optimiser(config: SACConfig) -> optax.GradientTransformation:
    return adam(config.learning_rate, config.gradient_clip)


def policy(actor: MLP, obs: Float[Array, " S"]) -> TanhNormal:
    """Return π(·|s) for one observation; log σ is clipped to [−10, 2]."""
    mean, log_std = jnp.split(actor(obs), 2)
    return TanhNormal(mean, jnp.clip(log_std, LOG_STD_MIN, LOG_STD_MAX))


def q_values(
    critics: Critics, obs: Float[Array, "B S"], actions: Float[Array, "B A"]
) -> Float[Array, "2 B"]:
    """Return Q₁ and Q₂ of a batch, in one pass of batched matrix products."""
    inputs = jnp.concatenate([obs, actions], axis=1)
    # Every critic gets a copy: otherwise XLA joins the two first layers into one
    # product and then transposes its whole result.
    pair = jnp.broadcast_to(inputs, (2, *inputs.shape))
    return jax.vmap(lambda critic, x: jax.vmap(critic)(x))(critics, pair)[:, :, 0]


def sample_action(
    actor: MLP, obs: Float[Array, " S"], key: Key[Array, ""]
) -> Float[Array, " A"]:
    """Draw an action in [−1, 1] for one observation."""
    distribution = policy(actor, obs)
    noise = jax.random.normal(key, distribution.mean.shape, distribution.mean.dtype)
    return distribution.sample(noise)[0]


def act(
    actor: MLP, obs: Float[Array | np.ndarray, " S"], *, key: Key[Array, ""] | None
) -> Float[Array, " A"]:
    """Return an action in [−1, 1]: drawn with a key, the mode without."""
    return _act(actor, jnp.asarray(obs), key)


@jax.jit
def _act(
    actor: MLP, obs: Float[Array, " S"], key: Key[Array, ""] | None
) -> Float[Array, " A"]:
    if key is None:
        return policy(actor, obs).mode()
    return sample_action(actor, obs, key)


def update(
    state: SACState,
    batch: Batch,
    config: SACConfig,
    *,
    key: Key[Array, ""],
    bonus: BatchBonus | None = None,
) -> tuple[SACState, Metrics]:
    """Take one gradient step on critics, targets, actor and temperature, in this order.

    The actor's loss uses the updated critics, and the temperature's loss the same
    actions as the actor's.  ``bonus`` is added to the entropy in the losses; leave it
    out if the rewards already contain it.
    """
    shape, dtype = (2, *batch.actions.shape), batch.actions.dtype
    next_noise, noise = jax.random.normal(key, shape, dtype)
    temperature = jnp.exp(state.log_temperature)
    target = _critic_target(state, batch, config, next_noise, bonus)

    def critic_loss_fn(critics: Critics) -> tuple[Array, Array]:
        q = q_values(critics, batch.obs, batch.actions)
        return losses.critic_loss(q, target), jnp.mean(q)

    critics, critic_optimiser, critic_loss, q = _minimize(
        critic_loss_fn, state.critics, state.critic_optimiser, config
    )

    def actor_loss_fn(actor: MLP) -> tuple[Array, Array]:
        actions, log_prob = _draw(actor, batch.obs, noise)
        gain = None if bonus is None else bonus(batch.obs, actions)
        values = q_values(critics, batch.obs, actions)
        loss = losses.actor_loss(values, log_prob, temperature, gain)
        return loss, -jnp.mean(log_prob)

    actor, actor_optimiser, actor_loss, entropy = _minimize(
        actor_loss_fn, state.actor, state.actor_optimiser, config
    )
    wanted = target_entropy(batch.actions.shape[1], config)

    def temperature_loss_fn(log_temperature: Array) -> tuple[Array, None]:
        return losses.temperature_loss(log_temperature, entropy, wanted), None

    log_temperature, temperature_optimiser, _, _ = _minimize(
        temperature_loss_fn, state.log_temperature, state.temperature_optimiser, config
    )
    updated = SACState(
        actor=actor,
        critics=critics,
        target_critics=polyak_update(critics, state.target_critics, config.tau),
        actor_optimiser=actor_optimiser,
        critic_optimiser=critic_optimiser,
        log_temperature=log_temperature,
        temperature_optimiser=temperature_optimiser,
        updates=state.updates + 1,
    )
    return updated, Metrics(critic_loss, actor_loss, q, entropy)


def _critic_target(
    state: SACState,
    batch: Batch,
    config: SACConfig,
    noise: Float[Array, "B A"],
    bonus: BatchBonus | None,
) -> Float[Array, " B"]:
    actions, log_prob = _draw(state.actor, batch.next_obs, noise)
    q = q_values(state.target_critics, batch.next_obs, actions)
    gain = None if bonus is None else bonus(batch.next_obs, actions)
    value = losses.soft_value(q, log_prob, jnp.exp(state.log_temperature), gain)
    return losses.critic_target(batch.rewards, batch.terminated, value, config.discount)


def _draw(
    actor: MLP, obs: Float[Array, "B S"], noise: Float[Array, "B A"]
) -> tuple[Float[Array, "B A"], Float[Array, " B"]]:
    return jax.vmap(lambda row, drawn: policy(actor, row).sample(drawn))(obs, noise)


def _minimize(
    loss_fn: Callable[[Part], tuple[Array, Aux]],
    part: Part,
    memory: PyTree,
    config: SACConfig,
) -> tuple[Part, PyTree, Array, Aux]:
    """Take one gradient step; ``loss_fn`` returns the loss and something more."""
    (loss, aux), gradient = jax.value_and_grad(loss_fn, has_aux=True)(part)
    part, memory = apply_gradients(_optimiser(config), gradient, memory, part)
    return part, memory, loss, aux


def polyak_update(online: Part, target: Part, tau: float) -> Part:
    """Return φ̄ ← (1 − τ)·φ̄ + τ·φ."""
    return jax.tree.map(lambda new, old: tau * new + (1.0 - tau) * old, online, target)


def target_entropy(action_size: int, config: SACConfig) -> float:
    """Return H̄: as configured, by default minus the number of actions."""
    wanted = config.target_entropy
    return -float(action_size) if wanted is None else wanted


def train_on(
    state: SACState,
    replay: DeviceReplay,
    updates: int,
    config: SACConfig,
    key: Key[Array, ""],
) -> tuple[SACState, Metrics]:
    """Scan updates on batches drawn with replacement; return the mean metrics."""
    rows_key, update_key = jax.random.split(key)
    # All at once: a draw of 256 costs as much as one of thousands.
    shape = (updates, config.batch_size)
    rows = jax.random.randint(rows_key, shape, 0, replay.size)

    def step(
        state: SACState, drawn: tuple[Int[Array, " B"], Key[Array, ""]]
    ) -> tuple[SACState, Metrics]:
        rows, key = drawn
        return update(state, replay.take(rows), config, key=key)

    keys = jax.random.split(update_key, updates)
    state, metrics = jax.lax.scan(step, state, (rows, keys))
    return state, jax.tree.map(jnp.mean, metrics)


# The state is not donated: that would save one copy per call, a thirtieth of an update,
# and invalidate the old state.
train = jax.jit(train_on, static_argnames=("updates", "config"))
"""``train_on``, compiled."""


def soft_reset(state: SACState, fresh: SACState, rate: float) -> SACState:
    """Mix actor and critics with fresh ones, and restart their optimisers.

    The target critics are mixed with the same fresh critics, so their lag shrinks by
    1 − α.  The temperature and its optimiser are not networks, and stay.
    """
    if rate == 0:
        return state
    return replace(
        state,
        actor=mix(state.actor, fresh.actor, rate),
        critics=mix(state.critics, fresh.critics, rate),
        target_critics=mix(state.target_critics, fresh.critics, rate),
        actor_optimiser=fresh.actor_optimiser,
        critic_optimiser=fresh.critic_optimiser,
    )


# ---- the model-free agent ----------------------------------------------------------


class SACAgentState(eqx.Module):
    """Everything that the model-free agent learns; a pytree of arrays."""

    policy: SACState
    metrics: Metrics
    """Means over the last updates."""
    softly_reset: Bool[Array, ""]
    """Whether the last call of ``learn`` began with a soft reset."""


def initial_state(
    sizes: tuple[int, int], config: SACAgentConfig, *, key: Key[Array, ""]
) -> SACAgentState:
    """Return fresh networks for ``sizes`` = (states, actions)."""
    return SACAgentState(
        policy=init(*sizes, config.sac, key=jax.random.split(key, 3)[2]),
        metrics=Metrics(*(jnp.zeros(()) for _ in Metrics._fields)),
        softly_reset=jnp.zeros((), bool),
    )


def model_free_update(
    config: SACAgentConfig,
    state: SACAgentState,
    replay: DeviceReplay,
    key: Key[Array, ""],
) -> tuple[SACAgentState, Metrics]:
    """Take the policy updates that belong to one (absent) update of a model."""
    updates = config.learning.policy_updates
    policy, metrics = train_on(state.policy, replay, updates, config.sac, key)
    return replace(state, policy=policy), metrics


class SACAgent(DeepAgent[SACAgentState]):
    """SAC on the collected transitions, without a model."""

    def __init__(
        self,
        sizes: tuple[int, int],
        config: SACAgentConfig,
        *,
        capacity: int,
        steps: int,
    ) -> None:
        """Make an agent; see ``DeepAgent``."""
        super().__init__(sizes, config, capacity=capacity, steps=steps)
        self._config = config

    def initial_state(self, *, key: Key[Array, ""]) -> SACAgentState:
        """Return the state before the first episode."""
        return initial_state(self._sizes, self._config, key=key)

    def policy(self, state: SACAgentState) -> "ActorPolicy":
        """Return the policy of a state."""
        columns = training_columns(state.policy, state.softly_reset, state.metrics)
        trained = int(state.policy.updates) > 0
        return ActorPolicy(state.policy.actor, trained, columns)

    def _soft_reset(self, state: SACAgentState, key: Key[Array, ""]) -> SACAgentState:
        fresh = init(*self._sizes, self._config.sac, key=jax.random.split(key)[1])
        rate = self._config.soft_reset.policy
        return replace(state, policy=soft_reset(state.policy, fresh, rate))

    def _refresh(self, state: SACAgentState, replay: DeviceReplay) -> SACAgentState:
        del replay  # nothing is normalised
        return state

    def _train(
        self,
        state: SACAgentState,
        replay: DeviceReplay,
        count: Int[Array, ""],
        key: Key[Array, ""],
    ) -> SACAgentState:
        return train_steps(model_free_update, self._config, state, replay, count, key)

    def _finish(
        self, state: SACAgentState, data: Data, context: LearnContext
    ) -> SACAgentState:
        del data, context
        return state


def training_columns(
    state: SACState, softly_reset: Bool[Array, ""], metrics: Metrics
) -> dict[str, Array]:
    """Return what to record about training, by column of EpisodeRecord."""
    return {
        "soft_reset": softly_reset,
        "temperature": jnp.exp(state.log_temperature),
        "entropy": metrics.entropy,
        "q": metrics.q,
        "critic_loss": metrics.critic_loss,
    }


@dataclass(frozen=True)
class ActorPolicy:
    """Draws actions from a tanh-normal actor; uniform before the first update."""

    actor: MLP
    trained: bool
    columns: Mapping[str, Array]
    """Training metrics on the device, by column of EpisodeRecord."""
    optimism: Float[Array, ""] | float = 0.0
    """λ."""
    evaluate: Callable[[Episode], ModelMetrics] = lambda episode: ModelMetrics()
    """Evaluates the model on an episode; without a model there are no metrics."""
    noisy: bool = True

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
            action = act(self.actor, single, key=key if self.noisy else None)
        return np.asarray(action, np.float64), carry

    def deterministic(self) -> "ActorPolicy":
        """Return the policy that takes the mode of the distribution."""
        return replace(self, noisy=False)

    def model_metrics(self, episode: Episode) -> ModelMetrics:
        """Evaluate the model on an episode that it has not been trained on."""
        return self.evaluate(episode) if self.trained else ModelMetrics()


@jax.jit
def _uniform_action(actor: MLP, key: Key[Array, ""]) -> Float[Array, " A"]:
    size = actor.layers[-1].bias.shape[0] // 2
    return jax.random.uniform(key, (size,), minval=-1.0)
