"""A Gaussian process on Nyström landmarks, for hundreds of fits in seconds.

With features φ such that φ(z)ᵀφ(z') ≈ 1 + z·z' + exp(−|z−z'|²/2), inputs divided by
their length scales, the posterior of a data set depends on three sums over it: Σφφᵀ,
Σφyᵀ and Σy².  Windows are differences of running sums, and one eigendecomposition gives
the evidence of every noise level at once.

For forgetting rules and the analysis of data; the agents' Gaussian process is
``driftrl.models.gp``.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import NamedTuple, Self

import numpy as np
from jaxtyping import Float
from scipy.linalg import solve_triangular

from driftrl.kernels import (
    Hyperparameters,
    fit_hyperparameters,
    gram,
    kernel_named,
    pivoted_factor,
)
from driftrl.normaliser import Normaliser
from driftrl.types import Episode

# Candidates for landmarks, spread over all episodes, and the prior variance of a
# candidate that the landmarks may leave unexplained.
_CANDIDATES, _TOLERANCE = 200, 1e-6
_FIT_POINTS, _FIT_EPISODES, _FIT_STEPS = 200, 5, 30
# Transitions of an episode that are used, evenly spaced.
_MAX_ROWS = 1000
# Noise variance in units of the prior variance.
_NOISE_LEVELS = np.logspace(-8, 1, 28)

Part = tuple[Float[np.ndarray, "_ F"], Float[np.ndarray, "_ S"]]
"""Features and normalised changes of an episode."""


@dataclass(frozen=True)
class Features:
    """φ: a constant, the inputs, and the squared exponential on landmarks."""

    inputs: Normaliser
    outputs: Normaliser
    length_scales: Float[np.ndarray, " D"]
    landmarks: Float[np.ndarray, "R D"]
    factor: Float[np.ndarray, "R R"]
    rows: int = _MAX_ROWS  # Transitions of an episode that are used, evenly spaced

    def of(self, episode: Episode) -> Part:
        """Return φ of an episode, and its normalised changes."""
        raw, change = _pairs([episode], self.rows)
        x = self.inputs.normalise(raw) / self.length_scales
        near = gram(kernel_named("se"), x, self.landmarks, np)
        near = solve_triangular(self.factor, near.T, lower=True).T
        features = np.concatenate([np.ones((len(x), 1)), x, near], axis=1)
        return features, self.outputs.normalise(change)


def fit_features(episodes: Sequence[Episode]) -> Features:
    """Return features for all episodes, with length scales of the newest few.

    Length scales maximise the marginal likelihood.  With all episodes, drift would look
    like noise or like a rougher function.
    """
    raw, change = _pairs(episodes)
    inputs, outputs = Normaliser.fit(raw), Normaliser.fit(change)
    newest_raw, newest_change = _pairs(episodes[-_FIT_EPISODES:])
    rows = _evenly(len(newest_raw), _FIT_POINTS)
    scales = fit_hyperparameters(
        "se",
        Hyperparameters(np.ones(raw.shape[1]), 1.0, 0.1),
        inputs.normalise(newest_raw[rows]),
        outputs.normalise(newest_change[rows]),
        steps=_FIT_STEPS,
        learn_noise=True,
    ).length_scales
    return _on_landmarks(inputs, outputs, scales, raw)


def quick_features(episodes: Sequence[Episode], rows: int, rank: int) -> Features:
    """Return features whose length scales are not fitted: √D in normalised inputs.

    At most ``rows`` transitions of an episode and ``rank`` landmarks are used.
    """
    raw, change = _pairs(episodes, rows)
    inputs, outputs = Normaliser.fit(raw), Normaliser.fit(change)
    scales = np.full(raw.shape[1], np.sqrt(raw.shape[1]))
    return replace(_on_landmarks(inputs, outputs, scales, raw, rank), rows=rows)


def _on_landmarks(
    inputs: Normaliser,
    outputs: Normaliser,
    scales: Float[np.ndarray, " D"],
    raw: Float[np.ndarray, "N D"],
    rank: int | None = None,
) -> Features:
    candidates = inputs.normalise(raw[_evenly(len(raw), _CANDIDATES)]) / scales
    prior = gram(kernel_named("se"), candidates, candidates, np)
    chosen = pivoted_factor(prior, _TOLERANCE, rank)
    return Features(inputs, outputs, scales, candidates[chosen.pivots], chosen.basis)


def _pairs(
    episodes: Sequence[Episode], most: int = _MAX_ROWS
) -> tuple[np.ndarray, np.ndarray]:
    """Return inputs (state, action) and outputs (change of the state) that are finite.

    Of each episode, at most ``most`` rows.
    """
    inputs, changes = [], []
    for episode in episodes:
        rows = _evenly(len(episode), most)
        obs = episode.obs[rows].astype(np.float64)
        inputs.append(np.concatenate([obs, episode.actions[rows]], axis=1))
        changes.append(episode.next_obs[rows] - obs)
    raw, change = np.concatenate(inputs), np.concatenate(changes)
    finite = np.isfinite(raw).all(axis=1) & np.isfinite(change).all(axis=1)
    return raw[finite], change[finite]


def _evenly(size: int, most: int) -> np.ndarray:
    return np.unique(np.linspace(0, size - 1, min(size, most)).round().astype(int))


@dataclass(frozen=True)
class Sums:
    """Sufficient statistics of a data set of n points."""

    gram: Float[np.ndarray, "F F"]  # A = Σφφᵀ
    cross: Float[np.ndarray, "F S"]  # b = Σφyᵀ
    square: Float[np.ndarray, " S"]  # Σy², output by output
    count: float  # n

    @classmethod
    def of(cls, phi: Float[np.ndarray, "T F"], y: Float[np.ndarray, "T S"]) -> Self:
        """Return the sums over one episode."""
        return cls(phi.T @ phi, phi.T @ y, (y * y).sum(axis=0), float(len(y)))

    def plus(self, other: "Sums", sign: int = 1) -> "Sums":
        """Return the sums over both data sets, or with −1 over what is left."""
        pairs = zip(vars(self).values(), vars(other).values(), strict=True)
        return Sums(*(mine + sign * theirs for mine, theirs in pairs))


class RunningSums:
    """Sums over all episodes up to each one."""

    def __init__(self, parts: Sequence[Part]) -> None:
        """Add up the episodes 1, 2, … of a run."""
        sums = [Sums.of(*part) for part in parts]
        nothing = sums[0].plus(sums[0], -1)
        self._totals = [*accumulate(sums, Sums.plus, initial=nothing)]

    def between(self, first: int, end: int) -> Sums:
        """Return the sums over the episodes first … end − 1, counted from 1."""
        return self._totals[end - 1].plus(self._totals[first - 1], -1)


@dataclass(frozen=True)
class Belief:
    """The posterior of the weights of φ, an output a column."""

    basis: Float[np.ndarray, "F F"]
    """Q of A = QΛQᵀ; weights and variances are along its columns."""
    weights: Float[np.ndarray, "F S"]
    variances: Float[np.ndarray, "F S"]
    noise: Float[np.ndarray, " S"]
    """s², the variance of the noise."""
    level: Float[np.ndarray, " S"]
    """κ, the noise variance in units of the prior variance."""
    evidence: Float[np.ndarray, " S"]
    """Log density of the data, but for a constant of them."""

    def predict(self, phi: Float[np.ndarray, "T F"]) -> tuple[np.ndarray, np.ndarray]:
        """Return means and variances, those with the noise."""
        along = phi @ self.basis
        return along @ self.weights, along**2 @ self.variances + self.noise


class Spectrum(NamedTuple):
    """A data set along the eigenvectors of its A = QΛQᵀ, for every noise level κ."""

    values: Float[np.ndarray, "F 1"]  # Λ
    basis: Float[np.ndarray, "F F"]  # Q
    along: Float[np.ndarray, "F S"]  # b̃ = Qᵀb
    left: Float[np.ndarray, "S K"]  # Σy² − Σ b̃²/(Λ+κ), what is not explained
    penalty: Float[np.ndarray, " K"]  # Σ log(1 + Λ/κ)
    size: float  # n


def spectrum(sums: Sums) -> Spectrum:
    """Decompose a data set."""
    values, basis = np.linalg.eigh(sums.gram)
    values = np.maximum(values, 0.0)[:, None]
    along = basis.T @ sums.cross
    explained = (along**2).T @ (1.0 / (values + _NOISE_LEVELS))
    left = np.maximum(sums.square[:, None] - explained, 1e-12 * sums.count)
    penalty = np.log1p(values / _NOISE_LEVELS).sum(axis=0)
    return Spectrum(values, basis, along, left, penalty, sums.count)


def evidence(
    *parts: Spectrum, floor: float = 0.0
) -> tuple[Float[np.ndarray, "S K"], Float[np.ndarray, "S K"]]:
    """Return log evidence and noise variance s² of data sets that share their noise.

    Each has weights of its own.  For n numbers in all, at each κ, but for a constant::

        −½·(n·log s² + Σ log(1 + Λ/κ)),   s² = Σ left / n + floor²
    """
    count = sum(part.size for part in parts)
    noise = np.sum([part.left for part in parts], axis=0) / count + floor**2
    penalty = np.sum([part.penalty for part in parts], axis=0)
    return -0.5 * (count * np.log(noise) + penalty), noise


def with_differences(
    whole: Spectrum, later: Sums, columns: int, sizes: Sequence[float]
) -> list[Spectrum]:
    """Return a data set whose later part differs, as far as ``evidence`` asks.

    The later part is explained by wᵀφ + size·vᵀφ', where φ' are the first ``columns``
    features and v has the prior of w.  A = QΛQᵀ grows by these columns; v is
    integrated out at each κ with their Schur complement, which is size²·S + κ.
    """
    cross = whole.basis.T @ later.gram[:, :columns]
    shrunk = cross.T / (whole.values.T + _NOISE_LEVELS[:, None])[:, None]
    values, basis = np.linalg.eigh(later.gram[:columns, :columns] - shrunk @ cross)
    rest = later.cross[:columns] - shrunk @ whole.along
    along = (basis.transpose(0, 2, 1) @ rest) ** 2
    found = []
    for size in sizes:
        levels = size**2 * np.maximum(values, 0.0) + _NOISE_LEVELS[:, None]
        explained = (size**2 * along / levels[..., None]).sum(axis=1).T
        left = np.maximum(whole.left - explained, 1e-12 * whole.size)
        penalty = np.log(levels / _NOISE_LEVELS[:, None]).sum(axis=1)
        found.append(whole._replace(left=left, penalty=whole.penalty + penalty))
    return found


def posterior(sums: Sums, floor: float = 0.0) -> Belief:
    """Return the posterior at the noise level of largest evidence, output by output."""
    parts = spectrum(sums)
    evidences, noises = evidence(parts, floor=floor)
    best = np.argmax(evidences, axis=1)
    picked = (np.arange(len(best)), best)
    noise, level = noises[picked], _NOISE_LEVELS[best]
    shrunk = parts.values + level
    weights, variances = parts.along / shrunk, noise / shrunk
    return Belief(parts.basis, weights, variances, noise, level, evidences[picked])
