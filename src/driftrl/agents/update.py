"""One unit of practice of the deep agents, and many of them as one compiled loop.

A unit, as the paper's practical algorithm has it (section "Practical Modification"):

1. one step of the ensemble on a batch of retained transitions;
2. rollouts of K decisions of the current policy in the ensemble, from that batch;
3. A steps of SAC, each on one of the K + 1 layers, the collected one included, with the
   reward r + λ·b and b the bonus of the transition;
4. where λ is tuned, one step of it.

Without a model a unit is A steps of SAC on batches of retained transitions.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key

from driftrl.agents import sac
from driftrl.agents.normalisation import samples, statistics_of
from driftrl.agents.optimism import bonus_named
from driftrl.agents.optimism_weight import (
    WeightState,
    initial_weight,
    mean_bonus,
    tune,
)
from driftrl.agents.replay import Replay, drawn
from driftrl.agents.rollouts import (
    NEVER_TERMINATES,
    TaskFunctions,
    Termination,
    imagine,
)
from driftrl.agents.sac import Batch, SACState
from driftrl.agents.soft_reset import mix, soft_reset, soft_reset_model
from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.models import ensemble, termination
from driftrl.models.ensemble import EnsembleState
from driftrl.models.networks import MLP
from driftrl.models.termination import TerminationState

Config = EnsembleAgentConfig | SACAgentConfig
Predict = Callable[[Array, Array], ensemble.EnsemblePrediction]


class Notes(NamedTuple):
    """Means over the units of the last practice, for the record."""

    model_loss: Float[Array, ""]
    critic_loss: Float[Array, ""]
    q: Float[Array, ""]
    entropy: Float[Array, ""]
    bonus: Float[Array, ""]


class DeepState(eqx.Module):
    """Everything that a deep agent learns; a pytree of arrays alone."""

    model: EnsembleState | None
    """None where there is no model."""
    ending: TerminationState | None
    """None unless the end of the task is learned."""
    policy: SACState
    average_actor: MLP
    """π̄, which follows the actor slowly: the reference that λ is tuned by."""
    weight: WeightState
    notes: Notes
    softly_reset: Bool[Array, ""]
    """Whether the last learning began with a soft reset."""


Unit = Callable[[DeepState, Replay, Array], tuple[DeepState, Notes]]


def initial_state(
    sizes: tuple[int, int], config: Config, *, key: Key[Array, ""]
) -> DeepState:
    """Return fresh networks for ``sizes`` = (states, actions)."""
    model_key, ending_key, policy_key = jax.random.split(key, 3)
    policy = sac.init(*sizes, config.sac, key=policy_key)
    model, ending, weight = None, None, initial_weight(1.0, 0.0)
    if isinstance(config, EnsembleAgentConfig):
        model = ensemble.initial_state(*sizes, config.model, key=model_key)
        if config.imagination.termination == "learned":
            ending = termination.initial_state(*sizes, config.model, key=ending_key)
        if config.optimism.rule == "tuned":
            settings = config.optimism
            weight = initial_weight(settings.weight, settings.learning_rate)
    return DeepState(
        model=model,
        ending=ending,
        policy=policy,
        average_actor=policy.actor,
        weight=weight,
        notes=Notes(*(jnp.zeros(()) for _ in Notes._fields)),
        softly_reset=jnp.zeros((), bool),
    )


def renewed(
    state: DeepState, sizes: tuple[int, int], config: Config, *, key: Key[Array, ""]
) -> DeepState:
    """Return the state after a soft reset of model and policy; rates of 0 do nothing.

    π̄ is mixed with the same fresh actor as π.
    """
    model_key, policy_key = jax.random.split(key)
    model, rate = state.model, config.soft_reset.policy
    if model is not None and isinstance(config, EnsembleAgentConfig):
        model = soft_reset_model(
            model, config.soft_reset.model, sizes, config.model, key=model_key
        )
    policy = soft_reset(state.policy, rate, config.sac, key=policy_key)
    fresh = sac.init(*sizes, config.sac, key=policy_key).actor
    average = mix(state.average_actor, fresh, rate)
    return replace(state, model=model, policy=policy, average_actor=average)


def measured(state: DeepState, replay: Replay) -> DeepState:
    """Return the state with its model normalised by the transitions of the replay."""
    if state.model is None:
        return state
    statistics = statistics_of(state.model, replay)
    return replace(state, model=replace(state.model, statistics=statistics))


@partial(jax.jit, static_argnames=("config", "known"))
def practise(
    state: DeepState,
    replay: Replay,
    count: Int[Array, ""],
    config: Config,
    known: TaskFunctions,
    key: Key[Array, ""],
) -> DeepState:
    """Do ``count`` units on the replay; their notes are the mean over them.

    The model is normalised as it was last measured.
    """
    if isinstance(config, EnsembleAgentConfig):
        unit = imagining_unit(config, known)
    else:
        unit = model_free_unit(config)

    def once(
        number: Int[Array, ""], carried: tuple[DeepState, Notes]
    ) -> tuple[DeepState, Notes]:
        state, sums = carried
        state, seen = unit(state, replay, jax.random.fold_in(key, number))
        return state, jax.tree.map(jnp.add, sums, seen)

    blank = jax.tree.map(jnp.zeros_like, state.notes)
    state, sums = jax.lax.fori_loop(0, count, once, (state, blank))
    share = 1.0 / jnp.maximum(count, 1).astype(jnp.float32)
    notes = jax.tree.map(
        lambda old, total: jnp.where(count > 0, share * total, old), state.notes, sums
    )
    return replace(state, notes=notes)


def model_free_unit(config: SACAgentConfig) -> Unit:
    """Return the unit of SAC on retained transitions."""

    def unit(
        state: DeepState, replay: Replay, key: Key[Array, ""]
    ) -> tuple[DeepState, Notes]:
        rows_key, update_key = jax.random.split(key)
        shape = (config.learning.policy_updates, config.sac.batch_size)
        rows = jax.random.randint(rows_key, shape, 0, replay.size)
        batches = drawn(replay, rows)
        keys = jax.random.split(update_key, shape[0])

        def step(
            policy: SACState, given: tuple[Batch, Key[Array, ""]]
        ) -> tuple[SACState, sac.Metrics]:
            return sac.update(policy, given[0], config.sac, key=given[1])

        policy, seen = jax.lax.scan(step, state.policy, (batches, keys))
        nothing = jnp.zeros(())
        means = jax.tree.map(jnp.mean, seen)
        notes = Notes(nothing, means.critic_loss, means.q, means.entropy, nothing)
        return replace(state, policy=policy), notes

    return unit


def imagining_unit(config: EnsembleAgentConfig, known: TaskFunctions) -> Unit:
    """Return the unit of SAC in the imagination of an ensemble.

    Args:
        config: All settings.
        known: The task's own end and reward, where they are not to be learned.
    """

    def unit(
        state: DeepState, replay: Replay, key: Key[Array, ""]
    ) -> tuple[DeepState, Notes]:
        rows_key, model_key, rollout_key, policy_key, weight_key = jax.random.split(
            key, 5
        )
        rows = jax.random.randint(rows_key, (config.sac.batch_size,), 0, replay.size)
        real = drawn(replay, rows)
        state, model_loss = _learn_model(state, replay, real, config, model_key)
        assert state.model is not None
        predict = partial(ensemble.predict, state.model)
        layers, bonus, start = _imagine(
            state, predict, real, config, known, rollout_key
        )
        state, seen = _learn_policy(state, predict, layers, bonus, config, policy_key)
        if config.optimism.rule == "tuned":
            # Of the current policy, the first imagined layer has gathered this much.
            state = _tune(state, predict, bonus[1], start, config, weight_key)
        notes = Notes(
            model_loss, seen.critic_loss, seen.q, seen.entropy, jnp.mean(bonus)
        )
        return state, notes

    return unit


def _learn_model(
    state: DeepState,
    replay: Replay,
    real: Batch,
    config: EnsembleAgentConfig,
    key: Key[Array, ""],
) -> tuple[DeepState, Float[Array, ""]]:
    assert state.model is not None
    if config.model.separate_batches:
        shape = (config.model.members, config.sac.batch_size)
        rows = jax.random.randint(key, shape, 0, replay.size)
        batch = samples(drawn(replay, rows))
    else:
        batch = samples(real)
    model, loss = ensemble.update(state.model, batch, config.model)
    ending = state.ending
    if ending is not None:
        ends = (real.obs, real.actions, real.next_obs, real.terminated)
        ending = termination.update(ending, *ends, config.model)
    return replace(state, model=model, ending=ending), loss


def _imagine(
    state: DeepState,
    predict: Predict,
    real: Batch,
    config: EnsembleAgentConfig,
    known: TaskFunctions,
    key: Key[Array, ""],
) -> tuple[Batch, Float[Array, "K B"], Float[Array, "B S"]]:
    """Return the layers, collected one first, their bonus, and where rollouts start."""
    # A state in which the task has ended has no future: start where it had one.
    over = real.terminated[:, None] > 0
    start = jnp.where(over, real.obs, real.next_obs)
    rollouts = imagine(
        predict,
        partial(_drawn_action, state.policy.actor),
        _end_of(state, known.termination),
        start,
        config.imagination,
        key=key,
        reward=known.reward,
    )
    bonus_of = bonus_named(config.imagination.bonus)
    collected = jax.vmap(lambda *pair: bonus_of(predict(*pair)))(real.obs, real.actions)
    imagined = Batch(
        rollouts.obs,
        rollouts.actions,
        rollouts.rewards,
        rollouts.next_obs,
        rollouts.terminated,
    )
    layers = jax.tree.map(
        lambda one, others: jnp.concatenate([one[None], others]), real, imagined
    )
    return layers, jnp.concatenate([collected[None], rollouts.bonus]), start


def _drawn_action(
    actor: MLP, obs: Float[Array, " S"], key: Key[Array, ""]
) -> Float[Array, " A"]:
    distribution = sac.policy(actor, obs)
    noise = jax.random.normal(key, distribution.mean.shape, distribution.mean.dtype)
    return distribution.sample(noise)[0]


def _end_of(state: DeepState, known_end: Termination | None) -> Termination:
    if state.ending is not None:
        return partial(termination.probability, state.ending)
    return known_end or NEVER_TERMINATES


def _learn_policy(
    state: DeepState,
    predict: Predict,
    layers: Batch,
    bonus: Float[Array, "K B"],
    config: EnsembleAgentConfig,
    key: Key[Array, ""],
) -> tuple[DeepState, sac.Metrics]:
    weight = current_weight(state, config)
    inside = None
    if config.imagination.placement == "reward":
        layers = layers._replace(rewards=layers.rewards + weight * bonus)
    else:
        inside = _bonus_in_losses(weight, predict, config)
    choice_key, update_key = jax.random.split(key)
    updates = config.learning.policy_updates
    chosen = jax.random.randint(choice_key, (updates,), 0, len(bonus))

    def step(
        learned: tuple[SACState, MLP], given: tuple[Int[Array, ""], Key[Array, ""]]
    ) -> tuple[tuple[SACState, MLP], sac.Metrics]:
        policy, average = learned
        layer, key = given
        batch = jax.tree.map(lambda column: column[layer], layers)
        policy, seen = sac.update(policy, batch, config.sac, key=key, bonus=inside)
        if config.optimism.rule == "tuned":
            average = sac.follow(policy.actor, average, config.sac.tau)
        return (policy, average), seen

    keys = jax.random.split(update_key, updates)
    learned = (state.policy, state.average_actor)
    (policy, average), seen = jax.lax.scan(step, learned, (chosen, keys))
    state = replace(state, policy=policy, average_actor=average)
    return state, jax.tree.map(jnp.mean, seen)


def _bonus_in_losses(
    weight: Float[Array, ""], predict: Predict, config: EnsembleAgentConfig
) -> sac.Bonus:
    """Return λ·b(s, a) of a batch: one more pass of the ensemble at every use."""
    bonus_of = bonus_named(config.imagination.bonus)

    def weighted(obs: Float[Array, "B S"], actions: Float[Array, "B A"]) -> Array:
        return weight * jax.vmap(lambda *pair: bonus_of(predict(*pair)))(obs, actions)

    return weighted


def _tune(
    state: DeepState,
    predict: Predict,
    gathered: Float[Array, " B"],
    start: Float[Array, "B S"],
    config: EnsembleAgentConfig,
    key: Key[Array, ""],
) -> DeepState:
    bonus_of = bonus_named(config.imagination.bonus)
    average = partial(_drawn_action, state.average_actor)
    reference = mean_bonus(predict, average, bonus_of, start, key=key)
    rate = config.optimism.learning_rate
    weight = tune(state.weight, jnp.mean(gathered), reference, rate)
    return replace(state, weight=weight)


def current_weight(state: DeepState, config: EnsembleAgentConfig) -> Float[Array, ""]:
    """Return λ: the constant of the settings, or what tuning or the theory has set."""
    if config.optimism.rule == "constant":
        return jnp.asarray(config.optimism.weight, jnp.float32)
    return state.weight.weight
