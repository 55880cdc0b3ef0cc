"""Small networks and their gradient steps.

Networks are written for one example; ``jax.vmap`` makes batches and ensembles.  Fresh
parameters are drawn on the host: compiling their factorisations would dominate startup.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Float, Key, PyTree

Parameters = TypeVar("Parameters")

HIDDEN_GAIN = 2.0**0.5
_NORM_EPSILON = 1e-6
_TALL = 4  # inputs for one output


def generator(key: Key[Array, ""]) -> np.random.Generator:
    """Return a NumPy generator seeded by a JAX key."""
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


def orthogonal(
    inputs: int, outputs: int, rng: np.random.Generator
) -> Float[np.ndarray, "I O"]:
    """Draw a uniformly distributed matrix whose shorter side is orthonormal.

    It is the Q in the QR decomposition of a Gaussian matrix, with a positive R.
    """
    tall = rng.normal(size=(max(inputs, outputs), min(inputs, outputs)))
    q, r = np.linalg.qr(tall)
    q = q * np.sign(np.diag(r))
    return q if inputs >= outputs else q.T


def stacked(networks: Sequence[Parameters]) -> Parameters:
    """Stack networks of one shape along a new leading axis of every parameter."""
    return jax.tree.map(
        lambda *leaves: jnp.asarray(np.stack([np.asarray(leaf) for leaf in leaves])),
        *networks,
    )


class Dense(eqx.Module):
    """x ↦ xW + b, initialised with an orthogonal W of a given gain and b = 0."""

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
            # long as for its transpose; the barrier keeps XLA from undoing this.
            weight = jax.lax.optimization_barrier(weight.T).T
        return x @ weight + self.bias


class LayerNorm(eqx.Module):
    """Normalises the units of one example, then applies a learned scale and shift."""

    scale: Float[Array, " H"]
    shift: Float[Array, " H"]

    def __init__(self, width: int):
        self.scale = jnp.asarray(np.ones(width), jnp.float32)
        self.shift = jnp.asarray(np.zeros(width), jnp.float32)

    def __call__(self, x: Float[Array, " H"]) -> Float[Array, " H"]:
        """Return the normalised units of one example."""
        centred = x - x.mean()
        normal = centred / jnp.sqrt(jnp.mean(centred**2) + _NORM_EPSILON)
        return normal * self.scale + self.shift


class MLP(eqx.Module):
    """Dense layers with an activation between them, none at the end.

    ``layer_norm`` normalises the units before every activation.
    """

    layers: tuple[Dense, ...]
    norms: tuple[LayerNorm, ...]
    activation: Callable[[Array], Array] = eqx.field(static=True)

    def __init__(
        self,
        sizes: Sequence[int],
        activation: Callable[[Array], Array],
        *,
        last_gain: float,
        key: Key[Array, ""],
        layer_norm: bool = False,
    ):
        """Make a network of these sizes, from inputs to outputs."""
        pairs = list(pairwise(sizes))
        gains = [HIDDEN_GAIN] * (len(pairs) - 1) + [last_gain]
        rng = generator(key)
        self.layers = tuple(
            Dense(*pair, gain, rng=rng) for pair, gain in zip(pairs, gains, strict=True)
        )
        self.norms = tuple(LayerNorm(width) for width in sizes[1:-1] if layer_norm)
        self.activation = activation

    def __call__(self, x: Float[Array, " I"]) -> Float[Array, " O"]:
        """Return the network's output for one example."""
        for number, layer in enumerate(self.layers[:-1]):
            x = layer(x)
            x = self.activation(self.norms[number](x) if self.norms else x)
        return self.layers[-1](x)


class ResidualMLP(eqx.Module):
    """Dense, a residual block x + D(relu(D(norm(x)))), and Dense to the output."""

    first: Dense
    inner: Dense
    outer: Dense
    last: Dense
    norm: LayerNorm

    def __init__(self, inputs: int, width: int, outputs: int, *, key: Key[Array, ""]):
        """Make a network with one residual block of ``width`` units."""
        rng = generator(key)
        self.first = Dense(inputs, width, HIDDEN_GAIN, rng=rng)
        self.inner = Dense(width, width, HIDDEN_GAIN, rng=rng)
        self.outer = Dense(width, width, HIDDEN_GAIN, rng=rng)
        self.last = Dense(width, outputs, HIDDEN_GAIN, rng=rng)
        self.norm = LayerNorm(width)

    def __call__(self, x: Float[Array, " I"]) -> Float[Array, " O"]:
        """Return the network's output for one example."""
        x = jax.nn.relu(self.first(x))
        hidden = jax.nn.relu(self.inner(self.norm(x)))
        return self.last(x + self.outer(hidden))


