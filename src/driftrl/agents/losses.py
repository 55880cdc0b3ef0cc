"""The losses of soft actor-critic (Haarnoja et al., 2018), as functions of numbers.

Symbols: transitions (s, a, r, s', d) with d = 1 where the task *terminated* in s'; the
policy π, twin critics Q₁, Q₂ and their slow copies Q̄₁, Q̄₂; the discount γ, the
temperature α; and fresh actions a' ~ π(·|s') and ã ~ π(·|s).

The reward r may include an exploration bonus.  Alternatively a bonus λ·b(s, a) is added
to the entropy in the losses, unless it is None.  Only termination ends the future; a
truncated transition is like any other.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

Values = Float[Array, " B"]
Twins = Float[Array, "2 B"]
Scalar = Float[Array, ""]


def soft_value(
    q: Twins, log_prob: Values, temperature: Scalar, bonus: Values | None = None
) -> Values:
    """Return the value of an action plus its entropy bonus.

    V(s, a) = min_i Q_i(s, a) − α·log π(a|s) [+ λ·b(s, a)]
    """
    value = jnp.min(q, axis=0) - temperature * log_prob
    return value if bonus is None else value + bonus


def critic_target(
    reward: Values, terminated: Values, next_value: Values, discount: float
) -> Values:
    """Return what the critics are regressed on; the entropy is in the backup.

    y = r + γ·(1 − d)·V̄(s', a')  with V̄ the soft value of the target critics
    """
    return reward + discount * (1.0 - terminated) * next_value


def critic_loss(q: Twins, target: Values) -> Scalar:
    """Return mean_B (Q₁(s, a) − y)² + (Q₂(s, a) − y)²."""
    return jnp.sum(jnp.mean((q - target[None]) ** 2, axis=1))


def actor_loss(
    q: Twins, log_prob: Values, temperature: Scalar, bonus: Values | None = None
) -> Scalar:
    """Return mean_B α·log π(ã|s) − min_i Q_i(s, ã) [− λ·b(s, ã)]."""
    return -jnp.mean(soft_value(q, log_prob, temperature, bonus))


def temperature_loss(
    log_temperature: Scalar, entropy: Scalar, target_entropy: float
) -> Scalar:
    """Return log α·(H − H̄), H = −mean_B log π(ã|s): linear in log α.

    Its slope is the excess of entropy, so α falls while the policy is more random than
    H̄ and rises while it is less so.
    """
    return log_temperature * (entropy - target_entropy)
