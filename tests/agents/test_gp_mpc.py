"""The optimistic return against a loop written out, and the agent on a line."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.agents.base import LearnContext
from driftrl.agents.gp_mpc import GPAgent, optimistic_return
from driftrl.agents.optimism import norm
from driftrl.config.gp import GPAgentConfig, ICEMConfig, OptimismConfig
from driftrl.errors import InputError
from driftrl.models.gp import Prediction
from driftrl.types import Data, Episode

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
        predict,
        reward,
        norm,
        jnp.asarray(weight),
        jnp.asarray(START),
        jnp.asarray(actions),
    )
    assert value.shape == () and value.dtype == jnp.float64
    return float(value)


@pytest.mark.parametrize("weight", [0.0, 20.0])
def test_equals_the_loop(weight: float) -> None:
    earned, unknown = by_hand(ACTIONS)
    expected = earned + weight * unknown
    assert found(weight, ACTIONS) == pytest.approx(expected, rel=1e-12)


# ---- the agent ---------------------------------------------------------------------


def free(obs: jax.Array, action: jax.Array, next_obs: jax.Array) -> jax.Array:
    """Pay nothing: what is planned follows from the bonus alone."""
    return 0.0 * next_obs[0]


def leftwards(prediction: Prediction) -> jax.Array:
    """Prefer small means, whatever their uncertainty."""
    return -prediction.mean[0]


def rightwards(prediction: Prediction) -> jax.Array:
    return prediction.mean[0]


def vector(prediction: Prediction) -> jax.Array:
    return prediction.epistemic_std


def config(bonus: str) -> GPAgentConfig:
    planner = ICEMConfig(horizon=2, samples=30, elites=5, iterations=3)
    return GPAgentConfig(planner=planner, optimism=OptimismConfig(bonus=bonus))


def line(rows: int) -> Data:
    """Return transitions of x' = x + u."""
    rng = np.random.default_rng(0)
    x, u = rng.uniform(-1, 1, size=(2, rows, 1))
    return Data(x, u, np.zeros(rows), x + u, np.zeros(rows, bool))


@pytest.mark.parametrize(("bonus", "sign"), [("leftwards", -1), ("rightwards", 1)])
def test_a_users_bonus_decides_what_is_planned(bonus: str, sign: int) -> None:
    agent = GPAgent((1, 1), free, config(f"{__name__}:{bonus}"))
    key = jax.random.key(0)
    state = agent.initial_state(key=key)
    state = agent.learn(state, line(30), LearnContext(2, 30), key=key)
    policy = agent.policy(state)
    action, _ = policy.act(np.zeros(1), policy.begin(), key=key)
    assert sign * action[0] > 0.5
    seen = line(30)
    metrics = policy.model_metrics(
        Episode(seen.obs, seen.actions, seen.rewards, seen.next_obs, False)
    )
    assert metrics.predictive_loss is not None and metrics.predictive_loss < 0


def test_a_bonus_that_is_no_scalar_is_refused() -> None:
    with pytest.raises(InputError, match="vector"):
        GPAgent((1, 1), free, config(f"{__name__}:vector"))
