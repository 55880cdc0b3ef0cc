"""Model-based SAC, the paper's practical agent (section "Practical Modification").

One update:

1. one gradient step of the ensemble on a batch of retained transitions;
2. rollouts of K decisions of the current policy in the ensemble, from that batch;
3. A gradient steps of SAC, each on one of the K + 1 layers, the collected one included,
   with the reward r + λ·b and b the bonus of the transition;
4. if λ is tuned, one step of it.

With ``policy_gradient = "model"`` the policy's updates are instead those of
``driftrl.agents.model_gradient``.

The retained data are an argument: the forgetting rule is not the agent's business.
"""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from driftrl.agents import model_gradient, rollouts, sac
from driftrl.agents.base import LearnContext, ModelMetrics, prediction_metrics
from driftrl.agents.model_free import ActorPolicy, SACAgent, actor_policy
from driftrl.agents.model_gradient import World, start_rows, world_step
from driftrl.agents.optimism import (
    WeightState,
    bonus_named,
    check_bonus,
    initial_weight,
    tune,
)
from driftrl.agents.replay import Batch, DeviceReplay, samples_of, statistics_of
from driftrl.agents.rollouts import Predict, Reward, TaskFunctions, Termination
from driftrl.agents.sac import SACState
from driftrl.config.deep import EnsembleAgentConfig
from driftrl.config.limits import LimitsConfig
from driftrl.errors import EnvironmentFault
from driftrl.models import ensemble, termination
from driftrl.models.ensemble import EnsemblePrediction, EnsembleState, Statistics
from driftrl.models.networks import MLP, mix, polyak_update, refit_inputs
from driftrl.models.termination import TerminationState
from driftrl.types import Data, Episode

# Imagined decisions by which candidates are compared, at most: errors add up.
_EVALUATED_STEPS = 200


BonusOf = Callable[[Array, Array], Array]
"""(obs, action) ↦ bonus of the transition, before its weight λ."""


class Metrics(NamedTuple):
    """Means over the last updates."""

    policy: sac.Metrics
    model_loss: Float[Array, ""]
    bonus: Float[Array, ""]


class ModelBasedState(eqx.Module):
    """Everything that the agent learns; a pytree of arrays."""

    model: EnsembleState
    termination: TerminationState | None
    """None unless the termination is learned."""
    policy: SACState
    average_actor: MLP
    """π̄, which follows the actor slowly: the reference for tuning λ, and what acts
    where the policy's gradient is the model's."""
    best_actor: MLP | None
    """Of plain observations: what acts, where candidates are evaluated."""
    weight: WeightState
    metrics: Metrics
    softly_reset: Bool[Array, ""]
    """Whether the last call of ``learn`` began with a soft reset."""


class Settings(NamedTuple):
    """What an update depends on, hashable."""

    config: EnsembleAgentConfig
    functions: TaskFunctions = TaskFunctions()
    """The task's termination and reward, where they are not learned."""
    limits: LimitsConfig = LimitsConfig()
    """Those of states have a price in the imagination."""

    @property
    def reward(self) -> Reward | None:
        """What replaces the predicted reward: none where that has a price in it."""
        return None if self.limits.priced else self.functions.reward


# ---- normalisation -----------------------------------------------------------------


@jax.jit
def _refit(state: ModelBasedState, statistics: Statistics) -> ModelBasedState:
    """Return the same functions for inputs that are normalised by other statistics.

    Networks that have learned nothing yet are not changed: they were drawn for
    normalised inputs.
    """
    fresh = state.model.updates == 0
    known = jax.tree.map(
        lambda old, new: jnp.where(fresh, new, old), state.model.statistics, statistics
    )
    state = replace(state, model=replace(state.model, statistics=known))
    before, after = known.of_obs, statistics.of_obs
    refit = lambda network: refit_inputs(network, before, after)
    policy = replace(
        state.policy,
        actor=refit(state.policy.actor),
        critics=refit(state.policy.critics),
        target_critics=refit(state.policy.target_critics),
    )
    return replace(
        state,
        model=ensemble.refit(state.model, statistics),
        policy=policy,
        average_actor=refit(state.average_actor),
    )


# ---- one update --------------------------------------------------------------------


