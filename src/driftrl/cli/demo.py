"""``driftrl demo``: run the study of the paper's first figure and report on it."""

from pathlib import Path

from driftrl.cli import report
from driftrl.cli.study import run_study
from driftrl.engines.local import LocalEngine
from driftrl.training.study import find_study, read_study


def main(*, out: Path = Path("runs/demo"), workers: int | None = None) -> int:
    """Run the study of the paper's first figure, gp_pendulum, and draw its report.

    Args:
        out: Directory of the results.
        workers: Runs at once (default: the number of cores).
    """
    engine = LocalEngine(workers)
    path = find_study("gp_pendulum")
    study = read_study(path)
    print(study.summary)
    status = run_study(study, path, out, engine)
    report.main((out,))
    return status
