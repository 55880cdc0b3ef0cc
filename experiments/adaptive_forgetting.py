"""Adaptive forgetting beside the best fixed choice in hindsight, drift by drift.

    python experiments/adaptive_forgetting.py --task pendulum --drifts abrupt none
    python experiments/adaptive_forgetting.py --show          # what is there so far

For every drift one study is written and run: keep-all, resets and windows over a grid
of H and w, doubling, event, adaptive, and hindsight, which is told the changes.  Runs
that exist are not repeated.  Prints, and draws, the regret relative to that of the
fixed H or w (or keep-all) that was best for the drift, paired by seed.  Of the cheetah,
whose best return is not known, it prints returns from the onset on and their
differences.
"""

import argparse
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars
from matplotlib.figure import Figure

import driftrl
from driftrl.analysis.statistics import estimate_mean
from driftrl.config.toml import toml_text
from driftrl.io import write_atomically
from driftrl.training.study import find_study, read_study

FREE = ("doubling", "event", "adaptive", "hindsight")
"""Methods without an H or w to choose."""
CHEETAH, ONSET = "halfcheetah", 25
COLOURS = ("#4477aa", "#ccbb44", "#228833", "#ee6677", "#aa3377")


def drifts_of(task: str) -> dict[str, tuple[dict[str, Any], list[int]]]:
    """Return every drift of a task, and the first episodes after its changes.

    A drift without an end has a change at every episode; hindsight is then told the
    onset alone.
    """
    if task == CHEETAH:
        fading = {"theta_max": 1.0, "theta_min": 0.2, "rate": 0.05, "start": ONSET}
        halved = {"theta_max": 1.0, "theta_min": 0.5, "start": ONSET}
        return {
            "none": ({"kind": "constant", "value": 1.0}, []),
            "abrupt": ({"kind": "step", **halved}, [ONSET + 1]),
            "medium": ({"kind": "exponential", **fading}, [ONSET + 1]),
        }
    high, low, onset, end = (2.0, 1.0, 10, 30)
    rates = {"slow": 0.05, "medium": 0.2, "fast": 1.0}
    if task == "pendulum-decay":
        high, low, onset, end = (5.0, 1.0, 25, 75)
        rates = {"slow": 0.025, "medium": 0.05, "fast": 0.1}
    between = {"theta_max": high, "theta_min": low, "start": onset}
    late = (onset + end) // 2
    middle = (high + low) / 2
    table: dict[str, tuple[dict[str, Any], list[int]]] = {
        "none": ({"kind": "constant", "value": high}, []),
        "abrupt": ({"kind": "step", **between}, [onset + 1]),
        "two abrupt": (
            {
                "kind": "piecewise",
                "values": [high, low, middle],
                "boundaries": [onset, late],
            },
            [onset + 1, late + 1],
        ),
        "linear": ({"kind": "linear", "duration": end - onset, **between}, [onset + 1]),
        "cyclic": ({"kind": "cyclic", "period": end // 3, **between}, [onset + 1]),
        "random walk": (
            {
                "kind": "random_walk",
                "initial": high,
                "scale": (high - low) / 8,
                **between,
            },
            [onset + 1],
        ),
    }
    first = 10 if task == "pendulum" else 5  # where the paper's decays begin
    for name, rate in rates.items():
        decay = {**between, "kind": "exponential", "rate": rate, "start": first}
        table[name] = (decay, [first + 1])
    return table


def settings_of(task: str) -> dict[str, Any]:
    """Return what differs from the task's own settings in every run."""
    if task != CHEETAH:
        return {}
    preset = read_study(find_study("mujoco_decay_rates"), "laptop").presets["laptop"]
    return {name: value for name, value in preset.items() if name != "forget_after"}


def study_of(task: str, drift: str, seeds: list[int]) -> dict[str, Any]:
    """Return the study of one drift, as the content of its file."""
    schedule, changes = drifts_of(task)[drift]
    grid = {"pendulum": (3, 5, 10, 15), CHEETAH: (20,)}.get(task, (10, 20, 40))
    free = ["adaptive"] if task == CHEETAH else list(FREE[:3])
    variants: list[dict[str, Any]] = [{"methods": ["sombrl", *free]}]
    told = {"forgetting": {"changes": changes}}
    variants.append({"methods": ["hindsight"], "name": "told", "settings": told})
    for size in grid:
        variants += [
            {
                "methods": [method],
                "name": f"{letter}={size}",
                "settings": {"forgetting": {field: size}},
            }
            for method, letter, field in (
                ("r-ombrl", "H", "period"),
                ("sw-ombrl", "w", "window"),
            )
        ]
    name = f"{task}-{drift.replace(' ', '-')}"
    return {
        "name": name,
        "title": f"{task}: {drift}",
        "summary": "Fixed and adaptive forgetting under one drift.",
        "task": task,
        "methods": ["sombrl"],
        "seeds": seeds,
        "settings": settings_of(task) | {"drift": schedule},
        "variants": variants,
    }


def relative_regret(frame: polars.DataFrame, episodes: int) -> polars.DataFrame | None:
    """Return the regret of each method over that of the best fixed choice.

    The ratio is taken seed by seed; low and high are its 95 % t interval.  None if no
    seed has finished its ``episodes`` with all methods.
    """
    last = frame.filter(polars.col("episode") == episodes)
    by_method = {
        str(name): dict(rows.select("seed", "cumulative_regret").iter_rows())
        for (name,), rows in last.group_by("method", maintain_order=True)
    }
    fixed = [name for name in by_method if not name.startswith(FREE)]
    seeds = [set(runs) for runs in by_method.values()]
    shared = sorted(set.intersection(*seeds)) if seeds else []
    if not shared or len(by_method) < frame["method"].n_unique():
        return None
    total = lambda name: sum(by_method[name][seed] for seed in shared)
    best = min(fixed, key=total)
    rows = []
    for name, runs in by_method.items():
        ratios = [runs[seed] / by_method[best][seed] for seed in shared]
        found = estimate_mean(polars.Series(ratios).to_numpy())
        rows.append(
            {
                "method": name,
                "regret": total(name) / len(shared),
                "relative": found.mean,
                "low": float(found.student.low),
                "high": float(found.student.high),
                "seeds": len(shared),
                "best": name == best,
            }
        )
    return polars.DataFrame(rows).sort("regret")


def summary(tables: dict[str, polars.DataFrame]) -> list[str]:
    """Return a Markdown table: drifts, the best fixed choice, and what others lose.

    Numbers are regrets over that of the best fixed choice, with 95 % intervals.
    """
    names = ["adaptive", "hindsight", "event", "doubling", "sombrl"]
    lines = ["| | best fixed choice | " + " | ".join(names) + " |"]
    lines.append("|---" * (len(names) + 2) + "|")
    for drift, table in tables.items():
        best = table.row(by_predicate=polars.col("best"), named=True)
        cells = [drift, f"{best['method']}: {best['regret']:,.0f}"]
        for name in names:
            row = table.filter(polars.col("method").str.starts_with(name))
            value, low, high = row.select("relative", "low", "high").row(0)
            cells.append(f"{value:.2f} ({low:.2f} to {high:.2f})")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def returns_after_onset(frame: polars.DataFrame) -> polars.DataFrame:
    """Return each method's mean evaluation, and how far adaptive is ahead of it.

    Differences are paired by seed, low and high are their 95 % t interval.
    """
    late = frame.filter(polars.col("episode") > ONSET)
    means = late.group_by("method", "seed").agg(value=polars.col("return_eval").mean())
    ours = means.filter(polars.col("method") == "adaptive").select("seed", a="value")
    rows = []
    for (name,), runs in means.sort("method", "seed").group_by(
        "method", maintain_order=True
    ):
        pairs = runs.join(ours, on="seed")
        found = estimate_mean((pairs["a"] - pairs["value"]).to_numpy())
        rows.append(
            {
                "method": name,
                "return": pairs["value"].mean(),
                "adaptive ahead by": found.mean,
                "low": float(found.student.low),
                "high": float(found.student.high),
                "seeds": len(pairs),
            }
        )
    return polars.DataFrame(rows).sort("return", descending=True)


def draw(tables: dict[str, polars.DataFrame], path: Path) -> None:
    """Draw every fixed choice and the methods without one, drift by drift."""
    width = max(9.0, 1.6 * len(tables) + 2.5)
    figure = Figure(figsize=(width, 4), layout="constrained")
    axes = figure.subplots()
    shown = ("sombrl", *FREE)
    for place, name in enumerate(shown):
        for column, table in enumerate(tables.values()):
            rows = table.filter(polars.col("method").str.starts_with(name))
            for row in rows.iter_rows(named=True):
                x, y = column + 0.14 * (place - 2), row["relative"]
                ends = [[y - row["low"]], [row["high"] - y]]
                style = {"color": COLOURS[place], "capsize": 2, "marker": "o"}
                label = None if column else name
                axes.errorbar(x, y, ends, label=label, **style)
    for column, table in enumerate(tables.values()):
        fixed = table.filter(polars.col("method").str.contains("ombrl"))
        level = fixed["relative"].to_list()
        label = None if column else "every fixed choice"
        axes.scatter([column - 0.42] * len(level), level, 12, "grey", label=label)
    axes.axhline(1.0, color="black", linewidth=1)
    axes.set_yscale("log")
    axes.set_yticks([0.5, 0.7, 1.0, 1.5, 2.0, 3.0])
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter("")
    axes.set_xticks(range(len(tables)), list(tables))
    axes.set_ylabel("regret / regret of the best fixed choice")
    axes.legend(frameon=False, ncols=len(shown) + 1)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run what is asked for, then show everything that is there."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--task", default="pendulum")
    parser.add_argument("--drifts", nargs="+", default=[])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--out", type=Path, default=Path("runs/adaptive_forgetting"))
    parser.add_argument("--show", action="store_true", help="run nothing")
    asked = parser.parse_args()
    known = drifts_of(asked.task)
    drifts = [] if asked.show else asked.drifts or list(known)
    for drift in drifts:
        study = study_of(asked.task, drift, asked.seeds)
        file = asked.out / f"{study['name']}.toml"
        file.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(file, toml_text(study).encode())
        run = [sys.executable, "-m", "driftrl", "study", str(file)]
        subprocess.run([*run, "--out", str(asked.out / study["name"])], check=True)
    polars.Config(
        tbl_formatting="MARKDOWN",
        tbl_hide_column_data_types=True,
        tbl_hide_dataframe_shape=True,
        tbl_rows=-1,
        tbl_cols=-1,
        float_precision=2,
    )
    tables = {}
    for drift in known:
        folder = asked.out / f"{asked.task}-{drift.replace(' ', '-')}"
        if not folder.is_dir():
            continue
        frame = driftrl.load(folder)
        if asked.task == CHEETAH:
            print(f"{asked.task}, {drift}", returns_after_onset(frame), sep="\n")
            continue
        episodes = driftrl.configure(asked.task).episodes
        table = relative_regret(frame, episodes)
        if table is None:
            print(f"{asked.task}, {drift}: not finished")
            continue
        tables[drift] = table
        print(f"{asked.task}, {drift}")
        print(table)
    if tables:
        print(*summary(tables), sep="\n")
        draw(tables, asked.out / f"{asked.task}.png")
        print(f"Drawn: {asked.out / asked.task}.png")


if __name__ == "__main__":
    main()
