"""iCEM: the colour of its noise, known optima, what it carries over."""

import functools
from collections.abc import Callable
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from driftrl.agents.icem import Plan, coloured_noise, initial_plan, plan, shift
from driftrl.config.gp import ICEMConfig

pytestmark = pytest.mark.usefixtures("x64")

CONFIG = ICEMConfig(horizon=6, samples=100, elites=10, iterations=6)
THOROUGH = ICEMConfig(
    horizon=6,
    samples=400,
    elites=40,
    iterations=12,
    initial_std=1.0,
    noise_exponent=0.0,
)
HASTY = ICEMConfig(horizon=6, samples=10, elites=10, iterations=2)
TARGET = np.linspace(-0.8, 0.7, 12).reshape(6, 2)

Objective = Callable[[jax.Array], jax.Array]


def quadratic(actions: jax.Array) -> jax.Array:
    """Be greatest, 3, at TARGET."""
    return 3.0 - jnp.sum((actions - jnp.asarray(TARGET)) ** 2)


def outside(actions: jax.Array) -> jax.Array:
    """Be greatest at the corner (1, −1) of every step's box."""
    return -jnp.sum((actions - jnp.array([[2.5, -3.0]] * 6)) ** 2)


def wavy(actions: jax.Array) -> jax.Array:
    """Have 3 maxima in every step's first action; the best is 1 at 0.5."""
    x = actions[:, 0]
    hills = jnp.cos(3.0 * jnp.pi * (x - 0.5)) - (x - 0.5) ** 2
    return jnp.mean(hills) - jnp.mean(actions[:, 1] ** 2)


@functools.cache
def compiled(objective: Objective, config: ICEMConfig) -> Callable[..., Plan]:
    return jax.jit(lambda warm, key: plan(objective, warm, config, key=key))


def planned(
    objective: Objective, config: ICEMConfig, seed: int, warm: Plan | None = None
) -> Plan:
    start = initial_plan(config, 2) if warm is None else warm
    return compiled(objective, config)(start, jax.random.key(seed))


# ---- noise -------------------------------------------------------------------------


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("horizon", [1, 16, 17])
def test_noise_has_mean_zero_and_variance_one(exponent: float, horizon: int) -> None:
    shape = (20_000, horizon, 1)
    noise = np.asarray(coloured_noise(shape, exponent, key=jax.random.key(0)))
    assert noise.shape == shape
    # At every step: 20 000 draws give ± 0.7 % and ± 1 %.
    np.testing.assert_allclose(noise.mean(axis=0), 0.0, atol=0.03)
    np.testing.assert_allclose(noise.var(axis=0), 1.0, atol=0.05)


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0])
@pytest.mark.parametrize("horizon", [16, 17])
def test_noise_has_the_asked_spectrum(exponent: float, horizon: int) -> None:
    noise = coloured_noise((20_000, horizon, 1), exponent, key=jax.random.key(1))
    power = np.mean(np.abs(np.fft.rfft(noise, axis=1)) ** 2, axis=(0, 2))
    frequency = np.fft.rfftfreq(horizon)
    slope, _ = np.polyfit(np.log(frequency[1:]), np.log(power[1:]), 1)
    assert slope == pytest.approx(-exponent, abs=0.03)
    # The mean of a sequence, where 1/f^β has its pole, has the power of the next.
    assert power[0] == pytest.approx(power[1], rel=0.05)


# ---- optima ------------------------------------------------------------------------


def test_finds_an_optimum_inside() -> None:
    found = planned(quadratic, THOROUGH, 0)
    assert float(found.value) > 2.999
    np.testing.assert_allclose(found.mean, TARGET, atol=0.02)


def test_finds_an_optimum_on_the_bounds() -> None:
    found = planned(outside, THOROUGH, 0)
    np.testing.assert_allclose(found.mean, [[1.0, -1.0]] * 6, atol=0.06)
    assert np.abs(found.elites).max() == 1.0


# ---- elites ------------------------------------------------------------------------


def test_mean_and_spread_move_to_the_elites() -> None:
    # Two iterations by hand: the second draws around the first one's elites.
    config = replace(CONFIG, iterations=2, momentum=0.25, carried=0.1)
    key = jax.random.key(4)
    warm = initial_plan(config, 2)
    found = compiled(quadratic, config)(warm, key)
    keys = jax.random.split(key, 2)
    mean, std, elites = np.zeros((6, 2)), np.full((6, 2), 0.5), np.zeros((1, 6, 2))
    for one in keys:
        noise = np.asarray(coloured_noise((100, 6, 2), 1.0, key=one))
        drawn = np.clip(mean + std * noise, -1.0, 1.0)
        candidates = np.concatenate([drawn, elites[:1], mean[None]])
        scores = 3.0 - ((candidates - TARGET) ** 2).sum(axis=(1, 2))
        elites = candidates[np.argsort(-scores, kind="stable")[:10]]
        mean = 0.25 * mean + 0.75 * elites.mean(axis=0)
        std = 0.25 * std + 0.75 * elites.std(axis=0)
    np.testing.assert_allclose(found.elites, elites, atol=1e-9)


def test_value_never_falls_while_the_objective_stays() -> None:
    warm, values = None, []
    for seed in range(40):
        warm = planned(wavy, HASTY, seed, warm)
        values.append(float(warm.value))
    assert np.all(np.diff(values) >= 0.0)
    assert values[-1] > values[0]


def test_a_plan_of_unknown_value_is_never_chosen() -> None:
    def broken(actions: jax.Array) -> jax.Array:
        return jnp.where(actions[0, 0] > 0.0, jnp.nan, quadratic(actions))

    found = planned(broken, HASTY, 0)
    assert np.isfinite(float(found.value))
    assert float(found.mean[0, 0]) <= 0.0


# ---- plans -------------------------------------------------------------------------


def test_shift_by_hand() -> None:
    mean = jnp.array([[1.0, 10.0], [2.0, 20.0], [3.0, 30.0]])
    elites = jnp.stack([mean, -mean])
    shifted = shift(Plan(mean, elites, jnp.asarray(7.0)))
    moved = np.array([[2.0, 20.0], [3.0, 30.0], [3.0, 30.0]])
    np.testing.assert_array_equal(shifted.mean, moved)
    np.testing.assert_array_equal(shifted.elites, np.stack([moved, -moved]))
    assert float(shifted.value) == 7.0
