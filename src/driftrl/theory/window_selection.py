"""H and w from the regret bound, read in three ways.

The bound weighs the cost of little data against the cost of stale data::

    R_N = Õ( N·√(γ_p³/p) + γ_p·p^{3/2}·P_N )

1. *With all constants* it is a true bound, but so far above any possible regret that
   the weight between its terms means little.
2. *Its order*, without constants, with γ_p as it grows with p.
3. *Its order with γ_N for every p*, as the paper reads it when it chooses
   H ∝ γ_N^{1/4}·√N.  γ_p ≤ γ_N, so it is a bound as well, and with P_N known it is
   smallest at p = γ_N^{1/4}·√(N/(3·P_N)).

The third is recommended.  γ_p of the first and second grows so fast over the first few
episodes that the learning term hardly falls with p, however useful more data are.
"""

import functools
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from driftrl.errors import at_least, positive, require
from driftrl.kernels import gram, kernel_named
from driftrl.memory.nystrom import Features, Sums, fit_features, posterior
from driftrl.theory.confidence import Setting
from driftrl.theory.information import greedy_information_gain, growth_rate, scaled_rate
from driftrl.theory.regret_bound import (
    RegretTerms,
    best_span,
    regret_orders,
    require_episodes,
    trivial_regret,
    tuned_span,
)
from driftrl.types import Episode

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Inputs that greedy selection chooses from, and the most that it picks.
_CANDIDATES, _MAX_POINTS = 1500, 1000
# Prior size of the displacement in units of the dynamics; the evidence selects one.
_REACHES = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)


@dataclass(frozen=True)
class Problem:
    """What is known of a problem; data of a run estimate what is not given."""

    episodes: int | None = None
    """N, the length of the run."""
    variation: float | None = None
    """P_N, how far the dynamics move in the RKHS norm, summed over outputs. Without it
    the answer is the paper's H ∝ γ^(1/4)·√N."""
    kernel: str = "se"
    """Kernel, which sets how γ grows: se, matern32, matern52 or linear."""
    dimension: int | None = None
    """Inputs d of the dynamics: observations and actions."""
    steps: int | None = None
    """Transitions T of an episode."""
    outputs: int | None = None
    """Observations d_x; by default all inputs but one."""
    gain: float | None = None
    """γ_N; by default greedily, over inputs with a standard deviation of 1."""
    length_scale: float = 1.0
    """Length scale of the kernel, in standard deviations of the inputs."""
    noise: float | None = None
    """σ of the noise; by default 0.1."""
    delta: float = 0.1
    """δ, the probability with which the bound may fail."""
    rkhs_bound: float | None = None
    """B, a bound on the norm of the dynamics; by default 1."""
    reward_max: float | None = None
    """R_max, the largest reward of a step; by default 1."""


@dataclass(frozen=True)
class Constants:
    """The fields of ``Problem`` that a run's data give.

    In standard deviations of the changes; σ in units of the prior's.
    """

    episodes: int
    steps: int
    outputs: int
    dimension: int
    gain: float
    """Information gain of the data at hand, averaged over outputs."""
    variation: float
    rkhs_bound: float
    """The largest norm of an output."""
    noise: float
    reward_max: float
    """Range of the rewards: the bound counts them from 0."""


