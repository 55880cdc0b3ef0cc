"""J* of an episode within which θ drifts, against the Riccati recursion."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.config.run import EnvironmentConfig
from driftrl.envs.pendulum import PendulumState, Scalar
from driftrl.oracles import dynamic_programming, pendulum
from driftrl.oracles.dynamic_programming import (
    Grid,
    greedy_rollouts,
    interpolate,
    pad,
    value_tables,
)

# x' = A·x + θ_t·B·u, r = −(x'Qx + R·u²): the gain θ_t of the drive drifts.
A, B = np.array([[1.0, 0.25], [0.0, 1.0]]), np.array([[0.03], [0.25]])
Q, R = np.diag([1.0, 0.3]), 0.2
STEPS = 12
THETAS = np.linspace(3.0, 0.8, STEPS)
START = np.array([0.4, -0.3])


def linear(
    state: PendulumState, action: Scalar, theta: Scalar, repeat: int
) -> tuple[PendulumState, Scalar]:
    """Advance the linear system; on the pendulum's grid, far from its edges."""
    del repeat
    x, v = state
    drive = theta * action
    after = PendulumState(x + 0.25 * v + 0.03 * drive, v + 0.25 * drive)
    return after, -(Q[0, 0] * x**2 + Q[1, 1] * v**2 + R * action**2)


def riccati_value(thetas: np.ndarray, start: np.ndarray) -> float:
    """Return −x'P_0x, with P_t from P_{t+1} by the recursion of the textbook."""
    ahead = np.zeros((2, 2))
    for theta in thetas[::-1]:
        drive = theta * B
        gain = np.linalg.solve(R + drive.T @ ahead @ drive, drive.T @ ahead @ A)
        ahead = Q + A.T @ ahead @ (A - drive @ gain)
    return -float(start @ ahead @ start)


@pytest.mark.parametrize("order", [1, -1])
def test_a_linear_system_with_a_drifting_gain_is_riccatis(
    order: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    jax.clear_caches()
    request.addfinalizer(jax.clear_caches)
    monkeypatch.setattr(dynamic_programming, "repeated_step", linear)
    thetas = THETAS[::order]
    found = value_tables(
        jnp.asarray(thetas, jnp.float32), grid=Grid(256, 321, 21), repeat=1, steps=STEPS
    )
    expected = riccati_value(thetas, START)
    state = PendulumState(*jnp.asarray(START, jnp.float32))
    value = float(jax.jit(interpolate)(pad(found.whole), state))
    assert value == pytest.approx(expected, rel=0.01)
    starts = PendulumState(*jnp.asarray(START, jnp.float32)[:, None])
    rolled = greedy_rollouts(
        found.rest,
        starts,
        jnp.full((1, STEPS), jnp.nan),
        jnp.asarray(thetas, jnp.float32),
        repeat=1,
    )
    assert np.abs(rolled.actions).max() < 1  # else the bound on u would count
    achieved = float(rolled.value[0])
    assert expected - 0.002 < achieved <= expected + 1e-5
    # The order of the gains makes the difference that is asserted.
    assert abs(riccati_value(thetas[::-1], START) / expected - 1) > 0.04


def test_a_constant_path_is_a_constant_theta() -> None:
    grid, steps = Grid(40, 41, 11), 6
    one = value_tables(jnp.float32(3.0), grid=grid, repeat=5, steps=steps)
    path = jnp.full(steps, 3.0, jnp.float32)
    many = value_tables(path, grid=grid, repeat=5, steps=steps)
    np.testing.assert_allclose(many.whole, one.whole, rtol=1e-5, atol=1e-4)


def test_the_refined_optimum_follows_the_path(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, few in (("PUSHES", (0, 10)), ("VARIED_ROUNDS", 0), ("ROUNDS", 1)):
        monkeypatch.setattr(pendulum, name, few)
    monkeypatch.setattr(pendulum, "ITERATIONS", 30)
    environment, grid = EnvironmentConfig(100, 5), Grid(60, 61, 11)
    path = np.linspace(8.0, 2.0, environment.steps)
    drifting, strong, weak = (
        pendulum.optimal_return(theta, environment, grid).value
        for theta in (path, 8.0, 2.0)
    )
    assert weak < drifting < strong
