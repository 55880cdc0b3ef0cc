"""``driftrl demo``: run the study of the paper's first figure and report on it."""

from dataclasses import dataclass
from pathlib import Path

from driftrl.cli import report
from driftrl.cli.options import parse
from driftrl.cli.study import run_study, workers_for
from driftrl.engines.local import LocalEngine
from driftrl.training.study import find_study, read_study

STUDY = "gp_pendulum"


@dataclass(frozen=True)
class Arguments:
    """Where to, and how many runs at once."""

    out: Path = Path("runs/demo")
    """Directory of the results."""
    workers: int | None = None
    """Runs at once (default: the number of cores)."""


def main(argv: list[str]) -> int:
    """Run the study of the paper's first figure and report on it."""
    path = find_study(STUDY)
    study = read_study(path)
    summary = f"Run the study {STUDY} and draw its report. {study.summary}"
    arguments = parse(Arguments, argv, "demo", summary)
    engine = LocalEngine(workers_for(arguments.workers))
    print(study.summary)
    status = run_study(study, path, arguments.out, engine)
    report.print_report(report.Arguments((arguments.out,)))
    return status