def update(
    settings: Settings,
    state: ModelBasedState,
    replay: DeviceReplay,
    key: Key[Array, ""],
) -> tuple[ModelBasedState, Metrics]:
    """Update the model, imagine rollouts, and update the policy on them."""
    config = settings.config
    if config.policy_gradient == "model":
        return _update_through_model(settings, state, replay, key)
    rows_key, model_key, rollout_key, policy_key, weight_key = jax.random.split(key, 5)
    rows = jax.random.randint(rows_key, (config.sac.batch_size,), 0, replay.size)
    collected = batch = replay.take(rows)
    if config.model.separate_batches:
        shape = (config.model.members, model_batch(config))
        batch = replay.take(jax.random.randint(model_key, shape, 0, replay.size))
    state, model_loss = _fit_model(state, batch, collected, config)
    predict = _predict(state.model, settings)
    bonus_of = _bonus_under(predict, config)
    # A terminal state has no future: start from the state before it.
    over = collected.terminated[:, None] > 0
    start = replay.begin_at_starts(
        jnp.where(over, collected.obs, collected.next_obs),
        rows,
        config.imagination.from_starts,
    )
    layers, bonus = _layers(state, predict, collected, start, settings, rollout_key)
    state, metrics = _update_policy(state, layers, bonus, config, policy_key)
    if config.optimism.rule == "tuned":
        average = partial(sac.sample_action, state.average_actor)
        reference = mean_bonus(bonus_of, average, start, weight_key)
        # The first imagined layer holds what the current policy gathers from there.
        rate = config.optimism.learning_rate
        weight = tune(state.weight, jnp.mean(bonus[1]), reference, rate)
        state = replace(state, weight=weight)
    return state, Metrics(metrics, model_loss, jnp.mean(bonus))


def _update_through_model(
    settings: Settings,
    state: ModelBasedState,
    replay: DeviceReplay,
    key: Key[Array, ""],
) -> tuple[ModelBasedState, Metrics]:
    """Update the model, then the policy by its gradient through the model."""
    config, updates = settings.config, settings.config.learning.policy_updates
    # Few draws of many numbers: each draw costs as much as a small product.
    rows_key, noise_key, critic_key, weight_key = jax.random.split(key, 4)
    members = config.model.members if config.model.separate_batches else 1
    taught = (config.model.steps, members, model_batch(config))
    started = (updates, start_rows(config))
    shape = (math.prod(taught) + math.prod(started),)
    rows = jax.random.randint(rows_key, shape, 0, replay.size)
    for_model, for_policy = jnp.split(rows, [math.prod(taught)])
    for_model, for_policy = for_model.reshape(taught), for_policy.reshape(started)

    def fit(
        state: ModelBasedState, rows: Int[Array, "E B"]
    ) -> tuple[ModelBasedState, Array]:
        batch = replay.take(rows)
        one = jax.tree.map(lambda leaf: leaf[0], batch)
        return _fit_model(state, one if members == 1 else batch, one, config)

    state, model_loss = jax.lax.scan(fit, state, for_model)
    collected = _priced(replay.take(for_policy), state, settings)
    starts = collected.obs
    if config.imagination.collected:
        # A terminal state has no future: start from the state before it.
        over = collected.terminated[..., None] > 0
        starts = jnp.where(over, starts, collected.next_obs)
    share = config.imagination.from_starts
    starts = replay.begin_at_starts(starts, for_policy, share)
    _, reward, known = settings.functions
    world = World(
        step=world_step(state.model, config, known, reward, settings.limits),
        terminated=_ends(state, settings),
        reward=settings.reward,
        weight=current_weight(state, config),
        normalise=state.model.statistics.normalised_obs,
    )
    policy, average, metrics, bonus = jax.lax.cond(
        state.model.updates < config.learning.model_first,
        lambda: (
            state.policy,
            state.average_actor,
            state.metrics.policy,
            jnp.zeros(()),
        ),
        lambda: model_gradient.train(
            (state.policy, state.average_actor),
            world,
            collected,
            starts,
            config,
            (noise_key, critic_key),
        ),
    )
    state = replace(state, policy=policy, average_actor=average)
    if config.optimism.rule == "tuned":
        current, reference = (
            mean_bonus(
                _bonus_under(_predict(state.model, settings), config),
                lambda obs, key, actor=actor: sac.sample_action(
                    actor, world.normalise(obs), key
                ),
                replay.take(for_model[-1, 0]).obs,
                weight_key,
            )
            for actor in (policy.actor, average)
        )
        rate = config.optimism.learning_rate
        state = replace(state, weight=tune(state.weight, current, reference, rate))
    return state, Metrics(metrics, jnp.mean(model_loss), bonus)


