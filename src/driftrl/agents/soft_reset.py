"""Soft resets: pull parameters towards fresh ones, φ ← (1 − α)·φ + α·φ₀.

Part of what was learned is forgotten on purpose, so that the rest can be relearned.
α = 0 changes nothing at all, not even an optimiser; α = 1 starts over.
"""

from dataclasses import replace
from typing import TypeVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from driftrl.agents import sac
from driftrl.agents.sac import SACState
from driftrl.config.deep import EnsembleConfig, SACConfig
from driftrl.errors import require
from driftrl.models import ensemble
from driftrl.models.ensemble import EnsembleState

Parameters = TypeVar("Parameters")


def mix(parameters: Parameters, fresh: Parameters, rate: float) -> Parameters:
    """Return (1 − α)·φ + α·φ₀, leaf by leaf, for any pytree of parameters."""
    require(0 <= rate <= 1, f"A soft reset needs α in [0, 1], received {rate!r}.")
    if rate == 0:
        return parameters
    if rate == 1:  # also out of parameters that are no longer numbers
        return fresh
    return _mixed(parameters, fresh, jnp.asarray(rate, jnp.float32))


@jax.jit
def _mixed(
    parameters: Parameters, fresh: Parameters, rate: Float[Array, ""]
) -> Parameters:
    return jax.tree.map(
        lambda old, new: (1.0 - rate) * old + rate * new, parameters, fresh
    )


def soft_reset(
    state: SACState, rate: float, config: SACConfig, *, key: Key[Array, ""]
) -> SACState:
    """Mix actor and critics with fresh ones, and restart their optimisers.

    The target critics are mixed with the same φ₀ as the critics, so that they stay as
    far behind them as they were, times 1 − α.  The temperature is not a network: it
    and its optimiser go on.
    """
    require(0 <= rate <= 1, f"A soft reset needs α in [0, 1], received {rate!r}.")
    if rate == 0:
        return state
    fresh = sac.init(*sac.sizes(state), config, key=key)
    return replace(
        state,
        actor=mix(state.actor, fresh.actor, rate),
        critics=mix(state.critics, fresh.critics, rate),
        target_critics=mix(state.target_critics, fresh.critics, rate),
        actor_optimiser=fresh.actor_optimiser,
        critic_optimiser=fresh.critic_optimiser,
    )


def soft_reset_model(
    state: EnsembleState,
    rate: float,
    sizes: tuple[int, int],
    config: EnsembleConfig,
    *,
    key: Key[Array, ""],
) -> EnsembleState:
    """Mix all members with fresh ones, and restart their optimiser.

    The normalisation belongs to the data and stays.
    """
    require(0 <= rate <= 1, f"A soft reset needs α in [0, 1], received {rate!r}.")
    if rate == 0:
        return state
    fresh = ensemble.initial_state(*sizes, config, key=key)
    return replace(
        state,
        members=mix(state.members, fresh.members, rate),
        optimiser=fresh.optimiser,
    )
