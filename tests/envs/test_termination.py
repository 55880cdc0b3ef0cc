"""The ends of the MuJoCo tasks as seen by the learner, against Gymnasium's own."""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.envs.termination import ENDS

MARGIN = 1e-5
"""How near to a boundary single precision may decide otherwise."""

STATES = 2000

# Where the height and the angle of a machine lie among its positions, and the
# boundaries of its healthy range.
HEIGHT = {"Hopper": 1, "Walker2d": 1, "Ant": 2, "Humanoid": 2}
BOUNDARIES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "Hopper": ((0.7,), (-0.2, 0.2)),
    "Walker2d": ((0.8, 2.0), (-1.0, 1.0)),
    "Ant": ((0.2, 1.0), ()),
    "Humanoid": ((1.0, 2.0), ()),
}


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let MuJoCo, which logs into the working directory, do so outside the tree."""
    monkeypatch.chdir(tmp_path)


@functools.cache
def built(machine: str, **options: bool) -> Any:
    return gymnasium.make(f"{machine}-v5", **options).unwrapped


@functools.cache
def compiled(machine: str) -> Callable[..., jax.Array]:
    return jax.jit(jax.vmap(ENDS[machine]))


def ended(machine: str, next_obs: np.ndarray) -> np.ndarray:
    """Return what the learner is told of observations in single precision."""
    return np.asarray(compiled(machine)(jnp.asarray(next_obs, jnp.float32)))


def ended_once(machine: str, next_obs: np.ndarray) -> bool:
    return bool(ended(machine, next_obs[None])[0])


def distance(machine: str, env: Any) -> float:
    """Return how far the state is from the nearest boundary of the healthy range."""
    if machine == "InvertedDoublePendulum":
        return abs(env.data.site_xpos[0][2] - 1.0)
    heights, angles = BOUNDARIES[machine]
    position = env.data.qpos[HEIGHT[machine] :]
    return min(
        *(abs(position[0] - height) for height in heights),
        *(abs(position[1] - angle) for angle in angles),
        np.inf,
    )


def unhealthy(machine: str, env: Any) -> bool:
    """Return the environment's own verdict on the state it is in."""
    if machine == "InvertedDoublePendulum":
        return bool(env.data.site_xpos[0][2] <= 1)  # as its step has it
    return not env.is_healthy


def random_state(
    machine: str, env: Any, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    """Return positions about the whole range, half of them close to a boundary."""
    qpos = env.init_qpos + rng.normal(0.0, 0.3, env.model.nq)
    qvel = rng.normal(0.0, 8.0, env.model.nv)
    if machine == "InvertedDoublePendulum":
        qpos[1:] = rng.uniform(-2.0, 2.0, 2)
        if rng.random() < 0.5:  # the second pole level, the tip at 0.6 cos φ₁ + …
            qpos[1] = rng.uniform(-0.8, 0.8)
            bend = np.arccos(1.0 / 0.6 - np.cos(qpos[1])) - qpos[1]
            qpos[2] = bend + 10.0 ** rng.uniform(-6, -1) * rng.choice([-1, 1])
        return qpos, qvel
    at, (heights, angles) = HEIGHT[machine], BOUNDARIES[machine]
    near = 10.0 ** rng.uniform(-7, -1, 2) * rng.choice([-1, 1], 2)
    close = rng.random(2) < 0.5
    qpos[at] = rng.choice(heights) + near[0] if close[0] else rng.uniform(0.0, 2.5)
    if angles:
        widest = angles[-1]
        wide = rng.uniform(-1.5 * widest, 1.5 * widest)
        qpos[at + 1] = rng.choice(angles) + near[1] if close[1] else wide
    return qpos, qvel


@pytest.mark.parametrize("machine", ENDS)
def test_agrees_with_the_environment_on_random_states(machine: str) -> None:
    env, rng = built(machine), np.random.default_rng(0)
    rows, verdicts, distances = [], [], []
    for _ in range(STATES):
        env.set_state(*random_state(machine, env, rng))
        rows.append(env._get_obs())
        verdicts.append(unhealthy(machine, env))
        distances.append(distance(machine, env))
    clear = np.array(distances) >= MARGIN
    verdict = np.array(verdicts)
    np.testing.assert_array_equal(ended(machine, np.array(rows))[clear], verdict[clear])
    assert 0.1 < verdict.mean() < 0.95  # both are tried
    close = clear & (np.array(distances) < 1e-3)
    assert verdict[close].any() and not verdict[close].all()


@pytest.mark.parametrize("machine", ENDS)
def test_agrees_with_the_environment_until_it_falls(machine: str) -> None:
    env, rng = built(machine), np.random.default_rng(1)
    low, high = env.model.actuator_ctrlrange.T
    rows, verdicts, distances = [], [], []
    for episode in range(6):
        env.reset(seed=episode)
        if machine in HEIGHT and episode % 2:  # thrown into the air, and down again
            env.data.qvel[HEIGHT[machine]] = 7.0
        for _ in range(200):
            obs, _, terminated, _, _ = env.step(rng.uniform(low, high))
            rows.append(obs)
            verdicts.append(terminated)
            distances.append(distance(machine, env))
            if terminated:
                break
    # The pendulum's environment looks at the tip a moment early (see the module).
    clear = np.array(distances) >= (
        1e-3 if machine == "InvertedDoublePendulum" else MARGIN
    )
    assert clear.mean() > 0.99
    expected = np.array(verdicts)
    np.testing.assert_array_equal(
        ended(machine, np.array(rows))[clear], expected[clear]
    )
    assert expected.any()


EXACT = [
    ("Walker2d", 1, 2.0),
    ("Walker2d", 2, 1.0),
    ("Ant", 2, 1.0),
    ("Humanoid", 2, 1.0),
]


@pytest.mark.parametrize(("machine", "index", "boundary"), EXACT)
def test_a_boundary_that_is_a_number_is_on_the_same_side(
    machine: str, index: int, boundary: float
) -> None:
    env = built(machine)
    qpos = env.init_qpos.copy()
    qpos[index] = boundary
    env.set_state(qpos, env.init_qvel)
    assert ended_once(machine, env._get_obs()) == (not env.is_healthy)
    assert env.is_healthy == (machine == "Ant")


@pytest.mark.parametrize("machine", ENDS)
@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("part", ["qpos", "qvel"])
def test_what_is_not_finite_ends_as_in_the_environment(
    machine: str, value: float, part: str
) -> None:
    env = built(machine)
    env.reset(seed=0)
    state = getattr(env.data, part)
    first = HEIGHT.get(machine, 1)
    for index in range(first, len(state)):
        kept, state[index] = state[index], value
        # Clipping hides an infinite speed of Hopper.
        hidden = machine == "Hopper" and part == "qvel" and np.isinf(value)
        with np.errstate(invalid="ignore"):  # the sine of an infinite angle
            seen = ended_once(machine, env._get_obs())
        if machine != "InvertedDoublePendulum" and not hidden:
            assert seen == (not env.is_healthy), (part, index)
        else:
            assert not seen
        state[index] = kept
