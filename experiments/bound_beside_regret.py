"""The two terms of the episodic regret bound beside the measured regret.

    python experiments/bound_beside_regret.py runs/gp_pendulum --out bound.png

For every run whose episodes are still in its directory: the regret of each episode, the
uncertainty along it, the drift within the retained data, and both terms of the bound
with all constants (``driftrl.theory.empirical_bound``).
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import driftrl
from driftrl.errors import require
from driftrl.records import load_run
from driftrl.theory.empirical_bound import EmpiricalBound, empirical_bound
from driftrl.theory.run_data import has_episodes, load_episodes

LEARNING, DRIFT = "#0072B2", "#D55E00"


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
