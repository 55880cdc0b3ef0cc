"""The optimistic return of an action sequence, against a loop written out."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.agents.planning_objective import optimistic_return
from driftrl.models.gp import Prediction

pytestmark = pytest.mark.usefixtures("x64")

# x' = A x + B u, σ = |C x + D u| in every component.
A = np.array([[0.9, 0.2], [-0.1, 0.8]])
B = np.array([[0.0], [0.5]])
C = np.array([[0.3, 0.1], [0.2, -0.4]])
D = np.array([[0.05], [0.7]])
SCALE = np.array([2.0, 0.25])
START = np.array([1.0, -0.5])
ACTIONS = np.array([[0.3], [-1.0], [0.8], [0.1]])


def predict(obs: jax.Array, action: jax.Array) -> Prediction:
    return Prediction(
        mean=jnp.asarray(A) @ obs + jnp.asarray(B) @ action,
        epistemic_std=jnp.abs(jnp.asarray(C) @ obs + jnp.asarray(D) @ action),
        aleatoric_std=jnp.full(2, 9.0),
        scale=jnp.asarray(SCALE),
    )


def reward(obs: jax.Array, action: jax.Array, next_obs: jax.Array) -> jax.Array:
    """Depend on all three, each in its own way."""
    return obs[0] - 2.0 * action[0] ** 2 + 10.0 * next_obs[1]


def by_hand(actions: np.ndarray) -> tuple[float, float]:
    """Return J and Σ of the sequence."""
    x, earned, unknown = START, 0.0, 0.0
    for u in actions:
        after = A @ x + B @ u
        earned += x[0] - 2.0 * u[0] ** 2 + 10.0 * after[1]
        unknown += np.linalg.norm((C @ x + D @ u) / SCALE)
        x = after
    return float(earned), float(unknown)


def found(weight: float, actions: np.ndarray) -> float:
    value = optimistic_return(
        predict, reward, jnp.asarray(weight), jnp.asarray(START), jnp.asarray(actions)
    )
    assert value.shape == () and value.dtype == jnp.float64
    return float(value)


def test_one_step_by_hand() -> None:
    # x' = (0.8, −0.35); r = 1 − 0.18 − 3.5; C x + D u = (0.265, 0.61), scaled
    # (0.1325, 2.44).
    norm = np.hypot(0.1325, 2.44)
    assert found(0.0, ACTIONS[:1]) == pytest.approx(-2.68, rel=1e-12)
    assert found(3.0, ACTIONS[:1]) == pytest.approx(-2.68 + 3 * norm, rel=1e-12)


@pytest.mark.parametrize("weight", [0.0, 0.5, 20.0])
@pytest.mark.parametrize("steps", [1, 2, 4])
def test_equals_the_loop(weight: float, steps: int) -> None:
    earned, unknown = by_hand(ACTIONS[:steps])
    expected = earned + weight * unknown
    assert found(weight, ACTIONS[:steps]) == pytest.approx(expected, rel=1e-12)


def test_many_sequences_are_single_ones() -> None:
    rng = np.random.default_rng(0)
    sequences = rng.uniform(-1.0, 1.0, (5, 4, 1))
    score = jax.jit(
        jax.vmap(
            lambda actions: optimistic_return(
                predict, reward, jnp.asarray(2.0), jnp.asarray(START), actions
            )
        )
    )
    values = score(jnp.asarray(sequences))
    expected = [earned + 2.0 * unknown for earned, unknown in map(by_hand, sequences)]
    np.testing.assert_allclose(values, expected, rtol=1e-12)
