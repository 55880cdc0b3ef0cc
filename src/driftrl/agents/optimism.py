"""How epistemic uncertainty becomes an intrinsic reward."""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

import jax.numpy as jnp
from jaxtyping import Array, Float

from driftrl.errors import unknown_name
from driftrl.models.networks import safe_sqrt


@runtime_checkable
class Belief(Protocol):
    """What a bonus reads of a prediction, an entry for every output j."""

    @property
    def epistemic_std(self) -> Float[Array, " O"]:
        """σ_j, what more data would remove."""
        ...

    @property
    def aleatoric_std(self) -> Float[Array, " O"]:
        """σ_al,j, what no data removes."""
        ...

    @property
    def scale(self) -> Float[Array, " O"]:
        """Spread of the output in the retained data."""
        ...


Bonus = Callable[[Belief], Float[Array, ""]]


def intrinsic_reward(prediction: Belief) -> Float[Array, ""]:
    """Return ‖σ(x, u)‖₂, σ in units of the spread of every output.

    The paper's Σ (eq:sigma_trajectory) sums this along a trajectory.  Without units the
    weight λ means the same for an angle and for a speed, and from task to task.
    """
    relative = prediction.epistemic_std / prediction.scale
    return safe_sqrt(jnp.sum(relative**2))


def information_gain(prediction: Belief) -> Float[Array, ""]:
    """Return mean_j log(1 + σ_j²/σ_al,j²), what a transition tells of the dynamics.

    For Gaussian beliefs this is twice the mutual information, on average over outputs.
    It has no unit, and grows but as the logarithm of the uncertainty.
    """
    ratio = prediction.epistemic_std / prediction.aleatoric_std
    return jnp.mean(jnp.log1p(ratio**2))


BONUSES: dict[str, Bonus] = {
    "norm": intrinsic_reward,
    "information_gain": information_gain,
}


def bonus_named(name: str) -> Bonus:
    """Return the bonus of this name."""
    if name not in BONUSES:
        raise unknown_name("bonus", name, BONUSES)
    return BONUSES[name]
