"""One draw of the calibration experiment: known functions, learned by the GP.

Random functions f_1 … f_N drift within a known budget.  The project's Gaussian process
sees T noisy values of each, and before episode n it predicts f_n from the episodes
m(n) … n−1 of each forgetting rule.  Its kernel, its noise and the functions' norm are
the true ones, so whatever fails is the bound.
"""

import dataclasses
import functools
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from scipy.linalg import cho_solve

from driftrl.config.gp import GPConfig
from driftrl.memory.forgetting import Evidence
from driftrl.models import gp
from driftrl.models.kernels import Hyperparameters, covariance, factorise, kernel_named
from driftrl.results.calibration import BOUNDS, Verdict
from driftrl.theory.confidence import (
    calibration_bound,
    coefficient_of,
    information_gain,
    stale_data_bias,
    width_of,
)
from driftrl.theory.drifting_functions import (
    DriftingFunctions,
    draw_functions,
    progress_of,
)
from driftrl.theory.information import greedy_information_gain
from driftrl.theory.setting import Scheme
from driftrl.training.calibration_study import CalibrationSettings

_CANDIDATES = 1024  # of the greedy search for γ, about


@dataclass(frozen=True)
class Draw:
    """Functions and the noisy data seen of them."""

    functions: DriftingFunctions
    inputs: Float[np.ndarray, "N T D"]
    targets: Float[np.ndarray, "N T S"]


@dataclass(frozen=True)
class Belief:
    """What the Gaussian process believes before episode n, and from what."""

    mean: Float[np.ndarray, "Z S"]
    std: Float[np.ndarray, "Z S"]
    gain: float
    """Information gain of the retained data."""
    kernel: Float[np.ndarray, "M M"]
    weights: Float[np.ndarray, "M Z"]
    """(K + σ²I)⁻¹ k(z) for each test point."""


def make_draw(
    settings: CalibrationSettings, seed: int, draw: int, drifting: bool
) -> Draw:
    """Draw functions, inputs and noise; without drift, all functions are the first."""
    rng = np.random.default_rng([seed, draw])
    size = (settings.episodes, settings.steps)
    centres = rng.uniform(-1, 1, (settings.centres, settings.dimension))
    functions = draw_functions(
        settings.kernel_matrix,
        centres,
        outputs=settings.outputs,
        rkhs_bound=settings.rkhs_bound,
        variation=settings.variation,
        progress=progress_of(settings.shape, settings.episodes),
        rng=rng,
    )
    if not drifting:
        still = np.zeros_like(functions.progress)
        functions = dataclasses.replace(functions, progress=still)
    inputs = rng.uniform(-1, 1, (*size, settings.dimension))
    noise = settings.noise_std * rng.standard_normal((*size, settings.outputs))
    values = [functions.at(n + 1)(inputs[n]) for n in range(settings.episodes)]
    return Draw(functions, inputs, np.stack(values) + noise)


def believe(
    settings: CalibrationSettings,
    inputs: Float[np.ndarray, "M D"],
    targets: Float[np.ndarray, "M S"],
    points: Float[np.ndarray, "Z D"],
) -> Belief:
    """Condition the project's Gaussian process on data and ask it at points.

    Its hyperparameters are the true ones and nothing is normalised: the lemma is about
    a kernel that is known.  The factor is the model's; the posterior of eq:generic_gp
    is read from it in NumPy, because thousands of small questions would spend their
    time on the way to compiled code.  ``ask_compiled`` is the long way.
    """
    state = condition(settings, inputs, targets)
    cross = settings.kernel_matrix(inputs, points)
    weights = cho_solve((state.factor, True), cross) if len(inputs) else cross
    variance = 1.0 - np.sum(cross * weights, axis=0)
    std = np.sqrt(np.maximum(variance, 0.0))
    return Belief(
        mean=weights.T @ targets,
        std=np.repeat(std[:, None], settings.outputs, axis=1),
        gain=information_gain(state.factor, settings.noise_std),
        kernel=settings.kernel_matrix(inputs, inputs),
        weights=weights,
    )


