"""``driftrl reproduce``: a figure of the paper, from the plan to the report."""

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

import tyro

from driftrl.cli import report
from driftrl.cli.options import parse, print_table
from driftrl.cli.progress import duration
from driftrl.cli.study import run_study, workers_for
from driftrl.config.run import RunConfig
from driftrl.config.toml import read_toml, to_dict
from driftrl.engines.local import LocalEngine
from driftrl.engines.progress import read_progress
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


@dataclass(frozen=True)
class Plan:
    """A study to run, and what it takes."""

    study: Study
    path: Path
    out: Path
    runs: tuple[RunConfig, ...]
    done: int
    """Finished runs."""
    seconds: float
    """Time that the other runs take."""
    size: int
    """Bytes of all runs."""


def main(argv: list[str]) -> int:
    """Print the plan, ask, run the studies of a figure and report on them."""
    summary = "Make a figure of the paper: print the plan, ask, run, report."
    arguments = parse(Arguments, argv, "reproduce", summary)
    shown, studies = FIGURES[arguments.figure]
    workers = workers_for(arguments.workers)
    plans = [make_plan(name, arguments, workers) for name in studies]
    print(f"{arguments.figure}: {shown}.\n")
    _print_plans(plans, workers, arguments.out)
    unfinished = [plan for plan in plans if plan.done < len(plan.runs)]
    if unfinished and not arguments.yes and not _agreed():
        print("Nothing was started.")
        return 0
    status = 0
    for plan in plans:
        engine = LocalEngine(workers)
        status = max(status, run_study(plan.study, plan.path, plan.out, engine))
    returns = arguments.returns or arguments.figure in _RETURNS_ONLY
    for plan in plans:
        report.print_report(report.Arguments((plan.out,), returns=returns))
    return status


def make_plan(name: str, arguments: Arguments, workers: int) -> Plan:
    """Return what a study takes: by the pace of runs that are there, else expected."""
    from driftrl.training.speed import expected_bytes, expected_minutes, product_rate

    path = find_study(name)
    has_preset = arguments.preset in read_toml(path).get("presets", {})
    study = read_study(path, arguments.preset if has_preset else None)
    out = arguments.out / (f"{name}-{arguments.preset}" if has_preset else name)
    runs = study.runs()
    planned = {run.name: to_dict(run) for run in runs}
    begun = {}
    if out.is_dir():
        begun = {run.name: run for run in read_progress(out, planned)}
    rate, seconds = product_rate(), []
    for run in runs:
        left = run.episodes
        if run.name in begun:
            left = max(0, left - begun[run.name].episodes)
        alike = [
            one.seconds
            for one in begun.values()
            if one.task == run.task and one.seconds
        ]
        expected = 60 * expected_minutes(run, rate) / run.episodes
        seconds.append(left * (fmean(alike) if alike else expected))
    return Plan(
        study=study,
        path=path,
        out=out,
        runs=tuple(runs),
        done=sum(run.state == "finished" for run in begun.values()),
        # Side by side, but no sooner than the longest run.
        seconds=max(sum(seconds) / workers, *seconds),
        size=sum(expected_bytes(run) for run in runs),
    )


def _print_plans(plans: list[Plan], workers: int, out: Path) -> None:
    columns = ["study", "preset", "runs", "done", "episodes", "time", "disk", "into"]
    print_table(
        columns,
        [
            [
                *(plan.study.name, plan.study.preset or "–", len(plan.runs), plan.done),
                sum(run.episodes for run in plan.runs),
                *(duration(plan.seconds), _megabytes(plan.size), plan.out),
            ]
            for plan in plans
        ],
    )
    total = duration(sum(plan.seconds for plan in plans))
    size = sum(plan.size for plan in plans)
    print(
        f"\nTogether about {total} with {workers} at once on idle cores (up to twice "
        f"as long), and {_megabytes(size)} of disk. A regret whose J*(θ) is not known "
        "yet takes further minutes for each θ; --returns leaves that out."
    )
    existing = next(p for p in (out.resolve(), *out.resolve().parents) if p.is_dir())
    free = shutil.disk_usage(existing).free
    if free < size:
        print(f"There is not enough disk space: {_megabytes(free)} are free in {out}.")


def _megabytes(size: float) -> str:
    return f"{size / 1e6:,.1f} MB"


def _agreed() -> bool:
    interactive = sys.stdin is not None and sys.stdin.isatty()
    require(interactive, "Nothing was started: no terminal to ask on. Add --yes.")
    try:
        return input("Start? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
