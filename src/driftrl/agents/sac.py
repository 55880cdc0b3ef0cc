"""Soft actor-critic: a tanh-normal policy, twin critics and a tuned temperature.

``update`` is one gradient step of everything on one batch, pure and not compiled, so
that others can scan it over batches of their own making.  ``train`` compiles a scan of
many such steps on batches drawn from stored transitions.
"""

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Int, Key, PyTree

from driftrl.agents import losses
from driftrl.agents.tanh_normal import TanhNormal, from_outputs
from driftrl.config.deep import SACConfig
from driftrl.errors import require
from driftrl.models.networks import (
    HIDDEN_GAIN,
    MLP,
    ResidualMLP,
    adam,
    apply_gradients,
    stacked,
)

Critics = MLP | ResidualMLP
Bonus = Callable[[Float[Array, "B S"], Float[Array, "B A"]], Float[Array, " B"]]
"""λ·I(s, a) of a whole batch at once, so that a model answers in one pass."""
Part = TypeVar("Part")
Seen = TypeVar("Seen")


class Batch(NamedTuple):
    """Transitions, one row each."""

    obs: Float[Array, "B S"]
    actions: Float[Array, "B A"]
    rewards: Float[Array, " B"]
    next_obs: Float[Array, "B S"]
    terminated: Float[Array, " B"]
    """1 where the task ended in ``next_obs``, or the probability that it did."""


class SACState(eqx.Module):
    """Everything that learning changes; a pytree of arrays alone."""

    # Moved by every update, and mixed with fresh parameters by a soft reset.
    actor: MLP
    critics: Critics
    """Q₁ and Q₂ as one network, every parameter with a leading axis of 2."""
    target_critics: Critics
    """Q̄₁ and Q̄₂, which follow the critics slowly."""

    # Moved by every update, and started anew by a soft reset.
    actor_optimiser: PyTree
    critic_optimiser: PyTree

    # Moved by every update, and by nothing else.
    log_temperature: Float[Array, ""]
    temperature_optimiser: PyTree
    updates: Int[Array, ""]
    """Updates since the beginning."""


class Metrics(NamedTuple):
    """What an update saw; the mean over updates where there were many."""

    critic_loss: Float[Array, ""]
    actor_loss: Float[Array, ""]
    q: Float[Array, ""]
    """Mean of both critics on the batch, before the update."""
    entropy: Float[Array, ""]
    """−log π of the policy's own actions, before the update."""
    temperature: Float[Array, ""]
    """α, before the update."""
    bonus: Float[Array, ""]
    """Mean of the bonus at the policy's own actions; 0 where there is none."""


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
    critics = stacked([_critic(inputs, config, one) for one in critic_keys])
    return _rested_state(actor, critics, config)


@partial(jax.jit, static_argnames="config")
def _rested_state(actor: MLP, critics: Critics, config: SACConfig) -> SACState:
    log_temperature = jnp.full((), math.log(config.initial_temperature), float)
    return SACState(
        actor=actor,
        critics=critics,
        target_critics=critics,
        actor_optimiser=_rested(actor, config),
        critic_optimiser=_rested(critics, config),
        log_temperature=log_temperature,
        temperature_optimiser=_rested(log_temperature, config),
        updates=jnp.zeros((), jnp.int32),
    )


def _critic(inputs: int, config: SACConfig, key: Key[Array, ""]) -> Critics:
    if config.critic == "residual":
        return ResidualMLP(inputs, config.hidden[0], 1, key=key)
    sizes = (inputs, *config.hidden, 1)
    return MLP(sizes, jax.nn.relu, last_gain=HIDDEN_GAIN, key=key)


def optimiser(config: SACConfig) -> optax.GradientTransformation:
    """Return Adam behind a limit on the global norm of the gradient."""
    return adam(config.learning_rate, config.gradient_clip)


def _rested(part: PyTree, config: SACConfig) -> PyTree:
    """Return the state of an optimiser that has not moved ``part`` yet."""
    return optimiser(config).init(part)


