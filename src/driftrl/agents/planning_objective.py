"""The learned model, stepped like an environment."""

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from driftrl.agents.optimism import intrinsic_reward
from driftrl.models.gp import Prediction

Predict = Callable[[Array, Array], Prediction]
Reward = Callable[[Array, Array, Array], Array]


def optimistic_return(
    predict: Predict,
    reward: Reward,
    weight: Float[Array, ""],
    obs: Float[Array, " S"],
    actions: Float[Array, "H A"],
) -> Float[Array, ""]:
    """Return J(π, μ) + λ·Σ(π, μ) of an action sequence (eq:optimistic_objective).

    States follow the mean dynamics x' = μ(x, u); every step earns the known reward
    r(x, u, x') and λ = ``weight`` times ‖σ(x, u)‖₂.
    """

    def step(state: Array, action: Array) -> tuple[Array, Array]:
        prediction = predict(state, action)
        earned = reward(state, action, prediction.mean)
        return prediction.mean, earned + weight * intrinsic_reward(prediction)

    _, rewards = jax.lax.scan(step, obs, actions)
    return jnp.sum(rewards)