Normalisation = tuple[Float[Array, " I"], Float[Array, " I"]]
"""Mean m and spread s, which make (x − m)/s of x."""
Network = TypeVar("Network", MLP, ResidualMLP)


def refit_inputs(
    network: Network, before: Normalisation, after: Normalisation
) -> Network:
    """Return the same function of x for a network that takes x normalised otherwise.

    Only the first inputs are normalised, as many as the means.  A stack of networks
    changes at once.
    """
    (mean, std), (new_mean, new_std) = before, after
    of = lambda net: net.first if isinstance(net, ResidualMLP) else net.layers[0]
    weight, bias = of(network).weight, of(network).bias
    count, stack = len(mean), (1,) * (weight.ndim - 2)
    part = weight[..., :count, :]
    shift = jnp.einsum("i,...io->...o", (new_mean - mean) / std, part)
    ratio = (new_std / std).reshape(*stack, count, 1)
    changed = (weight.at[..., :count, :].set(part * ratio), bias + shift)
    return eqx.tree_at(lambda net: (of(net).weight, of(net).bias), network, changed)


def refit_outputs(network: MLP, before: Normalisation, after: Normalisation) -> MLP:
    """Return the network whose output y gives m' + s'·y where the old gave m + s·y."""
    last = network.layers[-1]
    stack = (1,) * (last.bias.ndim - 1)
    (mean, std), (new_mean, new_std) = (
        tuple(part.reshape(*stack, -1) for part in pair) for pair in (before, after)
    )
    bias = (last.bias * std + mean - new_mean) / new_std
    weight = last.weight * (std / new_std)[..., None, :]
    of = lambda net: (net.layers[-1].weight, net.layers[-1].bias)
    return eqx.tree_at(of, network, (weight, bias))


def adam(
    learning_rate: float, clip: float, weight_decay: float = 0.0
) -> optax.GradientTransformation:
    """Return Adam behind a limit on the global norm of the gradient."""
    rule = optax.adam(learning_rate)
    if weight_decay > 0:
        rule = optax.adamw(learning_rate, weight_decay=weight_decay)
    return optax.chain(optax.clip_by_global_norm(clip), rule)


def apply_gradients(
    optimiser: optax.GradientTransformation,
    gradient: Parameters,
    state: PyTree,
    parameters: Parameters,
) -> tuple[Parameters, PyTree]:
    """Take one optimiser step; return the parameters and the optimiser's new state."""
    # Optax mixes its integer counter with floats.
    with jax.numpy_dtype_promotion("standard"):
        change, state = optimiser.update(gradient, state, parameters)  # pyright: ignore[reportArgumentType]
        return optax.apply_updates(parameters, change), state  # pyright: ignore[reportArgumentType, reportReturnType]


def polyak_update(online: Parameters, target: Parameters, tau: float) -> Parameters:
    """Return φ̄ ← (1 − τ)·φ̄ + τ·φ."""
    return jax.tree.map(lambda new, old: tau * new + (1.0 - tau) * old, online, target)


def mix(parameters: Parameters, fresh: Parameters, rate: float) -> Parameters:
    """Return the soft reset (1 − α)·φ + α·φ₀ of any pytree of parameters.

    α = 0 returns the parameters and α = 1 the fresh ones unchanged, even beside NaN.
    """
    if rate in (0, 1):
        return fresh if rate else parameters
    return _mixed(parameters, fresh, jnp.asarray(rate, jnp.float32))


@jax.jit
def _mixed(
    parameters: Parameters, fresh: Parameters, rate: Float[Array, ""]
) -> Parameters:
    return jax.tree.map(
        lambda old, new: (1.0 - rate) * old + rate * new, parameters, fresh
    )


def safe_sqrt(x: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Return √x, with derivative 0 instead of infinity at x = 0.

    Where a standard deviation or a norm is 0 it has a kink, of which 0 is a
    subgradient; the plain derivative of √ would make every gradient NaN.
    """
    positive = x > 0.0
    return jnp.where(positive, jnp.sqrt(jnp.where(positive, x, 1.0)), 0.0)
