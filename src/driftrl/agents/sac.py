"""Soft actor-critic: a tanh-normal policy, twin critics and a tuned temperature.

Of transitions (s, a, r, s', d), with d = 1 where the task *terminated* in s', the
critics Q_i with their slow copies Q̄_i and the temperature α (Haarnoja et al., 2018)::

    V(s, a)     = min_i Q_i(s, a) − α·log π(a|s)
    critics     Σ_i mean (Q_i(s, a) − y)²,   y = r + γ·(1 − d)·V̄(s', a')
    actor       −mean V(s, ã)
    temperature log α·(H − H̄),   H = −mean log π(ã|s)

with fresh actions a' ~ π(·|s') and ã ~ π(·|s).  A bonus λ·b is part of the reward.
With ``centering`` r is what exceeds the average reward.
Only termination ends the future; a truncated transition is like any other.

``update`` is one gradient step of everything on one batch, pure and not compiled, so
that others can scan it over batches of their own.
"""

import math
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from driftrl.agents.replay import Batch, DeviceReplay
from driftrl.config.deep import SACConfig
from driftrl.models import networks
from driftrl.models.networks import MLP, ResidualMLP

LOG_STD_MIN = -10.0
LOG_STD_MAX = 2.0

# Of the last layer of bounded critics, which begin in the middle of their range.
_SMALL_GAIN = 0.01
# How far the range of bounded critics, or the average reward, moves at an update.
_RATE = 1e-3

ACTIVATIONS = {"relu": jax.nn.relu, "silu": jax.nn.silu}
Critics = MLP | ResidualMLP


class TanhNormal(eqx.Module):
    """The distribution of a = tanh(u), u ~ N(μ, σ²), for one observation.

    By the change of variables::

        log π(a) = Σ_i log N(u_i; μ_i, σ_i²) − log(1 − tanh² u_i)
        log(1 − tanh² u) = 2·(log 2 − u − softplus(−2u))

    The density is evaluated at the latent u, never at an action: near ±1 an action no
    longer determines u, while the right-hand side stays exact.
    """

    mean: Float[Array, " A"]  # μ
    log_std: Float[Array, " A"]  # log σ

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
    """All Q_i as one network, every parameter with a leading axis."""
    target_critics: Critics
    """All Q̄_i, which follow the critics slowly."""
    value_range: Float[Array, "2"]
    """Where values are expected to lie, for bounded critics."""
    actor_optimiser: PyTree
    critic_optimiser: PyTree
    log_temperature: Float[Array, ""]
    temperature_optimiser: PyTree
    updates: Int[Array, ""]
    """Number of updates so far."""
    average_reward: Float[Array, ""] | None = None
    """What is subtracted from rewards, with ``centering``."""


class Metrics(NamedTuple):
    """Metrics of one update, or their mean over several, before the update."""

    critic_loss: Float[Array, ""]
    actor_loss: Float[Array, ""]
    q: Float[Array, ""]  # Mean of the critics on the batch
    entropy: Float[Array, ""]  # Mean of −log π at the policy's actions


def no_metrics() -> Metrics:
    """Return the metrics before the first update."""
    return Metrics(*(jnp.zeros(()) for _ in Metrics._fields))


def init(
    state_size: int, action_size: int, config: SACConfig, *, key: Key[Array, ""]
) -> SACState:
    """Return fresh networks; the targets start as copies of the critics."""
    actor_key, *critic_keys = jax.random.split(key, 1 + config.critics)
    sizes = (state_size, *config.hidden, 2 * action_size)
    # A gradient through the model would vanish in saturated actions.
    gain = _SMALL_GAIN if config.critic == "bounded" else 1.0
    actor = MLP(sizes, ACTIVATIONS[config.activation], last_gain=gain, key=actor_key)
    inputs = state_size + action_size
    critics = networks.stacked([_critic(inputs, config, k) for k in critic_keys])
    return _init_state(actor, critics, config)


@partial(jax.jit, static_argnames="config")
def _init_state(actor: MLP, critics: Critics, config: SACConfig) -> SACState:
    optimiser = _optimiser(config)
    log_temperature = jnp.full((), math.log(config.initial_temperature), float)
    return SACState(
        actor=actor,
        critics=critics,
        target_critics=critics,
        value_range=jnp.asarray([-1.0, 1.0], jnp.float32),
        actor_optimiser=optimiser.init(actor),  # pyright: ignore[reportArgumentType]
        critic_optimiser=optimiser.init(critics),  # pyright: ignore[reportArgumentType]
        log_temperature=log_temperature,
        temperature_optimiser=_temperature_optimiser(config).init(log_temperature),
        updates=jnp.zeros((), jnp.int32),
        average_reward=jnp.zeros(()) if config.centering else None,
    )


