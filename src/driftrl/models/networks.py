"""Small networks, written for one example; ``jax.vmap`` makes batches and ensembles.

Fresh parameters are drawn on the host: compiling their factorisations would take longer
than anything else at a start.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

Network = TypeVar("Network")

HIDDEN_GAIN = 2.0**0.5
_NORM_EPSILON = 1e-6
_TALL = 4  # inputs for one output


def generator(key: Key[Array, ""]) -> np.random.Generator:
    """Return NumPy's generator of a key of JAX's: the same key, the same numbers."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def orthogonal(
    inputs: int, outputs: int, rng: np.random.Generator
) -> Float[np.ndarray, "I O"]:
    """Draw a matrix whose shorter side is orthonormal, evenly over all such matrices.

    The Q of a Gaussian matrix's QR is, once the diagonal of R is made positive.
    """
    tall = rng.normal(size=(max(inputs, outputs), min(inputs, outputs)))
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diag(r))
    return q if inputs >= outputs else q.T


def stacked(networks: Sequence[Network]) -> Network:
    """Return networks of one shape as one, every parameter with a leading axis."""
    return jax.tree.map(
        lambda *leaves: jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])),
        *networks,
    )


class Dense(eqx.Module):
    """x ↦ xW + b, with an orthogonal W of a given gain and b = 0 to begin with."""

    weight: Float[Array, "I O"]
    bias: Float[Array, " O"]

    def __init__(
        self, inputs: int, outputs: int, gain: float, *, rng: np.random.Generator
    ):
        weight = gain * orthogonal(inputs, outputs, rng)
        self.weight = jnp.asarray(weight, jnp.float32)
        self.bias = jnp.asarray(np.zeros(outputs), jnp.float32)

    def __call__(self, x: Float[Array, " I"]) -> Float[Array, " O"]:
        """Return the layer's output for one example."""
        weight = self.weight
        if _TALL * weight.shape[1] <= weight.shape[0]:
            # XLA's CPU code for the gradient of a tall matrix takes about ten times as
            # long as for that of its transpose; the barrier keeps it from being undone.
            weight = jax.lax.optimization_barrier(weight.T).T
        return x @ weight + self.bias


class MLP(eqx.Module):
    """Dense layers with an activation between them, none at the end."""

    layers: tuple[Dense, ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Callable[[Array], Array],
        *,
        last_gain: float,
        key: Key[Array, ""],
    ):
        """Make a network of these sizes, from inputs to outputs."""
        pairs = list(pairwise(sizes))
        gains = [HIDDEN_GAIN] * (len(pairs) - 1) + [last_gain]
        rng = generator(key)
        self.layers = tuple(
            Dense(*pair, gain, rng=rng) for pair, gain in zip(pairs, gains, strict=True)
        )
        self.activation = activation

    def __call__(self, x: Float[Array, " I"]) -> Float[Array, " O"]:
        """Return the network's output for one example."""
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        return self.layers[-1](x)


class ResidualMLP(eqx.Module):
    """Dense, a residual block x + D(relu(D(norm(x)))), and Dense to the output.

    The normalisation is over the units of one example, with a learned scale and shift.
    """

    first: Dense
    inner: Dense
    outer: Dense
    last: Dense
    scale: Float[Array, " H"]
    shift: Float[Array, " H"]

    def __init__(self, inputs: int, width: int, outputs: int, *, key: Key[Array, ""]):
        """Make a network with one residual block of ``width`` units."""
        rng = generator(key)
        self.first = Dense(inputs, width, HIDDEN_GAIN, rng=rng)
        self.inner = Dense(width, width, HIDDEN_GAIN, rng=rng)
        self.outer = Dense(width, width, HIDDEN_GAIN, rng=rng)
        self.last = Dense(width, outputs, HIDDEN_GAIN, rng=rng)
        self.scale = jnp.asarray(np.ones(width), jnp.float32)
        self.shift = jnp.asarray(np.zeros(width), jnp.float32)

    def __call__(self, x: Float[Array, " I"]) -> Float[Array, " O"]:
        """Return the network's output for one example."""
        x = jax.nn.relu(self.first(x))
        centred = x - x.mean()
        normal = centred / jnp.sqrt(jnp.mean(centred**2) + _NORM_EPSILON)
        hidden = jax.nn.relu(self.inner(normal * self.scale + self.shift))
        return self.last(x + self.outer(hidden))
