"""The Ray engine without Ray: a stand-in for its module plays back messages."""

import contextlib
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from driftrl.config.engine import EngineConfig, RayConfig, Resources
from driftrl.engines import ray as ray_engine
from driftrl.engines.launcher import Ended
from driftrl.engines.ray import RayEngine, RayJob
from driftrl.envs.tasks import configure
from driftrl.errors import InputError

RUN = configure("pendulum", "sombrl", {"episodes": 3})


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


@dataclass(eq=False)
class Task:
    """What a task was called with, and its result once it has one."""

    arguments: tuple
    results: list = field(default_factory=list)


@dataclass
class FakeRay:
    """Remembers what it is asked for."""

    settings: dict[str, Any] = field(default_factory=dict)
    tasks: list[Task] = field(default_factory=list)
    exceptions = SimpleNamespace(
        RayError=RayError,
        RayTaskError=RayTaskError,
        TaskCancelledError=TaskCancelledError,
        WorkerCrashedError=WorkerCrashedError,
        RuntimeEnvSetupError=RuntimeEnvSetupError,
    )

    def init(self, **settings: Any) -> None:
        self.settings = settings

    def shutdown(self) -> None:
        self.settings = {}

    def nodes(self) -> list[dict]:
        gone = {"Alive": False, "Resources": {"CPU": 1000, "memory": 1e15}}
        return [{"Alive": True, "Resources": {"CPU": 4.0, "memory": 8e9}}, gone]

    def remote(self, function: Any) -> Any:
        def submit(*arguments: Any) -> Task:
            self.tasks.append(Task(arguments))
            return self.tasks[-1]

        def options(**options: Any) -> Any:
            return SimpleNamespace(remote=submit)

        return SimpleNamespace(options=options)

    def wait(self, tasks: list[Task], timeout: float) -> tuple:
        return [task for task in tasks if task.results], []

    def get(self, task: Task) -> Any:
        if isinstance(task.results[0], Exception):
            raise task.results[0]
        return task.results[0]

    def cancel(self, task: Task, force: bool) -> None:
        task.results.append(TaskCancelledError())


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> FakeRay:
    fake = FakeRay()
    monkeypatch.setattr(ray_engine, "_import_ray", lambda is_local: fake)
    return fake


def started(
    ray: FakeRay, directory: Path, config: EngineConfig | None = None
) -> RayJob:
    engine = RayEngine(config or EngineConfig(), ("--flag",))
    (job,) = engine.start([(RUN, directory)])
    assert isinstance(job, RayJob)
    return job


@pytest.mark.parametrize(
    ("result", "is_lost", "reason"),
    [
        (2, False, "the last line"),
        (-9, True, "Killed by signal 9."),
        (WorkerCrashedError("It died."), True, "Ray lost it: It died."),
        (TaskCancelledError(), True, "Ray lost it: TaskCancelledError"),
        (RayTaskError("Traceback\nOSError: no"), False, "OSError: no"),
        (RuntimeEnvSetupError("no"), False, "no"),
    ],
)
def test_failed_tasks_are_told_from_lost_ones(
    ray: FakeRay, tmp_path: Path, result: Any, is_lost: bool, reason: str
) -> None:
    (tmp_path / "log.txt").write_text("the first line\nthe last line\n")
    job = started(ray, tmp_path)
    ray.tasks[0].results.append(result)
    assert job.ended() == Ended(reason, is_lost)


@pytest.mark.parametrize(
    ("needs", "fits"),
    [
        (Resources(4, 0, 8.0), True),
        (Resources(5, 0, 8.0), False),
        (Resources(4, 1, 8.0), False),
        (Resources(4, 0, 8.5), False),
    ],
)
def test_runs_that_no_node_has_room_for_are_refused(
    ray: FakeRay, tmp_path: Path, needs: Resources, fits: bool
) -> None:
    expected = (
        contextlib.nullcontext() if fits else pytest.raises(InputError, match="4 co")
    )
    with expected:
        started(ray, tmp_path, EngineConfig(needs))


PROBES = {
    "import sys; print('Traceback'); sys.exit('ValueError: not Ray')": "not Ray",
    "import time; time.sleep(60)": "within 0.5 s",
}


@pytest.mark.parametrize("probe", PROBES)
def test_a_cluster_that_can_not_be_used_is_refused(
    ray: FakeRay, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, probe: str
) -> None:
    monkeypatch.setattr(ray_engine, "_CONNECT", probe)
    if "sleep" in probe:
        monkeypatch.setattr(ray_engine, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(InputError, match=f"'h:1'.*{PROBES[probe]}"):
        started(ray, tmp_path, EngineConfig(ray=RayConfig(address="h:1")))
    with pytest.raises(InputError, match="client server"):
        started(ray, tmp_path, EngineConfig(ray=RayConfig(address="ray://h:1")))
    assert ray.settings == {}
