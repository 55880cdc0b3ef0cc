"""``driftrl study``: many runs, finishing what is unfinished, repeating nothing."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import tyro

from driftrl.cli.options import parse, print_table
from driftrl.cli.progress import duration, study_progress
from driftrl.config.engine import EngineConfig, EngineName
from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict, merged, read_toml, to_dict, toml_text
from driftrl.engines.named import engine_named
from driftrl.engines.seam import Engine, run_all
from driftrl.errors import InputError, counted, require
from driftrl.io import write_atomically
from driftrl.training.calibration_study import (
    is_calibration_study,
    read_calibration_study,
)
from driftrl.training.process import cores
from driftrl.training.study import Study, find_study, read_study

_LINE_SECONDS = 10.0  # between two lines of progress


@dataclass(frozen=True)
class Arguments:
    """Which study, where, and by what."""

    study: Annotated[str, tyro.conf.Positional]
    """A study's TOML file, or the name of a shipped one: `driftrl list studies`."""
    out: Path | None = None
    """Directory of the results (default: runs/<study>, and -<preset> if named)."""
    preset: str | None = None
    """Settings of the study to use, such as paper or laptop (default: the study's)."""
    workers: int | None = None
    """Runs, or draws, at once on this machine (default: the number of cores)."""
    on: EngineName = "local"
    """What carries out the runs; the study's [engine] table says what they need."""
    address: str | None = None
    """Address of a running Ray cluster, or auto (default: the study's, else a new one).
    """
    partition: str | None = None
    """Slurm's partition (default: the study's)."""
    account: str | None = None
    """Slurm's account (default: the study's, or the user's)."""
    patience: float | None = None
    """Minutes that a run may be without a finished episode before it is stopped
    (default: the study's, or 60)."""
    track: str | None = None
    """Write every episode for tensorboard or wandb too, into the runs' directories."""


def main(argv: list[str]) -> int:
    """Run a study and say where its results are."""
    summary = "Run all runs of a study, side by side; run again to finish the rest."
    arguments = parse(Arguments, argv, "study", summary)
    _check_engine_named(arguments)
    path = find_study(arguments.study)
    if is_calibration_study(read_toml(path)):
        require(
            arguments.preset is None and arguments.on == "local",
            "A study of calibration runs on this machine alone, without --preset.",
        )
        return run_calibration_study(path, arguments.out, arguments.workers)
    study = read_study(path, arguments.preset)
    chosen = f"-{arguments.preset}" if arguments.preset else ""
    out = arguments.out or Path("runs") / f"{study.name}{chosen}"
    study = replace(study, engine=_engine_config(study.engine, arguments))
    status = run_study(study, path, out, _engine(study, arguments))
    print(f"Results are in {out}; `driftrl report {out}` draws them.")
    return status


def _engine(study: Study, arguments: Arguments) -> Engine:
    """Return what is to carry out the runs."""
    workers = workers_for(arguments.workers)
    told = _worker_options(arguments.track)
    return engine_named(arguments.on, study.engine, workers, told)


def _worker_options(track: str | None) -> tuple[str, ...]:
    """Return what the workers are told, once it is known that they can do it."""
    if track is None:
        return ()
    from driftrl.training.tracking import require_tracker

    require_tracker(track)
    return ("--track", track)


def _check_engine_named(arguments: Arguments) -> None:
    """Refuse an option of an engine that was not asked for: it would do nothing."""
    options = {
        "--address": (arguments.address, "ray"),
        "--partition": (arguments.partition, "slurm"),
        "--account": (arguments.account, "slurm"),
    }
    for option, (value, engine) in options.items():
        require(
            value is None or arguments.on == engine,
            f"{option} goes with --on {engine}; this study would run on "
            f"{arguments.on!r}.",
        )


def _engine_config(engine: EngineConfig, arguments: Arguments) -> EngineConfig:
    """Return what the study says of the engine, with what was asked laid over it."""
    asked = {
        "patience_minutes": arguments.patience,
        "ray": {"address": arguments.address},
        "slurm": {"partition": arguments.partition, "account": arguments.account},
    }
    return from_dict(EngineConfig, merged(to_dict(engine), _given(asked)))


