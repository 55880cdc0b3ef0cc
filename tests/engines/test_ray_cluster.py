"""Runs on a real Ray: the same records, whatever is killed on the way.

Needs the extra ``ray`` and takes minutes: ``make test-ray``.
"""

import contextlib
import fcntl
import importlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from driftrl.config.engine import EngineConfig, RayConfig, Resources
from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict, overridden, toml_text
from driftrl.engines.launcher import episodes_done, run_all
from driftrl.engines.local import LocalEngine
from driftrl.engines.ray import RayEngine
from driftrl.training.study import Study
from factories import TINY, rows_of, worker_of, write_hostile_files

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(1800),
    # Ray leaves sockets and processes to the end of the interpreter.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

STUDY: dict[str, Any] = {
    "name": "six",
    "title": "t",
    "summary": "u",
    "task": "pendulum",
    "methods": ["sombrl", "r-ombrl", "sw-ombrl"],
    "seeds": [0, 1],
    "settings": {
        "episodes": 30,
        "forget_after": 2,
        "environment": TINY["environment"],
        "drift": TINY["drift"],
        "agent": TINY["agent"],
    },
}
SMALL = EngineConfig(Resources(memory_gb=0.5))


def study(**changes: Any) -> list[RunConfig]:
    return from_dict(Study, {**STUDY, **changes}).runs()


def two(episodes: int) -> list[RunConfig]:
    runs = study(methods=["sw-ombrl"])
    return [overridden(run, {"episodes": episodes}) for run in runs]


def assert_as_on_this_machine(runs: list[RunConfig], out: Path) -> None:
    """Run the same runs locally, and compare the records."""
    local = out.parent / "local"
    cores = len(os.sched_getaffinity(0))
    assert run_all(runs, local, LocalEngine(cores)) == {}
    for run in runs:
        rows = rows_of(out / run.name)
        assert len(rows) == run.episodes
        assert rows == rows_of(local / run.name), run.name


