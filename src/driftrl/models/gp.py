"""Gaussian-process dynamics: the exact posterior of the paper's equation (3).

With C = K + σ²I of the retained transitions, for each output j (eq:generic_gp)::

    μ_j(z) = k(z)ᵀ C⁻¹ y_j          σ_j²(z) = k(z, z) − k(z)ᵀ C⁻¹ k(z)

One kernel serves all outputs, so there is one factor and, in normalised units, one
variance.  Inputs are (state, action), outputs state differences, both normalised by
the retained data alone.

Fitting is NumPy in double precision and is never compiled; C is stored as its lower
Cholesky factor.

Querying is JAX: a ``Posterior`` holds *support* points, *weights* and a *whitener* F::

    μ(z) = k_s(z)ᵀ · weights        σ²(z) = k(z, z) − ‖F k_s(z)‖²

padded to one of a few sizes, so that a growing data set does not recompile.
"""

from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.linalg import cho_solve, get_lapack_funcs, solve_triangular

from driftrl import kernels
from driftrl.config.gp import GPConfig
from driftrl.normaliser import Normaliser
from driftrl.types import Data

SIZES = (64, 128, 192, 256, 384, 512, 1024, 2048, 4096)


class Prediction(NamedTuple):
    """Belief about the next state after one transition, in the state's own units."""

    mean: Float[Array, " S"]
    """μ(x, u), the expected next state."""
    epistemic_std: Float[Array, " S"]
    """σ(x, u): the uncertainty that more data would remove."""
    aleatoric_std: Float[Array, " S"]
    """Standard deviation of the noise, which no data removes."""
    scale: Float[Array, " S"]
    """Spread of the state changes in the retained data: σ/scale has no unit."""


@dataclass(frozen=True)
class GPState:
    """A fitted Gaussian process, as a checkpoint stores it.

    ``offset`` counts the transitions recorded before the first retained one, ``age``
    the updates since hyperparameters and normalisation were last fitted.
    """

    hyper: kernels.Hyperparameters
    inputs: Normaliser
    outputs: Normaliser
    x: Float[np.ndarray, "N D"]
    y: Float[np.ndarray, "N S"]
    factor: Float[np.ndarray, "N N"]
    offset: int
    age: int


class Posterior(eqx.Module):
    """A fitted Gaussian process, ready to be queried inside compiled code."""

    support: Float[Array, "R D"]
    weights: Float[Array, "R S"]
    whitener: Float[Array, "R R"]
    input_mean: Float[Array, " D"]
    input_scale: Float[Array, " D"]
    output_mean: Float[Array, " S"]
    output_scale: Float[Array, " S"]
    signal_std: Float[Array, ""]
    noise_std: Float[Array, ""]
    kernel: str = eqx.field(static=True)

    def predict(
        self, obs: Float[Array, " S"], action: Float[Array, " A"]
    ) -> Prediction:
        """Predict the next state after ``action`` in ``obs``."""
        _require_double_precision()
        kernel = kernels.kernel_named(self.kernel)
        z = (jnp.concatenate([obs, action]) - self.input_mean) / self.input_scale
        cross = self.signal_std**2 * kernels.gram(kernel, z[None], self.support, jnp)[0]
        prior = self.signal_std**2 * kernels.variance_at(kernel, z, jnp)
        change = self.output_mean + self.output_scale * (cross @ self.weights)
        variance = prior - _squared_norm(self.whitener, cross)
        return Prediction(
            mean=obs + change,
            epistemic_std=self.output_scale * jnp.sqrt(jnp.maximum(variance, 0.0)),
            aleatoric_std=self.output_scale * self.noise_std,
            scale=self.output_scale,
        )


def initial_state(state_size: int, action_size: int, config: GPConfig) -> GPState:
    """Return the prior: no data, unit length scales, unit normalisation."""
    inputs = state_size + action_size
    return GPState(
        hyper=kernels.Hyperparameters(np.ones(inputs), 1.0, config.noise_std),
        inputs=Normaliser.fit(np.zeros((0, inputs))),
        outputs=Normaliser.fit(np.zeros((0, state_size))),
        x=np.zeros((0, inputs)),
        y=np.zeros((0, state_size)),
        factor=np.zeros((0, 0)),
        offset=0,
        age=0,
    )


def fit(state: GPState, data: Data, config: GPConfig) -> GPState:
    """Condition on exactly ``data``.

    Every ``refit_every`` updates, and where nothing is left of the earlier data, the
    normalisation and the hyperparameters are fitted again.  In between they stay.
    """
    x = np.concatenate([data.obs, data.actions], axis=1).astype(np.float64)
    y = data.next_obs.astype(np.float64) - data.obs
    if len(data) == 0:
        empty = np.zeros((0, 0))
        return replace(state, x=x, y=y, factor=empty, offset=data.offset, age=0)
    overlap = state.offset <= data.offset < state.offset + len(state.x)
    age = state.age + 1 if overlap else config.refit_every
    inputs, outputs, hyper = state.inputs, state.outputs, state.hyper
    if age >= config.refit_every:
        age, inputs, outputs = 0, Normaliser.fit(x), Normaliser.fit(y)
    x, y = inputs.normalise(x), outputs.normalise(y)
    if age == 0:
        count = min(len(x), config.fit_points)
        subset = np.unique(np.linspace(0, len(x) - 1, count).round().astype(int))
        hyper = kernels.fit_hyperparameters(
            config.kernel,
            hyper,
            x[subset],
            y[subset],
            steps=config.fit_steps,
            learn_noise=config.learn_noise,
        )
    kernel = kernels.kernel_named(config.kernel)
    factor = kernels.factorise(kernels.covariance(kernel, hyper, x))
    return GPState(hyper, inputs, outputs, x, y, factor, data.offset, age)


