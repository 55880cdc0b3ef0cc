"""``driftrl study``: many runs, finishing what is unfinished, repeating nothing."""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

import tyro
from rich.console import Console

from driftrl.cli.options import parse, warn
from driftrl.cli.progress import duration, study_summary
from driftrl.config.engine import EngineConfig, EngineName
from driftrl.config.run import RunConfig
from driftrl.engines.launcher import LOG, Engine, Failures, make_engine, run_all
from driftrl.engines.progress import read_progress
from driftrl.errors import at_least, counted, require
from driftrl.training.process import cores
from driftrl.training.study import Study, find_study, prepare_study, read_study

_REFRESH_SECONDS = 2.0
_LOG_SECONDS = 30.0  # between two lines where there is no terminal


@dataclass(frozen=True)
class Arguments:
    """Which study, where, and on which engine."""

    study: Annotated[str, tyro.conf.Positional]
    """A study's TOML file, or the name of a shipped one: `driftrl list studies`."""
    out: Path | None = None
    """Directory of the results (default: runs/STUDY, or runs/STUDY-PRESET)."""
    preset: str | None = None
    """Preset of the study, such as paper or laptop (default: the study's)."""
    workers: int | None = None
    """Runs at once on this machine (default: the number of cores)."""
    on: EngineName = "local"
    """Where the runs run; the study's [engine] table says what they need."""
    address: str | None = None
    """Address of a running Ray cluster, or auto (default: start one for the study)."""
    partition: str | None = None
    """Slurm partition (default: the study's, or the cluster's)."""
    account: str | None = None
    """Slurm account (default: the study's, or yours)."""
    track: str | None = None
    """Also log every episode to tensorboard or wandb."""


def main(argv: list[str]) -> int:
    """Run a study and say where its results are."""
    summary = "Run all runs of a study in parallel; repeat the command to finish it."
    arguments = parse(Arguments, argv, "study", summary)
    path = find_study(arguments.study)
    study = read_study(path, arguments.preset)
    study = replace(study, engine=_engine_config(study.engine, arguments))
    preset = f"-{arguments.preset}" if arguments.preset else ""
    out = arguments.out or Path("runs") / f"{study.name}{preset}"
    options: tuple[str, ...] = ()
    if arguments.track is not None:
        from driftrl.tracking import require_tracker

        require_tracker(arguments.track)
        options = ("--track", arguments.track)
    workers = workers_for(arguments.workers)
    engine = make_engine(arguments.on, study.engine, workers, options)
    status = run_study(study, path, out, engine)
    print(f"Results are in {out}; `driftrl report {out}` draws them.")
    return status


def _engine_config(config: EngineConfig, arguments: Arguments) -> EngineConfig:
    """Return the study's engine settings, overridden by the command line's."""
    flags = {"address": "ray", "partition": "slurm", "account": "slurm"}
    for flag, engine in flags.items():
        value = getattr(arguments, flag)
        if value is not None:
            require(arguments.on == engine, f"--{flag} needs --on {engine}.")
            table = replace(getattr(config, engine), **{flag: value})
            config = replace(config, **{engine: table})
    return config


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


def workers_for(asked: int | None) -> int:
    """Return how many runs are made at once: as many as asked, or as cores."""
    if asked is None:
        return cores()
    at_least("--workers", asked, 1)
    return asked
