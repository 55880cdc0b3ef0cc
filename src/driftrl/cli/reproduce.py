"""``driftrl reproduce``: a figure of the paper, from the plan to the report."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from driftrl.cli import report
from driftrl.cli.options import print_table
from driftrl.cli.progress import duration
from driftrl.cli.study import run_study
from driftrl.config.toml import read_toml
from driftrl.engines.local import LocalEngine
from driftrl.engines.progress import expected_seconds
from driftrl.errors import require
from driftrl.training.study import Study, find_study, read_study

FIGURES = {
    "fig1": ("regret with GP dynamics on a pendulum", ("gp_pendulum",)),
    "fig2": (
        "regret at three decay rates on pendulum, HalfCheetah and Hopper",
        ("pendulum_decay_rates", "mujoco_decay_rates"),
    ),
    "fig3": ("regret on five more machines", ("mujoco_environments",)),
    "rccar": ("returns of a car that parks, in simulation", ("rccar_parking",)),
    "ablation": ("strength of the soft reset", ("soft_reset_ablation",)),
}
"""What each figure of the paper shows, and the studies it takes."""
Plan = tuple[Study, Path, Path]
"""A study, its file, and where its runs go."""
_RETURNS_ONLY = ("rccar",)  # the paper shows no regret there, which needs J*


def main(
    figure: Annotated[
        Literal["fig1", "fig2", "fig3", "rccar", "ablation"], tyro.conf.Positional
    ],
    *,
    preset: Literal["laptop", "paper"] = "laptop",
    out: Path = Path("runs"),
    workers: int | None = None,
    returns: bool = False,
    yes: bool = False,
) -> int:
    """Make a figure of the paper: print the plan, ask, run, report.

    Args:
        figure: Which figure of the paper.
        preset: The paper's settings, or smaller ones for a laptop.
        out: Directory in which each study of the figure has its own.
        workers: Runs at once (default: the number of cores).
        returns: Report returns only; train no oracle for the regret.
        yes: Start without asking.
    """
    shown, studies = FIGURES[figure]
    engine = LocalEngine(workers)
    plans = [_plan(name, preset, out) for name in studies]
    print(f"{figure}: {shown}.\n")
    unfinished = _print_plans(plans, engine.max_jobs)
    if unfinished and not yes and not _agreed():
        print("Nothing was started.")
        return 0
    status = max(run_study(*plan, engine) for plan in plans)
    for _, _, directory in plans:
        report.main((directory,), returns=returns or figure in _RETURNS_ONLY)
    return status


def _plan(name: str, preset: str, out: Path) -> Plan:
    path = find_study(name)
    if preset not in read_toml(path).get("presets", {}):
        return read_study(path), path, out / name
    return read_study(path, preset), path, out / f"{name}-{preset}"


def _print_plans(plans: list[Plan], workers: int) -> int:
    """Print what the studies take; return how many runs are unfinished."""
    from driftrl.training.speed import expected_bytes

    rows, unfinished, total = [], 0, 0.0
    for study, _, out in plans:
        runs = study.runs()
        done, seconds = expected_seconds(runs, out, workers)
        counts = (len(runs), done, sum(run.episodes for run in runs))
        size = f"{sum(map(expected_bytes, runs)) / 1e6:,.1f} MB"
        names = (study.name, study.preset or "–")
        rows.append([*names, *counts, duration(seconds), size, out])
        unfinished, total = unfinished + len(runs) - done, total + seconds
    columns = ["study", "preset", "runs", "done", "episodes", "time", "disk", "into"]
    print_table(columns, rows)
    print(
        f"\nTogether about {duration(total)} with {workers} at once on idle cores, or "
        "twice as long. A regret whose J*(θ) is not known yet takes further minutes "
        "for each θ; --returns leaves that out."
    )
    return unfinished


def _agreed() -> bool:
    interactive = sys.stdin is not None and sys.stdin.isatty()
    require(interactive, "Nothing was started: no terminal to ask on. Add --yes.")
    try:
        return input("Start? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