def _predict(model: EnsembleState, settings: Settings) -> Predict:
    """Return the model's prediction of one transition, exact where it is known."""
    known, limits = settings.functions.next_obs, settings.limits
    predict = partial(ensemble.predict, model)
    if known is None and not limits.priced:
        return predict

    def adjusted(obs: Array, action: Array) -> EnsemblePrediction:
        made = predict(obs, action)
        if known is not None:
            made = rollouts.with_known(known, obs, action, made)
        if not limits.priced:
            return made
        return rollouts.with_price(limits, settings.functions.reward, obs, action, made)

    return adjusted


def model_batch(config: EnsembleAgentConfig) -> int:
    """Return the transitions that a member sees in one update."""
    return config.model.batch_size or config.sac.batch_size


def _ends(state: ModelBasedState, settings: Settings) -> Termination:
    if state.termination is not None:
        return state.termination.probability
    return settings.functions.termination or rollouts.never_terminates


def _bonus_under(predict: Predict, config: EnsembleAgentConfig) -> BonusOf:
    bonus = bonus_named(config.imagination.bonus)
    return lambda obs, action: bonus(predict(obs, action))


def _fit_model(
    state: ModelBasedState, batch: Batch, shared: Batch, config: EnsembleAgentConfig
) -> tuple[ModelBasedState, Float[Array, ""]]:
    """Take a step of the ensemble, and of the termination on the ``shared`` batch."""
    model, loss = ensemble.update(state.model, samples_of(batch), config.model)
    ends = state.termination
    if ends is not None:
        parts = (shared.obs, shared.actions, shared.next_obs)
        inputs = jnp.concatenate(parts, axis=1)
        ends = termination.update(ends, inputs, shared.terminated, config.model)
    return replace(state, model=model, termination=ends), loss


def _priced(collected: Batch, state: ModelBasedState, settings: Settings) -> Batch:
    """Return transitions whose rewards pay the price of what was outside the limits."""
    if not settings.limits.priced:
        return collected
    scale = state.model.statistics.output_std
    price = partial(
        rollouts.limit_price, settings.limits, std=jnp.zeros_like(scale), scale=scale
    )
    rows = collected.next_obs.reshape(-1, collected.next_obs.shape[-1])
    prices = jax.vmap(price)(rows).reshape(collected.rewards.shape)
    return collected._replace(rewards=collected.rewards - prices)


def _layers(
    state: ModelBasedState,
    predict: Predict,
    collected: Batch,
    start: Float[Array, "B S"],
    settings: Settings,
    key: Key[Array, ""],
) -> tuple[Batch, Float[Array, "K B"]]:
    """Return the layers, collected first, and their bonus; rollouts begin at start."""
    config = settings.config
    collected = _priced(collected, state, settings)
    followed = rollouts.imagine(
        predict,
        partial(sac.sample_action, state.policy.actor),
        _ends(state, settings),
        start,
        config.imagination,
        key=key,
        reward=settings.reward,
    )
    bonus = jax.vmap(_bonus_under(predict, config))(collected.obs, collected.actions)
    imagined = Batch(*(getattr(followed, name) for name in Batch._fields))
    layers, bonuses = jax.tree.map(
        lambda first, others: jnp.concatenate([first[None], others]),
        (collected, bonus),
        (imagined, followed.bonus),
    )
    return layers, bonuses


