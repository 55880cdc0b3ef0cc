"""``driftrl study``: many runs, finishing what is unfinished, repeating nothing."""

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro

from driftrl.atomic import write_atomically
from driftrl.cli.options import parse
from driftrl.cli.progress import duration, study_progress
from driftrl.errors import require
from driftrl.training.runner import run_all
from driftrl.training.study import Study, find_study, read_study


@dataclass(frozen=True)
class Arguments:
    """Which study, and where."""

    study: Annotated[str, tyro.conf.Positional]
    """A study's TOML file, or the name of a shipped one: `driftrl list studies`."""
    out: Path | None = None
    """Directory of the results (default: runs/<study>, and -<preset> if named)."""
    preset: str | None = None
    """Settings of the study to use, such as paper or laptop (default: the study's)."""
    workers: int | None = None
    """Runs at once (default: the number of cores)."""


def main(argv: list[str]) -> int:
    """Run a study and say where its results are."""
    summary = "Run all runs of a study, side by side; run again to finish the rest."
    arguments = parse(Arguments, argv, "study", summary)
    path = find_study(arguments.study)
    study = read_study(path, arguments.preset)
    chosen = f"-{arguments.preset}" if arguments.preset else ""
    out = arguments.out or Path("runs") / f"{study.name}{chosen}"
    status = run_study(study, path, out, arguments.workers)
    print(f"Results are in {out}; `driftrl report {out}` draws them.")
    return status


def run_study(study: Study, path: Path, out: Path, workers: int | None) -> int:
    """Run what a study still lacks; return 0, or 1 if a run failed."""
    workers = _cores() if workers is None else workers
    require(workers >= 1, f"--workers must be at least 1, received {workers}.")
    runs = study.runs()
    out.mkdir(parents=True, exist_ok=True)
    write_atomically(out / "study.toml", path.read_bytes())
    print(f"{len(runs)} runs, {workers} at once, into {out}")
    started = time.monotonic()
    try:
        with study_progress() as progress:
            failures = run_all(runs, out, workers=workers, on_status=progress.show)
    except KeyboardInterrupt:
        print(f"Stopped. The same command goes on from here; files are in {out}.")
        raise
    taken = duration(time.monotonic() - started)
    print(f"{len(runs) - len(failures)} of {len(runs)} runs finished, in {taken}.")
    for failure in failures:
        print(f"Failed: {failure.name}: {failure.reason} See {failure.log}.")
    return 1 if failures else 0


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
