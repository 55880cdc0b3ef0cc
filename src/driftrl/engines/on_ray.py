"""The Ray engine: every run a task of a cluster that runs already, or of a local one.

A task starts the same worker as the local engine does, on the node that Ray has chosen,
and reports as a stream of messages.  Ray retries nothing: what is lost is started again
by the seam, and resumes from the run's checkpoint.
"""

import contextlib
import fcntl
import inspect
import logging
import os
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Self

from driftrl.config.engine import EngineConfig, Resources
from driftrl.config.run import RunConfig
from driftrl.engines.local import failure_of
from driftrl.engines.on_node import Message, Work, carry_out
from driftrl.engines.ray_address import require_answer
from driftrl.engines.seam import LOG, Ended, Failure, Job
from driftrl.engines.syncing import Outbox, forget_old_checkpoints, receive, settle
from driftrl.errors import CorruptFile, InputError, counted, require
from driftrl.training.process import cores, prepare

_LOCKED_SECONDS = 30.0  # a worker whose driver was killed needs a moment to end
_STRANDED_SECONDS = 60.0  # without a node that could take a run
_LOOK_SECONDS = 5.0  # between two looks at the nodes
_CANCEL_SECONDS = 10.0
_FETCH_SECONDS = 60.0
_MOST_QUEUED = 8  # with all their files, for want of a shared disk
_STORE_BYTES = 200_000_000  # of a local cluster, for files on their way
_LOCAL_CLUSTER = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # listen on the loopback interface alone
    "RAY_worker_niceness": "0",  # runs are what the machine is for; Ray's own is 15
}


