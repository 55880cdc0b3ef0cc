"""The weight λ of the intrinsic reward: held constant, or tuned online.

Tuning follows MaxInfoRL (Sukhija et al., 2025): the policy is held to gather as much
bonus as its own moving average π̄ does, and λ is the price of falling short::

    L(log λ) = log λ · (b(π) − b(π̄))

With b the mean bonus on the same observations, λ grows while the current policy
gathers less than its moving average and shrinks while it gathers more.  A constant λ
is a weight that is never tuned.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, Key, PyTree

from driftrl.agents.optimism import Bonus
from driftrl.agents.rollouts import Policy, Predict
from driftrl.errors import require
from driftrl.models.networks import apply_gradients

# λ stays within these bounds, which only guard the exponential.
LOG_WEIGHT_RANGE = (math.log(1e-8), math.log(1e8))


class WeightState(eqx.Module):
    """λ and what tuning it remembers; a pytree of arrays alone."""

    log_weight: Float[Array, ""]
    """log λ."""
    optimiser: PyTree

    @property
    def weight(self) -> Float[Array, ""]:
        """λ itself."""
        return jnp.exp(self.log_weight)


def initial_weight(weight: float, learning_rate: float) -> WeightState:
    """Return λ = ``weight`` before any tuning; it must be positive, to have a log."""
    require(
        math.isfinite(weight) and weight > 0,
        f"A weight that is tuned must start positive, received {weight!r}. Hold it "
        "constant if it is to be 0.",
    )
    log_weight = jnp.log(jnp.asarray(weight, jnp.float32))
    return WeightState(log_weight, optax.adam(learning_rate).init(log_weight))


def with_weight(state: WeightState, weight: float) -> WeightState:
    """Return λ set from outside, as by the theory, within its bounds."""
    log_weight = math.log(max(weight, math.exp(LOG_WEIGHT_RANGE[0])))
    clipped = min(log_weight, LOG_WEIGHT_RANGE[1])
    return WeightState(jnp.asarray(clipped, jnp.float32), state.optimiser)


def weight_loss(
    log_weight: Float[Array, ""],
    current: Float[Array, ""],
    reference: Float[Array, ""],
) -> Float[Array, ""]:
    """Return log λ·(b(π) − b(π̄)): linear in log λ, its slope the surplus of bonus."""
    return log_weight * jax.lax.stop_gradient(current - reference)


def tune(
    state: WeightState,
    current: Float[Array, ""],
    reference: Float[Array, ""],
    learning_rate: float,
) -> WeightState:
    """Take one step of Adam on log λ, from the mean bonus of π and of π̄."""
    gradient = jax.grad(weight_loss)(state.log_weight, current, reference)
    rule = optax.adam(learning_rate)
    stepped, memory = apply_gradients(rule, gradient, state.optimiser, state.log_weight)
    return WeightState(jnp.clip(stepped, *LOG_WEIGHT_RANGE), memory)


def mean_bonus(
    predict: Predict,
    policy: Policy,
    bonus: Bonus,
    obs: Float[Array, "B S"],
    *,
    key: Key[Array, ""],
) -> Float[Array, ""]:
    """Return b(π), the mean bonus that a policy's actions gather in given states.

    One pass of the ensemble.  Where rollouts were imagined from ``obs``, their first
    layer holds the same for the current policy already.
    """

    def gathered(obs: Float[Array, " S"], key: Key[Array, ""]) -> Float[Array, ""]:
        return bonus(predict(obs, policy(obs, key)))

    return jnp.mean(jax.vmap(gathered)(obs, jax.random.split(key, len(obs))))
