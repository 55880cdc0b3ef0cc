"""Optimism: the bonus for epistemic uncertainty, and its weight λ.

A *bonus* is any function of a prediction that returns a scalar and that JAX can trace.
Its weight is a constant, the paper's λ_{n,m} (of a Gaussian process), or tuned online
as in MaxInfoRL (Sukhija et al., 2025): the policy should gather as much bonus as its
moving average π̄ does, and λ is the price of falling short::

    L(log λ) = log λ · (b(π) − b(π̄))
"""

import math
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

import equinox as eqx
import jax
import jax.numpy as jnp
import optax
from jaxtyping import Array, Float, PyTree

from driftrl.agents.base import LearnContext
from driftrl.config.gp import TheoryConfig
from driftrl.errors import InputError, require, unknown_name
from driftrl.models.networks import apply_gradients, safe_sqrt
from driftrl.plugins import load_object
from driftrl.theory import confidence

# λ stays within these bounds, which only guard the exponential.
LOG_WEIGHT_RANGE = (math.log(1e-8), math.log(1e8))


@runtime_checkable
class Uncertainty(Protocol):
    """What a bonus may read of a prediction, one entry for every output j."""

    @property
    def epistemic_std(self) -> Float[Array, " O"]:
        """σ_j: the uncertainty that more data would remove."""
        ...

    @property
    def aleatoric_std(self) -> Float[Array, " O"]:
        """σ_al,j: the noise."""
        ...

    @property
    def scale(self) -> Float[Array, " O"]:
        """Spread of the output in the retained data."""
        ...


Bonus = Callable[[Any], Any]
"""Prediction ↦ scalar."""


def norm(prediction: Uncertainty) -> Float[Array, ""]:
    """Return ‖σ(x, u)‖₂, σ in units of the spread of every output.

    The paper's Σ (eq:sigma_trajectory) sums this along a trajectory.  Without units, λ
    means the same for an angle and for a speed.
    """
    relative = prediction.epistemic_std / prediction.scale
    return safe_sqrt(jnp.sum(relative**2))


def information_gain(prediction: Uncertainty) -> Float[Array, ""]:
    """Return mean_j log(1 + σ_j²/σ_al,j²), the information in a transition.

    For Gaussian beliefs this is twice the mutual information, averaged over outputs.
    """
    ratio = prediction.epistemic_std / prediction.aleatoric_std
    return jnp.mean(jnp.log1p(ratio**2))


BONUSES: dict[str, Bonus] = {"norm": norm, "information_gain": information_gain}


def bonus_named(name: str) -> Bonus:
    """Return a built-in bonus by name, or a user's by "module:function"."""
    if name in BONUSES:
        return BONUSES[name]
    if ":" not in name:
        raise unknown_name("bonus", name, BONUSES)
    function = load_object(name)
    require(callable(function), f"The bonus {name!r} is not a function.")
    return lambda prediction: jnp.asarray(
        function(prediction), prediction.epistemic_std.dtype
    )


def check_bonus(name: str, prediction: PyTree) -> None:
    """Refuse a bonus that does not map a prediction of these shapes to a scalar."""
    try:
        value = jax.eval_shape(bonus_named(name), prediction)
    except InputError:
        raise
    except Exception as error:
        raise InputError(
            f"The bonus {name!r} failed with {type(error).__name__}: {error}. A bonus "
            "takes a prediction with the arrays epistemic_std, aleatoric_std and "
            "scale, and must be traceable by JAX."
        ) from error
    require(
        value.shape == (),
        f"The bonus {name!r} must return a scalar, but returns shape {value.shape}.",
    )


class WeightState(eqx.Module):
    """λ and the optimiser that tunes it; a pytree of arrays."""

    log_weight: Float[Array, ""]  # log λ
    optimiser: PyTree

    @property
    def weight(self) -> Float[Array, ""]:
        """λ itself."""
        return jnp.exp(self.log_weight)


def initial_weight(weight: float, learning_rate: float) -> WeightState:
    """Return λ = ``weight`` > 0 before any tuning."""
    log_weight = jnp.log(jnp.asarray(weight, jnp.float32))
    return WeightState(log_weight, optax.adam(learning_rate).init(log_weight))


def tune(
    state: WeightState,
    current: Float[Array, ""],
    reference: Float[Array, ""],
    learning_rate: float,
) -> WeightState:
    """Take one step of Adam on log λ, given the mean bonus of π and of π̄."""
    slope = current - reference  # of log λ·(b(π) − b(π̄)), which is linear in log λ
    stepped, memory = apply_gradients(
        optax.adam(learning_rate), slope, state.optimiser, state.log_weight
    )
    return WeightState(jnp.clip(stepped, *LOG_WEIGHT_RANGE), memory)


def theory_weight(
    gain: float,
    noise_std: float,
    outputs: int,
    context: LearnContext,
    settings: TheoryConfig,
) -> float:
    """Return λ = R_max·T·β/σ, with the corrected β, from the gain of the data.

    It holds for any forgetting rule and for all n at once: the data set may begin anew
    at every episode, and the n-th gets the share 6/(π²n²) of the failure probability.
    """
    setting = confidence.Setting(
        rkhs_bound=settings.rkhs_bound,
        noise_std=noise_std,
        outputs=outputs,
        failure_probability=settings.failure_probability,
        steps=context.steps,
        reward_max=settings.reward_max,
    )
    width = confidence.corrected_confidence_width(
        setting, gain, (math.pi * context.episode) ** 2 / 6
    )
    return float(confidence.exploration_weight(setting, width))
