"""The two terms of the episodic regret bound beside the measured regret.

    python experiments/bound_beside_regret.py runs/gp_pendulum --out bound.png

For every run whose episodes are still in its directory: the regret of each episode, the
uncertainty along it, the drift within the retained data, and both terms of the bound
with all constants.  For every episode n, with the data of the episodes m(n) … n−1::

    r_n ≤ (λ̃² + 2λ̃)·Σ(π_n, f_n)  +  (λ̃ + 2)·ξ·r·T²/σ·Σ_{s=m}^{n−1} ‖f_{s+1} − f_s‖
          └────── learning ─────┘    └─────────────────── drift ───────────────────┘

Σ is the uncertainty along the executed episode, a sum over its steps; the norms, γ, B
and σ are estimated (``driftrl.theory.window_selection``) in the kernel of a quick
Gaussian process fitted to the run, whatever its agent.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float, Int
from matplotlib.figure import Figure

import driftrl
from driftrl.errors import require
from driftrl.memory.nystrom import RunningSums, fit_features
from driftrl.records import load_run
from driftrl.theory.confidence import (
    Setting,
    drift_coefficient,
    exploration_weight,
    width_of,
)
from driftrl.theory.regret_bound import (
    RegretTerms,
    drift_penalty,
    episodic_regret_bound,
    optimistic,
    require_episodes,
)
from driftrl.theory.run_data import has_episodes, load_episodes
from driftrl.theory.window_selection import estimate_constants
from driftrl.types import Episode

LEARNING, DRIFT = "#0072B2", "#D55E00"
_FAILURE_PROBABILITY = 0.1


@dataclass(frozen=True)
class EmpiricalBound:
    """The bound of each episode of a run."""

    setting: Setting
    """The estimated constants."""
    uncertainty: Float[np.ndarray, " N"]
    """Σ along the executed episode, in prior standard deviations."""
    drift: Float[np.ndarray, " N"]
    """Σ_{s=m(n)}^{n−1} ‖f_{s+1} − f_s‖, the drift within the retained data."""
    terms: RegretTerms
    """Both terms with all constants, episode by episode."""

    @property
    def most(self) -> float:
        """Return T·R_max, which no episode's regret exceeds."""
        return self.setting.steps * self.setting.reward_max


def empirical_bound(
    episodes: Sequence[Episode],
    first_retained: Int[np.ndarray, " N"],
    clock: Float[np.ndarray, " N"] | None = None,
) -> EmpiricalBound:
    """Return the bound's terms for every episode of a run.

    For any forgetting rule: if it forgets, the confidence holds for as many data sets
    as there are episodes, which is enough for each rule.

    Args:
        episodes: All episodes, from the first.
        first_retained: m(n) of each.
        clock: θ of each, or None if it is not known.
    """
    count, retained = len(episodes), np.asarray(first_retained)
    require_episodes(count)
    require(
        len(retained) == count,
        f"Each of {count} episodes needs its m(n), received {len(retained)} of them.",
    )
    features = fit_features(episodes)
    parts = [features.of(episode) for episode in episodes]
    constants = estimate_constants(episodes, clock, features)
    setting = Setting(
        rkhs_bound=constants.rkhs_bound,
        noise_std=constants.noise,
        kernel_bound=max(float((phi**2).sum(axis=1).max()) for phi, _ in parts),
        outputs=constants.outputs,
        failure_probability=_FAILURE_PROBABILITY,
        steps=max(map(len, episodes)),
        reward_max=constants.reward_max,
    )
    sums, numbers = RunningSums(parts), np.arange(1, count + 1)
    pairs = [
        _uncertainty_and_gain(
            phi, sums.between(int(first), int(n)).gram, setting.noise_std**2
        )
        for n, first, (phi, _) in zip(numbers, retained, parts, strict=True)
    ]
    one_output, gain = np.array(pairs).T
    uncertainty = np.sqrt(setting.outputs) * one_output
    # P_N in proportion to the steps of the clock.
    steps = np.ones(count - 1) if clock is None else np.abs(np.diff(clock))
    drift = drift_within(constants.variation * steps / (steps.sum() or 1.0), retained)
    spans = numbers - retained
    width = width_of(
        setting,
        gain,
        scheme="keep_all" if (retained == 1).all() else "window",
        span=int(spans.max()) or 1,
        episode=numbers,
        episodes=count,
    )
    with_bonus = optimistic(setting)
    coefficient = drift_coefficient(setting, gain, spans)
    penalty = drift_penalty(with_bonus, coefficient, drift)
    weight = exploration_weight(with_bonus, width)
    terms = episodic_regret_bound(weight, uncertainty, penalty)
    return EmpiricalBound(setting, uncertainty, drift, terms)


