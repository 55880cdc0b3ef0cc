"""How fast does the regret grow with the number of episodes N?

    driftrl study gp_pendulum_growth
    python experiments/regret_growth.py runs/gp_pendulum_growth

Variants named N=… are runs of different lengths, with H and w that suit the length.
The exponent b of R_N ∝ N^b is the slope of log R_N over log N by least squares, for
each seed; t intervals are over seeds.  Methods without such variants do not depend on
N and are read at the same lengths off their long run.
"""

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars
from matplotlib.figure import Figure
from scipy import stats

import driftrl
from driftrl.analysis.style import sweep_point
from driftrl.errors import require

BOUND_EXPONENT = 0.75
"""Of the bound for P_N ∝ log N, with H and w ∝ √N."""
MIN_LENGTHS = 3


@dataclass(frozen=True)
class Growth:
    """The final regret of one method at several lengths."""

    method: str
    lengths: np.ndarray
    regrets: np.ndarray
    """R_N, a row a seed and a column a length."""

    def exponents(self, last: int | None = None) -> np.ndarray:
        """Return b of each seed, over all lengths or the ``last`` ones."""
        first = 0 if last is None else len(self.lengths) - last
        x = np.log(self.lengths[first:])
        x = x - x.mean()
        return np.log(self.regrets[:, first:]) @ x / (x @ x)


def growth(frame: polars.DataFrame) -> list[Growth]:
    """Return the growth of each method that was run at three lengths or more."""
    lengths: dict[str, dict[int, str]] = {}
    others: list[str] = []
    for name in frame["method"].unique(maintain_order=True):
        point = sweep_point(name)
        if point and point.setting == "N":
            lengths.setdefault(point.method, {})[int(point.value)] = name
        else:
            others.append(name)
    lengths = {name: one for name, one in lengths.items() if len(one) >= MIN_LENGTHS}
    require(bool(lengths), f"No method has {MIN_LENGTHS} variants named N=….")
    everywhere = sorted(set().union(*lengths.values()))
    for name in others:
        longest = int(frame.filter(method=name)["episode"].to_numpy().max())
        lengths[name] = {n: name for n in everywhere if n <= longest}
    return [
        _growth(frame, name, one)
        for name, one in lengths.items()
        if len(one) >= MIN_LENGTHS
    ]


def _growth(frame: polars.DataFrame, method: str, names: dict[int, str]) -> Growth:
    columns = []
    for n in sorted(names):
        rows = frame.filter(method=names[n], episode=n).sort("seed")
        columns.append(dict(rows.select("seed", "cumulative_regret").iter_rows()))
    seeds = sorted(set.intersection(*(set(column) for column in columns)))
    regrets = np.array([[column[seed] for column in columns] for seed in seeds])
    require(
        bool(seeds) and bool(np.all(regrets > 0)),
        f"{method} needs a seed with positive regret at every length.",
    )
    return Growth(method, np.array(sorted(names)), regrets)


def with_interval(values: np.ndarray) -> str:
    """Return mean and 95 % t interval as text."""
    mean, error = values.mean(), stats.sem(values) if len(values) > 1 else np.nan
    half = stats.t.ppf(0.975, len(values) - 1) * error if len(values) > 1 else np.nan
    return f"{mean:.2f} [{mean - half:.2f}, {mean + half:.2f}]"


def figure_of(found: Sequence[Growth]) -> Figure:
    """Draw R_N over N on logarithmic axes, with the slope of the bound."""
    figure = Figure(figsize=(4, 3.4), layout="constrained")
    axes = figure.subplots()
    for one in found:
        seeds = len(one.regrets)
        error = one.regrets.std(axis=0, ddof=1 if seeds > 1 else 0) / np.sqrt(seeds)
        label = f"{one.method}: {with_interval(one.exponents())}"
        mean = one.regrets.mean(axis=0)
        axes.errorbar(one.lengths, mean, error, fmt="o-", capsize=2, label=label)
    ends = np.array([found[0].lengths[0], found[0].lengths[-1]], dtype=float)
    low = 0.85 * min(one.regrets.mean(axis=0).min() for one in found)
    line = low * (ends / ends[0]) ** BOUND_EXPONENT
    axes.plot(ends, line, color="gray", label="$N^{3/4}$, the bound")
    axes.set(xscale="log", yscale="log", xlabel="Episodes $N$")
    axes.set_ylabel("Cumulative regret $R_N$")
    figure.legend(loc="outside upper center", fontsize=7)
    return figure


def main(arguments: Sequence[str] | None = None) -> None:
    """Print R_N and its exponents, and draw growth.png."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("study", type=Path)
    parser.add_argument("--oracle", default=None, help="J*(θ), as for driftrl regret")
    parser.add_argument("--out", type=Path, default=Path("growth.png"))
    options = parser.parse_args(arguments)
    found = growth(driftrl.load(options.study, oracle=options.oracle))
    for one in found:
        regrets = ", ".join(
            f"{n}: {mean:,.0f}"
            for n, mean in zip(one.lengths, one.regrets.mean(axis=0), strict=True)
        )
        print(
            f"{one.method}: R_N {regrets}; exponent {with_interval(one.exponents())}, "
            f"over the last two lengths {with_interval(one.exponents(2))}"
        )
    options.out.parent.mkdir(parents=True, exist_ok=True)
    figure_of(found).savefig(options.out, dpi=200)


if __name__ == "__main__":
    main()
