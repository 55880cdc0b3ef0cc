"""The tuned weight of the bonus: the direction it moves in, and how far."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from driftrl.agents.optimism import intrinsic_reward
from driftrl.agents.optimism_weight import (
    WeightState,
    initial_weight,
    mean_bonus,
    tune,
    weight_loss,
)
from driftrl.errors import InputError
from driftrl.models.ensemble import EnsemblePrediction

RATE = 0.01


@functools.partial(jax.jit, static_argnums=3)
def step(
    state: WeightState, current: jax.Array, reference: jax.Array, rate: float
) -> WeightState:
    return tune(state, current, reference, rate)


def tuned(pairs: list[tuple[float, float]], start: float = 1.0) -> WeightState:
    state = initial_weight(start, RATE)
    for current, reference in pairs:
        state = step(state, jnp.asarray(current), jnp.asarray(reference), RATE)
    return state


def test_starts_where_it_is_told() -> None:
    assert float(initial_weight(2.5, RATE).weight) == pytest.approx(2.5, rel=1e-6)


@pytest.mark.parametrize("weight", [0.0, -1.0, math.inf, math.nan])
def test_a_weight_without_a_logarithm_is_refused(weight: float) -> None:
    with pytest.raises(InputError, match="must start positive, received"):
        initial_weight(weight, RATE)


def test_loss_by_hand() -> None:
    numbers = map(jnp.asarray, (math.log(3.0), 0.2, 0.7))
    loss, slopes = jax.value_and_grad(weight_loss, argnums=(0, 1, 2))(*numbers)
    assert float(loss) == pytest.approx(-0.5 * math.log(3.0), rel=1e-6)
    # The bonuses are what they are: only log λ is to move.
    np.testing.assert_allclose(slopes, [-0.5, 0.0, 0.0], rtol=1e-6)


def test_grows_while_the_policy_gathers_less_than_its_average() -> None:
    # The first step of Adam has the length of the learning rate.
    once = tuned([(0.3, 0.5)])
    assert float(once.log_weight) == pytest.approx(RATE, rel=1e-4)
    assert float(once.weight) == pytest.approx(math.exp(RATE), rel=1e-5)
    assert float(tuned([(0.3, 0.5)] * 10).weight) > float(once.weight)


def test_shrinks_while_the_policy_gathers_more_than_its_average() -> None:
    once = tuned([(0.5, 0.3)])
    assert float(once.log_weight) == pytest.approx(-RATE, rel=1e-4)
    assert float(tuned([(0.5, 0.3)] * 10).weight) < float(once.weight)


def test_turns_round() -> None:
    up = [(0.3, 0.5)] * 20
    there, back = tuned(up), tuned(up + [(0.5, 0.3)] * 60)
    assert float(there.weight) > 1.1
    assert float(back.weight) < 1.0


def test_stays_where_both_gather_the_same() -> None:
    assert float(tuned([(0.4, 0.4)] * 5, start=0.7).weight) == pytest.approx(0.7)


def test_is_adam_on_the_logarithm() -> None:
    pairs = [(0.3, 0.5), (0.9, 0.1), (0.2, 0.25), (0.0, 2.0)]
    rule, value = optax.adam(RATE), jnp.zeros(())
    memory = rule.init(value)
    for current, reference in pairs:
        with jax.numpy_dtype_promotion("standard"):
            change, memory = rule.update(jnp.asarray(current - reference), memory)
        value = value + jnp.asarray(change)
    found = tuned(pairs)
    np.testing.assert_allclose(found.log_weight, value, rtol=1e-5)


@pytest.mark.parametrize(("sign", "bound"), [(1.0, 1e8), (-1.0, 1e-8)])
def test_stays_finite(sign: float, bound: float) -> None:
    state = initial_weight(1.0, 100.0)
    for _ in range(3):
        state = step(state, jnp.zeros(()), jnp.asarray(sign), 100.0)
    assert float(state.weight) == pytest.approx(bound, rel=1e-4)


def predict(obs: jax.Array, action: jax.Array) -> EnsemblePrediction:
    """Know nothing of large actions: σ = (|u|, |u|·x₀), and the reward."""
    std = jnp.stack([jnp.abs(action[0]), jnp.abs(action[0]) * obs[0], jnp.zeros(())])
    return EnsemblePrediction(
        mean=obs,
        reward=jnp.zeros(()),
        epistemic_std=std,
        aleatoric_std=jnp.ones(3),
        scale=jnp.array([0.5, 1.0, 1.0]),
        member_means=jnp.zeros((2, 2)),
        member_rewards=jnp.zeros(2),
    )


def constant(value: float, obs: jax.Array, key: jax.Array) -> jax.Array:
    del obs, key
    return jnp.array([value])


def drawn(obs: jax.Array, key: jax.Array) -> jax.Array:
    del obs
    return jax.random.uniform(key, (1,))


OBS = jnp.array([[0.0, 9.0], [1.0, 9.0], [1.5, 9.0]])


def test_mean_bonus_by_hand() -> None:
    policy = functools.partial(constant, -3.0)
    found = mean_bonus(predict, policy, intrinsic_reward, OBS, key=jax.random.key(0))
    # |u|·√(2² + x₀²), for x₀ = 0, 1, 1.5.
    expected = 3.0 * np.mean([2.0, math.sqrt(5.0), 2.5])
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_mean_bonus_draws_for_every_state() -> None:
    keys = jax.random.key(1)
    found = mean_bonus(predict, drawn, intrinsic_reward, OBS, key=keys)
    uniform = [
        float(jax.random.uniform(key, (1,))[0]) for key in jax.random.split(keys, 3)
    ]
    expected = np.mean(np.array(uniform) * [2.0, math.sqrt(5.0), 2.5])
    assert float(found) == pytest.approx(expected, rel=1e-5)


def test_a_timid_policy_is_paid_more() -> None:
    gathered = [
        mean_bonus(
            predict,
            functools.partial(constant, size),
            intrinsic_reward,
            OBS,
            key=jax.random.key(0),
        )
        for size in (0.1, 0.9)
    ]
    timid, bold = gathered
    start = initial_weight(1.0, RATE)
    assert float(step(start, timid, bold, RATE).weight) > 1.0
    assert float(step(start, bold, timid, RATE).weight) < 1.0
