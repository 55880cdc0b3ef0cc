"""Bonuses, by hand."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.agents.optimism import (
    BONUSES,
    bonus_named,
    information_gain,
    intrinsic_reward,
)
from driftrl.errors import InputError
from driftrl.models.gp import Prediction


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


@pytest.mark.parametrize(
    ("std", "scale", "expected"),
    [
        ([3.0, 4.0], [1.0, 1.0], 5.0),
        ([3.0, 8.0], [1.0, 2.0], 5.0),
        ([0.6, 0.0, 0.08], [0.1, 7.0, 0.01], 10.0),
        ([0.0, 0.0], [2.0, 3.0], 0.0),
        ([0.5], [0.25], 2.0),
    ],
)
def test_euclidean_norm_in_units_of_the_changes(
    std: list[float], scale: list[float], expected: float
) -> None:
    found = intrinsic_reward(prediction(std, scale))
    assert found.shape == ()
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_units_do_not_matter() -> None:
    metres = intrinsic_reward(prediction([0.3, 0.1], [0.6, 0.4]))
    millimetres = intrinsic_reward(prediction([300.0, 0.1], [600.0, 0.4]))
    np.testing.assert_allclose(metres, millimetres, rtol=1e-6)


@pytest.mark.parametrize(
    ("std", "noise", "expected"),
    [
        ([1.0], [1.0], math.log(2.0)),
        # Ratios 3 and 0: log 10 and log 1.
        ([0.3, 0.0], [0.1, 7.0], math.log(10.0) / 2.0),
        ([0.0, 0.0], [1.0, 1e-3], 0.0),
        ([1.0, 1.0], [1e-3, 1e-3], 13.8155115579),  # log(1 + 10⁶)
    ],
)
def test_information_gain(
    std: list[float], noise: list[float], expected: float
) -> None:
    found = information_gain(prediction(std, [123.0] * len(std), noise))
    assert found.shape == ()
    assert float(found) == pytest.approx(expected, rel=1e-6)


def test_a_little_information_is_not_rounded_away() -> None:
    found = information_gain(prediction([1e-4], [1.0], [1.0]))
    assert float(found) == pytest.approx(1e-8, rel=1e-5)


@pytest.mark.parametrize("name", BONUSES)
def test_slope_is_finite_where_nothing_is_unknown(name: str) -> None:
    def value(std: jax.Array) -> jax.Array:
        known = prediction([0.0, 0.0], [2.0, 3.0], [0.1, 0.2])
        return bonus_named(name)(known._replace(epistemic_std=std))

    slope = jax.grad(value)(jnp.zeros(2))
    np.testing.assert_array_equal(slope, [0.0, 0.0])


def test_bonuses_have_names() -> None:
    assert bonus_named("norm") is intrinsic_reward
    assert bonus_named("information_gain") is information_gain
    with pytest.raises(InputError, match="Unknown bonus 'norms'. Did you mean 'norm'"):
        bonus_named("norms")
