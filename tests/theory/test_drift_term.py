"""β and ξ of Lemma 1: by hand, and where the printed ones fail and the proved hold."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.theory.confidence import (
    Scheme,
    Setting,
    Version,
    confidence_width,
    corrected_confidence_width,
    drift_coefficient,
    stale_data_bias,
    width_of,
)
from factories import gain_of_kernel

SETTING = Setting(
    rkhs_bound=2.0, noise_std=0.5, outputs=3, failure_probability=0.1, steps=40
)


def test_coefficients_by_hand() -> None:
    setting = Setting(kernel_bound=1.5, noise_std=0.5, steps=4)
    # 2·1.5·√(4·1.25·5)/0.25 = 3·5/0.25
    assert float(drift_coefficient(setting, 5.0, 4, "printed")) == pytest.approx(60.0)
    assert float(drift_coefficient(setting, 0.0, 0, "printed")) == 0.0
    # 1.5·√16/(2·0.5), of transitions
    assert float(drift_coefficient(setting, 5.0, 4)) == pytest.approx(6.0)


def test_widths_of_schemes() -> None:
    def width(scheme: Scheme, version: Version) -> float:
        options = {"scheme": scheme, "version": version, "span": 4}
        return float(width_of(SETTING, 4.0, episode=7, episodes=10, **options))

    reset = float(confidence_width(SETTING, 4.0))
    assert width("reset", "printed") == width("keep_all", "printed") == reset
    assert width("window", "printed") == float(confidence_width(SETTING, 4.0, 280))
    sets_of: dict[Scheme, int] = {"keep_all": 1, "reset": 3, "window": 10}
    for scheme, sets in sets_of.items():
        # 2 + √(2(4 + log(3·D/0.1)))
        expected = 2 + np.sqrt(2 * (4 + np.log(3 * sets / 0.1)))
        assert width(scheme, "corrected") == pytest.approx(expected)


def two_episodes_of_stale_data(
    steps: int, noise_std: float
) -> tuple[np.ndarray, np.ndarray]:
    """Return features of 2T points, and the weights w of the query (0, 1).

    The kernel is the linear one on two features.  Episode 1 visits (1, ε) and episode 2
    (1, −ε), ε = σ/√(2T): only their difference says anything about the query.
    """
    small = noise_std / np.sqrt(2 * steps)
    features = np.ones((2 * steps, 2)) * np.where(
        np.arange(2 * steps)[:, None] < steps, [1.0, small], [1.0, -small]
    )
    # C⁻¹k = Φ(ΦᵀΦ + σ²I)⁻¹φ, without a matrix of 2T by 2T.
    inner = features.T @ features + noise_std**2 * np.eye(2)
    return features, features @ np.linalg.solve(inner, np.array([0.0, 1.0]))


def test_printed_coefficient_is_too_small_for_long_episodes() -> None:
    """The first feature's weight turns from −B to B after episode 1, T = 4000, σ = 1.

    Noise aside, μ at the query is then off by far more than Lemma 1 allows, because ξ
    grows with the episodes and the error with their transitions.
    """
    steps, noise, bound = 4000, 1.0, 1.0
    features, weights = two_episodes_of_stale_data(steps, noise)
    old, new = np.array([-bound, 0.0]), np.array([bound, 0.0])
    is_old = np.arange(2 * steps) < steps
    observed = np.where(is_old, features @ old, features @ new)
    error = abs(weights @ observed)  # f_3 is 0 at the query (0, 1)
    # γ: at most 8000 points of norm 1 in two dimensions, best half and half.
    gain = np.log1p(steps / noise**2)
    setting = Setting(rkhs_bound=bound, noise_std=noise, steps=steps)
    std = np.sqrt(noise**2 / (noise**2 + 2 * steps * (noise**2 / (2 * steps))))

    def lemma(version: Version) -> float:
        width = width_of(
            setting,
            gain,
            scheme="window",
            span=2,
            episode=3,
            episodes=3,
            version=version,
        )
        coefficient = drift_coefficient(setting, gain, 2, version)
        return float(width * std + coefficient * 2 * bound)

    assert error == pytest.approx(44.7, abs=0.1)
    assert lemma("printed") == pytest.approx(28.2, abs=0.1)
    assert error > 1.5 * lemma("printed")
    # The proved bound is within a factor of about two: M must count transitions.
    assert error < lemma("corrected") < 2.2 * error


def test_printed_width_is_too_narrow_for_little_noise() -> None:
    """One point seen 50 times: noise/σ(z) is standard normal, and β about 0.1."""
    rng = np.random.default_rng(0)
    noise, seen, bound = 0.01, 50, 0.05
    gain = gain_of_kernel(np.ones((seen, seen)), noise)
    targets = bound + noise * rng.standard_normal((2000, seen))
    mean = targets.sum(axis=1) / (seen + noise**2)
    std = np.sqrt(noise**2 / (seen + noise**2))
    setting = Setting(rkhs_bound=bound, noise_std=noise)
    printed = confidence_width(setting, gain)
    corrected = corrected_confidence_width(setting, gain)
    errors = np.abs(mean - bound) / std
    assert np.mean(errors <= printed) < 0.2
    assert np.mean(errors <= corrected) >= 0.9


def stale_problem(seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    points = rng.uniform(-1, 1, (13, 1))  # three episodes of 4, 4 and 5
    query = rng.uniform(-1, 1, (3, 1))
    kernel = np.exp(-2 * (points - points.T) ** 2)
    cross = np.exp(-2 * (points - query.T) ** 2)
    weights = np.linalg.solve(kernel + 0.01 * np.eye(13), cross)
    return points, kernel, weights


def test_stale_data_bias_is_attained() -> None:
    """For one increment the worst g is the direction Σ_{i∈I} w_i k(z_i, ·) itself."""
    _, kernel, weights = stale_problem(0)
    ends = [4, 8, 13]
    for place, end in enumerate(ends):
        increments = np.zeros((3, 1))
        increments[place] = 0.7
        bias = stale_data_bias(kernel, weights, ends, increments)
        for query in range(3):
            masked = np.where(np.arange(13) < end, weights[:, query], 0.0)
            norm = np.sqrt(masked @ kernel @ masked)
            values = kernel @ masked * 0.7 / norm  # g of norm 0.7 at the data
            assert bias[query, 0] == pytest.approx(masked @ values)


@given(st.integers(0, 1000))
def test_stale_data_bias_is_at_most_the_corrected_term(seed: int) -> None:
    _, kernel, weights = stale_problem(seed)
    increments = np.random.default_rng(seed).uniform(0, 1, (3, 2))
    bias = stale_data_bias(kernel, weights, [4, 8, 13], increments)
    worst = drift_coefficient(Setting(), 0.0, 13)
    assert bias.shape == (3, 2)
    assert np.all(bias <= worst * increments.sum(axis=0) * (1 + 1e-9))


def test_resets_must_hold_together() -> None:
    """One point, f = 0, σ = 1, 60 resets, δ = ½: each block holds, all do not."""
    steps, blocks, delta = 4, 60, 0.5
    noise = np.random.default_rng(0).standard_normal((2000, blocks, steps))
    seen = np.arange(1, steps + 1)
    mean, std = np.cumsum(noise, axis=-1) / (seen + 1), np.sqrt(1 / (seen + 1))
    gain = 0.5 * np.log1p(seen)
    setting = Setting(rkhs_bound=0.0, noise_std=1.0, failure_probability=delta)
    printed = confidence_width(setting, gain)
    corrected = corrected_confidence_width(setting, gain, blocks)
    held = np.abs(mean) <= printed * std
    assert np.mean(held[:, 0].all(axis=-1)) >= 1 - delta
    assert np.mean(held.all(axis=(1, 2))) < 0.01
    assert np.mean((np.abs(mean) <= corrected * std).all(axis=(1, 2))) >= 1 - delta