class RayEngine:
    """Runs on the nodes of a Ray cluster.  Connects when there is something to run."""

    most_at_once = 100_000  # Ray queues what its nodes can't take yet
    restarts_lost = True

    def __init__(self, config: EngineConfig, options: tuple[str, ...] = ()) -> None:
        """Make sure that there is Ray.

        Args:
            config: What a run needs, and where the cluster is.
            options: Further ones of the worker.

        Raises:
            InputError: Ray is not installed.
        """
        self.ray = _imported_ray(is_local=not config.ray.address)
        self.is_shared = config.ray.shared_disk
        self.queued: set[RayJob] = set()
        """What Ray was given and has not begun."""
        self._config = config
        self._options = options
        self._is_connected = False
        self._looked = self._had_room = 0.0

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Give each to the cluster."""
        if not self._is_connected:
            self._is_connected = True
            self._connect()
            self._require_room()
        return [RayJob(self, config, place.absolute()) for config, place in runs]

    def leave(self, jobs: Sequence[Job]) -> None:
        """Cancel them: Ray would kill the tasks of a driver that is gone anyway."""
        for job in jobs:
            assert isinstance(job, RayJob)
            job.cancel()
        for job in jobs:
            job.stop()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_connected:
            self._is_connected = False
            self.ray.shutdown()

    def submit(self, config: RunConfig, directory: Path) -> Any:
        """Give a run to Ray; return the stream of its messages."""
        needs = self._config.resources
        # Ray must see the generator itself, whatever is wrapped around it.
        task = self.ray.remote(inspect.unwrap(carry_out)).options(
            num_returns="streaming",
            num_cpus=needs.cores,
            num_gpus=needs.accelerators,
            memory=_bytes(needs),
            max_retries=0,
            name=config.name,
        )
        pieces = () if self.is_shared else Outbox(directory).take()
        options, environment = self._options, _environment()
        return task.remote(
            Work(config, directory, self.is_shared, pieces, options, environment)
        )

    @property
    def takes_more(self) -> bool:
        """Whether another run may be submitted, with its files."""
        return self.is_shared or len(self.queued) < _MOST_QUEUED

    @property
    def is_stranded(self) -> bool:
        """Whether no node could take a run, for so long that none will come back."""
        now = time.monotonic()
        if now - self._looked > _LOOK_SECONDS:
            self._looked = now
            if any(_has_room(node, self._config.resources) for node in self._nodes()):
                self._had_room = now
        return now - self._had_room > _STRANDED_SECONDS

    @property
    def needs(self) -> str:
        """What a run needs, in words."""
        needs = self._config.resources
        return _said(needs.cores, needs.accelerators, needs.memory_gb)

    def _connect(self) -> None:
        address = self._config.ray.address
        if address:
            require_answer(address)
            chosen: dict[str, Any] = {"address": address}
        else:
            chosen = {
                "address": "local",
                "num_cpus": cores(),
                "object_store_memory": _STORE_BYTES,
                "include_dashboard": False,
            }
        try:
            self.ray.init(log_to_driver=False, logging_level=logging.ERROR, **chosen)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(
                f"The Ray cluster at {chosen['address']!r} can't be used: "
                f"{_last_line(error)}"
            ) from error

    def _nodes(self) -> list[Mapping[str, float]]:
        """Return the resources of each node that is alive."""
        return [node["Resources"] for node in self.ray.nodes() if node["Alive"]]

    def _require_room(self) -> None:
        nodes = self._nodes()
        there = sorted({_described(node) for node in nodes})
        require(
            any(_has_room(node, self._config.resources) for node in nodes),
            f"No node of the Ray cluster has what a run needs: {self.needs}. It has "
            f"{counted(len(nodes), 'node')} ({'; '.join(there)}). Ask for less in the "
            "study's engine.resources, or add nodes.",
        )
        self._looked = self._had_room = time.monotonic()


class RayJob:
    """A run that was given to Ray, or is about to be."""

    is_running = False

    def __init__(self, engine: RayEngine, config: RunConfig, directory: Path) -> None:
        """Hand it in, or try again at every look at it.

        Args:
            engine: Where.
            config: The run.
            directory: Where it lies, or is to lie.
        """
        self._engine = engine
        self._config = config
        self._directory = directory
        self._stream: Any = None
        self._lock: IO | None = None
        self._is_cancelled = False
        self._since = time.monotonic()
        self._outcome = self._try_to_submit()

    def ended(self) -> Ended | None:
        """Return how it ended, or None while it has not."""
        if self._outcome is None:
            waits = self._stream is None
            self._outcome = self._try_to_submit() if waits else self._follow()
        if self._outcome is not None:
            self._release()
        return self._outcome

    def cancel(self, *, force: bool = False) -> None:
        """Ask Ray to end it, without waiting for that."""
        under_way = self._stream is not None and self._outcome is None
        # Once: a second interrupt would meet the task while it tidies up.
        if under_way and (force or not self._is_cancelled):
            self._is_cancelled = True
            with contextlib.suppress(self._ray_error):
                self._engine.ray.cancel(self._stream, force=force)

    def stop(self) -> None:
        """End it at once."""
        self.cancel()
        latest = time.monotonic() + _CANCEL_SECONDS
        while self._stream is not None and self._outcome is None:
            try:
                if self._next() is None:
                    time.sleep(0.05)
            except self._ray_error:
                break
            if time.monotonic() > latest:
                self.cancel(force=True)
                break
        self._outcome = self._outcome or self._lost("It was stopped.")
        self._release()

    def _try_to_submit(self) -> Ended | None:
        """Give the run to Ray, once nobody else writes to its directory."""
        engine = self._engine
        if not engine.takes_more:
            self._since = time.monotonic()
            return None
        lock = _locked(self._directory)
        if lock is None:
            if time.monotonic() - self._since <= _LOCKED_SECONDS:
                return None
            return self._failed(f"Another process is running in {self._directory}.")
        if engine.is_shared:
            lock.close()  # the worker takes it
        else:
            self._lock = lock
            settle(self._directory)
        self._stream = engine.submit(self._config, self._directory)
        engine.queued.add(self)
        return None

    def _follow(self) -> Ended | None:
        """Take what has arrived; return how it ended, or None while it has not."""
        while True:
            try:
                message = self._next()
            except self._ray_error as error:
                return self._broken(error)
            if message is None:
                break
            self.is_running = True
            self._engine.queued.discard(self)
            if isinstance(message, int):
                failure = failure_of(self._config.name, message, self._log)
                return Ended(failure, is_lost=message < 0)
            try:
                receive(self._directory, message)
                forget_old_checkpoints(self._directory)
            except (CorruptFile, OSError) as error:
                self.cancel()
                return self._failed(f"{type(error).__name__}: {error}")
        if not self.is_running and self._engine.is_stranded:
            self.cancel()
            return self._failed(
                f"The nodes that could take it are gone; it needs {self._engine.needs}."
            )
        return None

    def _next(self) -> Message | None:
        """Return the next message, or None if there is none yet."""
        ray = self._engine.ray
        ready, _ = ray.wait([self._stream], timeout=0, fetch_local=False)
        if not ready:
            return None
        message = next(self._stream, None)
        if message is None:
            raise ray.exceptions.WorkerCrashedError  # it left without a status
        return ray.get(message, timeout=_FETCH_SECONDS)

    def _broken(self, error: Exception) -> Ended:
        """Tell a task that went wrong from one that was taken away."""
        wrong = self._engine.ray.exceptions
        cancelled = isinstance(error, wrong.TaskCancelledError)
        own = (wrong.RayTaskError, wrong.RuntimeEnvSetupError)
        if isinstance(error, own) and not cancelled:
            return self._failed(_last_line(error))
        self.cancel(force=True)  # if it is only out of reach
        return self._lost(f"Ray lost it: {_last_line(error)}")

    @property
    def _ray_error(self) -> type[Exception]:
        return self._engine.ray.exceptions.RayError

    @property
    def _log(self) -> Path:
        return self._directory / LOG

    def _failed(self, reason: str) -> Ended:
        return Ended(Failure(self._config.name, 1, reason, self._log))

    def _lost(self, reason: str) -> Ended:
        return Ended(Failure(self._config.name, -9, reason, self._log), is_lost=True)

    def _release(self) -> None:
        self._engine.queued.discard(self)
        if self._lock is not None:
            self._lock.close()
            self._lock = None


def _imported_ray(*, is_local: bool) -> Any:
    """Import Ray such that it sends nothing anywhere."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    for name, value in _LOCAL_CLUSTER.items() if is_local else ():
        os.environ.setdefault(name, value)
    try:
        ray = import_module("ray")
        import_module("ray.exceptions")
    except ModuleNotFoundError:
        raise InputError(
            "Runs on Ray need the extra 'ray': pip install 'driftrl[ray]'."
        ) from None
    return ray


