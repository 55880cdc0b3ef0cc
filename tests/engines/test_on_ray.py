"""Runs on a real Ray: the same records, whatever is killed on the way.

Needs the extra ``ray`` and takes minutes: ``make test-ray``.
"""

import contextlib
import fcntl
import importlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from driftrl.config.engine import EngineConfig, RayConfig, Resources
from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict, overridden, toml_text
from driftrl.engines.local import LocalEngine
from driftrl.engines.named import engine_named
from driftrl.engines.on_node import SCRATCH
from driftrl.engines.on_ray import RayEngine
from driftrl.engines.seam import Status, episodes_done, run_all
from driftrl.errors import InputError
from driftrl.training.study import Study

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(1800),
    # Ray leaves sockets and processes to the end of the interpreter.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

STUDY: dict[str, Any] = {
    "name": "twelve",
    "title": "t",
    "summary": "u",
    "task": "pendulum",
    "methods": ["sombrl", "r-ombrl", "sw-ombrl"],
    "seeds": [0, 1, 2, 3],
    "settings": {
        "episodes": 30,
        "forget_after": 2,
        "environment": {"sim_steps": 40, "noise_std": 0.01},
        "drift": {"start": 2},
        "agent": {
            "model": {"fit_steps": 5, "refit_every": 2},
            "planner": {"horizon": 3, "samples": 16, "elites": 4, "iterations": 2},
        },
    },
}
SMALL = EngineConfig(Resources(memory_gb=0.5))


def study(**changes: Any) -> list[RunConfig]:
    return from_dict(Study, {**STUDY, **changes}).runs()


def short(episodes: int, *, seeds: Sequence[int] = (0, 1)) -> list[RunConfig]:
    runs = study(methods=["sw-ombrl"], seeds=list(seeds))
    return [overridden(run, {"episodes": episodes}) for run in runs]


def rows(directory: Path) -> list[dict[str, Any]]:
    lines = (directory / "episodes.jsonl").read_text().splitlines()
    found = [json.loads(line) for line in lines]
    for row in found:
        row.pop("wall_s")
    return found


def on_this_machine(runs: list[RunConfig], out: Path) -> float:
    """Run them locally, and return how long that took."""
    cores = len(os.sched_getaffinity(0))
    started = time.monotonic()
    assert run_all(runs, out, LocalEngine(cores), on_status=lambda _: None) == ()
    return time.monotonic() - started


def assert_equal_records(runs: list[RunConfig], one: Path, other: Path) -> None:
    for run in runs:
        assert len(rows(one / run.name)) == run.episodes
        assert rows(one / run.name) == rows(other / run.name), run.name


def process_of(name: str) -> int | None:
    """Return the worker that carries out a run."""
    for place in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (place / "cmdline").read_bytes().decode().split("\0")
            if "driftrl.engines.worker" in words and f"/{name}" in "".join(words):
                return int(place.name)
    return None


def parent_of(process: int) -> int:
    status = Path(f"/proc/{process}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


def began(process: int) -> float:
    """Return when a process began, as a time of the clock."""
    return Path(f"/proc/{process}").stat().st_mtime


def stamps(directory: Path) -> dict[str, tuple[int, int]]:
    """Return what another file of the same name would not have."""
    files = sorted((directory / "memory").glob("0*.npz"))[: episodes_done(directory)]
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in files}


@dataclass
class Killer:
    """Kills a worker now and then, by turns the run's own process and Ray's above it.

    Only one that has finished an episode since it was started, so that no run is given
    up however slow the machine is.
    """

    out: Path
    every_seconds: float
    most: int
    last: float = field(default_factory=lambda: time.monotonic() - 15.0)
    before: list[tuple[str, dict[str, tuple[int, int]]]] = field(default_factory=list)
    """The runs that were killed, and the files that they had."""

    def look(self, status: Status) -> None:
        waits = time.monotonic() - self.last < self.every_seconds
        if waits or len(self.before) == self.most:
            return
        for name in status.running:
            process = process_of(name)
            if process is None or not self._has_moved(name, process):
                continue
            self.before.append((name, stamps(self.out / name)))
            victim = parent_of(process) if len(self.before) % 2 else process
            os.kill(victim, signal.SIGKILL)
            self.last = time.monotonic()
            return

    def _has_moved(self, name: str, process: int) -> bool:
        newest = max((self.out / name / "memory").glob("0*.npz"), default=None)
        with contextlib.suppress(OSError):
            return newest is not None and newest.stat().st_mtime > began(process)
        return False


