"""Intrinsic reward, by hand."""

import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.imagination.optimism import intrinsic_reward
from driftrl.models.base import Prediction


def prediction(std: list[float], scale: list[float]) -> Prediction:
    size = len(std)
    return Prediction(
        mean=jnp.full(size, 100.0),
        epistemic_std=jnp.array(std),
        aleatoric_std=jnp.full(size, 50.0),
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
