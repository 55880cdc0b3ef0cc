"""The Ray engine: every run is a task of a running cluster, or of a local one.

A task starts the same worker as the local engine, on the node that Ray chose, in the
run's directory, which all nodes must see.  Ray retries nothing: the launcher restarts
lost runs, and they resume from their checkpoints.
"""

import contextlib
import inspect
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from driftrl.config.engine import EngineConfig
from driftrl.config.run import RunConfig
from driftrl.engines.launcher import LOG, Ended, Failure, Job, failure_of
from driftrl.engines.local import LocalJob, config_text, worker_environment
from driftrl.errors import InputError, counted, require
from driftrl.training.process import cores

_CONNECT_SECONDS = 30.0
_CANCEL_SECONDS = 10.0
_GET_SECONDS = 60.0
_POLL_SECONDS = 0.2
_STORE_BYTES = 80_000_000  # of a local cluster: hardly anything is stored
_LOCAL_CLUSTER = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # listen on the loopback interface only
    "RAY_worker_niceness": "0",  # Ray's default is 15
}
_CONNECT = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False)"


def run_worker(
    name: str,
    config: bytes,
    directory: Path,
    options: tuple[str, ...],
    environment: dict[str, str],
) -> Iterator[int | None]:
    """Run on a node: yield None once the worker has started, then its exit status.

    The worker ends with this task.
    """
    os.environ.update(environment)
    job = LocalJob(name, config, directory, options)
    try:
        yield None
        while job.process.poll() is None:
            time.sleep(_POLL_SECONDS)
    finally:
        job.stop()
    yield job.process.returncode


class RayJob:
    """A run that was handed to Ray."""

    is_running = False

    def __init__(self, ray: Any, stream: Any, name: str, log: Path) -> None:
        """Follow the task of a run, which yields into ``stream``."""
        self._ray, self._stream, self._name, self._log = ray, stream, name, log
        self._is_cancelled = False
        self._ended: Ended | None = None

    def ended(self) -> Ended | None:
        """Return how it ended, or None while it has not."""
        while self._ended is None and self._has_message():
            self._ended = self._read()
        return self._ended

    def cancel(self, *, force: bool = False) -> None:
        """Ask Ray to end the task, without waiting for that."""
        # Not twice: a second interrupt would hit the task while it cleans up.
        if self._ended is None and (force or not self._is_cancelled):
            self._is_cancelled = True
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(self._stream, force=force)

    def stop(self) -> None:
        """End it at once."""
        self.cancel()
        latest = time.monotonic() + _CANCEL_SECONDS
        while self.ended() is None and time.monotonic() < latest:
            time.sleep(0.05)
        self.cancel(force=True)

    def _has_message(self) -> bool:
        ready, _ = self._ray.wait([self._stream], timeout=0, fetch_local=False)
        return bool(ready)

    def _read(self) -> Ended | None:
        """Read the next message of the task."""
        errors = self._ray.exceptions
        try:
            message = next(self._stream, None)
            if message is None:
                raise errors.WorkerCrashedError  # it ended without a status
            status = self._ray.get(message, timeout=_GET_SECONDS)
        except errors.RayError as error:
            reason = _last_line(str(error), type(error).__name__)
            failed = (errors.RayTaskError, errors.RuntimeEnvSetupError)
            if isinstance(error, failed) and not isinstance(
                error, errors.TaskCancelledError
            ):
                return Ended(Failure(self._name, 1, reason, self._log))
            if not self._is_cancelled:
                self.cancel(force=True)  # it may only be out of reach
            reason = f"Ray lost it: {reason}"
            return Ended(Failure(self._name, -9, reason, self._log), is_lost=True)
        self.is_running = True
        if status is None:
            return None
        return Ended(failure_of(self._name, status, self._log), is_lost=status < 0)


