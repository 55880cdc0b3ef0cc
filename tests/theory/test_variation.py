"""Norms and variation: exact against estimates, and the pendulum's closed form."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.envs.pendulum import DT, LENGTH, MASS, PendulumState, step
from factories import load_module, script

Expansion = script("calibration_under_drift").Expansion
quantities = load_module(
    Path(__file__).parents[2] / "benchmarks" / "theory_quantities.py"
)
norm_from_values = quantities.norm_from_values
pendulum_variation = quantities.pendulum_variation
variation_of_systems = quantities.variation_of_systems


def se(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    return np.exp(-2 * ((x[:, None] - z[None]) ** 2).sum(-1))


def linear(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    return x @ z.T


def expansion(seed: int, outputs: int = 1, centres: int = 5) -> Any:
    rng = np.random.default_rng(seed)
    shape = (centres, outputs)
    return Expansion(se, rng.uniform(-1, 1, (centres, 2)), rng.standard_normal(shape))


def test_norms_by_hand() -> None:
    # f = 3k(0,·) − 4k(1,·) with k(0, 1) = e^{−2}: 9 + 16 − 24e^{−2}
    f = Expansion(se, np.array([[0.0], [1.0]]), np.array([[3.0], [-4.0]]))
    assert f.norms()[0] == pytest.approx(np.sqrt(25 - 24 * np.exp(-2)))
    assert f(np.array([[0.0]]))[0, 0] == pytest.approx(3 - 4 * np.exp(-2))


@settings(max_examples=20)
@given(st.integers(0, 1000))
def test_norm_from_values_is_a_rising_lower_bound(seed: int) -> None:
    f = expansion(seed, 2)
    points = np.random.default_rng(seed + 1).uniform(-1, 1, (40, 2))
    found = [norm_from_values(se, points[:n], f(points[:n])) for n in (4, 12, 40)]
    tolerance = 1e-4 * f.norms()
    assert np.all(found[0] <= found[1] + tolerance)
    assert np.all(found[1] <= found[2] + tolerance)
    assert np.all(found[2] <= f.norms() + tolerance)


def test_variation_of_systems_is_that_of_the_functions() -> None:
    """P_N of f + τ·g for τ = 0, ¼, …, 1 is Σ_j ‖g_j‖."""
    start, direction = expansion(7, outputs=2), expansion(8, outputs=2)
    more = np.random.default_rng(9).uniform(-1, 1, (20, 2))
    points = np.concatenate([start.centres, direction.centres, more])
    answers = [start(points) + n / 4 * direction(points) for n in range(5)]
    total = variation_of_systems(se, points, answers)
    assert total == pytest.approx(direction.norms().sum(), rel=1e-3)


@pytest.mark.usefixtures("x64")
def test_pendulum_in_closed_form_and_from_its_answers() -> None:
    """Dynamics affine in θ: the estimate from frozen pendulums is the closed form."""
    thetas = [2.0, 1.7, 1.1, 1.0]
    rng = np.random.default_rng(10)
    states = rng.uniform([-3, -6], [3, 6], (30, 2))  # too slow to be clipped
    actions = rng.uniform(-1, 1, (30, 1))

    def answers(theta: float) -> np.ndarray:
        before = PendulumState(jnp.asarray(states[:, 0]), jnp.asarray(states[:, 1]))
        after, _ = jax.vmap(step, (0, 0, None))(
            before, jnp.asarray(actions[:, 0]), jnp.asarray(theta)
        )
        return np.stack([np.asarray(after.angle), np.asarray(after.speed)], axis=1)

    closed = pendulum_variation(thetas, MASS, LENGTH, DT)
    # 0.0075 of the angle and 0.15 of the speed
    assert closed == pytest.approx(0.1575 * np.abs(np.diff(thetas)).sum())
    # The RKHS of the linear kernel on (angle, speed, action) holds the differences.
    points = np.concatenate([states, actions], axis=1)
    estimate = variation_of_systems(linear, points, [answers(t) for t in thetas])
    assert estimate == pytest.approx(closed, rel=1e-3)
