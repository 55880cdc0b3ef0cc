"""``driftrl reproduce``: a figure of the paper, from the plan to the report."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro

from driftrl.cli import report
from driftrl.cli.options import parse, print_table
from driftrl.cli.progress import duration
from driftrl.cli.study import run_study, workers_for
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


@dataclass(frozen=True)
class Arguments:
    """Which figure, how large, and where."""

    figure: Annotated[
        Literal["fig1", "fig2", "fig3", "rccar", "ablation"], tyro.conf.Positional
    ]
    """Which figure of the paper; docs/reproduce.md says what each came out as."""
    preset: Literal["laptop", "paper"] = "laptop"
    """The paper's settings, or smaller ones for a laptop."""
    out: Path = Path("runs")
    """Directory in which each study of the figure has its own."""
    workers: int | None = None
    """Runs at once (default: the number of cores)."""
    returns: bool = False
    """Report returns only; train no oracle for the regret."""
    yes: bool = False
    """Start without asking."""


def main(argv: list[str]) -> int:
    """Print the plan, ask, run the studies of a figure and report on them."""
    summary = "Make a figure of the paper: print the plan, ask, run, report."
    arguments = parse(Arguments, argv, "reproduce", summary)
    shown, studies = FIGURES[arguments.figure]
    workers = workers_for(arguments.workers)
    plans = [_plan(name, arguments) for name in studies]
    print(f"{arguments.figure}: {shown}.\n")
    unfinished = _print_plans(plans, workers)
    if unfinished and not arguments.yes and not _agreed():
        print("Nothing was started.")
        return 0
    status = 0
    for plan in plans:
        status = max(status, run_study(*plan, LocalEngine(workers)))
    returns = arguments.returns or arguments.figure in _RETURNS_ONLY
    for _, _, out in plans:
        report.print_report(report.Arguments((out,), returns=returns))
    return status


def _plan(name: str, arguments: Arguments) -> Plan:
    path, preset = find_study(name), arguments.preset
    if preset not in read_toml(path).get("presets", {}):
        return read_study(path), path, arguments.out / name
    return read_study(path, preset), path, arguments.out / f"{name}-{preset}"


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