class RayEngine:
    """Runs on the nodes of a Ray cluster.  Connects when the first run starts."""

    max_jobs = 100_000  # Ray queues what its nodes can't take yet
    restarts_lost = True

    def __init__(self, config: EngineConfig, options: tuple[str, ...] = ()) -> None:
        """Import Ray, or raise InputError; ``options`` are the worker's."""
        self.ray = _import_ray(is_local=not config.ray.address)
        self._config, self._options = config, options
        needs = config.resources
        self._needs = {
            "CPU": needs.cores,
            "GPU": needs.accelerators,
            "memory": round(needs.memory_gb * 1e9),
        }
        self._is_connected = False

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        """Submit a task for each run."""
        if not self._is_connected:
            self._is_connected = True
            self._connect()
            self._require_room()
        return [self._submit(config, place.absolute()) for config, place in runs]

    def shutdown(self, jobs: Sequence[Job]) -> None:
        """Cancel the tasks, and disconnect."""
        for job in jobs:
            assert isinstance(job, RayJob)
            job.cancel()
        for job in jobs:
            job.stop()
        if self._is_connected:
            self._is_connected = False
            self.ray.shutdown()

    def _submit(self, config: RunConfig, directory: Path) -> RayJob:
        # Ray must see the generator function itself, whatever is wrapped around it.
        task = self.ray.remote(inspect.unwrap(run_worker)).options(
            num_returns="streaming",
            num_cpus=self._needs["CPU"],
            num_gpus=self._needs["GPU"],
            memory=self._needs["memory"],
            max_retries=0,
            name=config.name,
        )
        arguments = (config_text(config), directory, self._options)
        stream = task.remote(config.name, *arguments, worker_environment())
        return RayJob(self.ray, stream, config.name, directory / LOG)

    def _connect(self) -> None:
        address = self._config.ray.address
        if address:
            _require_cluster(address)
            settings: dict[str, Any] = {"address": address}
        else:
            settings = {
                "address": "local",
                "num_cpus": cores(),
                "object_store_memory": _STORE_BYTES,
                "include_dashboard": False,
            }
        try:
            # Ray puts the current directory first on the import path of its workers,
            # and a file numpy.py there would be executed.
            with contextlib.chdir(Path(__file__).parents[2]):
                self.ray.init(
                    log_to_driver=False, logging_level=logging.ERROR, **settings
                )
        except (OSError, RuntimeError, ValueError) as error:
            reason = _last_line(str(error), type(error).__name__)
            raise _no_connection(settings["address"], reason) from error

    def _require_room(self) -> None:
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        sizes = "; ".join(sorted({_in_words(node) for node in nodes}))
        require(
            any(
                all(node.get(name, 0) >= need for name, need in self._needs.items())
                for node in nodes
            ),
            "No node of the Ray cluster has what a run needs: "
            f"{_in_words(self._needs)}. It has {counted(len(nodes), 'node')} ({sizes})."
            " Ask for less in the study's engine.resources, or add nodes.",
        )


def _import_ray(*, is_local: bool) -> Any:
    """Import Ray with its usage statistics switched off."""
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


def _require_cluster(address: str) -> None:
    """Connect once from another process: Ray tries for minutes, then ends its own."""
    require(
        not address.startswith("ray://"),
        f"{address!r} is the address of a Ray client server. Name the head node "
        "instead, HOST:PORT with the port of `ray start --head` (6379 by default).",
    )
    command = [sys.executable, "-P", "-c", _CONNECT, address]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=_CONNECT_SECONDS
        )
    except subprocess.TimeoutExpired:
        reason = f"no answer within {_CONNECT_SECONDS:g} s."
        raise _no_connection(address, reason) from None
    if done.returncode != 0:
        raise _no_connection(address, _last_line(done.stderr, "Ray does not say why."))


def _no_connection(address: str, reason: str) -> InputError:
    return InputError(
        f"Can't connect to a Ray cluster at {address!r}: {reason} Start one there (ray "
        "start --head), or leave the address out to start one on this machine."
    )


def _in_words(resources: Mapping[str, float]) -> str:
    accelerators = counted(int(resources.get("GPU", 0)), "accelerator")
    return (
        f"{counted(int(resources.get('CPU', 0)), 'core')}, {accelerators} and "
        f"{resources.get('memory', 0) / 1e9:.3g} GB of memory"
    )


def _last_line(text: str, otherwise: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else otherwise