def _locked(directory: Path) -> IO | None:
    """Take the lock of a run's directory; None if another process has it."""
    lock = open(directory / "lock", "a")  # noqa: SIM115 - closed by who asked for it
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        lock.close()
        return None
    return lock


def _environment() -> dict[str, str]:
    """Return the variables that a local run would have, but for paths.

    Ray sets some of them as well, by the cores of a run, and then rounding differs.
    """
    own: dict[str, str] = {}
    prepare(own)
    own.pop("JAX_COMPILATION_CACHE_DIR")
    return {name: os.environ.get(name, value) for name, value in own.items()}


def _has_room(node: Mapping[str, float], needs: Resources) -> bool:
    wanted = {"CPU": needs.cores, "GPU": needs.accelerators, "memory": _bytes(needs)}
    return all(node.get(name, 0) >= amount for name, amount in wanted.items())


def _bytes(needs: Resources) -> int:
    return round(needs.memory_gb * 1e9)


def _said(cores: int, accelerators: int, memory_gb: float) -> str:
    return (
        f"{counted(cores, 'core')}, {counted(accelerators, 'accelerator')} and "
        f"{memory_gb:.3g} GB of memory"
    )


def _described(node: Mapping[str, float]) -> str:
    cores, accelerators = int(node.get("CPU", 0)), int(node.get("GPU", 0))
    return _said(cores, accelerators, node.get("memory", 0) / 1e9)


def _last_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[-1] if lines else type(error).__name__