def _critic(inputs: int, config: SACConfig, key: Key[Array, ""]) -> Critics:
    if config.critic == "residual":
        return ResidualMLP(inputs, config.hidden[0], 1, key=key)
    sizes, activation = (inputs, *config.hidden, 1), ACTIVATIONS[config.activation]
    if config.critic == "bounded":
        return MLP(sizes, activation, last_gain=_SMALL_GAIN, key=key, layer_norm=True)
    return MLP(sizes, activation, last_gain=networks.HIDDEN_GAIN, key=key)


def _optimiser(config: SACConfig) -> optax.GradientTransformation:
    return networks.adam(config.learning_rate, config.gradient_clip)


def _temperature_optimiser(config: SACConfig) -> optax.GradientTransformation:
    return networks.adam(
        config.temperature_rate * config.learning_rate, config.gradient_clip
    )


def policy(actor: MLP, obs: Float[Array, " S"]) -> TanhNormal:
    """Return π(·|s) for one observation; log σ is clipped to [−10, 2]."""
    mean, log_std = jnp.split(actor(obs), 2)
    return TanhNormal(mean, jnp.clip(log_std, LOG_STD_MIN, LOG_STD_MAX))


def q_values(
    critics: Critics, obs: Float[Array, "B S"], actions: Float[Array, "B A"]
) -> Float[Array, "Q B"]:
    """Return what the critics' networks say of a batch, in one pass."""
    inputs = jnp.concatenate([obs, actions], axis=1)
    # Every critic gets a copy: otherwise XLA joins the first layers into one product
    # and then transposes its whole result.
    count = jax.tree.leaves(critics)[0].shape[0]
    copies = jnp.broadcast_to(inputs, (count, *inputs.shape))
    return jax.vmap(lambda critic, x: jax.vmap(critic)(x))(critics, copies)[:, :, 0]


def sample_action(
    actor: MLP, obs: Float[Array, " S"], key: Key[Array, ""]
) -> Float[Array, " A"]:
    """Draw an action in [−1, 1] for one observation."""
    distribution = policy(actor, obs)
    noise = jax.random.normal(key, distribution.mean.shape, distribution.mean.dtype)
    return distribution.sample(noise)[0]


@jax.jit
def act(
    actor: MLP, obs: Float[Array | np.ndarray, " S"], *, key: Key[Array, ""] | None
) -> Float[Array, " A"]:
    """Return an action in [−1, 1]: drawn with a key, the mode without."""
    obs = jnp.asarray(obs)
    return policy(actor, obs).mode() if key is None else sample_action(actor, obs, key)


def update(
    state: SACState, batch: Batch, config: SACConfig, *, key: Key[Array, ""]
) -> tuple[SACState, Metrics]:
    """Take one gradient step on critics, targets, actor and temperature, in this order.

    The actor's loss uses the updated critics, and the temperature's loss the same
    actions as the actor's.
    """
    shape, dtype = (2, *batch.actions.shape), batch.actions.dtype
    next_noise, noise = jax.random.normal(key, shape, dtype)
    temperature = jnp.exp(state.log_temperature)

    def soft_value(
        state: SACState,
        actor: MLP,
        critics: Critics,
        obs: Float[Array, "B S"],
        noise: Array,
    ) -> tuple[Float[Array, " B"], Float[Array, " B"]]:
        """Return V(s, a) and log π(a|s) at fresh actions."""
        actions, log_prob = draw(actor, obs, noise)
        q = values(state, critics, obs, actions, config)
        return jnp.min(q, axis=0) - temperature * log_prob, log_prob

    next_value, log_prob = soft_value(
        state, state.actor, state.target_critics, batch.next_obs, next_noise
    )
    state, rewards = centered(state, batch.rewards)
    target = rewards + config.discount * (1.0 - batch.terminated) * next_value
    state = with_range(state, rewards - temperature * log_prob, config)
    state, critic_loss, q = regress(state, batch.obs, batch.actions, target, config)

    def actor_loss_fn(actor: MLP) -> tuple[Array, Array]:
        value, log_prob = soft_value(state, actor, state.critics, batch.obs, noise)
        return -jnp.mean(value), -jnp.mean(log_prob)

    (actor_loss, entropy), gradient = jax.value_and_grad(actor_loss_fn, has_aux=True)(
        state.actor
    )
    state = improve(state, gradient, entropy, batch.actions.shape[1], config)
    return state, Metrics(critic_loss, actor_loss, q, entropy)


