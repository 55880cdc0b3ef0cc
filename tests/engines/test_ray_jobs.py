"""The Ray engine without Ray: what it makes of what a cluster reports, and a node.

A stand-in for Ray's module plays back messages; the real one is in ``test_on_ray``.
"""

import fcntl
import inspect
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from driftrl.config.engine import EngineConfig, RayConfig, Resources
from driftrl.config.run import RunConfig
from driftrl.engines import local, on_node, on_ray
from driftrl.engines.on_node import SCRATCH, Work, carry_out
from driftrl.engines.on_ray import RayEngine, RayJob
from driftrl.engines.seam import Ended
from driftrl.engines.syncing import Piece
from driftrl.envs.tasks import configure
from driftrl.errors import InputError


class RayError(Exception):
    """As in Ray, the base of the others."""


class RayTaskError(RayError):
    """The task raised something."""


class TaskCancelledError(RayTaskError):
    """It was cancelled while it ran."""


class WorkerCrashedError(RayError):
    """Its process is gone."""


class RuntimeEnvSetupError(RayError):
    """Its node could not be prepared."""


@dataclass
class Stream:
    """What a task will report."""

    messages: list
    work: Any

    def __next__(self) -> Any:
        if not self.messages:
            raise StopIteration
        return self.messages.pop(0)


@dataclass
class PlayedRay:
    """Plays back one list of messages after another, a task each."""

    scripts: list[list]
    node: dict[str, float]
    options: dict[str, Any] = field(default_factory=dict)
    cancelled: list[Any] = field(default_factory=list)
    ends: bool = False
    """Whether a stream without further messages has ended."""
    settings: dict[str, Any] = field(default_factory=dict)
    exceptions: Any = field(
        default_factory=lambda: SimpleNamespace(
            RayError=RayError,
            RayTaskError=RayTaskError,
            TaskCancelledError=TaskCancelledError,
            WorkerCrashedError=WorkerCrashedError,
            RuntimeEnvSetupError=RuntimeEnvSetupError,
        )
    )

    def init(self, **settings: Any) -> None:
        self.settings = settings

    def shutdown(self) -> None:
        self.settings = {}

    def nodes(self) -> list[dict]:
        gone = {"Alive": False, "Resources": {"CPU": 1000, "memory": 1e15}}
        return [{"Alive": True, "Resources": self.node}, gone]

    def remote(self, function: Any) -> Any:
        assert inspect.isgeneratorfunction(function)

        def options(**given: Any) -> Any:
            self.options = given
            return SimpleNamespace(
                remote=lambda work: Stream(self.scripts.pop(0), work)
            )

        return SimpleNamespace(options=options)

    def wait(self, streams: list, timeout: float, fetch_local: bool) -> tuple:
        return [one for one in streams if one.messages or self.ends], []

    def get(self, message: Any, timeout: float) -> Any:
        if isinstance(message, Exception):
            raise message
        return message

    def cancel(self, stream: Stream, force: bool) -> None:
        self.cancelled.append(stream)
        stream.messages.append(TaskCancelledError())


@pytest.fixture
def config() -> RunConfig:
    return configure("pendulum", "sombrl", {"episodes": 3})


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> PlayedRay:
    played = PlayedRay([], {"CPU": 4.0, "memory": 8e9})
    monkeypatch.setattr(on_ray, "_imported_ray", lambda is_local: played)
    return played


def started(
    ray: PlayedRay,
    config: RunConfig,
    directory: Path,
    script: list,
    engine_config: EngineConfig | None = None,
) -> RayJob:
    ray.scripts.append(script)
    engine = RayEngine(engine_config or EngineConfig(), ("--flag",))
    (job,) = engine.start([(config, directory)])
    assert isinstance(job, RayJob)
    return job


def of(job: RayJob) -> Ended:
    ended = job.ended()
    assert ended is not None
    return ended


def test_a_run_waits_begins_and_finishes(
    ray: PlayedRay, config: RunConfig, tmp_path: Path
) -> None:
    script: list = []
    needs = Resources(cores=2, accelerators=0, memory_gb=3.5)
    job = started(ray, config, tmp_path, script, EngineConfig(needs))
    assert job.ended() is None and not job.is_running
    script.append(())
    assert job.ended() is None and job.is_running
    script.append(0)
    assert of(job) == Ended() == job.ended()
    assert ray.options == {
        "num_returns": "streaming",
        "num_cpus": 2,
        "num_gpus": 0,
        "memory": 3_500_000_000,
        "max_retries": 0,
        "name": "pendulum-sombrl-s0",
    }
    assert ray.settings["address"] == "local"
    assert ray.settings["include_dashboard"] is False


