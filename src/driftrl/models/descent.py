"""Steps down a gradient, with Optax."""

from typing import TypeVar

import jax
import optax
from jaxtyping import PyTree

Parameters = TypeVar("Parameters")


def adam(learning_rate: float, clip: float) -> optax.GradientTransformation:
    """Return Adam behind a limit on the global norm of the gradient."""
    return optax.chain(optax.clip_by_global_norm(clip), optax.adam(learning_rate))


def descend(
    rule: optax.GradientTransformation,
    gradient: Parameters,
    memory: PyTree,
    parameters: Parameters,
) -> tuple[Parameters, PyTree]:
    """Take one step of a rule; return the parameters and what the rule remembers."""
    # Optax counts in integers and mixes them with floats.
    with jax.numpy_dtype_promotion("standard"):
        change, memory = rule.update(gradient, memory, parameters)  # pyright: ignore[reportArgumentType]
        return optax.apply_updates(parameters, change), memory  # pyright: ignore[reportArgumentType, reportReturnType]