def invert_lower(factor: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    """Return L⁻¹ of a lower triangular L."""
    if len(factor) == 0:
        return factor.copy()
    (trtri,) = get_lapack_funcs(("trtri",), (factor,))
    inverse, _ = trtri(factor, lower=1)
    return np.tril(inverse)


def posterior(state: GPState, config: GPConfig) -> Posterior:
    """Prepare a fitted state for queries: exact, or compressed to fewer points.

    ``config.compression`` = ε > 0 keeps just the points that pivoted Cholesky needs to
    explain every retained point's prior variance up to ε·σ² (σ the noise).  The
    approximate σ(z) can be slightly below or above the exact one.
    """
    _require_double_precision()
    if config.compression > 0.0 and len(state.x):
        support, weights, whitener = _compressed(state, config)
    else:
        support, whitener = state.x, invert_lower(state.factor)
        weights = cho_solve((state.factor, True), state.y) if len(state.x) else state.y
    missing = _padded_size(len(support)) - len(support)
    hyper = state.hyper
    return Posterior(
        support=_padded(support / hyper.length_scales, (missing, 0)),
        weights=_padded(weights, (missing, 0)),
        whitener=_padded(whitener, (missing, missing)),
        input_mean=jnp.asarray(state.inputs.mean),
        input_scale=jnp.asarray(state.inputs.std * hyper.length_scales),
        output_mean=jnp.asarray(state.outputs.mean),
        output_scale=jnp.asarray(state.outputs.std),
        signal_std=jnp.asarray(hyper.output_scale),
        noise_std=jnp.asarray(hyper.noise_std),
        kernel=config.kernel,
    )


def _compressed(
    state: GPState, config: GPConfig
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return support, weights and whitener on the pivots alone.

    With K ≈ G Gᵀ, G = K[:, P] B⁻ᵀ and GᵀG = V diag(s) Vᵀ, features φ(z) = B⁻¹k_P(z)::

        μ(z)  = φ(z)ᵀ (σ²I + GᵀG)⁻¹ Gᵀ y
        σ²(z) = k(z, z) − φ(z)ᵀ V diag(s/(s+σ²)) Vᵀ φ(z)
    """
    kernel, hyper = kernels.kernel_named(config.kernel), state.hyper
    noise = hyper.noise_std**2
    signal = kernels.covariance(kernel, hyper, state.x)
    signal[np.diag_indices_from(signal)] -= noise
    pivots, basis, columns = kernels.pivoted_factor(signal, config.compression * noise)
    s, v = np.linalg.eigh(columns.T @ columns)
    s = np.maximum(s, 0.0)
    coefficients = v @ ((v.T @ (columns.T @ state.y)) / (s + noise)[:, None])
    weights = solve_triangular(basis, coefficients, lower=True, trans=1)
    shrink = np.sqrt(s / (s + noise))[:, None] * v.T
    whitener = solve_triangular(basis, shrink.T, lower=True, trans=1).T
    # Any F with the same FᵀF works; a triangular one costs half as much to apply.
    upper = np.linalg.qr(whitener[:, ::-1]).R
    return state.x[pivots], weights, upper[::-1, ::-1]


def predict_all(
    posterior: Posterior,
    obs: Float[np.ndarray, "N S"],
    actions: Float[np.ndarray, "N A"],
) -> Prediction:
    """Predict many transitions at once, as NumPy arrays with one row each."""
    missing = _padded_size(len(obs)) - len(obs)
    padded = _predict_batch(
        posterior, _padded(obs, (missing, 0)), _padded(actions, (missing, 0))
    )
    return jax.tree.map(lambda field: field[: len(obs)], jax.device_get(padded))


@eqx.filter_jit
def _predict_batch(
    posterior: Posterior, obs: Float[Array, "B S"], actions: Float[Array, "B A"]
) -> Prediction:
    return jax.vmap(posterior.predict)(obs, actions)


def blank_posteriors(
    state_size: int, action_size: int, points: int, config: GPConfig
) -> list[Posterior]:
    """Return a posterior of each padded size that up to ``points`` points can take."""
    prior = posterior(initial_state(state_size, action_size, config), config)
    largest = _padded_size(points)
    sizes = [size for size in SIZES if size < largest] + [largest]
    return [
        replace(
            prior,
            support=jnp.zeros((size, state_size + action_size)),
            weights=jnp.zeros((size, state_size)),
            whitener=jnp.zeros((size, size)),
        )
        for size in sizes
    ]


def _squared_norm(
    lower: Float[Array, "R R"], vector: Float[Array, " R"]
) -> Float[Array, ""]:
    """Return ‖F v‖² of a lower triangular F, skipping most of its zeros."""
    size = len(lower)
    width = max(64, -(-size // 8))
    total = jnp.zeros(())
    for start in range(0, size, width):
        stop = min(start + width, size)
        total += jnp.sum((lower[start:stop, :stop] @ vector[:stop]) ** 2)
    return total


def _require_double_precision() -> None:
    # In single precision k(z, z) − ‖F k_s(z)‖² would silently round to 0.
    if jnp.result_type(float) != jnp.float64:
        raise RuntimeError(
            "A Gaussian process needs double precision, but JAX is in single precision "
            "here. Call it within jax.enable_x64(True)."
        )


def _padded(rows: np.ndarray, missing: tuple[int, int]) -> Array:
    return jnp.asarray(np.pad(rows, [(0, extra) for extra in missing]))


def _padded_size(points: int) -> int:
    for size in SIZES:
        if points <= size:
            return size
    return -(-points // SIZES[-1]) * SIZES[-1]
