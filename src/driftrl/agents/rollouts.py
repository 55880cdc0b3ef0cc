"""Short rollouts of a policy in the learned model, as transitions to learn from."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from driftrl.agents.optimism import bonus_named
from driftrl.config.deep import EnsembleAgentConfig, ImaginationConfig
from driftrl.config.limits import LimitsConfig
from driftrl.errors import InputError, require
from driftrl.models.ensemble import EnsemblePrediction
from driftrl.models.networks import safe_sqrt

Predict = Callable[[Array, Array], EnsemblePrediction]
Policy = Callable[[Array, Array], Array]
"""(obs, key) ↦ action, for one observation."""
Termination = Callable[[Array, Array, Array], Array]
"""(obs, action, next_obs) ↦ whether the task ends in next_obs.

A known condition returns truth values, a learned one probabilities.
"""
Reward = Callable[[Array, Array, Array], Array]
"""(obs, action, next_obs) ↦ reward."""

NextObs = Callable[[Array, Array, Array], Array]
"""(obs, action, prediction of next_obs) ↦ the same with the exact values of a part."""


class TaskFunctions(NamedTuple):
    """What is known about a task, and need not be learned; JAX must trace it."""

    termination: Termination | None = None
    reward: Reward | None = None
    next_obs: NextObs | None = None
    """Of observations that hold something known, such as the last actions."""


# Steps between 0 and 1 at which actions are tried, shared by their entries.
_TRIED = 8
# A rollout stops where the task has ended with at least this probability.
ENDED = 0.5


def with_known(
    known: NextObs, obs: Array, action: Array, prediction: EnsemblePrediction
) -> EnsemblePrediction:
    """Return a prediction of which a part is known, without uncertainty there."""
    put = lambda values: known(obs, action, values)
    sure = jnp.append(known_part(known, obs, action), False)
    return prediction._replace(
        mean=put(prediction.mean),
        member_means=jax.vmap(put)(prediction.member_means),
        epistemic_std=jnp.where(sure, 0.0, prediction.epistemic_std),
    )


def known_part(known: NextObs, obs: Array, action: Array) -> Bool[Array, " S"]:
    """Return which entries of the next observation are known: not those passed on."""
    return ~jnp.isnan(known(obs, action, jnp.full_like(obs, jnp.nan)))


@cache  # the same functions again, which are compiled once
def limited(
    functions: TaskFunctions, limits: LimitsConfig, observed: int
) -> TaskFunctions:
    """Return what is known of a task of ``observed`` numbers under limits of actions.

    The task's functions get its own observations, and the action that was applied.
    """
    if not limits.limits_actions:
        return functions
    acted = lambda obs, action: limits.applied(obs[observed:], action)

    def adapted(function: Reward) -> Reward:
        return lambda obs, action, next_obs: function(
            obs[:observed], acted(obs, action), next_obs[:observed]
        )

    def next_obs(obs: Array, action: Array, made: Array) -> Array:
        after = made[:observed]
        if functions.next_obs is not None:
            after = functions.next_obs(obs[:observed], acted(obs, action), after)
        return jnp.concatenate([after, acted(obs, action).astype(made.dtype)])

    ends, reward = functions.termination, functions.reward
    known = next_obs if limits.observes_action else functions.next_obs
    return TaskFunctions(ends and adapted(ends), reward and adapted(reward), known)


def limit_price(
    limits: LimitsConfig, mean: Array, std: Array, scale: Array
) -> Float[Array, ""]:
    """Return the price of an observation whose μ ± βσ is not within the limits.

    Of an entry d outside, d in units of its usual change, it is price·d/(1 + d).
    """
    entries, low, high = np.array(limits.states).T
    entries = entries.astype(int)
    reach = limits.margin * std[entries]
    below, above = low - (mean[entries] - reach), mean[entries] + reach - high
    beyond = jnp.maximum(jnp.maximum(below, above), 0.0) / scale[entries]
    return limits.price * jnp.sum(beyond / (1.0 + beyond)).astype(mean.dtype)


def price_of(limits: LimitsConfig, made: EnsemblePrediction) -> Float[Array, ""]:
    """Return the price of what is predicted for a transition."""
    std = safe_sqrt(made.epistemic_std**2 + made.aleatoric_std**2)
    return limit_price(limits, made.mean, std, made.scale)


def with_price(
    limits: LimitsConfig | None,
    reward: Reward | None,
    obs: Array,
    action: Array,
    made: EnsemblePrediction,
) -> EnsemblePrediction:
    """Return a prediction whose rewards are known, if they are, less the price."""
    if reward is not None:
        known = partial(reward, obs, action)
        made = made._replace(
            reward=known(made.mean).astype(made.reward.dtype),
            member_rewards=jax.vmap(known)(made.member_means).astype(made.reward.dtype),
        )
    if limits is None or not limits.priced:
        return made
    price = price_of(limits, made)
    return made._replace(
        reward=made.reward - price, member_rewards=made.member_rewards - price
    )


def nearest_within(
    limits: LimitsConfig,
    predict: Predict,
    mode: Callable[[Array], Array],
    obs: Float[Array, " S"],
    wanted: Float[Array, " A"],
) -> Float[Array, " A"]:
    """Return the action closest to the wanted one that keeps the limits of states.

    Actions are tried in the model for ``lookahead`` steps, followed by the policy's
    mode or by themselves, whichever is cheaper.  Where none keeps the limits, it is
    the one with the least price.
    """

    def price(action: Float[Array, " A"]) -> Float[Array, ""]:
        def step(before: tuple[Array, Array], first: Array) -> Any:
            obs, held = before
            made = predict(obs, jnp.where(first | held, action, mode(obs)))
            return (made.mean, held), price_of(limits, made)

        def follow(held: Array) -> Array:
            first = jnp.arange(limits.lookahead) == 0
            return jnp.sum(jax.lax.scan(step, (obs, held), first)[1])

        return jnp.min(jax.vmap(follow)(jnp.array([False, True])))

    def search() -> Float[Array, " A"]:
        # As wanted, the mode, and each entry at some levels with the others as wanted.
        half, entries = max(1, _TRIED // len(wanted)), jnp.eye(len(wanted)) > 0
        levels = jnp.linspace(-1.0, 1.0, 2 * half + 1)
        put = lambda entry, level: jnp.where(entry, level, wanted)
        every = jax.vmap(jax.vmap(put, (None, 0)), (0, None))(entries, levels)
        whole = jnp.stack([wanted, mode(obs).astype(wanted.dtype)])
        tried = jnp.concatenate([whole, every.reshape(-1, len(wanted))])
        prices = jax.vmap(price)(tried)
        distance = jnp.sum((tried - wanted[None]) ** 2, axis=1)
        cheapest = prices <= jnp.nanmin(prices)
        return tried[jnp.argmin(jnp.where(cheapest, distance, jnp.inf))]

    return jax.lax.cond(price(wanted) > 0, search, lambda: wanted)


def never_terminates(obs: Array, action: Array, next_obs: Array) -> Array:
    """Return False: the task has no terminal states."""
    del obs, action, next_obs
    return jnp.zeros((), bool)


class Rollouts(NamedTuple):
    """Transitions of K layers, each one step of B rollouts."""

    obs: Float[Array, "*K S"]
    actions: Float[Array, "*K A"]
    rewards: Float[Array, "*K"]
    """Without the bonus."""
    bonus: Float[Array, "*K"]
    """The bonus, before its weight λ."""
    next_obs: Float[Array, "*K S"]
    terminated: Float[Array, "*K"]
    """1 where the task ended in ``next_obs``, or the probability that it did."""
    active: Bool[Array, "*K"]
    """False where the rollout had ended before: the row repeats its last transition."""


def imagine(
    predict: Predict,
    policy: Policy,
    terminated: Termination,
    start: Float[Array, "B S"],
    config: ImaginationConfig,
    *,
    key: Key[Array, ""],
    reward: Reward | None = None,
) -> Rollouts:
    """Follow the policy for K steps in the learned model, from every start state.

    States and rewards follow the mean of the ensemble, or a member drawn for each step
    of each rollout; a known reward function replaces the predicted reward.  The bonus
    is computed from the prediction that made the transition, without another pass.  A
    rollout that has ended repeats its last transition; none has at ``start``.
    """

    def rollout(obs: Float[Array, " S"], key: Key[Array, ""]) -> Rollouts:
        def advance(obs: Float[Array, " S"], key: Key[Array, ""]) -> Rollouts:
            action_key, member_key = jax.random.split(key)
            action = policy(obs, action_key)
            made = predict(obs, action)
            next_obs, earned = made.mean, made.reward
            if config.dynamics == "member":
                count = made.member_rewards.shape[0]
                member = jax.random.randint(member_key, (), 0, count)
                next_obs = made.member_means[member]
                earned = made.member_rewards[member]
            ended = terminated(obs, action, next_obs).astype(obs.dtype)
            if reward is not None:
                earned = reward(obs, action, next_obs).astype(earned.dtype)
            bonus = bonus_named(config.bonus)(made)
            transition = (obs, action, earned, bonus, next_obs, ended)
            return Rollouts(*transition, active=jnp.ones((), bool))

        def step(before: Rollouts, key: Key[Array, ""]) -> tuple[Rollouts, Rollouts]:
            ended = before.terminated >= ENDED
            after = jax.tree.map(
                lambda old, new: jnp.where(ended, old, new),
                before,
                advance(before.next_obs, key),
            )
            after = after._replace(active=~ended)
            return after, after

        # A blank transition before the first, of which only next_obs is read.
        shapes = jax.eval_shape(advance, obs, key)
        blank = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        keys = jax.random.split(key, config.horizon)
        return jax.lax.scan(step, blank._replace(next_obs=obs), keys)[1]

    keys = jax.random.split(key, len(start))
    return jax.vmap(rollout, out_axes=1)(start, keys)


def required_functions(
    config: EnsembleAgentConfig, functions: TaskFunctions
) -> TaskFunctions:
    """Keep only the task functions that the config asks for."""
    instead = {
        "termination": "'learned' if it can terminate, or 'absent' if it never does",
        "reward": "'learned'",
    }
    for name, choices in instead.items():
        if getattr(config.imagination, name) != "known":
            functions = functions._replace(**{name: None})
            continue
        require(
            getattr(functions, name) is not None,
            f"agent.imagination.{name} = 'known' needs a {name} function, and this "
            f"task has none. Choose {choices}.",
        )
    return functions


def check_functions(
    functions: TaskFunctions, sizes: tuple[int, int], gradient: str
) -> None:
    """Refuse task functions that JAX can't trace, or not differentiate if it has to."""
    states, actions = (jnp.full(size, 0.1) for size in sizes)
    step = (states, actions, states)
    for name, function in functions._asdict().items():
        if function is None:
            continue
        differentiate = name == "reward" and gradient == "model"
        try:
            if differentiate:
                slopes = jax.jit(jax.grad(function, argnums=(0, 1, 2)))(*step)
                finite = all(bool(jnp.isfinite(slope).all()) for slope in slopes)
                require(finite, "its slope is not finite")
            else:
                jax.eval_shape(function, *step)
        except Exception as error:
            verb = "differentiate" if differentiate else "trace"
            instead = (
                f"agent.imagination.{name} = 'learned'"
                + " or agent.policy_gradient = 'critic'" * differentiate
            )
            raise InputError(
                f"JAX can't {verb} the task's {name} function "
                f"({type(error).__name__}: {str(error).splitlines()[0]}). Write it "
                f"with jax.numpy on floating-point numbers, or choose {instead}."
            ) from error
