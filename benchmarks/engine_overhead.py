"""Measure what an engine costs a run, by a small study of twelve runs.

``--on local``, ``--on ray`` or ``--on slurm`` (on this machine, so that the processes
of the runs can be seen).  Each run gets all cores, so that there is one at a time: the
study's time without the runs' is the engine's.
"""

import argparse
import os
import tempfile
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

from driftrl.config.engine import (
    EngineConfig,
    EngineName,
    RayConfig,
    Resources,
    SlurmConfig,
)
from driftrl.config.toml import from_dict
from driftrl.engines.launcher import Engine, make_engine, run_all
from driftrl.training.study import Study

STUDY: dict[str, Any] = {
    "name": "overhead",
    "title": "Twelve short runs",
    "summary": "How much time an engine adds to them.",
    "task": "pendulum",
    "methods": ["sombrl", "r-ombrl", "sw-ombrl"],
    "seeds": [0, 1, 2, 3],
    "settings": {
        "episodes": 10,
        "forget_after": 2,
        "environment": {"sim_steps": 40, "noise_std": 0.01},
        "agent": {
            "model": {"fit_steps": 5, "refit_every": 2},
            "planner": {"horizon": 3, "samples": 16, "elites": 4, "iterations": 2},
        },
    },
}
WORKER = b"driftrl.engines.worker"
LOOK_SECONDS = 0.02


class Watch(threading.Thread):
    """Records when the process of each run begins and ends."""

    def __init__(self, place: Path) -> None:
        super().__init__(daemon=True)
        self._place = os.fsencode(place)
        self.spans: dict[int, tuple[float, float]] = {}
        """First and last moment of each process."""
        self.is_over = False

    def run(self) -> None:
        """Look for processes many times a second."""
        while not self.is_over:
            now = time.monotonic()
            for process in self._workers():
                self.spans[process] = (self.spans.get(process, (now, now))[0], now)
            time.sleep(LOOK_SECONDS)

    def _workers(self) -> list[int]:
        found = []
        for place in Path("/proc").glob("[0-9]*"):
            try:
                words = (place / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # it has ended meanwhile
            if WORKER in words and any(word.startswith(self._place) for word in words):
                found.append(int(place.name))
        return found


def covered(spans: list[tuple[float, float]]) -> float:
    """Return the length of the union of some spans of time."""
    total, until = 0.0, -float("inf")
    for start, end in sorted(spans):
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def parsed() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--on", choices=get_args(EngineName), default="local")
    parser.add_argument("--address", default="", help="of a Ray cluster")
    parser.add_argument("--partition", default="", help="of Slurm")
    parser.add_argument("--seeds", type=int, default=4, help="three runs each")
    parser.add_argument("--cores", type=int, default=len(os.sched_getaffinity(0)))
    return parser.parse_args()


def engine_of(arguments: argparse.Namespace) -> Engine:
    """Return the engine that was asked for."""
    config = EngineConfig(
        Resources(cores=arguments.cores, memory_gb=1.0),
        RayConfig(arguments.address),
        SlurmConfig(arguments.partition),
    )
    return make_engine(arguments.on, config, workers=1)


def main() -> None:
    """Run the study once to compile; then on the engine, and print its times."""
    arguments = parsed()
    study = replace(from_dict(Study, STUDY), seeds=tuple(range(arguments.seeds)))
    runs = study.runs()
    with tempfile.TemporaryDirectory() as place:
        first = [run for run in runs if run.seed == 0]
        local = make_engine("local", EngineConfig(), workers=1)
        run_all(first, Path(place) / "first", local)
        out = Path(place) / "study"
        watch = Watch(Path(place))
        watch.start()
        started = time.monotonic()
        failures = run_all(runs, out, engine_of(arguments))
        ended = time.monotonic()
        watch.is_over = True
        watch.join()
    spans = sorted(watch.spans.values())
    if not spans:
        raise SystemExit("No run was seen on this machine; measure where they run.")
    begin, end = spans[0][0], max(last for _, last in spans)
    between = (end - begin - covered(spans)) / max(1, len(spans) - 1)
    running = covered(spans)
    print(f"{len(runs)} runs on {arguments.on}, {len(failures)} failed")
    print(f"the whole study             {ended - started:7.2f} s")
    print(f"a run's process, mean       {running / len(spans):7.2f} s")
    print(f"until the first run began   {begin - started:7.2f} s")
    print(f"between two runs, mean      {between:7.2f} s")
    print(f"after the last run          {ended - end:7.2f} s")
    print(
        f"overhead a run              {(ended - started - running) / len(runs):7.2f} s"
    )


if __name__ == "__main__":
    main()
