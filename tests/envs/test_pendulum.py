"""The functional pendulum against Gymnasium's, and the properties of its pieces."""

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.envs.pendulum import (
    MAX_SPEED,
    PendulumState,
    observe,
    repeated_step,
    state_of,
    step,
    wrap,
)

pytestmark = pytest.mark.usefixtures("x64")

COUNT = 5000


@pytest.fixture
def samples() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Random angles (over several turns), speeds, actions and torque limits."""
    stream = np.random.default_rng(0)
    return (
        stream.uniform(-10.0, 10.0, COUNT),
        stream.uniform(-MAX_SPEED, MAX_SPEED, COUNT),
        stream.uniform(-1.3, 1.3, COUNT),
        stream.uniform(0.0, 10.0, COUNT),
    )


def gymnasium_step(
    env: gymnasium.Env, state: tuple[float, float], action: float, theta: float
) -> tuple[np.ndarray, float]:
    plain = env.unwrapped
    plain.state = np.array(state)  # pyright: ignore[reportAttributeAccessIssue]
    plain.max_torque = theta  # pyright: ignore[reportAttributeAccessIssue]
    _, gained, _, _, _ = plain.step(np.array([action * theta]))
    return np.array(plain.state), float(gained)  # pyright: ignore[reportAttributeAccessIssue]


def test_a_step_is_gymnasiums(samples: tuple[np.ndarray, ...]) -> None:
    angles, speeds, actions, thetas = samples
    states = PendulumState(jnp.asarray(angles), jnp.asarray(speeds))
    after, rewards = jax.vmap(step)(states, jnp.asarray(actions), jnp.asarray(thetas))
    assert 100 < (np.abs(after.speed) == MAX_SPEED).sum() < COUNT - 100
    env = gymnasium.make("Pendulum-v1")
    env.reset(seed=0)
    theirs = [
        gymnasium_step(env, (angles[i], speeds[i]), actions[i], thetas[i])
        for i in range(COUNT)
    ]
    np.testing.assert_allclose(
        np.stack([*after], axis=1), [state for state, _ in theirs], atol=1e-6, rtol=0
    )
    np.testing.assert_allclose(rewards, [gain for _, gain in theirs], atol=1e-6, rtol=0)


def test_a_held_action_is_a_loop_of_steps() -> None:
    state = PendulumState(jnp.asarray(2.5), jnp.asarray(-1.5))
    action, theta = jnp.asarray(0.7), jnp.asarray(1.7)
    held, total = repeated_step(state, action, theta, 5)
    expected = 0.0
    for _ in range(5):
        state, gained = step(state, action, theta)
        expected += float(gained)
    np.testing.assert_allclose([*held], [*state], rtol=1e-14)
    assert float(total) == pytest.approx(expected, rel=1e-14)


def test_an_observation_tells_the_state(samples: tuple[np.ndarray, ...]) -> None:
    states = PendulumState(*map(jnp.asarray, samples[:2]))
    back = jax.vmap(lambda state: state_of(observe(state)))(states)
    np.testing.assert_allclose(back.angle, jax.vmap(wrap)(states.angle), atol=1e-12)
    np.testing.assert_allclose(back.speed, states.speed, atol=1e-12)