def _update_policy(
    state: ModelBasedState,
    layers: Batch,
    bonus: Float[Array, "K B"],
    config: EnsembleAgentConfig,
    key: Key[Array, ""],
) -> tuple[ModelBasedState, sac.Metrics]:
    weight = current_weight(state, config)
    layers = layers._replace(rewards=layers.rewards + weight * bonus)
    choice_key, update_key = jax.random.split(key)
    updates = config.learning.policy_updates
    chosen = jax.random.randint(choice_key, (updates,), 0, len(bonus))

    def step(
        carry: tuple[SACState, MLP], given: tuple[Int[Array, ""], Key[Array, ""]]
    ) -> tuple[tuple[SACState, MLP], sac.Metrics]:
        policy, average = carry
        layer, key = given
        batch = jax.tree.map(lambda column: column[layer], layers)
        policy, metrics = sac.update(policy, batch, config.sac, key=key)
        if config.optimism.rule == "tuned":
            average = polyak_update(policy.actor, average, config.sac.tau)
        return (policy, average), metrics

    keys = jax.random.split(update_key, updates)
    carry = (state.policy, state.average_actor)
    (policy, average), metrics = jax.lax.scan(step, carry, (chosen, keys))
    state = replace(state, policy=policy, average_actor=average)
    return state, jax.tree.map(jnp.mean, metrics)


def mean_bonus(
    bonus_of: BonusOf,
    policy: Callable[[Array, Array], Array],
    obs: Float[Array, "B S"],
    key: Key[Array, ""],
) -> Float[Array, ""]:
    """Return b(π), the mean bonus of a policy's actions in these states."""
    gathered = jax.vmap(lambda obs, key: bonus_of(obs, policy(obs, key)))
    return jnp.mean(gathered(obs, jax.random.split(key, len(obs))))


def current_weight(
    state: ModelBasedState, config: EnsembleAgentConfig
) -> Float[Array, ""]:
    """Return λ: the constant, or what tuning has set."""
    if config.optimism.rule == "constant":
        return jnp.asarray(config.optimism.weight, jnp.float32)
    return state.weight.weight


# ---- the agent ---------------------------------------------------------------------