def drift_within(
    increments: Float[np.ndarray, " K"], first_retained: Int[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    """Return Σ_{s=m(n)}^{n−1} ‖f_{s+1} − f_s‖ for every n; K = N − 1."""
    path = np.concatenate([[0.0], np.cumsum(increments)])
    return path - path[first_retained - 1]


def _uncertainty_and_gain(
    phi: Float[np.ndarray, "T F"], gram: Float[np.ndarray, "F F"], noise: float
) -> tuple[float, float]:
    """Return Σ_t σ(z_t) of one output along an episode, and γ of the retained data.

    With A = Σφφᵀ over the data, σ²(z) = φᵀ(I + A/σ²)⁻¹φ and γ = ½·log det(I + A/σ²).
    All outputs share inputs, kernel and noise.
    """
    factor = np.linalg.cholesky(np.eye(len(gram)) + gram / noise)
    variances = (np.linalg.solve(factor, phi.T) ** 2).sum(axis=0)
    return float(np.sqrt(variances).sum()), float(np.log(np.diag(factor)).sum())


@dataclass(frozen=True)
class Column:
    """One method: regret and bound of each run."""

    method: str
    regret: np.ndarray
    """J*(θ_n) − J(π_n), a row a run."""
    bounds: list[EmpiricalBound]

    def mean(self, name: str) -> np.ndarray:
        """Return the mean over runs of a quantity of the bound."""
        if name in ("learning", "drift_term"):
            attribute = name.removesuffix("_term")
            values = [getattr(bound.terms, attribute) for bound in self.bounds]
        else:
            values = [getattr(bound, name) for bound in self.bounds]
        return np.mean(values, axis=0)


def columns_of(directory: Path, oracle: str | None = None) -> list[Column]:
    """Return regret and bound of each method whose runs have their episodes."""
    frame = driftrl.load(directory, oracle=oracle)
    columns = []
    for (method,), group in frame.group_by("method", maintain_order=True):
        runs = group.partition_by("directory", maintain_order=True)
        episodes = min(len(rows) for rows in runs)
        regrets, bounds = [], []
        for rows in runs:
            run = load_run(rows["directory"][0])
            if not has_episodes(run) or rows["regret"].null_count():
                continue
            first_retained = rows["first_retained"].to_numpy()[:episodes]
            data = load_episodes(run)[:episodes]
            thetas = rows["theta"].to_numpy()[:episodes]
            bounds.append(empirical_bound(data, first_retained, thetas))
            regrets.append(rows["regret"].to_numpy()[:episodes])
        if bounds:
            columns.append(Column(str(method), np.array(regrets), bounds))
    require(bool(columns), f"No run in {directory} has its episodes and a known J*.")
    return columns


def figure_of(columns: Sequence[Column]) -> Figure:
    """Draw a column per method: regret, uncertainty, drift, and the summed terms."""
    figure = Figure(figsize=(1.6 + 1.9 * len(columns), 5.6), layout="constrained")
    grid = figure.subplots(4, len(columns), sharex=True, sharey="row", squeeze=False)
    for index, column in enumerate(columns):
        regret, uncertainty, drift, terms = grid[:, index]
        n = np.arange(1, column.regret.shape[1] + 1)
        regret.plot(n, column.regret.mean(axis=0), color="black")
        regret.set_title(column.method)
        uncertainty.semilogy(n, column.mean("uncertainty"), color=LEARNING)
        drift.plot(n, column.mean("drift"), color=DRIFT)
        lines = {
            "learning term": (column.mean("learning"), LEARNING),
            "drift term": (column.mean("drift_term"), DRIFT),
            "measured regret": (column.regret.mean(axis=0), "black"),
            "largest possible": (np.full(len(n), column.mean("most")), "gray"),
        }
        for label, (values, colour) in lines.items():
            total = np.cumsum(values)
            shown = np.where(total > 0, total, np.nan)  # the axis is logarithmic
            terms.semilogy(n, shown, color=colour, label=label)
        terms.set_xlabel("Episode $n$")
    labels = ("Regret $r_n$", "Uncertainty $\\Sigma$", "Drift in data", "Cumulative")
    for axes, label in zip(grid[:, 0], labels, strict=True):
        axes.set_ylabel(label)
    lines, names = grid[-1, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside lower center", ncols=4, fontsize=7)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Draw the figure."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--oracle", default=None, help="J*(θ), as for driftrl regret")
    parser.add_argument("--out", type=Path, default=Path("bound.png"))
    options = parser.parse_args(arguments)
    columns = columns_of(options.study, options.oracle)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure_of(columns).savefig(options.out, dpi=200)


if __name__ == "__main__":
    main()