def policy(actor: MLP, obs: Float[Array, " S"]) -> TanhNormal:
    """Return π(·|s) for one observation."""
    return from_outputs(actor(obs))


def q_values(
    critics: Critics, obs: Float[Array, "B S"], actions: Float[Array, "B A"]
) -> Float[Array, "2 B"]:
    """Return Q₁ and Q₂ of a batch, in one pass of batched matrix products."""
    inputs = jnp.concatenate([obs, actions], axis=1)
    # Every critic gets a copy: with one for both, XLA joins the two first layers into
    # one product and then transposes its whole result.
    pair = jnp.broadcast_to(inputs, (2, *inputs.shape))
    return jax.vmap(lambda critic, x: jax.vmap(critic)(x))(critics, pair)[:, :, 0]


def sizes(state: SACState) -> tuple[int, int]:
    """Return the numbers of state and action dimensions."""
    first, last = state.actor.layers[0], state.actor.layers[-1]
    return first.weight.shape[0], last.bias.shape[0] // 2


def act(
    actor: MLP,
    obs: Float[Array | np.ndarray, " S"],
    *,
    key: Key[Array, ""] | None,
) -> Float[Array, " A"]:
    """Return an action in [−1, 1]: drawn with a key, the policy's mode without."""
    return _act(actor, jnp.asarray(obs), key)


@jax.jit
def _act(
    actor: MLP, obs: Float[Array, " S"], key: Key[Array, ""] | None
) -> Float[Array, " A"]:
    distribution = policy(actor, obs)
    if key is None:
        return distribution.mode()
    mean = distribution.mean
    return distribution.sample(jax.random.normal(key, mean.shape, mean.dtype))[0]


def update(
    state: SACState,
    batch: Batch,
    config: SACConfig,
    *,
    key: Key[Array, ""],
    bonus: Bonus | None = None,
) -> tuple[SACState, Metrics]:
    """Take one gradient step on critics, targets, actor and temperature, in this order.

    The actor is judged by the critics as they are after their step; the temperature
    by the very actions that the actor was judged on.  ``bonus`` stands beside the
    entropy in the losses of critics and actor; a bonus that is part of the rewards
    needs no such thing.
    """
    shape, dtype = (2, *batch.actions.shape), batch.actions.dtype
    next_noise, noise = jax.random.normal(key, shape, dtype)
    temperature = jnp.exp(state.log_temperature)
    target = _critic_target(state, batch, config, next_noise, bonus)

    def judge_critics(critics: Critics) -> tuple[Array, Array]:
        q = q_values(critics, batch.obs, batch.actions)
        return losses.critic_loss(q, target), jnp.mean(q)

    critics, critic_optimiser, critic_loss, q = _improve(
        judge_critics, state.critics, state.critic_optimiser, config
    )

    def judge_actor(actor: MLP) -> tuple[Array, tuple[Array, Array]]:
        actions, log_prob = _draw(actor, batch.obs, noise)
        gain = None if bonus is None else bonus(batch.obs, actions)
        own = q_values(critics, batch.obs, actions)
        loss = losses.actor_loss(own, log_prob, temperature, gain)
        mean_gain = jnp.zeros(()) if gain is None else jnp.mean(gain)
        return loss, (-jnp.mean(log_prob), mean_gain)

    actor, actor_optimiser, actor_loss, (entropy, mean_gain) = _improve(
        judge_actor, state.actor, state.actor_optimiser, config
    )
    wanted = target_entropy(batch.actions.shape[1], config)

    def judge_temperature(log_temperature: Array) -> tuple[Array, None]:
        return losses.temperature_loss(log_temperature, entropy, wanted), None

    log_temperature, temperature_optimiser, _, _ = _improve(
        judge_temperature, state.log_temperature, state.temperature_optimiser, config
    )
    moved = SACState(
        actor=actor,
        critics=critics,
        target_critics=follow(critics, state.target_critics, config.tau),
        actor_optimiser=actor_optimiser,
        critic_optimiser=critic_optimiser,
        log_temperature=log_temperature,
        temperature_optimiser=temperature_optimiser,
        updates=state.updates + 1,
    )
    return moved, Metrics(critic_loss, actor_loss, q, entropy, temperature, mean_gain)


