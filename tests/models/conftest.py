"""Transitions of the pendulum, as an agent that acts at random would collect them."""

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.envs import pendulum
from driftrl.types import Data

EPISODES = 20
DECISIONS = 40
REPEAT = 5
TORQUE = 2.0


@functools.cache
def _collect(seed: int) -> Data:
    rng = np.random.default_rng(seed)
    actions = rng.uniform(-1.0, 1.0, (EPISODES, DECISIONS))
    angles = rng.uniform(-np.pi, np.pi, EPISODES)
    with jax.enable_x64(True):

        def advance(
            state: pendulum.PendulumState, action: jax.Array
        ) -> tuple[pendulum.PendulumState, tuple[jax.Array, jax.Array, jax.Array]]:
            after, reward = pendulum.repeated_step(
                state, action, jnp.asarray(TORQUE), REPEAT
            )
            seen = pendulum.observe(state), pendulum.observe(after), reward
            return after, seen

        def episode(angle: jax.Array, taken: jax.Array) -> tuple[jax.Array, ...]:
            start = pendulum.PendulumState(angle, jnp.zeros(()))
            return jax.lax.scan(advance, start, taken)[1]

        obs, next_obs, rewards = jax.jit(jax.vmap(episode))(
            jnp.asarray(angles), jnp.asarray(actions)
        )
    return Data(
        obs=np.asarray(obs).reshape(-1, 3),
        actions=actions.reshape(-1, 1),
        rewards=np.asarray(rewards).reshape(-1),
        next_obs=np.asarray(next_obs).reshape(-1, 3),
        terminated=np.zeros(actions.size, bool),
    )


@pytest.fixture(scope="session")
def swings() -> Callable[..., Data]:
    """Return ``(first, last, seed)`` -> those of the 800 transitions of a seed."""

    def between(first: int, last: int, *, seed: int = 0) -> Data:
        assert last <= EPISODES * DECISIONS
        data = _collect(seed)
        rows = slice(first, last)
        return Data(
            data.obs[rows],
            data.actions[rows],
            data.rewards[rows],
            data.next_obs[rows],
            data.terminated[rows],
            first,
        )

    return between
