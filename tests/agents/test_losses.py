"""The losses of soft actor-critic against numbers worked out by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.agents.losses import (
    actor_loss,
    critic_loss,
    critic_target,
    soft_value,
    temperature_loss,
)

Q = jnp.array([[1.0, 5.0, -2.0], [2.0, 3.0, -2.5]])
LOG_PROB = jnp.array([-1.0, 0.5, 2.0])
ALPHA = jnp.array(0.5)
BONUS = jnp.array([0.25, 1.0, -1.0])


def test_soft_value_is_the_smaller_critic_plus_entropy() -> None:
    # min (1, 3, −2.5), minus α·log π = (−0.5, 0.25, 1)
    np.testing.assert_allclose(soft_value(Q, LOG_PROB, ALPHA), [1.5, 2.75, -3.5])


def test_critic_target_ends_with_termination_only() -> None:
    reward, value = jnp.array([1.0, 1.0, -2.0]), jnp.array([10.0, 10.0, 4.0])
    found = critic_target(reward, jnp.array([0.0, 1.0, 0.25]), value, 0.9)
    # 1 + 9, 1 + 0, −2 + 0.9·0.75·4
    np.testing.assert_allclose(found, [10.0, 1.0, 0.7], rtol=1e-6)


def test_critic_loss_adds_both_critics() -> None:
    # Q₁ − y = (1, 3, 0), Q₂ − y = (2, 1, −0.5); means 10/3 and 5.25/3
    target = jnp.array([0.0, 2.0, -2.0])
    assert float(critic_loss(Q, target)) == pytest.approx(15.25 / 3)


def test_critic_gradient_is_of_each_critic_alone() -> None:
    target = jnp.array([0.0, 2.0, -2.0])
    found = jax.grad(critic_loss)(Q, target)
    errors = np.array([[1.0, 3.0, 0.0], [2.0, 1.0, -0.5]])
    np.testing.assert_allclose(found, 2 * errors / 3, rtol=1e-6)


def test_actor_loss() -> None:
    # Minus the mean of (1.5, 2.75, −3.5)
    assert float(actor_loss(Q, LOG_PROB, ALPHA)) == pytest.approx(-0.25)


def test_actor_loss_with_a_bonus() -> None:
    assert float(actor_loss(Q, LOG_PROB, ALPHA, BONUS)) == pytest.approx(-1.0 / 3)


def test_actor_gradient_goes_to_the_smaller_critic_and_the_entropy() -> None:
    by_q, by_log_prob = jax.grad(actor_loss, (0, 1))(Q, LOG_PROB, ALPHA)
    np.testing.assert_allclose(by_q, np.array([[-1, 0, 0], [0, -1, -1]]) / 3, rtol=1e-6)
    np.testing.assert_allclose(by_log_prob, [1 / 6] * 3, rtol=1e-6)


def test_temperature_loss_is_linear_in_log_alpha() -> None:
    entropy = jnp.array(0.75)
    # log α·(0.75 + 2)
    assert float(temperature_loss(jnp.array(-1.5), entropy, -2.0)) == -4.125
    for log_alpha in (-3.0, 0.0, 4.0):
        slope = jax.grad(temperature_loss)(jnp.array(log_alpha), entropy, -2.0)
        assert float(slope) == 2.75