def _critic_target(
    state: SACState,
    batch: Batch,
    config: SACConfig,
    noise: Float[Array, "B A"],
    bonus: Bonus | None,
) -> Float[Array, " B"]:
    actions, log_prob = _draw(state.actor, batch.next_obs, noise)
    q = q_values(state.target_critics, batch.next_obs, actions)
    gain = None if bonus is None else bonus(batch.next_obs, actions)
    value = losses.soft_value(q, log_prob, jnp.exp(state.log_temperature), gain)
    return losses.critic_target(batch.rewards, batch.terminated, value, config.discount)


def _draw(
    actor: MLP, obs: Float[Array, "B S"], noise: Float[Array, "B A"]
) -> tuple[Float[Array, "B A"], Float[Array, " B"]]:
    return jax.vmap(lambda one, drawn: policy(actor, one).sample(drawn))(obs, noise)


def _improve(
    judge: Callable[[Part], tuple[Array, Seen]],
    part: Part,
    memory: PyTree,
    config: SACConfig,
) -> tuple[Part, PyTree, Array, Seen]:
    """Take one step down the loss that ``judge`` returns, with what else it saw."""
    (loss, seen), gradient = jax.value_and_grad(judge, has_aux=True)(part)
    part, memory = apply_gradients(optimiser(config), gradient, memory, part)
    return part, memory, loss, seen


def follow(leader: Part, follower: Part, rate: float) -> Part:
    """Return φ̄ ← (1 − τ)·φ̄ + τ·φ, the slow copy after one more step."""
    return jax.tree.map(
        lambda new, old: rate * new + (1.0 - rate) * old, leader, follower
    )


def target_entropy(action_size: int, config: SACConfig) -> float:
    """Return H̄: as configured, else minus the number of actions."""
    wanted = config.target_entropy
    return -float(action_size) if wanted is None else wanted


def train(
    state: SACState,
    data: Batch,
    size: int,
    updates: int,
    config: SACConfig,
    *,
    key: Key[Array, ""],
) -> tuple[SACState, Metrics]:
    """Take ``updates`` steps on batches drawn, with replacement, from stored data.

    Only the first ``size`` rows of ``data`` are valid, the others are padding, so that
    growing data does not compile anew.  All steps are one compiled scan, and only the
    means of the metrics leave it.
    """
    rows = len(data.rewards)
    require(
        1 <= size <= rows,
        f"SAC cannot draw from {size} transitions of an array of {rows}: it needs at "
        "least one, and no more than there are.",
    )
    require(updates >= 1, f"SAC needs at least one update, received {updates}.")
    return _train(state, data, jnp.asarray(size, jnp.int32), updates, config, key)


# The state is not donated: that would save one copy of it a call, a thirtieth of an
# update, and take the old state from a caller who keeps it.
@partial(jax.jit, static_argnames=("updates", "config"))
def _train(
    state: SACState,
    data: Batch,
    size: Int[Array, ""],
    updates: int,
    config: SACConfig,
    key: Key[Array, ""],
) -> tuple[SACState, Metrics]:
    rows_key, update_key = jax.random.split(key)
    # All at once: a draw of 256 costs as much as one of thousands.
    rows = jax.random.randint(rows_key, (updates, config.batch_size), 0, size)

    def step(
        state: SACState, drawn: tuple[Int[Array, " B"], Key[Array, ""]]
    ) -> tuple[SACState, Metrics]:
        rows, key = drawn
        batch = jax.tree.map(lambda column: column[rows], data)
        return update(state, batch, config, key=key)

    keys = jax.random.split(update_key, updates)
    state, metrics = jax.lax.scan(step, state, (rows, keys))
    return state, jax.tree.map(jnp.mean, metrics)
