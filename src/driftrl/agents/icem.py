"""iCEM, the improved cross-entropy method: plan actions by sampling, keep the best.

Each iteration draws whole action sequences around a mean, in *coloured* noise whose
spectrum falls as 1/f^β so that the sequences are smooth, scores them, and moves mean
and spread to the *elites*, the best few of what was drawn and of what was carried over.
Between decisions the plan is shifted by a step and the elites are kept (Pinneri et al.,
Sample-efficient Cross-Entropy Method for Real-time Planning, CoRL 2020).
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from driftrl.config.gp import ICEMConfig

Actions = Float[Array, "H A"]
Objective = Callable[[Actions], Float[Array, ""]]


class Plan(NamedTuple):
    """The result of planning, and the start of the next search."""

    mean: Float[Array, "H A"]  # Centre of the search: the best sequence found
    elites: Float[Array, "K H A"]  # The best sequences found, best first
    value: Float[Array, ""]  # Objective of the best sequence


def initial_plan(config: ICEMConfig, action_size: int) -> Plan:
    """Return the plan to start from: all zeros."""
    mean = jnp.zeros((config.horizon, action_size))
    elites = jnp.zeros((config.elites, config.horizon, action_size))
    return Plan(mean, elites, jnp.zeros(()))


def shift(plan: Plan) -> Plan:
    """Move a plan on by one step; the last action is repeated."""
    mean = jnp.concatenate([plan.mean[1:], plan.mean[-1:]])
    elites = jnp.concatenate([plan.elites[:, 1:], plan.elites[:, -1:]], axis=1)
    return Plan(mean, elites, plan.value)


def coloured_noise(
    shape: tuple[int, int, int], exponent: float, *, key: Key[Array, ""]
) -> Float[Array, "B H A"]:
    """Draw unit-variance Gaussian noise with power spectrum 1/f^exponent along axis 1.

    exponent 0 is white noise, 1 pink, 2 brown.  The zero frequency, where the power
    law has a pole, gets the power of the lowest positive one.
    """
    samples, horizon, actions = shape
    if horizon == 1:
        return jax.random.normal(key, shape)
    frequency = np.fft.rfftfreq(horizon)
    frequency[0] = frequency[1]
    amplitude = frequency ** (-exponent / 2.0)
    # Frequencies strictly between 0 and Nyquist have a mirror image: twice the power.
    mirrored = np.full(len(frequency), 2.0)
    mirrored[0] = 1.0
    if horizon % 2 == 0:
        mirrored[-1] = 1.0
    # A purely real coefficient carries its whole variance in one number, not two.
    share = np.where(mirrored == 2.0, np.sqrt(0.5), 1.0)
    norm = horizon / np.sqrt(np.sum(mirrored * amplitude**2))
    parts = jax.random.normal(key, (2, samples, actions, len(frequency)))
    weight = norm * amplitude * share
    weights = jnp.asarray(np.stack([weight, weight * (mirrored == 2.0)]), parts.dtype)
    parts = parts * weights[:, None, None, :]
    spectrum = jax.lax.complex(parts[0], parts[1])
    return jnp.moveaxis(jnp.fft.irfft(spectrum, horizon, axis=-1), -1, 1)


def plan(
    objective: Objective, warm: Plan, config: ICEMConfig, *, key: Key[Array, ""]
) -> Plan:
    """Improve the plan ``warm`` on ``objective``; execute ``mean[0]`` of the result.

    ``objective`` scores one sequence of actions in [−1, 1]; higher is better.
    """
    score = jax.vmap(objective)
    carried = config.carried_elites
    spread = jnp.full_like(warm.mean, config.initial_std)
    horizon, action_size = warm.mean.shape
    shape = (config.samples, horizon, action_size)

    def iterate(
        search: tuple[Array, Array, Array], key: Key[Array, ""]
    ) -> tuple[tuple[Array, Array, Array], Float[Array, ""]]:
        mean, std, elites = search
        noise = coloured_noise(shape, config.noise_exponent, key=key)
        drawn = jnp.clip(mean[None] + std[None] * noise, -1.0, 1.0)
        # The mean is a candidate too: the centre of good plans is often better.
        candidates = jnp.concatenate([drawn, elites[:carried], mean[None]])
        scores = score(candidates)
        # top_k would put NaN first; such a plan must come last.
        scores = jnp.where(jnp.isnan(scores), -jnp.inf, scores)
        values, best = jax.lax.top_k(scores, config.elites)
        elites = candidates[best]
        keep = config.momentum
        mean = keep * mean + (1.0 - keep) * elites.mean(axis=0)
        std = keep * std + (1.0 - keep) * elites.std(axis=0)
        return (mean, std, elites), values[0]

    keys = jax.random.split(key, config.iterations)
    start = (warm.mean, spread, warm.elites)
    (_, _, elites), values = jax.lax.scan(iterate, start, keys)
    return Plan(elites[0], elites, values[-1])
