"""The policy's gradient through the model: the optimistic objective over K steps.

From states s₀ of the retained data, the policy acts for K imagined steps in the
ensemble.  With m_k = 1 while the task has not ended and soft rewards
ρ_k = r_k + λ·b_k − α·log π_k::

    actor    maximise Σ_{k<K} γᵏ·m_k·ρ_k + γᴷ·m_K·(mean_i Q̄_i(s_K, a_K) − α·log π_K)
    critics  (Q_i(s₀, a₀) − y)²,
             y = α·log π₀ + Σ_{k<K} γᵏ·m_k·ρ_k
                 + γᴷ·m_K·(min_{i ∈ pair} Q̄_i(s_K, a_K) − α·log π_K)

The first is J(π, μ) + λ·Σ(π, μ) of the paper (eq:optimistic_objective) for K steps,
with a critic for the rest; its gradient goes through dynamics, reward and bonus.  One
rollout serves both losses; another pair of critics is taken for every update.

With ``imagination.collected`` a rollout begins where a collected transition
(s, a, r, s₀) ended, and the critics learn from that as well: Q_i(s, a) towards
r + λ·b + γ·m·(y − α·log π₀), with m = 0 where the task ended there.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key

from driftrl.agents import sac
from driftrl.agents.optimism import bonus_named
from driftrl.agents.replay import Batch
from driftrl.agents.rollouts import NextObs, Reward, Termination, with_known, with_price
from driftrl.agents.sac import Metrics, SACState
from driftrl.config.deep import EnsembleAgentConfig
from driftrl.config.limits import LimitsConfig
from driftrl.models import ensemble
from driftrl.models.ensemble import EnsembleState
from driftrl.models.networks import MLP, polyak_update

WorldStep = Callable[[Array, Array, int, Array | None], tuple[Array, Array, Array]]
"""(observations, actions, k, shocks) ↦ next observations, rewards and bonuses, by row.