def _given(table: dict[str, Any]) -> dict[str, Any]:
    """Return the table without what is None, in tables within it as well."""
    return {
        key: _given(value) if isinstance(value, dict) else value
        for key, value in table.items()
        if value is not None
    }


def run_study(study: Study, path: Path, out: Path, engine: Engine) -> int:
    """Run what a study still lacks; return 0, or 1 if a run failed."""
    runs = study.runs()
    _check_runs(runs, path, out)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "study.toml", _study_text(study, path))
    # A cluster takes all of them, and runs as many at once as it has room for.
    some = engine.most_at_once < len(runs)
    at_once = f", {engine.most_at_once} at once" * some
    print(f"{counted(len(runs), 'run')}{at_once}, into {out}")
    started = time.monotonic()
    patience = study.engine.patience_minutes
    try:
        with study_progress() as progress:
            failures = run_all(
                runs, out, engine, patience_minutes=patience, on_status=progress.show
            )
    except KeyboardInterrupt:
        print(f"Stopped. The same command goes on from here; files are in {out}.")
        raise
    taken = duration(time.monotonic() - started)
    print(f"{len(runs) - len(failures)} of {len(runs)} runs finished, in {taken}.")
    for failure in failures:
        print(f"Failed: {failure.name}: {failure.reason} See {failure.log}.")
    return 1 if failures else 0


def _check_runs(runs: Sequence[RunConfig], path: Path, out: Path) -> None:
    """Refuse a study whose runs could not begin, or are not those that are there.

    Otherwise they would fail one by one, or finished ones would pass for others.
    """
    # Brings JAX, which whoever only asks for help can do without.
    from driftrl.training.assembly import check_run
    from driftrl.training.run_directory import require_same_run

    try:
        for run in runs:
            if run.seed == runs[0].seed:  # others differ in their seeds alone
                check_run(run)
            require_same_run(out / run.name, run)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _study_text(study: Study, path: Path) -> bytes:
    """Return the study's file, as it is unless another of its presets was chosen."""
    table = read_toml(path)
    if table.get("preset", "") == study.preset:
        return path.read_bytes()
    return toml_text({**table, "preset": study.preset}).encode()


def run_calibration_study(path: Path, out: Path | None, workers: int | None) -> int:
    """Make the draws that a study of calibration still lacks, and tell the coverage."""
    from driftrl.training.calibration_runner import run_calibration

    study = read_calibration_study(path)
    out = out or Path("runs") / study.name
    workers = workers_for(workers)
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "study.toml", path.read_bytes())
    print(f"{study.draws} draws, {workers} at once, into {out}")
    started = time.monotonic()
    try:
        run_calibration(study, out, workers=workers, on_progress=_teller(started))
    except KeyboardInterrupt:
        print(f"Stopped. The same command goes on from here; files are in {out}.")
        raise
    print(f"Finished in {duration(time.monotonic() - started)}.")
    tell_calibration(out)
    return 0


def tell_calibration(directory: Path) -> None:
    """Print the coverage of every bound and draw the figure."""
    from driftrl.figures.calibration import write_calibration_figure
    from driftrl.results.calibration import (
        coverage_lines,
        coverage_table,
        read_calibration,
    )

    records = read_calibration(directory)
    print_table(
        ["", "scheme", "bound", "draws covered", "95 % interval", "points", "±width"],
        coverage_lines(coverage_table(records.verdicts)),
    )
    print("The report:")
    for path in write_calibration_figure(records, directory / "report"):
        print(f"  {path}")


def _teller(started: float) -> Callable[[int, int], None]:
    """Return what prints a line now and then, with the time left."""
    at_first: list[int] = []
    last = [started]

    def tell(done: int, total: int) -> None:
        at_first[:] = at_first or [done]
        now = time.monotonic()
        if done > at_first[0] and (now - last[0] >= _LINE_SECONDS or done == total):
            last[0] = now
            left = (now - started) / (done - at_first[0]) * (total - done)
            print(f"{done}/{total} draws, {duration(left)} left", flush=True)

    return tell


def workers_for(asked: int | None) -> int:
    """Return how many runs are made at once: as many as asked, or as cores."""
    workers = cores() if asked is None else asked
    require(workers >= 1, f"--workers must be at least 1, received {workers}.")
    return workers