def centered(
    state: SACState,
    rewards: Float[Array, "*N"],
    counted: Float[Array, "*N"] | float = 1,
) -> tuple[SACState, Float[Array, "*N"]]:
    """Return the rewards without their average, which follows those that count."""
    if state.average_reward is None:
        return state, rewards
    counted = jnp.broadcast_to(jnp.asarray(counted, rewards.dtype), rewards.shape)
    mean = jnp.sum(counted * rewards) / jnp.sum(counted)
    rate = jnp.where(state.updates == 0, 1.0, _RATE)
    average = state.average_reward + rate * (mean - state.average_reward)
    return replace(state, average_reward=average), rewards - average


def values(
    state: SACState,
    critics: Critics,
    obs: Float[Array, "B S"],
    actions: Float[Array, "B A"],
    config: SACConfig,
) -> Float[Array, "Q B"]:
    """Return every critic's value of a batch: q, or c + w·q for bounded critics.

    c and w are the centre and the half-width of the range of values.
    """
    q = q_values(critics, obs, actions)
    if config.critic != "bounded":
        return q
    return jnp.mean(state.value_range) + half_width(state) * q


def half_width(state: SACState) -> Float[Array, ""]:
    """Return half the width of the range of values."""
    return 0.5 * (state.value_range[1] - state.value_range[0])


def with_range(
    state: SACState,
    rewards: Float[Array, "*N"],
    config: SACConfig,
    *,
    can_end: bool = True,
) -> SACState:
    """Move the range of values towards that of these rewards, if critics are bounded.

    A reward for ever is worth r/(1 − γ); the range follows the 1 % and 99 % quantiles,
    and contains 0, the value of what comes after an end, if an episode can end.
    """
    if config.critic != "bounded":
        return state
    quantiles = jnp.quantile(rewards, jnp.asarray([0.01, 0.99]))
    seen = quantiles / max(1.0 - config.discount, 1e-3)
    if can_end:
        seen = jnp.stack([jnp.minimum(seen[0], 0.0), jnp.maximum(seen[1], 0.0)])
    rate = jnp.where(state.updates == 0, 1.0, _RATE)
    moved = state.value_range + rate * (seen - state.value_range)
    return replace(state, value_range=moved)


def regress(
    state: SACState,
    obs: Float[Array, "B S"],
    actions: Float[Array, "B A"],
    target: Float[Array, " B"],
    config: SACConfig,
) -> tuple[SACState, Float[Array, ""], Float[Array, ""]]:
    """Take one step of the critics towards a target; return loss and mean value too.

    The errors of bounded critics are in units of the half-width.
    """
    unit = 1.0
    if config.critic == "bounded":
        unit = half_width(state)
        target = jnp.clip(target, state.value_range[0], state.value_range[1])

    def loss_fn(critics: Critics) -> tuple[Array, Array]:
        q = values(state, critics, obs, actions, config)
        error = (q - target[None]) / unit
        return jnp.sum(jnp.mean(error**2, axis=1)), jnp.mean(q)

    (loss, q), gradient = jax.value_and_grad(loss_fn, has_aux=True)(state.critics)
    critics, optimiser = networks.apply_gradients(
        _optimiser(config), gradient, state.critic_optimiser, state.critics
    )
    targets = networks.polyak_update(critics, state.target_critics, config.tau)
    state = replace(
        state, critics=critics, target_critics=targets, critic_optimiser=optimiser
    )
    return state, loss, q


def improve(
    state: SACState,
    gradient: MLP,
    entropy: Float[Array, ""],
    action_size: int,
    config: SACConfig,
) -> SACState:
    """Take one step of the actor along a gradient, and of the temperature."""
    actor, actor_optimiser = networks.apply_gradients(
        _optimiser(config), gradient, state.actor_optimiser, state.actor
    )
    # The slope of the temperature's loss by log α is the excess of entropy.
    excess = entropy - target_entropy(action_size, config)
    log_temperature, temperature_optimiser = networks.apply_gradients(
        _temperature_optimiser(config),
        excess,
        state.temperature_optimiser,
        state.log_temperature,
    )
    return replace(
        state,
        actor=actor,
        actor_optimiser=actor_optimiser,
        log_temperature=log_temperature,
        temperature_optimiser=temperature_optimiser,
        updates=state.updates + 1,
    )


def draw(
    actor: MLP, obs: Float[Array, "B S"], noise: Float[Array, "B A"]
) -> tuple[Float[Array, "B A"], Float[Array, " B"]]:
    """Return actions and their log π of a batch, for standard normal ``noise``."""
    return jax.vmap(lambda row, drawn: policy(actor, row).sample(drawn))(obs, noise)


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
        actor=networks.mix(state.actor, fresh.actor, rate),
        critics=networks.mix(state.critics, fresh.critics, rate),
        target_critics=networks.mix(state.target_critics, fresh.critics, rate),
        actor_optimiser=fresh.actor_optimiser,
        critic_optimiser=fresh.critic_optimiser,
    )
