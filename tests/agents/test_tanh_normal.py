"""The tanh-normal policy: its density, and far out in the tails."""

from inspect import unwrap

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.stats import norm

from driftrl.agents import sac
from driftrl.agents.sac import TanhNormal

pytestmark = pytest.mark.usefixtures("x64")

SHAPES = [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.5), (0.2, -3.0)]
"""μ and log σ."""


def one(mean: float, log_std: float) -> TanhNormal:
    return TanhNormal(jnp.array([mean]), jnp.array([log_std]))


def density(distribution: TanhNormal, action: float) -> float:
    """Return the density that ``sample`` reports for an action."""
    std = jnp.exp(distribution.log_std)
    noise = (jnp.array([np.arctanh(action)]) - distribution.mean) / std
    return float(jnp.exp(distribution.sample(noise)[1]))


@pytest.mark.parametrize(("mean", "log_std"), SHAPES)
@pytest.mark.parametrize("action", [-0.95, -0.3, 0.25, 0.6])
def test_density_is_the_slope_of_the_probability(
    mean: float, log_std: float, action: float
) -> None:
    # P(a ≤ c) = Φ((artanh c − μ)/σ), whatever the density is thought to be.
    def below(action: float) -> float:
        return float(norm.cdf(np.arctanh(action), mean, np.exp(log_std)))

    step = 1e-5
    slope = (below(action + step) - below(action - step)) / (2 * step)
    assert density(one(mean, log_std), action) == pytest.approx(
        slope, rel=1e-5, abs=1e-9
    )


@pytest.mark.parametrize("mean", [-1e4, -60.0, -12.0, 12.0, 60.0, 1e4])
def test_everything_is_finite_where_tanh_saturates(mean: float) -> None:
    # In single precision, as it runs: tanh(12) is exactly 1 there.
    def log_prob(mean: jax.Array, log_std: jax.Array) -> jax.Array:
        return TanhNormal(mean, log_std).sample(jnp.zeros(1, jnp.float32))[1]

    parts = jnp.array([mean], jnp.float32), jnp.array([2.0], jnp.float32)
    value, slopes = jax.value_and_grad(log_prob, (0, 1))(*parts)
    # log(1 − tanh² u) → 2 log 2 − 2|u|
    expected = -2.0 - 0.918938533 - 2 * (np.log(2.0) - abs(mean))
    assert float(value) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(slopes[0], [2.0 * np.sign(mean)], rtol=1e-5)
    assert np.isfinite(np.asarray(slopes[1])).all()


def test_policy_reads_mean_then_clipped_log_std() -> None:
    actor = lambda obs: jnp.array([5.0, -6.0, 0.1, 3.0, -11.0, -2.0])
    found = unwrap(sac.policy)(actor, jnp.zeros(1))
    np.testing.assert_array_equal(found.mean, [5.0, -6.0, 0.1])
    np.testing.assert_array_equal(found.log_std, [2.0, -10.0, -2.0])
    np.testing.assert_allclose(found.mode(), np.tanh([5.0, -6.0, 0.1]))
