"""Short rollouts of a policy in the learned model, as transitions to learn from."""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key

from driftrl.agents.optimism import bonus_named
from driftrl.config.deep import ImaginationConfig
from driftrl.errors import require
from driftrl.models.ensemble import EnsemblePrediction

Predict = Callable[[Array, Array], EnsemblePrediction]
Policy = Callable[[Array, Array], Array]
"""(obs, key) ↦ action, for one observation."""
Termination = Callable[[Array, Array, Array], Array]
"""(obs, action, next_obs) ↦ whether the task ends in next_obs, or how probably.

A known condition answers with truth values, a learned one with probabilities.
"""

Reward = Callable[[Array, Array, Array], Array]
"""(obs, action, next_obs) ↦ what the step is paid."""


class TaskFunctions(NamedTuple):
    """What a learner knows of its task and need not learn."""

    termination: Termination | None = None
    reward: Reward | None = None


# A rollout goes no further where the task has ended with at least this probability.
ENDED = 0.5


def _never(obs: Array, action: Array, next_obs: Array) -> Array:
    del obs, action, next_obs
    return jnp.zeros((), bool)


NEVER_TERMINATES: Termination = _never
"""Declares that the task has no terminal states; a clock that runs out is none."""


class Imagined(NamedTuple):
    """Transitions of K layers, each one step of B rollouts."""

    obs: Float[Array, "*K S"]
    actions: Float[Array, "*K A"]
    rewards: Float[Array, "*K"]
    """What is paid, as the model or the task has it, without the bonus."""
    bonus: Float[Array, "*K"]
    """The intrinsic reward, before its weight λ."""
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
) -> Imagined:
    """Follow the policy for K steps in the learned model, from every start state.

    States and rewards follow the mean of the ensemble, or a member drawn anew for each
    step of each rollout.  The bonus is read off the prediction that made the
    transition, so it costs no further pass.  A rollout that has ended repeats its last
    transition, which stays a valid one, and is marked as no longer active.

    Args:
        predict: The model, for one observation and action.
        policy: The policy, for one observation and key.
        terminated: When the task ends; ``NEVER_TERMINATES`` if it never does.
        start: States in which the task has not ended.
        config: K, the dynamics and the bonus.
        key: Randomness of the policy and of the members.
        reward: What a step is paid, where it is known; else the model says.

    Returns:
        Transitions with the leading axes K and B.
    """
    require(
        callable(terminated),
        f"Imagination must know when the task ends, received {terminated!r}. Pass a "
        "function of (obs, action, next_obs), or NEVER_TERMINATES if it never does.",
    )

    def rollout(obs: Float[Array, " S"], key: Key[Array, ""]) -> Imagined:
        def advance(state: Float[Array, " S"], key: Key[Array, ""]) -> Imagined:
            seen = _transition(predict, policy, terminated, state, config, key)
            if reward is None:
                return seen
            paid = reward(seen.obs, seen.actions, seen.next_obs)
            return seen._replace(rewards=paid.astype(seen.rewards.dtype))

        def step(before: Imagined, key: Key[Array, ""]) -> tuple[Imagined, Imagined]:
            ended = before.terminated >= ENDED
            after = jax.tree.map(
                lambda old, new: jnp.where(ended, old, new),
                before,
                advance(before.next_obs, key),
            )
            after = after._replace(active=~ended)
            return after, after

        # Nothing has happened yet: a transition of which only the arrival is read.
        shapes = jax.eval_shape(advance, obs, key)
        nothing = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)
        keys = jax.random.split(key, config.horizon)
        return jax.lax.scan(step, nothing._replace(next_obs=obs), keys)[1]

    keys = jax.random.split(key, len(start))
    return jax.vmap(rollout, out_axes=1)(start, keys)


def _transition(
    predict: Predict,
    policy: Policy,
    terminated: Termination,
    obs: Float[Array, " S"],
    config: ImaginationConfig,
    key: Key[Array, ""],
) -> Imagined:
    action_key, member_key = jax.random.split(key)
    action = policy(obs, action_key)
    belief = predict(obs, action)
    next_obs, reward = belief.mean, belief.reward
    if config.dynamics == "member":
        count = belief.member_rewards.shape[0]
        member = jax.random.randint(member_key, (), 0, count)
        next_obs, reward = belief.member_means[member], belief.member_rewards[member]
    return Imagined(
        obs=obs,
        actions=action,
        rewards=reward,
        bonus=bonus_named(config.bonus)(belief),
        next_obs=next_obs,
        terminated=terminated(obs, action, next_obs).astype(obs.dtype),
        active=jnp.ones((), bool),
    )
