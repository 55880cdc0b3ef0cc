"""Bonuses by hand, users' bonuses, and the tuned weight."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from driftrl.agents import optimism
from driftrl.errors import InputError
from driftrl.models.gp import Prediction

RATE = 0.01


def prediction(
    std: list[float], scale: list[float], noise: list[float] | None = None
) -> Prediction:
    size = len(std)
    return Prediction(
        mean=jnp.full(size, 100.0),
        epistemic_std=jnp.array(std),
        aleatoric_std=jnp.full(size, 50.0) if noise is None else jnp.array(noise),
        scale=jnp.array(scale),
    )


# ---- bonuses -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("std", "scale", "expected"),
    [([3.0, 8.0], [1.0, 2.0], 5.0), ([0.6, 0.0, 0.08], [0.1, 7.0, 0.01], 10.0)],
)
def test_euclidean_norm_in_units_of_the_changes(
    std: list[float], scale: list[float], expected: float
) -> None:
    found = optimism.norm(prediction(std, scale))
    assert found.shape == ()
    assert float(found) == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("std", "noise", "expected"),
    [
        # Ratios 3 and 0: log 10 and log 1.
        ([0.3, 0.0], [0.1, 7.0], math.log(10.0) / 2.0),
        ([1.0, 1.0], [1e-3, 1e-3], 13.8155115579),  # log(1 + 10⁶)
        ([1e-4], [1.0], 1e-8),  # not rounded away
    ],
)
def test_information_gain(
    std: list[float], noise: list[float], expected: float
) -> None:
    found = optimism.information_gain(prediction(std, [123.0] * len(std), noise))
    assert float(found) == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize("name", optimism.BONUSES)
def test_slope_is_finite_without_uncertainty(name: str) -> None:
    def value(std: jax.Array) -> jax.Array:
        known = prediction([0.0, 0.0], [2.0, 3.0], [0.1, 0.2])
        return optimism.bonus_named(name)(known._replace(epistemic_std=std))

    np.testing.assert_array_equal(jax.grad(value)(jnp.zeros(2)), [0.0, 0.0])


def largest(prediction: Prediction) -> jax.Array:
    """Return the largest relative uncertainty."""
    return jnp.max(prediction.epistemic_std / prediction.scale)


def constant(prediction: Prediction) -> float:
    return 2.0


def vector(prediction: Prediction) -> jax.Array:
    return prediction.epistemic_std


def failing(prediction: Prediction) -> jax.Array:
    return prediction.variance  # pyright: ignore[reportAttributeAccessIssue]


def untraceable(prediction: Prediction) -> float:
    return float(prediction.epistemic_std[0])


def test_a_bonus_is_named_or_a_path() -> None:
    assert optimism.bonus_named("norm") is optimism.norm
    bonus = optimism.bonus_named(f"{__name__}:largest")
    assert float(bonus(prediction([3.0, 8.0], [1.0, 2.0]))) == 4.0
    assert (
        optimism.bonus_named(f"{__name__}:constant")(prediction([1.0], [1.0])).shape
        == ()
    )


@pytest.mark.parametrize(
    ("name", "word"),
    [
        ("norms", "norm"),
        ("nowhere:bonus", "nowhere"),
        (f"{__name__}:missing", "missing"),
        (f"{__name__}:RATE", "RATE"),
        (f"{__name__}:vector", r"\(2,\)"),
        (f"{__name__}:failing", "variance"),
        (f"{__name__}:untraceable", "traceable"),
    ],
)
def test_other_bonuses_are_refused(name: str, word: str) -> None:
    with pytest.raises(InputError, match=word):
        optimism.check_bonus(name, prediction([1.0, 2.0], [1.0, 1.0]))


# ---- the weight --------------------------------------------------------------------


@functools.partial(jax.jit, static_argnums=3)
def step(
    state: optimism.WeightState, current: jax.Array, reference: jax.Array, rate: float
) -> optimism.WeightState:
    return optimism.tune(state, current, reference, rate)


def tuned(pairs: list[tuple[float, float]], start: float = 1.0) -> optimism.WeightState:
    state = optimism.initial_weight(start, RATE)
    for current, reference in pairs:
        state = step(state, jnp.asarray(current), jnp.asarray(reference), RATE)
    return state


def test_is_adam_on_the_logarithm() -> None:
    pairs = [(0.3, 0.5), (0.9, 0.1), (0.2, 0.25), (0.0, 2.0)]
    rule, value = optax.adam(RATE), jnp.zeros(())
    memory = rule.init(value)
    for current, reference in pairs:
        with jax.numpy_dtype_promotion("standard"):
            change, memory = rule.update(jnp.asarray(current - reference), memory)
        value = value + jnp.asarray(change)
    np.testing.assert_allclose(tuned(pairs).log_weight, value, rtol=1e-5)


@pytest.mark.parametrize(("sign", "bound"), [(1.0, 1e8), (-1.0, 1e-8)])
def test_stays_finite(sign: float, bound: float) -> None:
    state = optimism.initial_weight(1.0, 100.0)
    for _ in range(3):
        state = step(state, jnp.zeros(()), jnp.asarray(sign), 100.0)
    assert float(state.weight) == pytest.approx(bound, rel=1e-4)
