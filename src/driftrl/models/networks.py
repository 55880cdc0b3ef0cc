"""Small networks, written for one example; ``jax.vmap`` makes batches and ensembles."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

HIDDEN_GAIN = 2.0**0.5
_NORM_EPSILON = 1e-6
_TALL = 4  # inputs for one output


class Dense(eqx.Module):
    """x ↦ xW + b, with an orthogonal W of a given gain and b = 0 to begin with."""

    weight: Float[Array, "I O"]
    bias: Float[Array, " O"]

    def __init__(self, inputs: int, outputs: int, gain: float, *, key: Key[Array, ""]):
        self.weight = jax.nn.initializers.orthogonal(gain)(key, (inputs, outputs))
        self.bias = jnp.zeros(outputs)

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
        keys = jax.random.split(key, len(pairs))
        self.layers = tuple(
            Dense(*pair, gain, key=k)
            for pair, gain, k in zip(pairs, gains, keys, strict=True)
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
        keys = jax.random.split(key, 4)
        self.first = Dense(inputs, width, HIDDEN_GAIN, key=keys[0])
        self.inner = Dense(width, width, HIDDEN_GAIN, key=keys[1])
        self.outer = Dense(width, width, HIDDEN_GAIN, key=keys[2])
        self.last = Dense(width, outputs, HIDDEN_GAIN, key=keys[3])
        self.scale, self.shift = jnp.ones(width), jnp.zeros(width)

    def __call__(self, x: Float[Array, " I"]) -> Float[Array, " O"]:
        """Return the network's output for one example."""
        x = jax.nn.relu(self.first(x))
        centred = x - x.mean()
        normal = centred / jnp.sqrt(jnp.mean(centred**2) + _NORM_EPSILON)
        hidden = jax.nn.relu(self.inner(normal * self.scale + self.shift))
        return self.last(x + self.outer(hidden))
