"""Interpolation, value tables against brute force, and the greedy policy."""

from functools import cache, partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.envs.pendulum import MAX_SPEED, PendulumState, repeated_step
from driftrl.oracles.dynamic_programming import (
    Grid,
    Trajectory,
    Values,
    greedy_rollouts,
    interpolate,
    pad,
    refined_argmax,
    value_tables,
)

COARSE = Grid(angles=60, speeds=61, actions=11)
ANGLES = -np.pi + 2.0 * np.pi / COARSE.angles * np.arange(COARSE.angles)
SPEEDS = np.linspace(-MAX_SPEED, MAX_SPEED, COARSE.speeds)
ANGLE, SPEED = np.meshgrid(ANGLES, SPEEDS, indexing="ij")
ROUGH = jnp.asarray(np.random.default_rng(0).normal(size=(60, 61)), jnp.float32)

interpolate_all = jax.jit(jax.vmap(interpolate, in_axes=(None, 0)))


def states(angles: np.ndarray, speeds: np.ndarray) -> PendulumState:
    return PendulumState(jnp.asarray(angles), jnp.asarray(speeds))


@cache
def tables(theta: float, repeat: int, steps: int) -> Values:
    return value_tables(jnp.float32(theta), grid=COARSE, repeat=repeat, steps=steps)


STARTS = np.array([(np.pi, 0.0), (-np.pi, 0.0), (1.0, 2.0), (-1.0, -2.0), (0.0, 0.0)])
FREE = np.full((5, 8), np.nan)


def roll(forced: np.ndarray = FREE) -> Trajectory:
    """Follow the greedy policy from STARTS: θ = 10, eight steps of five."""
    rest = tables(10.0, 5, 8).rest
    with jax.enable_x64(True):
        episodes = greedy_rollouts(
            rest, states(*STARTS.T), jnp.asarray(forced), jnp.float64(10.0), repeat=5
        )
        return jax.device_get(episodes)


def test_interpolation_gives_back_the_points_of_the_grid() -> None:
    found = interpolate_all(pad(ROUGH), states(ANGLE.ravel(), SPEED.ravel()))
    # The point is located in single precision, which moves it by a millionth of a cell.
    np.testing.assert_allclose(found, ROUGH.ravel(), atol=1e-4)


def test_a_parabola_is_maximised_exactly() -> None:
    actions = jnp.linspace(-1.0, 1.0, 11)
    tops = jnp.asarray([-0.93, -0.3, 0.0, 0.47, 1.0])
    values = 5.0 - 3.0 * (actions[None, :] - tops[:, None]) ** 2
    found = jax.jit(jax.vmap(refined_argmax, in_axes=(0, None)))(values, actions)
    np.testing.assert_allclose(found, tops, atol=1e-5)


@partial(jax.jit, static_argnames="repeat")
def brute_force(table: jax.Array, theta: jax.Array, repeat: int) -> jax.Array:
    """max_a r + V over a dense grid of actions, with V interpolated as elsewhere."""
    padded = pad(table)
    every = states(ANGLE.ravel().astype(np.float32), SPEED.ravel().astype(np.float32))

    def value(state: PendulumState, action: jax.Array) -> jax.Array:
        after, gained = repeated_step(state, action, theta, repeat)
        return gained + interpolate(padded, after)

    actions = jnp.linspace(-1.0, 1.0, 401)
    values = jax.lax.map(lambda a: jax.vmap(value, (0, None))(every, a), actions)
    return values.max(axis=0).reshape(table.shape)


@pytest.mark.parametrize(("repeat", "steps"), [(1, 2), (5, 8)])
def test_two_backups_equal_brute_force(repeat: int, steps: int) -> None:
    theta = jnp.float32(4.0)
    first = brute_force(jnp.zeros(ANGLE.shape), theta, repeat)
    second = np.asarray(brute_force(first, theta, repeat))
    values = tables(4.0, repeat, steps)
    found = [*values.rest, values.whole]
    np.testing.assert_array_equal(found[0], 0.0)
    # Not worse than eleven actions and a parabola can be.
    np.testing.assert_allclose(found[1], first, atol=2e-3)
    np.testing.assert_allclose(found[2], second, atol=0.1)
    assert np.median(np.abs(found[2] - second)) < 2e-4


def test_greedy_policy_achieves_the_value() -> None:
    episodes = roll()
    actions, returns = episodes.actions, episodes.value
    promised = interpolate_all(
        pad(tables(10.0, 5, 8).whole), states(*STARTS.T.astype(np.float32))
    )
    np.testing.assert_allclose(returns, promised, rtol=0.02, atol=0.02)
    assert returns[0] == pytest.approx(returns[1], rel=1e-3)
    assert returns[2] == pytest.approx(returns[3], rel=1e-3)
    np.testing.assert_allclose(actions[2], -actions[3], atol=0.02)
    assert returns[4] == 0.0


def test_rollout_agrees_with_gymnasium() -> None:
    episodes = roll()
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    env.state = STARTS[2]  # pyright: ignore[reportAttributeAccessIssue]
    env.max_torque = 10.0  # pyright: ignore[reportAttributeAccessIssue]
    total = 0.0
    for action in np.repeat(episodes.actions[2], 5):
        total += float(env.step(np.array([10.0 * action]))[1])
    assert float(episodes.value[2]) == pytest.approx(total, abs=1e-6)


def test_forced_actions_are_taken_as_given() -> None:
    forced = FREE.copy()
    forced[1, :3] = [0.25, -0.5, 1.0]
    np.testing.assert_array_equal(roll(forced).actions[1, :3], [0.25, -0.5, 1.0])
