"""What every dynamics model answers."""

from typing import NamedTuple

from jaxtyping import Array, Float


class Prediction(NamedTuple):
    """Belief about the next state after one transition, in the state's own units."""

    mean: Float[Array, " S"]
    """μ(x, u), the expected next state."""
    epistemic_std: Float[Array, " S"]
    """σ(x, u): what more data would remove."""
    aleatoric_std: Float[Array, " S"]
    """Standard deviation of the noise: what no data removes."""
    scale: Float[Array, " S"]
    """Spread of the state changes in the retained data: σ/scale has no unit."""