def condition(
    settings: CalibrationSettings,
    inputs: Float[np.ndarray, "M D"],
    targets: Float[np.ndarray, "M S"],
) -> gp.GPState:
    """Return the Gaussian process with the true hyperparameters and these data."""
    config = _gp_config(settings)
    hyper = Hyperparameters(
        np.full(settings.dimension, settings.length_scale), 1.0, settings.noise_std
    )
    actions = settings.dimension - settings.outputs
    return dataclasses.replace(
        gp.initial_state(settings.outputs, actions, config),
        hyper=hyper,
        x=inputs,
        y=targets,
        factor=factorise(covariance(kernel_named(settings.kernel), hyper, inputs)),
    )


def ask_compiled(
    settings: CalibrationSettings,
    inputs: Float[np.ndarray, "M D"],
    targets: Float[np.ndarray, "M S"],
    points: Float[np.ndarray, "Z D"],
) -> tuple[Float[np.ndarray, "Z S"], Float[np.ndarray, "Z S"]]:
    """Return mean and std of ``believe`` as an agent would get them, from JAX."""
    state, outputs = condition(settings, inputs, targets), settings.outputs
    obs, action = points[:, :outputs], points[:, outputs:]
    with jax.enable_x64(True):
        posterior = gp.posterior(state, _gp_config(settings))
        found = gp.predict_all(posterior, obs, action)
    # The model predicts the next state; the functions here are its change.
    return np.asarray(found.mean) - obs, np.asarray(found.epistemic_std)


def _gp_config(settings: CalibrationSettings) -> GPConfig:
    return GPConfig(kernel=settings.kernel, noise_std=settings.noise_std)


@functools.cache
def maximum_gain(settings: CalibrationSettings) -> Float[np.ndarray, " N"]:
    """Return γ of 0, 1, … N·T points, greedily over a grid of the domain."""
    along = round(_CANDIDATES ** (1 / settings.dimension))
    count = settings.episodes * settings.steps
    candidates = settings.grid(max(along, 1 + int(count ** (1 / settings.dimension))))
    found = greedy_information_gain(
        lambda row: settings.kernel_matrix(candidates[row : row + 1], candidates)[0],
        np.ones(len(candidates)),
        count,
        settings.noise_std,
    )
    return np.concatenate([[0.0], found.curve])


def bounds_at(
    settings: CalibrationSettings,
    belief: Belief,
    scheme: Scheme,
    episode: int,
    increments: Float[np.ndarray, "K S"],
) -> dict[str, Float[np.ndarray, "Z S"]]:
    """Return every bound on |f_n − μ| at every test point.

    The printed bounds take γ, the greedy maximum for as many points; the corrected ones
    the gain of the data, which is all their proof needs.

    Args:
        settings: What is known.
        belief: Of the Gaussian process before this episode.
        scheme: How data were forgotten.
        episode: n.
        increments: ‖f_{s+1,j} − f_{s,j}‖ for the retained episodes s = m … n−1.
    """
    setting, retained, std = settings.setting, len(increments), belief.std
    drift = increments.sum(axis=0)
    greedy = float(maximum_gain(settings)[retained * settings.steps])
    gains = {"printed": greedy, "corrected": belief.gain}
    bounds = {"two_sigma": 2.0 * std}
    for version in ("printed", "corrected"):
        width = width_of(
            setting,
            gains[version],
            scheme=scheme,
            span=settings.span(scheme),
            episode=episode,
            episodes=settings.episodes,
            version=version,
        )
        coefficient = coefficient_of(setting, gains[version], retained, version)
        bounds[f"stationary_{version}"] = np.asarray(width * std)
        bounds[f"drift_{version}"] = calibration_bound(std, width, coefficient, drift)
    ends = settings.steps * np.arange(1, retained + 1)
    bias = stale_data_bias(belief.kernel, belief.weights, ends, increments)
    bounds["drift_sharp"] = bounds["stationary_corrected"] + bias
    return bounds


