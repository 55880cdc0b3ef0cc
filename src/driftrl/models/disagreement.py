"""How far the members of an ensemble are apart."""

import jax.numpy as jnp
from jaxtyping import Array, Float


def root(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return √x, with the derivative 0 at x = 0 in place of an infinite one.

    There a standard deviation or a norm has a kink, of which 0 is a subgradient; the
    derivative of the plain √ would turn every gradient that passes into NaN.
    """
    positive = x > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)


def disagreement(values: Float[Array, "E O"]) -> Float[Array, " O"]:
    """Return the standard deviation over the members, σ_j = √(mean_e (v_ej − v̄_j)²).

    The members are all there are, not a sample of more: the mean divides by E.
    """
    return root(jnp.var(values, axis=0))
