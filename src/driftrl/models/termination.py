"""A learned termination condition: the probability that the task ended in a state.

One network of (obs, action, next_obs), trained by cross entropy on the retained
transitions, for tasks that terminate by a rule that is not known as a function.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key, PyTree

from driftrl.config.deep import EnsembleConfig
from driftrl.models.networks import MLP, adam, apply_gradients


class TerminationState(eqx.Module):
    """The network and the state of its optimiser."""

    network: MLP
    optimiser: PyTree

    def probability(
        self,
        obs: Float[Array, " S"],
        action: Float[Array, " A"],
        next_obs: Float[Array, " S"],
    ) -> Float[Array, ""]:
        """Return the probability that the task ended in ``next_obs``."""
        inputs = jnp.concatenate([obs, action, next_obs])
        return jax.nn.sigmoid(self.network(inputs)[0])


def initial_state(
    state_size: int, action_size: int, config: EnsembleConfig, *, key: Key[Array, ""]
) -> TerminationState:
    """Return a fresh network, as wide as a member of the ensemble."""
    sizes = (2 * state_size + action_size, *config.hidden, 1)
    network = MLP(sizes, jax.nn.silu, last_gain=1.0, key=key)
    memory = adam(config.learning_rate, config.gradient_clip).init(network)  # pyright: ignore[reportArgumentType]
    return TerminationState(network, memory)


def update(
    state: TerminationState,
    inputs: Float[Array, "B I"],
    terminated: Float[Array, " B"],
    config: EnsembleConfig,
) -> TerminationState:
    """Take one gradient step on rows of (obs, action, next_obs).

    The loss is mean −d·log p − (1 − d)·log(1 − p), from the logits of p.
    """

    def cross_entropy(network: MLP) -> Float[Array, ""]:
        logits = jax.vmap(network)(inputs)[:, 0]
        return jnp.mean(jax.nn.softplus(logits) - terminated * logits)

    gradient = jax.grad(cross_entropy)(state.network)
    rule = adam(config.learning_rate, config.gradient_clip)
    return TerminationState(
        *apply_gradients(rule, gradient, state.optimiser, state.network)
    )