def parent_of(process: int) -> int:
    status = Path(f"/proc/{process}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


def stamps(directory: Path) -> dict[str, tuple[int, int]]:
    """Return what changes if a file is written again."""
    files = sorted((directory / "memory").glob("0*.npz"))[: episodes_done(directory)]
    return {file.name: (file.stat().st_ino, file.stat().st_mtime_ns) for file in files}


@dataclass
class Killer:
    """Kills workers now and then, in turn the run's own process and Ray's above it.

    Only after an episode of that process, so that no run is given up.
    """

    out: Path
    seconds: float
    limit: int
    last: float = field(default_factory=time.monotonic)
    kept: list[tuple[str, dict[str, tuple[int, int]]]] = field(default_factory=list)
    """The runs that were killed, and the files that they had."""

    def on_poll(self, failures: object) -> None:
        waits = time.monotonic() - self.last < self.seconds
        if waits or len(self.kept) == self.limit:
            return
        for name in (path.name for path in self.out.glob("*/")):
            process = worker_of(self.out / name)
            if process is not None and self._has_finished_an_episode(name, process):
                self.kept.append((name, stamps(self.out / name)))
                victim = parent_of(process) if len(self.kept) % 2 else process
                os.kill(victim, signal.SIGKILL)
                self.last = time.monotonic()
                return

    def _has_finished_an_episode(self, name: str, process: int) -> bool:
        newest = max((self.out / name / "checkpoint").glob("0*"), default=None)
        with contextlib.suppress(OSError):
            began = Path(f"/proc/{process}").stat().st_mtime
            return newest is not None and newest.stat().st_mtime > began
        return False


@pytest.mark.kill
def test_runs_whose_workers_are_killed_equal_local_ones(tmp_path: Path) -> None:
    runs, out = study(), tmp_path / "ray"
    killer = Killer(out, seconds=5.0, limit=4)
    assert run_all(runs, out, RayEngine(SMALL), on_poll=killer.on_poll) == {}
    assert len(killer.kept) >= 2
    for name, kept in killer.kept:
        assert kept and kept.items() <= stamps(out / name).items(), f"{name} ran twice"
    assert_as_on_this_machine(runs, out)


@pytest.mark.kill
def test_runs_of_a_node_that_is_lost_go_on_on_another(tmp_path: Path) -> None:
    cluster = importlib.import_module("ray.cluster_utils").Cluster()
    runs, out = two(60), tmp_path / "ray"
    kept: dict[str, dict] = {}
    try:
        cluster.add_node(num_cpus=0, include_dashboard=False)
        variables = {"RAY_worker_niceness": "0"}
        nodes = [cluster.add_node(num_cpus=1, env_vars=variables) for _ in range(2)]

        def lose_a_node(failures: object) -> None:
            done = [episodes_done(out / run.name) for run in runs]
            if not kept and min(done) >= 3 and max(done) < 55:
                kept.update({run.name: stamps(out / run.name) for run in runs})
                cluster.remove_node(nodes[1], allow_graceful=False)

        config = EngineConfig(Resources(memory_gb=0.5), RayConfig(cluster.address))
        assert run_all(runs, out, RayEngine(config), on_poll=lose_a_node) == {}
    finally:
        cluster.shutdown()
    assert kept
    for name, files in kept.items():
        assert files.items() <= stamps(out / name).items(), f"{name} ran twice"
    assert_as_on_this_machine(runs, out)


def command(tmp_path: Path, *options: str, **changes: Any) -> list[str]:
    path = tmp_path / "study.toml"
    engine = {"resources": {"memory_gb": 0.5}}
    path.write_text(toml_text({**STUDY, "engine": engine, **changes}))
    words = ["study", str(path), "--out", str(tmp_path / "out"), "--on", "ray"]
    driver = "import sys; from driftrl.cli.main import main; sys.exit(main())"
    return [sys.executable, "-P", "-c", driver, *words, *options]


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    latest = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < latest, "it took too long"
        time.sleep(0.1)


@pytest.mark.kill
def test_a_killed_driver_is_restarted_beside_hostile_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_hostile_files(tmp_path)
    runs = study(methods=["sw-ombrl"])
    words = command(tmp_path, methods=["sw-ombrl"])
    driver = subprocess.Popen(words)
    first = tmp_path / "out" / runs[0].name
    wait_for(lambda: episodes_done(first) >= 5, 600)
    kept = stamps(first)
    driver.kill()
    driver.wait()
    again = subprocess.run(words, capture_output=True, text=True, timeout=900)
    assert again.returncode == 0, again.stdout + again.stderr
    assert "2 of 2 runs finished" in again.stdout
    assert kept.items() <= stamps(first).items()
    assert_as_on_this_machine(runs, tmp_path / "out")
    assert list(tmp_path.glob("*.executed")) == []


def test_failures_and_shutdown_on_a_cluster_on_loopback(tmp_path: Path) -> None:
    bad, good = two(2)
    (tmp_path / bad.name).mkdir()
    (tmp_path / bad.name / "config.toml").write_text('task = "a"\nmethod = "sombrl"\n')
    endless = overridden(good, {"episodes": 100_000, "seed": 7})
    waiting = overridden(endless, {"seed": 8})
    failures = run_all([bad, good], tmp_path, RayEngine(SMALL))
    assert failures.keys() == {bad.name} and failures[bad.name]
    assert episodes_done(tmp_path / good.name) == 2

    all_cores = Resources(cores=len(os.sched_getaffinity(0)), memory_gb=0.5)
    places = [tmp_path / run.name for run in (endless, waiting)]
    for place in places:
        place.mkdir()
    engine = RayEngine(EngineConfig(all_cores))
    jobs = engine.start([(endless, places[0]), (waiting, places[1])])
    addresses = {node["NodeManagerAddress"] for node in engine.ray.nodes()}
    assert addresses == {"127.0.0.1"}

    def has_begun() -> bool:
        assert [job.ended() for job in jobs] == [None, None]
        return episodes_done(places[0]) > 0

    wait_for(has_begun, 300)
    assert [job.is_running for job in jobs] == [True, False]
    process = worker_of(places[0])
    engine.shutdown(jobs)
    assert process is not None
    wait_for(lambda: not Path(f"/proc/{process}").exists(), 10)
    with open(places[0] / "lock") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not (places[1] / "config.toml").exists()


@pytest.mark.parametrize(
    ("options", "changes", "value"),
    [
        (["--address", "127.0.0.1:9"], {}, "'127.0.0.1:9'"),
        ([], {"engine": {"resources": {"cores": 4096}}}, "4096 cores"),
    ],
)
def test_clusters_that_can_not_be_used_are_refused_in_time(
    options: list[str], changes: dict[str, Any], value: str, tmp_path: Path
) -> None:
    words = command(tmp_path, *options, **changes)
    done = subprocess.run(words, capture_output=True, text=True, timeout=120)
    assert done.returncode == 2 and value in done.stderr
    assert "Traceback" not in done.stderr
    assert not list((tmp_path / "out").glob("*/config.toml"))
