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

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Float

from driftrl.errors import at_least, require
from driftrl.theory.confidence import Setting, require_episodes
from driftrl.theory.estimate_constants import estimate_constants, gain_curve
from driftrl.theory.information import growth_rate, scaled_rate
from driftrl.theory.regret_bound import (
    Choice,
    GainOfSpan,
    RegretTerms,
    best_span,
    regret_orders,
    tuned_span,
)
from driftrl.types import Episode

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
    reset: Choice | None = None
    """The bound with all constants under resets."""
    window: Choice | None = None
    """The same under a sliding window."""
    estimated: dict[str, Any] | None = None
    """Constants estimated from a run, by the names of ``Problem``."""

    @property
    def tuned_span(self) -> int:
        """The paper's choice as a span of this run."""
        return min(self.episodes, max(1, round(self.tuned)))

    def document(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        constants = curve = None
        if self.reset and self.window and self.terms:
            constants = {"H": self.reset.span, "w": self.window.span}
            constants |= {"bound": self.reset.bound, "trivial": self.reset.trivial}
            terms = asdict(self.terms)
            curve = {name: values.tolist() for name, values in terms.items()}
        return {
            "H": self.span,
            "w": self.span,
            "episodes": self.episodes,
            "variation": self.variation,
            "gain": self.gain,
            "setting": asdict(self.setting),
            "estimated": self.estimated,
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
    estimated = _estimate(data, thetas) if data else {}
    given = {name: value for name, value in vars(problem).items() if value is not None}
    values = estimated | given
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
        pace = estimated["variation"] / (estimated["episodes"] - 1)
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
    tradeoff = choose(
        setting,
        episodes=episodes,
        variation=variation,
        gain_of_span=lambda span: float(gains[span - 1]),
    )
    return replace(tradeoff, estimated=estimated or None)


def choose(
    setting: Setting,
    *,
    episodes: int,
    variation: float | None,
    gain_of_span: GainOfSpan,
) -> Tradeoff:
    """Return the trade-off of a run of N episodes from all constants.

    Without P_N only the paper's H ∝ γ_N^{1/4}·√N is known.
    """
    require_episodes(episodes)
    gain = gain_of_span(episodes)
    tuned = float(tuned_span(episodes, gain))
    if variation is None:
        unknown = Tradeoff(setting, episodes, None, gain, 1, None, tuned)
        return replace(unknown, span=unknown.tuned_span)
    at_least("The variation P_N", variation, 0)
    spans = np.arange(1, episodes + 1)
    terms = regret_orders(episodes, spans, variation, gain)
    gains = np.array([gain_of_span(int(span)) for span in spans])
    growing = regret_orders(episodes, spans, variation, gains)
    known: dict[str, Any] = {"episodes": episodes, "variation": variation}
    known["gain_of_span"] = gain_of_span
    reset, window = (
        best_span(setting, scheme=scheme, **known) for scheme in ("reset", "window")
    )
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
        window=window,
    )


def _estimate(
    data: Sequence[Episode], thetas: Float[np.ndarray, " N"] | None
) -> dict[str, Any]:
    """Estimate the constants of the bound from a run, by the names of ``Problem``."""
    require(len(data) >= 2, f"Estimating P_N takes 2 episodes, found {len(data)}.")
    known = thetas is not None and bool(np.isfinite(thetas).all())
    constants = estimate_constants(data, thetas if known else None)
    outputs, actions = data[0].obs.shape[1], data[0].actions.shape[1]
    rewards = np.concatenate([episode.rewards for episode in data])
    return {
        "episodes": len(data),
        "steps": round(sum(map(len, data)) / len(data)),
        "outputs": outputs,
        "dimension": outputs + actions,
        "gain": constants.gain,
        "variation": constants.variation,
        "rkhs_bound": constants.rkhs_bound,
        "noise": constants.noise_std,
        # The bound counts rewards from 0.
        "reward_max": float(np.ptp(rewards)),
    }


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
