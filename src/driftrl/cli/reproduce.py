"""``driftrl reproduce``: a figure of the paper, from the plan to the report."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Annotated, Literal

import tyro

from driftrl.cli.options import parse, print_table
from driftrl.cli.progress import duration
from driftrl.cli.report import write_and_tell
from driftrl.cli.study import run_study, workers_for
from driftrl.config.run import EnvironmentConfig, RunConfig
from driftrl.config.toml import read_toml, to_dict
from driftrl.engines.local import LocalEngine
from driftrl.engines.progress import RunProgress, read_progress
from driftrl.errors import InputError, counted
from driftrl.training.process import prepare
from driftrl.training.study import Study, find_study, read_study

Preset = Literal["laptop", "paper"]


@dataclass(frozen=True)
class Figure:
    """A figure of the paper, and what it takes to make it."""

    what: str
    """What it shows, and its label in the paper."""
    studies: tuple[str, ...]
    shows_returns: bool = False
    """Whether the paper shows returns there and no regret, for which J* is needed."""


FIGURES = {
    "fig1": Figure(
        "Figure 1 (fig:gps): regret with GP dynamics on a pendulum whose torque halves",
        ("gp_pendulum",),
    ),
    "fig2": Figure(
        "Figure 2 (fig:decay_rates): regret at three decay rates on pendulum, "
        "HalfCheetah and Hopper",
        ("pendulum_decay_rates", "mujoco_decay_rates"),
    ),
    "fig3": Figure(
        "Figure 3 (fig:different_envs): regret on five more machines whose actuators "
        "fade",
        ("mujoco_environments",),
    ),
    "rccar": Figure(
        "Figure 4 (hardware experiments): returns of a car that parks and loses its "
        "throttle, here on the car's published simulator",
        ("rccar_parking",),
        shows_returns=True,
    ),
    "ablation": Figure(
        "Figure 5 (fig:ablate_alpha): how strongly model and policy are softly reset",
        ("soft_reset_ablation",),
    ),
}


@dataclass(frozen=True)
class Arguments:
    """Which figure, how large, and where."""

    figure: Annotated[
        Literal["fig1", "fig2", "fig3", "rccar", "ablation"], tyro.conf.Positional
    ]
    """Which figure of the paper; docs/reproduce.md says what each came out as."""
    preset: Preset = "laptop"
    """The paper's own settings, or fewer and smaller ones that a laptop can do."""
    out: Path = Path("runs")
    """Directory in which each study of the figure has its own."""
    workers: int | None = None
    """Runs at once (default: the number of cores)."""
    returns: bool = False
    """Report returns alone, and train no oracle for the regret."""
    yes: bool = False
    """Start without being asked."""


@dataclass(frozen=True)
class Plan:
    """A study that is to be run, and what that will take."""

    study: Study
    path: Path
    out: Path
    runs: tuple[RunConfig, ...]
    begun: tuple[RunProgress, ...]
    """How far each of the runs is."""
    seconds: tuple[float, ...]
    """Seconds that each of them still takes on one core."""
    bytes: int
    """What all of them lie on the disk with in the end."""

    @property
    def done(self) -> int:
        """Runs that are finished."""
        return sum(run.state == "finished" for run in self.begun)


def main(argv: list[str]) -> int:
    """Print the plan, ask, run the studies of a figure and report on them."""
    summary = "Make a figure of the paper: print the plan, ask, run, report."
    arguments = parse(Arguments, argv, "reproduce", summary)
    figure = FIGURES[arguments.figure]
    workers = workers_for(arguments.workers)
    plans = plans_of(figure, arguments.preset, arguments.out)
    returns_only = arguments.returns or figure.shows_returns
    print(f"{figure.what}.\n")
    _print_plans(plans, workers)
    print(_oracle_in_words(plans, returns_only))
    print(_room_in_words(plans, arguments.out), end="")
    if not (arguments.yes or _all_done(plans) or _agreed()):
        print("Nothing was started.")
        return 0
    status = 0
    for plan in plans:
        engine = LocalEngine(workers)
        status = max(status, run_study(plan.study, plan.path, plan.out, engine))
    for plan in plans:
        write_and_tell(plan.out, returns_only=returns_only)
    return status


def plans_of(figure: Figure, preset: Preset, out: Path) -> list[Plan]:
    """Return what has to be run for a figure, and what it is expected to take."""
    prepare(os.environ)
    from driftrl.training.speed import product_rate

    rate = product_rate()
    return [_plan(name, preset, out, rate) for name in figure.studies]


def _plan(name: str, preset: Preset, out: Path, rate: float) -> Plan:
    from driftrl.training.speed import expected_bytes

    path = find_study(name)
    # A study without presets has one setting, which is the paper's as far as it tells.
    chosen = preset if preset in read_toml(path).get("presets", {}) else None
    study = read_study(path, chosen)
    place = out / (f"{name}-{chosen}" if chosen else name)
    runs = study.runs()
    begun = _begun(runs, place)
    return Plan(
        study=study,
        path=path,
        out=place,
        runs=tuple(runs),
        begun=tuple(begun),
        seconds=tuple(
            _seconds(run, one, begun, rate)
            for run, one in zip(runs, begun, strict=True)
        ),
        bytes=sum(expected_bytes(run) for run in runs),
    )


