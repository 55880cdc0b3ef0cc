"""Running a calibration study: draws side by side, finished ones never repeated."""

import json
import os
import signal
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from driftrl.config.toml import to_dict
from driftrl.errors import InputError
from driftrl.io import remove_leftovers, write_atomically
from driftrl.results.calibration import DRAWS, EXAMPLE_FILE, SETTINGS_FILE
from driftrl.training.calibration_study import CalibrationStudy
from driftrl.training.process import end_with, prepare

_AT_ONCE = 5  # draws of one file, the most that an interrupt loses


def run_calibration(
    study: CalibrationStudy,
    out: Path,
    *,
    workers: int,
    on_progress: Callable[[int, int], None],
) -> None:
    """Make and judge what the study still lacks, into ``out``.

    ``on_progress`` is told the finished and the wanted draws.  Left by an exception
    (Ctrl-C), the directory stays resumable.
    """
    (out / DRAWS).mkdir(parents=True, exist_ok=True)
    remove_leftovers(out / DRAWS)
    _settle_settings(study, out)
    wanted = range(0, study.draws, _AT_ONCE)
    missing = [first for first in wanted if not _file(out, first, study).is_file()]
    done = study.draws - sum(_size(first, study) for first in missing)
    on_progress(done, study.draws)
    if workers == 1:
        for first in missing:
            done += judge_some(study, out, first)
            on_progress(done, study.draws)
    elif missing:
        _in_processes(study, out, missing, workers, on_progress)
    if not (out / EXAMPLE_FILE).is_file():
        from driftrl.training.calibration_draw import example_draw

        _write(out / EXAMPLE_FILE, example_draw(study.draw, study.seed))


def _in_processes(
    study: CalibrationStudy,
    out: Path,
    missing: list[int],
    workers: int,
    on_progress: Callable[[int, int], None],
) -> None:
    prepare(os.environ)  # the processes inherit it
    done = study.draws - sum(_size(first, study) for first in missing)
    pool = ProcessPoolExecutor(
        min(workers, len(missing)),
        mp_context=get_context("spawn"),
        initializer=_begin,
        initargs=(os.getpid(),),
    )
    try:
        waiting = [pool.submit(judge_some, study, out, first) for first in missing]
        for finished in as_completed(waiting):
            done += finished.result()
            on_progress(done, study.draws)
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(parent: int) -> None:
    """Leave Ctrl-C to the process that started this one, and end with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    end_with(parent)


def judge_some(study: CalibrationStudy, out: Path, first: int) -> int:
    """Make and judge the draws of one file, and write it; return how many."""
    from driftrl.training.calibration_draw import judge

    count = _size(first, study)
    verdicts = [
        asdict(verdict)
        for draw in range(first, first + count)
        for drifting in (True, False)
        for verdict in judge(study.draw, study.seed, draw, drifting)
    ]
    _write(_file(out, first, study), verdicts)
    return count


def _settle_settings(study: CalibrationStudy, out: Path) -> None:
    """Write what is drawn, or refuse a directory that holds other draws."""
    settings = {"seed": study.seed, **to_dict(study.draw)}
    path = out / SETTINGS_FILE
    if not path.is_file():
        _write(path, settings)
        return
    stored = json.loads(path.read_text(encoding="utf-8"))
    changed = sorted(key for key in settings if stored.get(key) != settings[key])
    if changed:
        raise InputError(
            f"{out} holds draws of other settings: {', '.join(changed)} changed. "
            "Give another --out, or remove it."
        )


def _size(first: int, study: CalibrationStudy) -> int:
    return min(_AT_ONCE, study.draws - first)


def _file(out: Path, first: int, study: CalibrationStudy) -> Path:
    # Named by both ends: a study that grew makes its last, shorter file anew.
    return out / DRAWS / f"{first:05d}-{first + _size(first, study) - 1:05d}.json"


def _write(path: Path, content: object) -> None:
    write_atomically(path, (json.dumps(content) + "\n").encode())