def test_twelve_runs_with_a_worker_killed_every_20_seconds_or_sooner(
    tmp_path: Path, capfd: pytest.CaptureFixture
) -> None:
    runs = study()
    local_seconds = on_this_machine(runs, tmp_path / "local")
    # Sooner on a machine that would be done by then.
    killer = Killer(tmp_path / "ray", min(20.0, local_seconds / 6), most=6)
    engine = engine_named("ray", SMALL, workers=1)
    started = time.monotonic()
    assert run_all(runs, tmp_path / "ray", engine, on_status=killer.look) == ()
    seconds = time.monotonic() - started
    assert_equal_records(runs, tmp_path / "ray", tmp_path / "local")
    assert len(killer.before) >= 2
    for name, before in killer.before:
        after = stamps(tmp_path / "ray" / name)
        assert before and before.items() <= after.items(), f"{name} ran twice"
    with capfd.disabled():
        print(
            f"\n12 runs on this machine: {local_seconds:.0f} s; on Ray with "
            f"{len(killer.before)} kills {killer.every_seconds:.0f} s apart: "
            f"{seconds:.0f} s, "
            f"{(seconds - local_seconds) / 12:+.1f} s a run; episodes kept at the "
            f"kills: {[len(before) for _, before in killer.before]} of 30"
        )


@pytest.fixture
def two_nodes(tmp_path: Path) -> Iterator[Any]:
    """Two nodes on this machine, each with a directory of its own."""
    cluster = importlib.import_module("ray.cluster_utils").Cluster()

    try:
        cluster.add_node(num_cpus=0, include_dashboard=False)
        # The cluster keeps its nodes in a set, so it can't tell which was the second.
        cluster.second = None
        for name in ("one", "two"):
            variables = {SCRATCH: str(tmp_path / name), "RAY_worker_niceness": "0"}
            cluster.second = cluster.add_node(num_cpus=1, env_vars=variables)
        yield cluster
    finally:
        cluster.shutdown()


def test_two_nodes_without_a_shared_disk_one_of_which_goes(
    two_nodes: Any, tmp_path: Path
) -> None:
    runs = short(30, seeds=(0, 1, 2))
    on_this_machine(runs, tmp_path / "local")
    config = EngineConfig(
        Resources(memory_gb=0.5), RayConfig(two_nodes.address, shared_disk=False)
    )
    worked_in: set[str] = set()
    kept: dict[str, dict] = {}
    out = tmp_path / "ray"

    def watch(status: Status) -> None:
        for name in ("one", "two"):
            if list((tmp_path / name).glob("run-*/*/config.toml")):
                worked_in.add(name)
        for run in runs:
            # Whatever arrived can be resumed from, at any moment.
            assert episodes_done(out / run.name) <= len(_rows_so_far(out / run.name))
        busy = [run.name for run in runs if 5 <= episodes_done(out / run.name) < 25]
        busy = [name for name in busy if list((tmp_path / "two").glob(f"run-*/{name}"))]
        if busy and not kept and worked_in == {"one", "two"}:
            kept.update({name: stamps(out / name) for name in busy})
            two_nodes.remove_node(two_nodes.second, allow_graceful=False)

    assert run_all(runs, out, RayEngine(config), on_status=watch) == ()
    assert worked_in == {"one", "two"} and kept
    assert_equal_records(runs, out, tmp_path / "local")
    for name, before in kept.items():
        assert before.items() <= stamps(out / name).items(), f"{name} ran twice"
    for run in runs:
        for kind in ("memory/*.npz", "checkpoint/*/state.npz"):
            files = sorted((tmp_path / "local" / run.name).glob(kind))
            assert files
            for file in files:
                own = out / run.name / file.relative_to(tmp_path / "local" / run.name)
                assert own.read_bytes() == file.read_bytes()
    assert [path.name for path in (tmp_path / "one").iterdir()] == ["lock"]