def test_the_work_is_as_on_this_machine(
    ray: PlayedRay,
    config: RunConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.delenv("NPROC", raising=False)
    monkeypatch.chdir(tmp_path)
    job = started(ray, config, Path(), [])
    work = job._stream.work
    assert work.directory == tmp_path and work.options == ("--flag",)
    assert work.is_shared and work.pieces == () and work.config == config
    assert work.environment["OMP_NUM_THREADS"] == "3"
    assert work.environment["NPROC"] == "1"
    assert not [name for name in work.environment if "DIR" in name]


@pytest.mark.parametrize(
    ("message", "is_lost", "reason"),
    [
        (2, False, "the last line"),
        (-9, True, "Killed by signal 9."),
        (WorkerCrashedError("It died."), True, "Ray lost it: It died."),
        (TaskCancelledError(), True, "Ray lost it: TaskCancelledError"),
        (RayTaskError("Traceback\nOSError: no"), False, "OSError: no"),
        (RuntimeEnvSetupError("no"), False, "no"),
    ],
)
def test_failures_are_told_from_losses(
    message: Any,
    is_lost: bool,
    reason: str,
    ray: PlayedRay,
    config: RunConfig,
    tmp_path: Path,
) -> None:
    (tmp_path / "log.txt").write_text("the first line\nthe last line\n")
    ended = of(started(ray, config, tmp_path, [(), message]))
    assert ended.is_lost is is_lost and ended.failure is not None
    assert ended.failure.reason == reason and ended.failure.name == config.name


def test_a_stream_that_ends_without_a_status_is_lost(
    ray: PlayedRay, config: RunConfig, tmp_path: Path
) -> None:
    ray.ends = True
    assert of(started(ray, config, tmp_path, [()])).is_lost


def test_stopping_cancels_and_waits(
    ray: PlayedRay, config: RunConfig, tmp_path: Path
) -> None:
    job = started(ray, config, tmp_path, [()])
    job.stop()
    assert ray.cancelled == [job._stream] and of(job).is_lost


def test_what_arrives_is_written_under_a_lock(
    ray: PlayedRay, config: RunConfig, tmp_path: Path
) -> None:
    unshared = EngineConfig(ray=RayConfig(shared_disk=False))
    (tmp_path / "config.toml").write_text("seed = 0\n")
    script: list = [(), (Piece("log.txt", 0, b"hello\n"),)]
    job = started(ray, config, tmp_path, script, unshared)
    assert job._stream.work.pieces == (Piece("config.toml", 0, b"seed = 0\n"),)
    assert job.ended() is None and (tmp_path / "log.txt").read_text() == "hello\n"
    with open(tmp_path / "lock") as lock:
        with pytest.raises(BlockingIOError):
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        script.append((Piece("../evil", 0, b""),))
        failure = of(job).failure
        assert failure is not None and "'../evil', which is no file" in failure.reason
        assert ray.cancelled == [job._stream]
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    assert not (tmp_path.parent / "evil").exists()


def test_few_wait_with_all_their_files(
    ray: PlayedRay, config: RunConfig, tmp_path: Path
) -> None:
    ray.scripts += [[] for _ in range(10)]
    engine = RayEngine(EngineConfig(ray=RayConfig(shared_disk=False)))
    places = [tmp_path / str(n) for n in range(10)]
    for place in places:
        place.mkdir()
    jobs = engine.start([(config, place) for place in places])
    assert [job.ended() for job in jobs] == [None] * 10 and len(ray.scripts) == 2
    first = jobs[0]
    assert isinstance(first, RayJob)
    first._stream.messages.append(())
    assert [job.ended() for job in jobs] == [None] * 10 and len(ray.scripts) == 1
    engine.leave(jobs)
    assert len(ray.cancelled) == 9 and not engine.queued


def test_a_locked_directory_is_waited_for(
    ray: PlayedRay,
    config: RunConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with open(tmp_path / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        job = started(ray, config, tmp_path, [(), 0])
        assert job.ended() is None and job._stream is None
    assert job.ended() is None and of(job) == Ended()
    with open(tmp_path / "lock", "a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        monkeypatch.setattr(on_ray, "_LOCKED_SECONDS", -1.0)
        failure = of(started(ray, config, tmp_path, [])).failure
        assert failure and failure.reason.startswith("Another process is running in")


def test_what_no_node_has_is_refused(
    ray: PlayedRay, config: RunConfig, tmp_path: Path
) -> None:
    said = (
        "needs: 5 cores, 1 accelerator and 2 GB of memory. It has 1 node "
        r"\(4 cores, 0 accelerators and 8 GB of memory\)"
    )
    needs = EngineConfig(Resources(cores=5, accelerators=1))
    with pytest.raises(InputError, match=said):
        started(ray, config, tmp_path, [], needs)
    with pytest.raises(InputError, match="needs: 4 cores, .* and 8.5 GB of memory"):
        started(ray, config, tmp_path, [], EngineConfig(Resources(4, 0, 8.5)))
    started(ray, config, tmp_path, [], EngineConfig(Resources(4, 0, 8.0)))


def test_nodes_that_leave_strand_what_waits(
    ray: PlayedRay,
    config: RunConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    job, begun = (started(ray, config, tmp_path, script) for script in ([], [()]))
    monkeypatch.setattr(on_ray, "_LOOK_SECONDS", 0.0)
    ray.node = {}
    assert job.ended() is None and begun.ended() is None
    monkeypatch.setattr(on_ray, "_STRANDED_SECONDS", 0.0)
    failure = of(job).failure
    assert failure and "The nodes that could take it are gone" in failure.reason
    assert begun.ended() is None


def test_a_cluster_that_can_not_be_used(
    ray: PlayedRay,
    config: RunConfig,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(**_: Any) -> None:
        raise RuntimeError("Version mismatch:\nother")

    monkeypatch.setattr(ray, "init", refuse)
    monkeypatch.setattr(on_ray, "require_answer", lambda address: None)
    there = EngineConfig(ray=RayConfig(address="h:1"))
    with pytest.raises(InputError, match="at 'h:1' can't be used: other"):
        started(ray, config, tmp_path, [], there)


def test_ray_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"extra 'ray': pip install 'driftrl\[ray\]'"):
        RayEngine(EngineConfig(ray=RayConfig(address="auto")))
    assert os.environ["RAY_USAGE_STATS_ENABLED"] == "0"


WORKER = """
import os, pathlib, sys, time
run = pathlib.Path(sys.argv[1])
print(os.environ["OMP_NUM_THREADS"], sorted(os.listdir(run)), flush=True)
(run / "config.toml").write_text(sys.stdin.read())
time.sleep({seconds})
sys.exit(3)
"""


@pytest.fixture
def scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    monkeypatch.setenv(SCRATCH, str(tmp_path / "scratch"))
    return tmp_path / "scratch"


def worker(seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    command = [sys.executable, "-c", WORKER.format(seconds=seconds)]
    monkeypatch.setattr(
        local, "worker_command", lambda directory, *_: [*command, str(directory)]
    )


def work(config: RunConfig, directory: Path, *, is_shared: bool) -> Work:
    pieces = () if is_shared else (Piece("log.txt", 0, b"before\n"),)
    return Work(config, directory, is_shared, pieces, (), {"OMP_NUM_THREADS": "7"})


def test_a_node_reports_files_and_status(
    config: RunConfig, scratch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker(0.3, monkeypatch)
    first, *files, status = carry_out(work(config, Path("/nowhere"), is_shared=False))
    assert first == () and status == 3
    parts = (part for part in files if not isinstance(part, int))
    pieces = [piece for part in parts for piece in part]
    sent = {piece.name: piece for piece in pieces}
    assert [piece for piece in pieces if piece.name == "log.txt"] == [
        Piece("log.txt", 7, b"7 ['log.txt']\n")
    ]
    assert b'task = "pendulum"' in sent["config.toml"].data
    assert sent.keys() == {"log.txt", "config.toml"}
    assert [path.name for path in scratch.iterdir()] == ["lock"]
    assert list(carry_out(work(config, tmp_path, is_shared=True))) == [(), 3]
    assert (tmp_path / "config.toml").exists()


def test_a_node_ends_the_worker_when_it_is_left(
    config: RunConfig, scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    worker(100, monkeypatch)
    processes: list[local.Process] = []

    class Noted(local.Process):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            processes.append(self)

    monkeypatch.setattr(on_node, "Process", Noted)
    messages = carry_out(work(config, Path("/nowhere"), is_shared=False))
    assert isinstance(messages, Iterator) and next(messages) == ()
    started = time.monotonic()
    messages.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert processes[0].process.returncode == -9
    assert time.monotonic() - started < 10
    assert [path.name for path in scratch.iterdir()] == ["lock"]


def test_places_of_those_who_are_gone_are_removed(scratch: Path) -> None:
    abandoned = scratch / "run-gone" / "pendulum"
    abandoned.mkdir(parents=True)
    with on_node.scratch() as one:
        assert not abandoned.exists()
        with on_node.scratch() as other:
            assert one.exists() and other.exists() and one != other
    assert [path.name for path in scratch.iterdir()] == ["lock"]