def _begun(runs: Sequence[RunConfig], place: Path) -> list[RunProgress]:
    """Return how far each run is; none has begun where there is no directory."""
    planned = {run.name: to_dict(run) for run in runs}
    if not place.is_dir():
        return [RunProgress(name, "waiting", told) for name, told in planned.items()]
    found = {run.name: run for run in read_progress(place, planned)}
    return [found[name] for name in planned]


def _seconds(
    run: RunConfig, begun: RunProgress, others: Sequence[RunProgress], rate: float
) -> float:
    """Return what a run still takes: by the pace here if there is one, else as planned.

    Args:
        run: The run.
        begun: How far it is.
        others: All runs of the study, among them those that have been run here.
        rate: Multiplications and additions a second of this machine.
    """
    from driftrl.training.speed import expected_minutes

    left = max(0, run.episodes - begun.episodes)
    alike = [one.seconds for one in others if one.task == run.task and one.seconds]
    if alike:
        return left * fmean(alike)
    return 60 * expected_minutes(run, rate) * left / run.episodes


def _print_plans(plans: Sequence[Plan], workers: int) -> None:
    columns = ["study", "preset", "runs", "done", "episodes", "seeds", "time", "disk"]
    print_table(
        [*columns, "into"],
        [
            [
                plan.study.name,
                plan.study.preset or "has one setting",
                len(plan.runs),
                plan.done,
                sum(run.episodes for run in plan.runs),
                len(plan.study.seeds),
                duration(_at_once(plan.seconds, workers)),
                _size(plan.bytes),
                plan.out,
            ]
            for plan in plans
        ],
    )
    total = duration(sum(_at_once(plan.seconds, workers) for plan in plans))
    need = sum(plan.bytes for plan in plans)
    print(
        f"\nTogether {total} with {counted(workers, 'run')} at once on cores that have "
        f"little else to do, and {_size(need)} of disk. The time comes from what "
        "`driftrl list tasks` tells of this machine, scaled to these settings, or from "
        "runs that are there already: it may be twice as much, and is less where "
        "episodes end early."
    )


def _room_in_words(plans: Sequence[Plan], out: Path) -> str:
    """Say whether the disk is too small; nothing if it is not."""
    need = sum(plan.bytes for plan in plans)
    free = shutil.disk_usage(_existing(out)).free
    if free >= need:
        return ""
    return (
        f"There is not enough room: {_size(free)} are free in {out}, and {_size(need)} "
        "are needed.\n"
    )


def _at_once(seconds: Sequence[float], workers: int) -> float:
    """Return how long runs take side by side: at least as long as the longest."""
    return max(sum(seconds) / workers, max(seconds, default=0.0))


def _size(count: float) -> str:
    """Return bytes as people say them."""
    for unit, size in (("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count / 1e3:.0f} kB"


def _existing(path: Path) -> Path:
    """Return the nearest directory above that is there."""
    path = path.resolve()
    return next(one for one in (path, *path.parents) if one.is_dir())


def _oracle_in_words(plans: Sequence[Plan], returns_only: bool) -> str:
    """Say what the report needs beyond the runs."""
    if returns_only:
        return "The report shows returns; no oracle is trained.\n"
    from driftrl.oracles import trainings_missing

    met: dict[tuple[str, EnvironmentConfig], set[float]] = {}
    for run in (run for plan in plans for run in plan.runs):
        met.setdefault((run.task, run.environment), set()).update(_thetas(run))
    count = sum(
        trainings_missing(task, thetas, environment)
        for (task, environment), thetas in met.items()
    )
    if count == 0:
        return "The report shows regret; its oracle needs no training.\n"
    return (
        "The report shows regret: for J*(θ) SAC is trained "
        f"{counted(count, 'time')} then, some minutes each; --returns leaves that "
        "out.\n"
    )


def _thetas(run: RunConfig) -> set[float]:
    """Return the θ that a run meets, if no episode ends early."""
    pace = 1 if run.clock == "episodes" else run.environment.steps
    first = 1 if run.clock == "episodes" else 0
    return {float(run.drift(first + pace * n)) for n in range(run.episodes)}


def _all_done(plans: Sequence[Plan]) -> bool:
    return all(plan.done == len(plan.runs) for plan in plans)


def _agreed() -> bool:
    """Ask whether to start."""
    if sys.stdin is None or not sys.stdin.isatty():  # None: closed by who started us
        raise InputError(
            "Nothing was started: there is no terminal on which to ask. Add --yes."
        )
    try:
        return input("Start? [y/N] ").strip().lower() in ("y", "yes")
    except EOFError:
        return False
