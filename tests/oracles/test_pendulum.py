"""J*(θ) of the pendulum end to end, on coarse grids, and its refinement."""

from collections.abc import Iterator
from functools import partial

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.config.run import EnvironmentConfig
from driftrl.envs.pendulum import PendulumState, repeated_step
from driftrl.errors import InputError
from driftrl.oracles import pendulum
from driftrl.oracles.dynamic_programming import Grid, Trajectory
from driftrl.oracles.pendulum import optimal_return, refine, upright_gain
from driftrl.oracles.table import Optimum, StoredOracle

COARSE = Grid(80, 81, 11)
HANGING = EnvironmentConfig(sim_steps=200, action_repeat=5)
STEPS, REPEAT = 8, 5
x64 = pytest.mark.usefixtures("x64")


@pytest.fixture(scope="module", autouse=True)
def few_episodes() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pendulum, "PUSHES", (0, 10, 20))
        patch.setattr(pendulum, "VARIED_ROUNDS", 1)
        patch.setattr(pendulum, "ROUNDS", 2)
        patch.setattr(pendulum, "ITERATIONS", 100)
        yield


@pytest.fixture(scope="module")
def optima(few_episodes: None) -> dict[float, Optimum]:
    return {theta: optimal_return(theta, HANGING, COARSE) for theta in (0.0, 5.0)}


def test_without_torque_it_hangs(optima: dict[float, Optimum]) -> None:
    assert optima[0.0].value == pytest.approx(-200 * np.pi**2, rel=1e-6)
    assert optima[0.0].error < 0.2
    assert optima[0.0].std == 0.0


def test_the_error_covers_dynamic_programming_on_both_grids(
    optima: dict[float, Optimum],
) -> None:
    for optimum in optima.values():
        for grid in ("fine", "coarse"):
            promised = optimum.candidates[f"value, {grid} grid"]
            assert abs(promised - optimum.value) <= optimum.error + 1e-9


def test_shipped_values_are_found_again_on_a_coarse_grid(
    optima: dict[float, Optimum],
) -> None:
    shipped = StoredOracle("pendulum", HANGING).table([5.0]).entries[0]
    again = optima[5.0]
    assert shipped.source == "shipped"
    assert abs(shipped.value - again.value) <= shipped.error + again.error
    assert shipped.error <= 1.01 * again.error
    assert again.value == pytest.approx(shipped.value, rel=0.01)


@pytest.mark.parametrize("theta", [-0.1, float("nan"), float("inf")])
def test_an_impossible_torque_is_refused(theta: float) -> None:
    with pytest.raises(InputError):
        optimal_return(theta, HANGING)


@partial(jax.jit, static_argnames="repeat")
def follow(
    offsets: jax.Array, gain: jax.Array, start: jax.Array, theta: jax.Array, repeat: int
) -> Trajectory:
    """Return the episode of the actions u_t − gain·(φ, ω), clipped."""

    def decide(
        state: PendulumState, offset: jax.Array
    ) -> tuple[PendulumState, tuple[jax.Array, PendulumState, jax.Array]]:
        answer = gain[0] * state.angle + gain[1] * state.speed
        action = jnp.clip(offset - answer, -1.0, 1.0)
        after, gained = repeated_step(state, action, theta, repeat)
        return after, (action, state, gained)

    first = PendulumState(start[0], start[1])
    _, (actions, states, rewards) = jax.lax.scan(decide, first, offsets)
    return Trajectory(actions, states, rewards.sum())


def played(
    actions: np.ndarray, start: tuple[float, float], theta: float, repeat: int
) -> Trajectory:
    """Return the episode of given actions."""
    return follow(
        jnp.asarray(actions),
        jnp.zeros(2),
        jnp.asarray(start),
        jnp.asarray(theta),
        repeat,
    )


def riccati_gain(dynamics: np.ndarray, drive: np.ndarray) -> np.ndarray:
    """Gain of the regulator by iterating the Riccati recursion, for repeat 1."""
    cost, torque_cost = np.diag([1.0, 0.1]), 0.001
    ahead = np.zeros((2, 2))
    gain = np.zeros((1, 2))
    for _ in range(500):
        gain = drive.T @ ahead @ dynamics / (torque_cost + drive.T @ ahead @ drive)
        ahead = cost + dynamics.T @ ahead @ (dynamics - drive @ gain)
    return gain[0]


@x64
def test_the_gain_is_that_of_the_riccati_recursion() -> None:
    # ω' = ω + 0.05·(15 φ + 3 τ), φ' = φ + 0.05 ω'.
    dynamics = np.array([[1.0 + 0.05 * 0.75, 0.05], [0.75, 1.0]])
    drive = np.array([[0.05 * 0.15], [0.15]])
    np.testing.assert_allclose(
        upright_gain(1), riccati_gain(dynamics, drive), rtol=1e-8
    )


def regulated(share: float, repeat: int) -> Trajectory:
    """Return 200 time steps under a share of the gain, from beside upright, θ = 5."""
    gain = share * jnp.asarray(upright_gain(repeat)) / 5.0
    start = jnp.asarray([0.3, 0.0])
    return follow(jnp.zeros(200 // repeat), gain, start, jnp.asarray(5.0), repeat)


@x64
@pytest.mark.parametrize("theta", [0.0, 2.0, 10.0])
def test_refining_never_loses_and_gymnasium_agrees(theta: float) -> None:
    stream = np.random.default_rng(0)
    before = played(stream.uniform(-1, 1, STEPS), (np.pi, 0.0), theta, REPEAT)
    after = refine(before, theta, REPEAT)
    assert float(after.value) >= float(before.value) - 1e-9
    if theta > 0:
        assert float(after.value) > float(before.value) + 1.0
    assert np.abs(after.actions).max() <= 1.0
    env = gymnasium.make("Pendulum-v1").unwrapped
    env.reset(seed=0)
    env.state = np.array([np.pi, 0.0])  # pyright: ignore[reportAttributeAccessIssue]
    env.max_torque = theta  # pyright: ignore[reportAttributeAccessIssue]
    torques = theta * np.repeat(after.actions, REPEAT)
    total = sum(float(env.step(np.array([torque]))[1]) for torque in torques)
    assert float(after.value) == pytest.approx(total, abs=1e-5)


@x64
def test_long_balancing_is_refined() -> None:
    # Two hundred steps upright: without feedback the gradient would reach e⁴⁰.
    after = refine(regulated(0.8, 1), 5.0, 1)
    assert float(regulated(1.0, 1).value) - 1e-4 < float(after.value) < 0.0
    assert abs(after.states.angle[-1]) < 1e-3
