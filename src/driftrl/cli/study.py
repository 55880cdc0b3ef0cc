"""``driftrl study``: many runs, finishing what is unfinished, repeating nothing."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from driftrl.cli.options import warn
from driftrl.cli.progress import duration, study_summary
from driftrl.config.engine import EngineName
from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden
from driftrl.engines.launcher import LOG, Engine, Failures, make_engine, run_all
from driftrl.engines.progress import read_progress
from driftrl.errors import counted, require
from driftrl.tracking import require_tracker
from driftrl.training.study import Study, find_study, prepare_study, read_study

_REFRESH_SECONDS = 2.0
_FLAGS = {"address": "ray", "partition": "slurm", "account": "slurm"}
_LOG_SECONDS = 30.0  # between two lines where there is no terminal


def main(
    study: Annotated[str, tyro.conf.Positional],
    *,
    out: Path | None = None,
    preset: str | None = None,
    workers: int | None = None,
    on: EngineName = "local",
    address: str | None = None,
    partition: str | None = None,
    account: str | None = None,
    track: str | None = None,
) -> int:
    """Run all runs of a study in parallel; repeat the command to finish it.

    Args:
        study: A study's TOML file, or the name of one of `driftrl list studies`.
        out: Directory of the results (default: runs/STUDY, or runs/STUDY-PRESET).
        preset: Preset of the study, such as paper or laptop (default: the study's).
        workers: Runs at once on this machine (default: the number of cores).
        on: Where the runs run; the study's [engine] table says what they need.
        address: Address of a Ray cluster, or auto (default: start one for the study).
        partition: Slurm partition (default: the study's, or the cluster's).
        account: Slurm account (default: the study's, or yours).
        track: Also log every episode to tensorboard or wandb.
    """
    path = find_study(study)
    plan = read_study(path, preset)
    name = f"{plan.name}-{preset}" if preset else plan.name
    directory = out or Path("runs") / name
    flags = {"address": address, "partition": partition, "account": account}
    given = {flag: value for flag, value in flags.items() if value is not None}
    for flag in given:
        needed = _FLAGS[flag]
        require(on == needed, f"--{flag} needs --on {needed}.")
    config = overridden(plan.engine, {on: given}) if given else plan.engine
    options: tuple[str, ...] = ()
    if track is not None:
        require_tracker(track)
        options = ("--track", track)
    engine = make_engine(on, config, workers, options)
    status = run_study(plan, path, directory, engine)
    print(f"Results are in {directory}; `driftrl report {directory}` draws them.")
    return status


def run_study(study: Study, path: Path, out: Path, engine: Engine) -> int:
    """Run the unfinished runs of a study; return 0, or 1 if a run failed."""
    runs = prepare_study(study, path, out)
    at_once = f", {engine.max_jobs} at once" if engine.max_jobs < len(runs) else ""
    print(f"{counted(len(runs), 'run')}{at_once}, into {out}")
    started = time.monotonic()
    patience = study.engine.patience_minutes
    try:
        with _progress(runs, out) as show:
            failures = run_all(
                runs, out, engine, patience_minutes=patience, on_poll=show
            )
    except KeyboardInterrupt:
        print(f"Stopped. Repeat the command to go on; files are in {out}.")
        raise
    taken = duration(time.monotonic() - started)
    print(f"{len(runs) - len(failures)} of {len(runs)} runs finished, in {taken}.")
    for name, reason in failures.items():
        print(f"Failed: {name}: {reason} See {out / name / LOG}.")
    return 1 if failures else 0


@contextlib.contextmanager
def _progress(
    runs: Sequence[RunConfig], out: Path
) -> Iterator[Callable[[Failures], None]]:
    """Show how far a study is; without a terminal, in a line now and then."""
    console = Console(stderr=True)
    every = _REFRESH_SECONDS if console.is_terminal else _LOG_SECONDS
    last, known = time.monotonic(), set()

    def show(failures: Failures) -> None:
        nonlocal last
        for name in failures.keys() - known:
            warn(f"{name} failed: {failures[name]}")
            known.add(name)
        if time.monotonic() - last >= every:
            last = time.monotonic()
            text = study_summary(read_progress(out, runs))
            line.update(text)
            if not console.is_terminal:
                print(text, flush=True)

    with console.status("starting") as line:
        yield show