def judge(
    settings: CalibrationSettings, seed: int, draw: int, drifting: bool
) -> list[Verdict]:
    """Learn one draw under every scheme and judge every bound at every episode."""
    made = make_draw(settings, seed, draw, drifting)
    points = settings.grid(settings.test_points)
    truths = [made.functions.at(n)(points) for n in range(1, settings.episodes + 1)]
    steps = made.functions.increments()
    verdicts = []

    @functools.cache  # schemes often retain the same episodes
    def belief_from(first: int, n: int) -> Belief:
        data = retained(made, first, n)
        belief = believe(settings, *data, points)
        if n < settings.episodes:
            return belief
        # The last episode the long way, so that the model itself is what is judged.
        mean, std = ask_compiled(settings, *data, points)
        return dataclasses.replace(belief, mean=mean, std=std)

    for scheme, rule in settings.rules.items():
        held: dict[str, list[np.ndarray]] = {bound: [] for bound in BOUNDS}
        widths: dict[str, list[float]] = {bound: [] for bound in BOUNDS}
        for n in range(1, settings.episodes + 1):
            first = rule.first_retained(n, Evidence())
            belief = belief_from(first, n)
            error = np.abs(truths[n - 1] - belief.mean)
            bounds = bounds_at(settings, belief, scheme, n, steps[first - 1 : n - 1])
            for name, bound in bounds.items():
                held[name].append(error <= bound)
                widths[name].append(float(bound.mean()))
        verdicts += [
            _verdict(draw, drifting, scheme, name, np.stack(held[name]), widths[name])
            for name in BOUNDS
        ]
    return verdicts


def retained(made: Draw, first: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs and targets of the episodes ``first`` … n−1."""
    kept = slice(first - 1, n - 1)
    inputs, targets = made.inputs[kept], made.targets[kept]
    return inputs.reshape(-1, inputs.shape[2]), targets.reshape(-1, targets.shape[2])


def _verdict(
    draw: int,
    drifting: bool,
    scheme: str,
    bound: str,
    held: np.ndarray,
    widths: list[float],
) -> Verdict:
    failed = np.flatnonzero(~held.reshape(len(held), -1).all(axis=1))
    return Verdict(
        draw=draw,
        drifting=drifting,
        scheme=scheme,
        bound=bound,
        covered=len(failed) == 0,
        share=float(held.mean()),
        half_width=float(np.mean(widths)),
        first_failure=int(failed[0]) + 1 if len(failed) else None,
    )


def example_draw(settings: CalibrationSettings, seed: int) -> dict[str, Any]:
    """Return the first draw in one dimension, before its last episode, to look at.

    Keeping all data comes with the band of a stationary world, the window with the
    band that knows about drift.
    """
    flat = dataclasses.replace(
        settings,
        dimension=1,
        outputs=1,
        variation=settings.variation / settings.outputs,
        test_points=201,
    )
    made, n = make_draw(flat, seed, 0, True), flat.episodes
    points = flat.grid(flat.test_points)
    shown: dict[str, Any] = {
        "episode": n,
        "points": points[:, 0].tolist(),
        "truth": made.functions.at(n)(points)[:, 0].tolist(),
        "first_truth": made.functions.at(1)(points)[:, 0].tolist(),
        "inputs": made.inputs[: n - 1, :, 0].tolist(),
        "targets": made.targets[: n - 1, :, 0].tolist(),
    }
    steps = made.functions.increments()
    wanted: dict[Scheme, str] = {
        "keep_all": "stationary_corrected",
        "window": "drift_sharp",
    }
    for scheme, bound in wanted.items():
        first = flat.rules[scheme].first_retained(n, Evidence())
        belief = believe(flat, *retained(made, first, n), points)
        bounds = bounds_at(flat, belief, scheme, n, steps[first - 1 : n - 1])
        shown[scheme] = {
            "first": first,
            "bound": bound,
            "mean": belief.mean[:, 0].tolist(),
            "half_width": bounds[bound][:, 0].tolist(),
        }
    return shown