Shocks are standard normal numbers, for the noise of the next observations.
"""


class Drawn(NamedTuple):
    """The random numbers of one update."""

    noise: Float[Array, "K1 B A"]
    """Standard normal, for the actions."""
    critic: Int[Array, ""]
    """The first critic of the pair."""
    shocks: Float[Array, "K B S"] | None = None
    """Standard normal, for the states; None without noise there."""


class World(NamedTuple):
    """What the policy acts in: the model, and what is known of the task."""

    step: WorldStep
    terminated: Termination
    reward: Reward | None  # None where the model predicts it
    weight: Float[Array, ""]  # λ
    normalise: Callable[[Array], Array]  # Observation ↦ what actor and critics take


class Imagined(NamedTuple):
    """What a policy meets in K imagined steps, from every start state."""

    actions: Float[Array, "B A"]  # The first ones
    soft: Float[Array, "K B"]  # ρ_k
    alive: Float[Array, "K1 B"]  # m_0 … m_K
    log_prob: Float[Array, "K1 B"]
    bonus: Float[Array, "K B"]
    last_obs: Float[Array, "B S"]  # Normalised
    last_actions: Float[Array, "B A"]


def world_step(
    model: EnsembleState,
    config: EnsembleAgentConfig,
    known: NextObs | None,
    reward: Reward | None = None,
    limits: LimitsConfig | None = None,
) -> WorldStep:
    """Return one imagined step of a batch: next observations, rewards and bonuses.

    States follow the mean of the ensemble, or a member that changes at every step; then
    the bonus is estimated by that member and the next one.  Limits of states have their
    price in the reward, which then is the known one if there is one.
    """
    asked, bonus = members_asked(config), bonus_named(config.imagination.bonus)
    priced = limits is not None and limits.priced
    asked = max(asked, 1 + priced)
    bonus_of = jax.vmap(bonus, in_axes=(ensemble.ROWS,))

    def noisy(after: Array, shocks: Array | None) -> Array:
        if shocks is None:
            return after
        return after + ensemble.constant_noise(model)[None, :-1] * shocks

    def step(
        obs: Array, actions: Array, turn: int, shocks: Array | None
    ) -> tuple[Array, Array, Array]:
        if asked == 1:
            after, rewards = ensemble.predict_in_turn(model, obs, actions, turn)
            after = noisy(after, shocks)
            if known is not None:
                after = jax.vmap(known)(obs, actions, after)
            return after, rewards, jnp.zeros(len(obs), obs.dtype)
        if asked == 2:
            belief = ensemble.predict_by_pairs(model, obs, actions, turn)
        else:
            belief = ensemble.predict_batch(model, obs, actions)
        belief = belief._replace(mean=noisy(belief.mean, shocks))
        if known is not None:
            axes = (0, 0, ensemble.ROWS)
            put = jax.vmap(partial(with_known, known), axes, ensemble.ROWS)
            belief = put(obs, actions, belief)
        if priced:
            axes, pay = (0, 0, ensemble.ROWS), partial(with_price, limits, reward)
            belief = jax.vmap(pay, axes, ensemble.ROWS)(obs, actions, belief)
        return belief.mean, belief.reward, bonus_of(belief)

    return step


def members_asked(config: EnsembleAgentConfig) -> int:
    """Return how many members predict an imagined step: one, two for a bonus, all."""
    if config.imagination.dynamics == "mean":
        return config.model.members
    greedy = config.optimism.rule == "constant" and config.optimism.weight == 0
    return 1 if greedy else 2


def start_rows(config: EnsembleAgentConfig) -> int:
    """Return from how many states the policy is rolled out in one update.

    Members share them equally.
    """
    count, batch = config.model.members, config.sac.batch_size
    return max(1, batch // count) * count


def train(
    learned: tuple[SACState, MLP],
    world: World,
    collected: Batch,
    starts: Float[Array, "U B S"],
    config: EnsembleAgentConfig,
    keys: tuple[Key[Array, ""], Key[Array, ""]],
) -> tuple[SACState, MLP, Metrics, Float[Array, ""]]:
    """Take U updates of the policy and its average, from plain observations.

    ``collected`` are U batches of transitions, and rollouts begin at ``starts``.
    Returns the mean metrics and bonus as well.
    """
    updates, count, states = starts.shape
    actions = learned[1].layers[-1].bias.shape[0] // 2
    shape = (updates, config.imagination.horizon + 1, count, actions)
    shocks = None
    if config.imagination.noise:
        shocks_key = jax.random.fold_in(keys[0], 1)
        shocks_shape = (updates, config.imagination.horizon, count, states)
        shocks = jax.random.normal(shocks_key, shocks_shape)
    drawn = Drawn(
        noise=jax.random.normal(keys[0], shape),
        critic=jax.random.randint(keys[1], (updates,), 0, config.sac.critics),
        shocks=shocks,
    )

    def step(
        carry: tuple[SACState, MLP], given: tuple[Batch, Float[Array, "B S"], Drawn]
    ) -> tuple[tuple[SACState, MLP], tuple[Metrics, Array]]:
        policy, average = carry
        policy, metrics, bonus = update(policy, world, *given[:2], config, given[2])
        average = polyak_update(policy.actor, average, config.sac.tau)
        return (policy, average), (metrics, bonus)

    learned, seen = jax.lax.scan(step, learned, (collected, starts, drawn))
    return *learned, *jax.tree.map(jnp.mean, seen)


def update(
    state: SACState,
    world: World,
    collected: Batch,
    start: Float[Array, "B S"],
    config: EnsembleAgentConfig,
    drawn: Drawn,
) -> tuple[SACState, Metrics, Float[Array, ""]]:
    """Take one step of critics, actor and temperature; return the mean bonus as well.

    ``start`` are plain observations.
    """
    settings, steps = config.sac, config.imagination.horizon
    temperature, average = jnp.exp(state.log_temperature), state.average_reward
    discounts = settings.discount ** jnp.arange(steps, dtype=start.dtype)[:, None]

    def objective(actor: MLP) -> tuple[Array, tuple[Imagined, Array, Array]]:
        seen = imagine(actor, world, start, temperature, drawn)
        if average is not None:
            seen = seen._replace(soft=seen.soft - average)
        total = jnp.sum(discounts * seen.alive[:-1] * seen.soft, axis=0)
        q = sac.values(
            state, state.target_critics, seen.last_obs, seen.last_actions, settings
        )
        end = jnp.mean(q, axis=0) - temperature * seen.log_prob[-1]
        value = total + settings.discount**steps * seen.alive[-1] * end
        return -jnp.mean(value), (seen, total, q)

    (loss, (seen, total, q)), gradient = jax.value_and_grad(objective, has_aux=True)(
        state.actor
    )
    end = (
        jnp.min(jnp.roll(q, -drawn.critic, axis=0)[:2], axis=0)
        - temperature * seen.log_prob[-1]
    )
    # Without the entropy of the first action, which the critics are asked about.
    target = total + temperature * seen.log_prob[0]
    target = target + settings.discount**steps * seen.alive[-1] * end
    # What is imagined after the end says nothing about values.
    alive = seen.alive[:-1]
    if average is not None:
        state, _ = sac.centered(state, seen.soft + average, alive)
    usual = jnp.sum(alive * seen.soft) / jnp.sum(alive)
    rewards = jnp.where(alive > 0, seen.soft, usual)
    can_end = config.imagination.termination != "absent"
    state = sac.with_range(state, rewards, settings, can_end=can_end)
    obs, actions = start, seen.actions
    if config.imagination.collected:
        after = target - temperature * seen.log_prob[0]
        _, _, bonus = world.step(collected.obs, collected.actions, 0, None)
        gained = collected.rewards + world.weight * bonus
        if average is not None:
            gained -= average
        goes_on = settings.discount * (1.0 - collected.terminated)
        # Rollouts from where episodes began follow no collected transition.
        linked = slice(round(config.imagination.from_starts * len(start)), None)
        obs, actions, target = (
            jnp.concatenate([imagined, real[linked]])
            for imagined, real in (
                (obs, collected.obs),
                (actions, collected.actions),
                (target, gained + goes_on * after),
            )
        )
    obs = jax.vmap(world.normalise)(obs)
    state, critic_loss, q = sac.regress(state, obs, actions, target, settings)
    if settings.critic == "bounded":
        gradient = jax.tree.map(lambda part: part / sac.half_width(state), gradient)
    entropy = -jnp.mean(seen.log_prob[0])
    state = sac.improve(state, gradient, entropy, seen.actions.shape[1], settings)
    return state, Metrics(critic_loss, loss, q, entropy), jnp.mean(seen.bonus)


def imagine(
    actor: MLP,
    world: World,
    start: Float[Array, "B S"],
    temperature: Float[Array, ""],
    random: Drawn,
) -> Imagined:
    """Follow the policy for K steps in the model, differentiably.

    The steps are unrolled: a scan would copy what the gradient needs.
    """
    obs, alive = start, [jnp.ones(len(start), start.dtype)]
    noise, shocks = random.noise, random.shocks
    drawn = [sac.draw(actor, jax.vmap(world.normalise)(obs), noise[0])]
    soft, bonuses = [], []
    for step in range(len(noise) - 1):
        actions, log_prob = drawn[-1]
        shock = None if shocks is None else shocks[step]
        next_obs, rewards, bonus = world.step(obs, actions, step, shock)
        if world.reward is not None:
            rewards = jax.vmap(world.reward)(obs, actions, next_obs)
        bonuses.append(bonus)
        soft.append(rewards + world.weight * bonus - temperature * log_prob)
        ended = jax.vmap(world.terminated)(obs, actions, next_obs).astype(obs.dtype)
        alive.append(alive[-1] * (1.0 - jax.lax.stop_gradient(ended)))
        obs = next_obs
        drawn.append(sac.draw(actor, jax.vmap(world.normalise)(obs), noise[step + 1]))
    return Imagined(
        actions=drawn[0][0],
        soft=jnp.stack(soft),
        alive=jnp.stack(alive),
        log_prob=jnp.stack([log_prob for _, log_prob in drawn]),
        bonus=jnp.stack(bonuses),
        last_obs=jax.vmap(world.normalise)(obs),
        last_actions=drawn[-1][0],
    )