class ModelBasedAgent(SACAgent):
    """SAC on rollouts in an ensemble, optimistic about its uncertainty."""

    _update = staticmethod(update)

    def __init__(
        self,
        sizes: tuple[int, int],
        config: EnsembleAgentConfig,
        *,
        capacity: int,
        steps: int,
        functions: TaskFunctions | None = None,
        limits: LimitsConfig | None = None,
    ) -> None:
        """Make an agent; see ``SACAgent``.

        ``functions`` are the task's, for ``imagination.termination = "known"`` and
        ``imagination.reward = "known"``; states have the price of their ``limits``.
        """
        super().__init__(sizes, config, capacity=capacity, steps=steps)
        self._config = config
        self.members = config.model.members
        functions = rollouts.required_functions(config, functions or TaskFunctions())
        rollouts.check_functions(functions, sizes, config.policy_gradient)
        self._settings = Settings(config, functions, limits or LimitsConfig())
        known = np.zeros(sizes[0], bool)
        if functions.next_obs is not None:
            first = (jnp.zeros(size) for size in sizes)
            known = np.asarray(rollouts.known_part(functions.next_obs, *first))
        self._unknown = np.flatnonzero(~known)
        check_bonus(config.imagination.bonus, _example(sizes, config))

    def initial_state(self, *, key: Key[Array, ""]) -> ModelBasedState:
        """Return the state before the first episode."""
        sizes, config, optimism = self._sizes, self._config, self._config.optimism
        model_key, termination_key, policy_key = jax.random.split(key, 3)
        policy = sac.init(*sizes, config.sac, key=policy_key)
        ends, weight = None, initial_weight(1.0, 0.0)
        if config.imagination.termination == "learned":
            ends = termination.initial_state(*sizes, config.model, key=termination_key)
        if optimism.rule == "tuned":
            weight = initial_weight(optimism.weight, optimism.learning_rate)
        return ModelBasedState(
            model=ensemble.initial_state(*sizes, config.model, key=model_key),
            termination=ends,
            policy=policy,
            average_actor=policy.actor,
            best_actor=policy.actor if config.learning.candidates > 1 else None,
            weight=weight,
            metrics=Metrics(sac.no_metrics(), jnp.zeros(()), jnp.zeros(())),
            softly_reset=jnp.zeros((), bool),
        )

    def policy(self, state: ModelBasedState) -> ActorPolicy:
        """Return the policy of a state."""
        metrics = state.metrics
        policy = actor_policy(state, metrics.policy)
        losses = {"model_loss": metrics.model_loss, "bonus": metrics.bonus}
        actor, limits = state.best_actor, self._settings.limits
        if actor is None:
            actor = _plain_actor(state, self._config)
        if limits.priced and limits.lookahead > 0:
            guard = partial(_guarded, self._settings, state.model, actor)
            policy = replace(policy, guard=guard)
        return replace(
            policy,
            actor=actor,
            columns={**policy.columns, **losses},
            optimism=current_weight(state, self._config),
            evaluate=partial(model_metrics, state.model, self._steps, self._unknown),
        )

    def step_members(
        self, state: ModelBasedState, obs: np.ndarray, actions: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return next observations, rewards and ends as each member expects them.

        There are as many rows for every member, and those of one follow one another.
        """
        rows = np.asarray(obs, np.float32), np.asarray(actions, np.float32)
        return jax.device_get(_step_of_members(self._settings, state, *rows))

    def soft_reset(
        self, state: ModelBasedState, key: Key[Array, ""]
    ) -> ModelBasedState:
        """Mix the networks of model and policy with fresh ones.

        π̄ is mixed with the same fresh actor as π; the normalisation belongs to the
        data and stays.
        """
        config, model, rates = self._config, state.model, self._config.soft_reset
        model_key, policy_key = jax.random.split(key)
        if rates.model > 0:
            new = ensemble.initial_state(*self._sizes, config.model, key=model_key)
            members, trained = (
                None if old is None else mix(old, new.members, rates.model)
                for old in (model.members, model.trained)
            )
            model = replace(
                model, members=members, trained=trained, optimiser=new.optimiser
            )
        fresh = sac.init(*self._sizes, config.sac, key=policy_key)
        return replace(
            state,
            model=model,
            policy=sac.soft_reset(state.policy, fresh, rates.policy),
            average_actor=mix(state.average_actor, fresh.actor, rates.policy),
        )

    def _train_between(
        self,
        state: ModelBasedState,
        replay: DeviceReplay,
        context: LearnContext,
        key: Key[Array, ""],
    ) -> ModelBasedState:
        """Train; with several candidates, the best of them acts."""
        count = self._config.learning.candidates
        if count == 1:
            return super()._train_between(state, replay, context, key)
        # What acted before the first update, or before a soft reset, is no candidate.
        learned = int(state.policy.updates) > 0 and not bool(state.softly_reset)
        actors = [state.best_actor] if learned else []
        total, parts = self._updates(state, context), [context]
        if context.seconds is None:
            counts = np.diff(np.linspace(0, total, count + 1).astype(int)).tolist()
            parts = [replace(context, updates=updates) for updates in counts]
        for number, part in enumerate(parts):
            part_key = jax.random.fold_in(key, number)
            state = super()._train_between(state, replay, part, part_key)
            actors.append(_plain_actor(state, self._config))
        steps = min(self._steps, _EVALUATED_STEPS)
        scores = [_score(self._settings, steps, state, replay, a, key) for a in actors]
        best = int(np.argmax(np.nan_to_num(scores, nan=-np.inf)))
        return replace(state, best_actor=actors[best])

    def refresh(self, state: ModelBasedState, replay: DeviceReplay) -> ModelBasedState:
        """Normalise by exactly the transitions of the replay.

        With the gradient through the model this changes the layers so that no network
        changes as a function, and the policy learns from normalised observations.
        """
        statistics = statistics_of(replay)
        if self._config.policy_gradient == "critic":
            return replace(state, model=replace(state.model, statistics=statistics))
        return _refit(state, statistics.with_plain_actions())

    def learn(
        self,
        state: ModelBasedState,
        data: Data,
        context: LearnContext,
        *,
        key: Key[Array, ""],
    ) -> ModelBasedState:
        """Reset softly if it is time, then train on exactly ``data``."""
        if self._config.imagination.termination == "absent" and data.terminated.any():
            raise EnvironmentFault(
                f"The task terminated before episode {context.episode}, but "
                "agent.imagination.termination = 'absent' says that it never does. "
                "Choose 'known' or 'learned', or make the environment report "
                "truncation where only the time ran out."
            )
        return super().learn(state, data, context, key=key)


def _plain_actor(state: ModelBasedState, config: EnsembleAgentConfig) -> MLP:
    """Return the newest actor that may act, as a function of plain observations."""
    if config.policy_gradient == "critic":
        return state.policy.actor
    known = state.model.statistics.of_obs
    unit = (jnp.zeros_like(known[0]), jnp.ones_like(known[1]))
    return refit_inputs(state.average_actor, known, unit)


@partial(jax.jit, static_argnames="settings")
def _guarded(
    settings: Settings,
    model: EnsembleState,
    actor: MLP,
    obs: Float[Array, " S"],
    action: Float[Array, " A"],
) -> Float[Array, " A"]:
    """Return the action itself, or the nearest one that keeps the limits."""
    predict = _predict(model, settings._replace(limits=LimitsConfig()))
    mode = lambda obs: sac.policy(actor, obs).mode()
    return rollouts.nearest_within(settings.limits, predict, mode, obs, action)


@partial(jax.jit, static_argnames=("settings", "steps"))
def _score(
    settings: Settings,
    steps: int,
    state: ModelBasedState,
    replay: DeviceReplay,
    actor: MLP,
    key: Key[Array, ""],
) -> Float[Array, ""]:
    """Return the optimistic objective of an actor in the model, from start states."""
    followed = rollouts.imagine(
        _predict(state.model, settings),
        lambda obs, key: sac.policy(actor, obs).mode(),
        _ends(state, settings),
        replay.starts,
        replace(settings.config.imagination, horizon=steps),
        key=key,
        reward=settings.reward,
    )
    weight = current_weight(state, settings.config)
    gained = followed.rewards + weight * followed.bonus
    return jnp.mean(jnp.sum(jnp.where(followed.active, gained, 0.0), axis=0))


@partial(jax.jit, static_argnames="settings")
def _step_of_members(
    settings: Settings,
    state: ModelBasedState,
    obs: Float[Array, "N S"],
    actions: Float[Array, "N A"],
) -> tuple[Float[Array, "N S"], Float[Array, " N"], Bool[Array, " N"]]:
    """Return next states, rewards and ends of N/E rows for each member, in turn."""
    count, predict = settings.config.model.members, _predict(state.model, settings)
    reward = settings.functions.reward

    def step(member: Array, obs: Array, action: Array) -> tuple[Array, Array, Array]:
        made = predict(obs, action)
        if settings.reward is not None:
            made = rollouts.with_price(None, reward, obs, action, made)
        next_obs = made.member_means[member]
        ended = _ends(state, settings)(obs, action, next_obs)
        return next_obs, made.member_rewards[member], ended >= rollouts.ENDED

    members = jnp.repeat(jnp.arange(count), len(obs) // count)
    return jax.vmap(step)(members, obs, actions)


def _example(sizes: tuple[int, int], config: EnsembleAgentConfig) -> EnsemblePrediction:
    """Return the shapes of a prediction."""
    states, members = sizes[0], config.model.members
    outputs = (states + 1,)
    shapes = ((states,), (), outputs, outputs, outputs, (members, states), (members,))
    return EnsemblePrediction(
        *(jax.ShapeDtypeStruct(shape, jnp.float32) for shape in shapes)  # pyright: ignore[reportArgumentType]
    )


def model_metrics(
    model: EnsembleState,
    steps: int,
    learned: Int[np.ndarray, " L"],
    episode: Episode,
    scale: float = 1.0,
) -> ModelMetrics:
    """Evaluate the ensemble on an episode, padded to ``steps`` transitions.

    Only those entries of the observation count that have to be ``learned``.
    """
    count, states = episode.obs.shape
    rows = max(steps, count)
    obs = np.zeros((rows, states), np.float32)
    actions = np.zeros((rows, episode.actions.shape[1]), np.float32)
    obs[:count], actions[:count] = episode.obs, episode.actions
    made = _predict_all(model, jnp.asarray(obs), jnp.asarray(actions))
    parts = (made.mean, made.epistemic_std, made.aleatoric_std)
    seen = replace(
        episode, obs=episode.obs[:, learned], next_obs=episode.next_obs[:, learned]
    )
    return prediction_metrics(
        seen,
        *(np.asarray(part, np.float64)[:count, learned] for part in parts),
        scale=scale,
    )


@jax.jit
def _predict_all(
    model: EnsembleState, obs: Float[Array, "T S"], actions: Float[Array, "T A"]
) -> EnsemblePrediction:
    return jax.vmap(partial(ensemble.predict, model))(obs, actions)
