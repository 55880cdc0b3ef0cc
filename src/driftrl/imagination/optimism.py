"""How epistemic uncertainty becomes an intrinsic reward."""

import jax.numpy as jnp
from jaxtyping import Array, Float

from driftrl.models.base import Prediction


def intrinsic_reward(prediction: Prediction) -> Float[Array, ""]:
    """Return ‖σ(x, u)‖₂, σ in units of the spread of the state changes.

    The paper's Σ (eq:sigma_trajectory) sums this along a trajectory.  Without units the
    weight λ means the same for an angle and for a speed, and from task to task.
    """
    relative = prediction.epistemic_std / prediction.scale
    return jnp.sqrt(jnp.sum(relative**2))
