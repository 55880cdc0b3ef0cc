"""Rollouts of a policy, against a loop written out on a known system."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.agents.rollouts import (
    Policy,
    Rollouts,
    Termination,
    imagine,
    never_terminates,
)
from driftrl.config.deep import ImaginationConfig
from driftrl.models.ensemble import EnsemblePrediction

KEY = jax.random.key(3)
FOUR = ImaginationConfig(horizon=4)
# Three members x' = A_e x + b_e u, r = c_e·x + u²: the known "ensemble".
A = np.array(
    [[[0.9, 0.2], [-0.1, 0.8]], [[0.7, 0.1], [0.0, 1.1]], [[1.0, 0.0], [0.3, 0.9]]],
    np.float32,
)
B = np.array([[0.0, 0.5], [0.1, 0.4], [-0.2, 0.6]], np.float32)
C = np.array([[1.0, 2.0], [0.5, -1.0], [3.0, 0.0]], np.float32)
SCALE = np.array([2.0, 0.25, 4.0], np.float32)
NOISE = np.array([0.1, 0.2, 0.3], np.float32)
LIMIT = 0.4  # of the second state, where the task ends if it does
START = np.array([[1.0, -0.5], [0.0, 0.25], [-2.0, 1.0], [0.3, 0.3]], np.float32)


def predict(obs: jax.Array, action: jax.Array) -> EnsemblePrediction:
    means = jnp.asarray(A) @ obs + jnp.asarray(B) * action[0]
    rewards = jnp.asarray(C) @ obs + action[0] ** 2
    outputs = jnp.concatenate([means - obs[None], rewards[:, None]], axis=1)
    return EnsemblePrediction(
        mean=jnp.mean(means, axis=0),
        reward=jnp.mean(rewards),
        epistemic_std=jnp.std(outputs, axis=0),
        aleatoric_std=jnp.asarray(NOISE),
        scale=jnp.asarray(SCALE),
        member_means=means,
        member_rewards=rewards,
    )


def steady(obs: jax.Array, key: jax.Array) -> jax.Array:
    """Act without chance, differently in every state."""
    del key
    return jnp.sin(obs[:1] - 2.0 * obs[1:])


def noisy(obs: jax.Array, key: jax.Array) -> jax.Array:
    return steady(obs, key) + jax.random.normal(key, (1,))


def outcome(x: np.ndarray, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return next state and reward of every member."""
    return A @ x + B * u, C @ x + u**2


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _compiled(
    policy: Policy, ends: Termination, config: ImaginationConfig, key: jax.Array
) -> Rollouts:
    return imagine(predict, policy, ends, jnp.asarray(START), config, key=key)


def imagined(
    policy: Policy = steady,
    terminated: Termination = never_terminates,
    config: ImaginationConfig = FOUR,
    key: jax.Array = KEY,
) -> Rollouts:
    return _compiled(policy, terminated, config, key)


@pytest.mark.parametrize("bonus", ["norm", "information_gain"])
def test_mean_dynamics_equal_the_loop(bonus: str) -> None:
    config = ImaginationConfig(horizon=4, bonus=bonus)
    found = imagined(config=config)
    assert found.obs.shape == found.next_obs.shape == (4, 4, 2)
    assert found.actions.shape == (4, 4, 1) and found.active.shape == (4, 4)
    for row, start in enumerate(START):
        x = start
        for k in range(4):
            u = np.sin(x[:1] - 2.0 * x[1:])
            nexts, rewards = outcome(x, u)
            std = np.concatenate([(nexts - x).std(axis=0), [rewards.std()]])
            worth = {
                "norm": np.linalg.norm(std / SCALE),
                "information_gain": np.log(1.0 + (std / NOISE) ** 2).mean(),
            }[bonus]
            for name, value in {
                "obs": x,
                "actions": u,
                "rewards": rewards.mean(),
                "bonus": worth,
                "next_obs": nexts.mean(axis=0),
                "terminated": 0.0,
            }.items():
                np.testing.assert_allclose(
                    getattr(found, name)[k, row], value, rtol=2e-4, atol=1e-5
                )
            x = nexts.mean(axis=0)
    assert bool(found.active.all())


def test_a_member_is_drawn_for_every_step_of_every_rollout() -> None:
    config = ImaginationConfig(horizon=8, dynamics="member")
    found = jax.tree.map(np.asarray, imagined(noisy, config=config))
    drawn = np.zeros((8, 4), int)
    for k in range(8):
        for row in range(4):
            nexts, rewards = outcome(found.obs[k, row], found.actions[k, row])
            gaps = np.abs(nexts - found.next_obs[k, row]).max(axis=1)
            gaps += np.abs(rewards - found.rewards[k, row])
            drawn[k, row] = gaps.argmin()
            # State and reward are of one and the same member.
            assert gaps.min() < 1e-4 * (1.0 + np.abs(nexts).max())
    assert set(drawn.flat) == {0, 1, 2}
    assert all(len(set(column)) > 1 for column in drawn.T)  # not one a rollout
    assert any(len(set(line)) > 1 for line in drawn)  # nor one a step


def too_high(obs: jax.Array, action: jax.Array, next_obs: jax.Array) -> jax.Array:
    del obs, action
    return next_obs[1] > LIMIT


def probably_high(obs: jax.Array, action: jax.Array, next_obs: jax.Array) -> jax.Array:
    del obs, action
    return jax.nn.sigmoid(next_obs[1] - LIMIT)


@pytest.mark.parametrize("ends", [too_high, probably_high])
def test_a_rollout_stops_where_the_task_ends(ends: Termination) -> None:
    free, found = imagined(), imagined(terminated=ends)
    high = np.asarray(free.next_obs[..., 1]) > LIMIT
    assert high.any(axis=0).sum() == 2  # some end, some do not
    assert any(0 < np.argmax(column) < 3 for column in high.T)  # one in the middle
    for row in range(4):
        steps = np.flatnonzero(high[:, row])
        last = int(steps[0]) if len(steps) else 3
        np.testing.assert_array_equal(found.active[:, row], np.arange(4) <= last)
        for name in ("obs", "actions", "rewards", "bonus", "next_obs", "terminated"):
            whole, stopped = (np.asarray(getattr(x, name)) for x in (free, found))
            if name != "terminated":
                np.testing.assert_allclose(
                    stopped[: last + 1, row], whole[: last + 1, row], rtol=1e-5
                )
            for k in range(last + 1, 4):  # the last transition, again and again
                np.testing.assert_array_equal(stopped[k, row], stopped[last, row])
        if ends is too_high:
            ended = (np.arange(4) >= last) & bool(len(steps))
            np.testing.assert_array_equal(found.terminated[:, row], ended)
        else:
            chance = 1.0 / (1.0 + np.exp(LIMIT - np.asarray(found.next_obs[:, row, 1])))
            np.testing.assert_allclose(found.terminated[:, row], chance, rtol=1e-5)