@dataclass(frozen=True)
class Tradeoff:
    """The bound over the span p: H for resets, w for a window."""

    setting: Setting
    episodes: int
    variation: float | None
    """P_N, None if unknown."""
    gain: float
    """γ_N."""
    span: int
    """Recommended H = w."""
    informed: float | None
    """γ_N^{1/4}·√(N/(3·P_N)), None without P_N or without variation."""
    tuned: float
    """γ_N^{1/4}·√N, the paper's choice, which needs no P_N."""
    terms: RegretTerms | None = None
    """The order with γ_N, for p = 1 … N; None without P_N."""
    order: int | None = None
    """The p of the smallest order with γ_p."""
    reset: int | None = None
    """The H of the smallest bound with all constants."""
    window: int | None = None
    """The w likewise."""
    bound: float | None = None
    """That bound for resets every ``reset`` episodes."""
    estimated: Constants | None = None

    @property
    def tuned_span(self) -> int:
        """The paper's choice as a span of this run."""
        return min(self.episodes, max(1, round(self.tuned)))

    def document(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        constants = curve = None
        if self.terms:
            constants = {"H": self.reset, "w": self.window, "bound": self.bound}
            constants["trivial"] = trivial_regret(self.setting, self.episodes)
            terms = asdict(self.terms)
            curve = {name: values.tolist() for name, values in terms.items()}
        return {
            "H": self.span,
            "w": self.span,
            "episodes": self.episodes,
            "variation": self.variation,
            "gain": self.gain,
            "setting": asdict(self.setting),
            "estimated": self.estimated and asdict(self.estimated),
            "with_constants": constants,
            "order": self.order,
            "order_with_gain_of_all": self.informed,
            "without_variation": self.tuned,
            "curve": curve,
        }


def choose_window(
    problem: Problem,
    data: Sequence[Episode] = (),
    thetas: Float[np.ndarray, " N"] | None = None,
) -> Tradeoff:
    """Return the trade-off of a problem, and the span to choose.

    Args:
        problem: What is known.
        data: Episodes of a run, from which the unknown is estimated.
        thetas: θ of each of them, if known.
    """
    growth_rate(problem.kernel, 2, 1)  # refuses a kernel without a known rate
    estimated = estimate_constants(data, thetas) if data else None
    given = {name: value for name, value in vars(problem).items() if value is not None}
    values = (vars(estimated) if estimated else {}) | given
    missing = [n for n in ("episodes", "dimension", "steps") if n not in values]
    require(
        not missing,
        f"Choosing a window needs {', '.join(missing)}, or a run to estimate from.",
    )
    episodes, dimension = values["episodes"], values["dimension"]
    require_episodes(episodes)
    at_least("The dimension", dimension, 1)
    setting = Setting(
        rkhs_bound=values.get("rkhs_bound", 1.0),
        noise_std=values.get("noise", 0.1),
        outputs=values.get("outputs", max(1, dimension - 1)),
        failure_probability=problem.delta,
        steps=values["steps"],
        reward_max=values.get("reward_max", 1.0),
    )
    variation = problem.variation
    if estimated and variation is None:
        # The same drift per episode in a run of another length.
        pace = estimated.variation / (estimated.episodes - 1)
        variation = pace * (episodes - 1)
    # γ_p: greedy where that is quick, else the known rate through one γ.
    curve = np.empty(0)
    if "gain" in values:
        at_least("The gain", values["gain"], 0)
        count = episodes if problem.gain is not None else len(data)
        anchor = (count * setting.steps, values["gain"])
    else:
        total = episodes * setting.steps
        shape = (problem.kernel, dimension, problem.length_scale)
        curve = gain_curve(*shape, setting.noise_std, total)
        anchor = (len(curve), float(curve[-1]))
    points = setting.steps * np.arange(1, episodes + 1)
    # The rates hold from two points on.
    gains = scaled_rate(problem.kernel, np.maximum(2, points), dimension, anchor)
    near = points <= len(curve)
    gains[near] = curve[points[near] - 1]
    return replace(choose(setting, variation, gains), estimated=estimated)


def choose(
    setting: Setting, variation: float | None, gains: Float[np.ndarray, " N"]
) -> Tradeoff:
    """Return the trade-off of a run of N episodes from all constants.

    Args:
        setting: The constants.
        variation: P_N; without it only the paper's H ∝ γ_N^{1/4}·√N is known.
        gains: γ_p for p = 1 … N.
    """
    episodes, gain = len(gains), float(gains[-1])
    tuned = float(tuned_span(episodes, gain))
    if variation is None:
        unknown = Tradeoff(setting, episodes, None, gain, 1, None, tuned)
        return replace(unknown, span=unknown.tuned_span)
    at_least("The variation P_N", variation, 0)
    spans = np.arange(1, episodes + 1)
    terms = regret_orders(episodes, spans, variation, gain)
    growing = regret_orders(episodes, spans, variation, gains)
    reset, bound = best_span(setting, variation, gains, "reset")
    return Tradeoff(
        setting=setting,
        episodes=episodes,
        variation=variation,
        gain=gain,
        span=int(spans[np.argmin(terms.total)]),
        informed=tuned / float(np.sqrt(3.0 * variation)) if variation else None,
        tuned=tuned,
        terms=terms,
        order=int(spans[np.argmin(growing.total)]),
        reset=reset,
        window=best_span(setting, variation, gains, "window")[0],
        bound=bound,
    )


# ---- constants -----------------------------------------------------------------------


def estimate_constants(
    episodes: Sequence[Episode],
    thetas: Float[np.ndarray, " N"] | None = None,
    features: Features | None = None,
) -> Constants:
    """Estimate γ_N, P_N, B and σ in the norm of a kernel fitted to a run.

    The dynamics are taken to move along one direction, f_n = f + c_n·g, for a clock c:
    θ where it is known and the number of the episode where it is not.  Then
    P_N = Σ_j ‖g_j‖·Σ_n |c_{n+1} − c_n|, and one regression on (φ, c_n·φ) finds g.  If
    an unknown θ goes back and forth, this is too small.

    Norms are those of the kernel with the prior variance of largest evidence; the
    features φ are fitted to the episodes unless they are given.
    """
    count = len(episodes)
    require(count >= 2, f"Estimating P_N takes 2 episodes, found {count}.")
    clock = np.arange(count, dtype=np.float64)
    if thetas is not None and np.isfinite(thetas).all():
        clock = thetas
    features = features or fit_features(episodes)
    travelled = float(np.abs(np.diff(clock)).sum())
    extent = float(np.ptp(clock)) or 1.0
    moments = _moments(features, episodes, (clock - clock.mean()) / extent)
    fits = [(posterior(_with_reach(moments, reach)), reach) for reach in _REACHES]
    belief, reach = max(fits, key=lambda one: float(one[0].evidence.sum()))
    weights = belief.basis @ belief.weights
    prior_std = np.sqrt(belief.noise / belief.level)
    still, moved = np.linalg.norm(np.split(weights, 2), axis=1) / prior_std
    size = len(weights) // 2
    values = np.maximum(np.linalg.eigvalsh(moments.gram[:size, :size]), 0.0)
    gains = 0.5 * np.log1p(values[:, None] / belief.level).sum(axis=0)
    outputs, actions = episodes[0].obs.shape[1], episodes[0].actions.shape[1]
    rewards = np.concatenate([episode.rewards for episode in episodes])
    return Constants(
        episodes=count,
        steps=round(sum(map(len, episodes)) / count),
        outputs=outputs,
        dimension=outputs + actions,
        gain=float(gains.mean()),
        variation=reach * float(moved.sum()) * travelled / extent,
        rkhs_bound=float(still.max()),
        noise=float(np.sqrt(belief.level).mean()),
        reward_max=float(np.ptp(rewards)),
    )


def _moments(
    features: Features, episodes: Sequence[Episode], times: Float[np.ndarray, " N"]
) -> Sums:
    """Return the sums of the features (φ, c·φ) over all episodes."""
    parts = [features.of(episode) for episode in episodes]
    return functools.reduce(
        Sums.plus,
        (
            Sums.of(np.concatenate([phi, time * phi], axis=1), y)
            for (phi, y), time in zip(parts, times, strict=True)
        ),
    )


def _with_reach(moments: Sums, reach: float) -> Sums:
    """Return the sums for features (φ, r·c·φ): r is the prior size of what moved."""
    scale = np.repeat([1.0, reach], len(moments.gram) // 2)[:, None]
    return replace(
        moments, gram=scale * moments.gram * scale.T, cross=scale * moments.cross
    )


def gain_curve(
    kernel_name: str, dimension: int, length_scale: float, noise_std: float, points: int
) -> Float[np.ndarray, " M"]:
    """Return greedy γ_1 … γ_M over inputs with a std of 1 in every dimension.

    The inputs are uniform in a cube.  M is ``points``, at most 1,000; beyond that use
    ``driftrl.theory.information.scaled_rate``.
    """
    positive("The length scale", length_scale)
    kernel = kernel_named(kernel_name)
    half = np.sqrt(3.0)
    drawn = np.random.default_rng(0).uniform(-half, half, (_CANDIDATES, dimension))
    matrix = gram(kernel, drawn / length_scale, drawn / length_scale, np)
    return greedy_information_gain(matrix, min(points, _MAX_POINTS), noise_std).curve


# ---- figure --------------------------------------------------------------------------


Sweep = tuple[str, Sequence[float], Sequence[float], Sequence[float]]
"""Label, spans, mean regret and its standard error."""


def plot_tradeoff(tradeoff: Tradeoff, sweeps: Sequence[Sweep] = ()) -> "Figure":
    """Draw learning term, drift term and their sum over p, beside measured regret.

    The bound and the regret have no common unit: each is divided by its minimum.
    """
    from matplotlib.figure import Figure

    terms = tradeoff.terms
    require(terms is not None, "A trade-off needs P_N: give the variation or a run.")
    assert terms is not None
    spans = np.arange(1, tradeoff.episodes + 1)
    unit = float(terms.total.min())
    top = min(4.0, 1.1 * float(terms.total.max()) / unit)
    figure = Figure(figsize=(3.5, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(spans, terms.total / unit, color="black", label="sum")
    axes.plot(spans, terms.learning / unit, "--", color="#0072B2", label="learning")
    axes.plot(spans, terms.drift / unit, "-.", color="#D55E00", label="drift")
    axes.axvline(tradeoff.span, color="gray", linewidth=0.8, zorder=0)
    axes.annotate(f"$p = {tradeoff.span}$", (tradeoff.span, 0.92 * top), color="gray")
    for label, at, regret, error in sweeps:
        least = min(regret)
        values, errors = np.asarray(regret) / least, np.asarray(error) / least
        axes.errorbar(
            at, values, errors, fmt="o", markersize=3.5, capsize=2, label=label
        )
    axes.set(xscale="log", ylim=(0, top), xlabel="span $p$ ($H$ or $w$), episodes")
    axes.set_ylabel("bound and regret over their minimum" if sweeps else "bound / min")
    axes.xaxis.set_major_formatter("{x:g}")
    figure.legend(loc="outside upper center", ncols=3, fontsize=7)
    return figure