def _rows_so_far(directory: Path) -> list[str]:
    path = directory / "episodes.jsonl"
    return path.read_text().splitlines() if path.exists() else []


def command(tmp_path: Path, *options: str, **changes: Any) -> list[str]:
    path = tmp_path / "study.toml"
    engine = {"resources": {"memory_gb": 0.5}}
    path.write_text(toml_text({**STUDY, "engine": engine, **changes}))
    words = ["study", str(path), "--out", str(tmp_path / "out"), "--on", "ray"]
    return [sys.executable, "-m", "driftrl", *words, *options]


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    latest = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < latest, "it took too long"
        time.sleep(0.1)


def test_a_driver_that_was_killed_goes_on(tmp_path: Path) -> None:
    changes = {"methods": ["sw-ombrl"], "seeds": [0, 1]}
    runs = study(**changes)
    words = command(tmp_path, **changes)
    driver = subprocess.Popen(words)
    first = tmp_path / "out" / runs[0].name
    wait_for(lambda: episodes_done(first) >= 5, 600)
    before = stamps(first)
    driver.kill()
    driver.wait()
    again = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "2 of 2 runs finished" in again.stdout
    assert before.items() <= stamps(first).items()
    on_this_machine(runs, tmp_path / "local")
    assert_equal_records(runs, tmp_path / "out", tmp_path / "local")


def test_failures_are_reported_and_a_stopped_run_ends(tmp_path: Path) -> None:
    bad, good = short(2)
    (tmp_path / bad.name).mkdir()
    (tmp_path / bad.name / "config.toml").write_text('task = "a"\nmethod = "sombrl"\n')
    endless = overridden(good, {"episodes": 100_000, "seed": 7})
    waiting = overridden(endless, {"seed": 8})
    engine = RayEngine(SMALL)
    (failure,) = run_all([bad, good], tmp_path, engine, on_status=lambda _: None)
    assert failure.name == bad.name and failure.status == 2
    assert "holds a different run" in failure.reason
    assert episodes_done(tmp_path / good.name) == 2

    cores = len(os.sched_getaffinity(0))
    whole = EngineConfig(Resources(cores=cores, memory_gb=0.5))
    places = [tmp_path / run.name for run in (endless, waiting)]
    for place in places:
        place.mkdir()
    with RayEngine(whole) as engine:
        jobs = engine.start([(endless, places[0]), (waiting, places[1])])

        def is_under_way() -> bool:
            assert [job.ended() for job in jobs] == [None, None]
            return episodes_done(places[0]) > 0

        wait_for(is_under_way, 300)
        assert [job.is_running for job in jobs] == [True, False]
        process = process_of(endless.name)
        engine.leave(jobs)
        assert process is not None and not Path(f"/proc/{process}").exists()
        with open(places[0] / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        assert not (places[1] / "config.toml").exists()


def test_a_local_cluster_listens_on_loopback_alone(tmp_path: Path) -> None:
    (run,) = short(1, seeds=(0,))
    (tmp_path / run.name).mkdir()
    with RayEngine(SMALL) as engine:
        engine.start([(run, tmp_path / run.name)])
        addresses = {node["NodeManagerAddress"] for node in engine.ray.nodes()}
        assert addresses == {"127.0.0.1"}


@pytest.mark.parametrize(
    ("options", "changes", "sentence"),
    [
        (["--address", "127.0.0.1:9"], {}, "No Ray cluster answers at 127.0.0.1:9: "),
        (
            [],
            {"engine": {"resources": {"cores": 4096}}},
            "No node of the Ray cluster has what a run needs: 4096 cores",
        ),
    ],
)
def test_bad_input_is_a_sentence(
    options: list[str], changes: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    words = command(tmp_path, *options, **changes)
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and sentence in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").glob("*/config.toml"))


def test_a_cluster_that_is_gone_is_refused_soon() -> None:
    (run,) = short(1, seeds=(0,))
    engine = RayEngine(EngineConfig(ray=RayConfig("127.0.0.1:9")))
    started = time.monotonic()
    with pytest.raises(InputError, match="No Ray cluster answers"), engine:
        engine.start([(run, Path("/nowhere"))])
    assert time.monotonic() - started < 15
