"""Regret over the span beside the bound: the figure of ``docs/theory.md``.

    python experiments/bound_valley.py RUN STUDY --out valley.png

RUN is a run of the same problem that still has its episodes, from which the bound is
estimated; STUDY has variants named H=… or w=….  The bound and the regret have no common
unit: each is divided by its minimum.
"""

import argparse
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

import driftrl
from driftrl.analysis.style import sweep_point
from driftrl.theory.run_data import load_episodes, load_single_run
from driftrl.theory.window_selection import Problem, choose_window


def valley(run: Path, study: Path) -> Figure:
    """Draw learning term, drift term and their sum over p, and the measured regret."""
    stored = load_single_run(run)
    thetas = np.array([record.theta for record in stored.records])
    bound = choose_window(Problem(), load_episodes(stored), thetas)
    assert bound.terms is not None
    spans = np.arange(1, bound.episodes + 1)
    unit = float(bound.terms.total.min())
    top = min(4.0, 1.1 * float(bound.terms.total.max()) / unit)
    figure = Figure(figsize=(3.5, 2.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(spans, bound.terms.total / unit, color="black", label="sum")
    axes.plot(
        spans, bound.terms.learning / unit, "--", color="#0072B2", label="learning"
    )
    axes.plot(spans, bound.terms.drift / unit, "-.", color="#D55E00", label="drift")
    axes.axvline(bound.span, color="gray", linewidth=0.8, zorder=0)
    axes.annotate(f"$p = {bound.span}$", (bound.span, 0.92 * top), color="gray")
    table = driftrl.regret(driftrl.load(study))
    rows = {row["method"]: row for row in table.iter_rows(named=True)}
    sweeps: dict[str, dict[float, str]] = {}
    for name in rows:
        if (point := sweep_point(name)) and point.setting in ("H", "w"):
            sweeps.setdefault(point.method, {})[point.value] = name
    for method, points in sweeps.items():
        regret = np.array([rows[name]["regret"] for name in points.values()])
        error = [rows[name]["standard_error"] or 0.0 for name in points.values()]
        look = {"fmt": "o", "markersize": 3.5, "capsize": 2, "label": method}
        least = regret.min()
        axes.errorbar([*points], regret / least, np.array(error) / least, **look)
    axes.set(xscale="log", ylim=(0, top), xlabel="span $p$ ($H$ or $w$), episodes")
    axes.set_ylabel("bound and regret over their minimum")
    axes.xaxis.set_major_formatter("{x:g}")
    figure.legend(loc="outside upper center", ncols=3, fontsize=7)
    return figure


def main() -> None:
    """Parse the arguments and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("run", type=Path, help="a run with its episodes")
    parser.add_argument("study", type=Path, help="a study with variants H=… or w=…")
    parser.add_argument("--out", type=Path, required=True, help="the PNG to write")
    options = parser.parse_args()
    valley(options.run, options.study).savefig(options.out, dpi=200)


if __name__ == "__main__":
    main()
