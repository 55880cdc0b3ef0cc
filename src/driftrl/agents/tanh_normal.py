"""The policy's distribution: a diagonal Gaussian squeezed into [−1, 1] by tanh.

Actions are a = tanh(u) with u ~ N(μ, σ²), so by the change of variables::

    log π(a) = Σ_i log N(u_i; μ_i, σ_i²) − log(1 − tanh² u_i)
    log(1 − tanh² u) = 2·(log 2 − u − softplus(−2u))

The density is always taken at the latent u, never at an action: near ±1 an action no
longer tells which u it came from, while the right-hand side stays exact.
"""

import math

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

LOG_STD_MIN = -10.0
LOG_STD_MAX = 2.0


class TanhNormal(eqx.Module):
    """The distribution of tanh(u), u ~ N(μ, σ²), for one observation."""

    mean: Float[Array, " A"]
    """μ."""
    log_std: Float[Array, " A"]
    """log σ."""

    def sample(
        self, noise: Float[Array, " A"]
    ) -> tuple[Float[Array, " A"], Float[Array, ""]]:
        """Return a = tanh(μ + σ·noise) and log π(a), for standard normal ``noise``.

        Both are differentiable in μ and σ.  The noise is an argument, so that a whole
        batch of it can be drawn at once.
        """
        latent = self.mean + jnp.exp(self.log_std) * noise
        normal = -0.5 * noise**2 - self.log_std - 0.5 * math.log(2.0 * math.pi)
        return jnp.tanh(latent), jnp.sum(normal - log_slope(latent))

    def log_prob(self, latent: Float[Array, " A"]) -> Float[Array, ""]:
        """Return log π(a) of the action a = tanh(``latent``)."""
        noise = (latent - self.mean) * jnp.exp(-self.log_std)
        normal = -0.5 * noise**2 - self.log_std - 0.5 * math.log(2.0 * math.pi)
        return jnp.sum(normal - log_slope(latent))

    def mode(self) -> Float[Array, " A"]:
        """Return the deterministic action, tanh(μ)."""
        return jnp.tanh(self.mean)


def from_outputs(outputs: Float[Array, " O"]) -> TanhNormal:
    """Read a network's outputs as μ, then log σ, the latter clipped to [−10, 2]."""
    mean, log_std = jnp.split(outputs, 2)
    return TanhNormal(mean, jnp.clip(log_std, LOG_STD_MIN, LOG_STD_MAX))


def log_slope(latent: Float[Array, " A"]) -> Float[Array, " A"]:
    """Return log d tanh(u)/du = log(1 − tanh² u), finite however large u is."""
    return 2.0 * (math.log(2.0) - latent - jax.nn.softplus(-2.0 * latent))
