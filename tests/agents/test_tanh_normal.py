"""The tanh-normal policy: a density, the change of variables, far out in the tails."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from driftrl.agents.tanh_normal import TanhNormal, from_outputs, log_slope

pytestmark = pytest.mark.usefixtures("x64")

SHAPES = [(0.0, 0.0), (0.7, -1.0), (-1.5, 0.5), (0.2, -3.0)]
"""μ and log σ."""


def one(mean: float, log_std: float) -> TanhNormal:
    return TanhNormal(jnp.array([mean]), jnp.array([log_std]))


def density(distribution: TanhNormal, action: float) -> float:
    return float(jnp.exp(distribution.log_prob(jnp.array([np.arctanh(action)]))))


@pytest.mark.parametrize(("mean", "log_std"), SHAPES)
def test_density_integrates_to_one(mean: float, log_std: float) -> None:
    found = one(mean, log_std)
    centre = float(np.tanh(mean))
    area, _ = quad(lambda a: density(found, a), -1, 1, points=[centre], limit=200)
    assert area == pytest.approx(1.0, abs=1e-6)


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


def test_log_prob_sums_over_actions() -> None:
    mean, std = np.array([0.3, -0.8]), np.array([0.5, 1.5])
    latent = np.array([0.9, -2.0])
    found = TanhNormal(jnp.asarray(mean), jnp.log(std)).log_prob(jnp.asarray(latent))
    expected = norm.logpdf(latent, mean, std) - np.log(1 - np.tanh(latent) ** 2)
    assert float(found) == pytest.approx(expected.sum(), rel=1e-10)


def test_sample_by_hand() -> None:
    # u = 0.5 + 2·0.25 = 1; log N = −0.25²/2 − log 2 − log √2π; slope 1 − tanh² 1.
    action, log_prob = one(0.5, np.log(2.0)).sample(jnp.array([0.25]))
    assert float(action[0]) == pytest.approx(0.761594156)
    by_hand = -0.03125 - 0.693147181 - 0.918938533 + 0.867561661
    assert float(log_prob) == pytest.approx(by_hand, abs=1e-8)


def test_sample_and_log_prob_agree() -> None:
    found = TanhNormal(jnp.array([0.2, -0.4]), jnp.array([-0.5, 0.3]))
    noise = jax.random.normal(jax.random.key(0), (50, 2))
    latent = found.mean[None] + jnp.exp(found.log_std)[None] * noise
    actions, log_prob = jax.vmap(found.sample)(noise)
    np.testing.assert_allclose(actions, np.tanh(latent))
    np.testing.assert_allclose(log_prob, jax.vmap(found.log_prob)(latent), rtol=1e-9)


def test_mean_of_minus_log_prob_is_the_entropy() -> None:
    found = one(0.4, -0.3)
    information = lambda a: -density(found, a) * np.log(max(density(found, a), 1e-300))
    entropy, _ = quad(information, -1, 1)
    noise = jax.random.normal(jax.random.key(1), (40_000, 1))
    _, log_prob = jax.vmap(found.sample)(noise)
    spread = float(log_prob.std()) / 200.0
    assert -float(log_prob.mean()) == pytest.approx(entropy, abs=4 * spread)


def test_gradient_goes_through_the_sample() -> None:
    noise = jnp.array([0.7])

    def action(mean: jax.Array, log_std: jax.Array) -> jax.Array:
        return TanhNormal(mean, log_std).sample(noise)[0][0]

    by_mean, by_log_std = jax.grad(action, (0, 1))(jnp.array([0.3]), jnp.array([-1.0]))
    sigma = np.exp(-1.0)
    slope = 1 - np.tanh(0.3 + 0.7 * sigma) ** 2
    assert float(by_mean[0]) == pytest.approx(slope)
    assert float(by_log_std[0]) == pytest.approx(slope * sigma * 0.7)


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


def test_log_slope_is_symmetric() -> None:
    u = jnp.linspace(-5.0, 5.0, 21)
    np.testing.assert_allclose(log_slope(u), np.log(1 - np.tanh(u) ** 2), atol=1e-9)
    np.testing.assert_allclose(log_slope(u), log_slope(-u), atol=1e-12)


def test_outputs_are_mean_then_clipped_log_std() -> None:
    found = from_outputs(jnp.array([5.0, -6.0, 0.1, 3.0, -11.0, -2.0]))
    np.testing.assert_array_equal(found.mean, [5.0, -6.0, 0.1])
    np.testing.assert_array_equal(found.log_std, [2.0, -10.0, -2.0])
    np.testing.assert_allclose(found.mode(), np.tanh([5.0, -6.0, 0.1]))


def test_clipped_log_std_has_no_gradient() -> None:
    slope = jax.grad(lambda out: from_outputs(out).log_std.sum())
    outputs = jnp.array([0.0, 0.0, 0.0, 3.0, -11.0, -2.0])
    np.testing.assert_array_equal(slope(outputs), [0, 0, 0, 0, 0, 1])
