"""The Ray engine: every run is a task of a running cluster, or of a local one.

A task starts the same worker as the local engine, on the node that Ray chose, in the
run's directory, which all nodes must see.  Ray retries nothing: the launcher restarts
lost runs, and they resume from their checkpoints.
"""

import contextlib
import logging
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from driftrl.config.engine import EngineConfig
from driftrl.config.run import RunConfig
from driftrl.engines.launcher import LOG, Ended, Job, ended_with, last_line
from driftrl.engines.local import config_text, run_worker, worker_environment
from driftrl.errors import InputError, counted, require
from driftrl.records import is_running
from driftrl.training.process import cores

_CONNECT_SECONDS = 30.0
_CANCEL_SECONDS = 10.0
_STORE_BYTES = 80_000_000  # of a local cluster: hardly anything is stored
_LOCAL_CLUSTER = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # listen on the loopback interface only
    "RAY_worker_niceness": "0",  # Ray's default is 15
}
_CONNECT = "import ray, sys; ray.init(address=sys.argv[1], log_to_driver=False)"


class RayJob:
    """A run that was handed to Ray."""

    def __init__(self, ray: Any, task: Any, directory: Path) -> None:
        """Follow the task of a run, which returns the worker's exit status."""
        self._ray, self._task, self._directory = ray, task, directory
        self._is_cancelled = False
        self._ended: Ended | None = None

    @property
    def is_running(self) -> bool:
        """False while it waits for a node, and while its worker starts."""
        return is_running(self._directory)

    def ended(self) -> Ended | None:
        """Return how it ended, or None while it has not."""
        if self._ended is None and self._ray.wait([self._task], timeout=0)[0]:
            self._ended = self._result()
        return self._ended

    def cancel(self, *, force: bool = False) -> None:
        """Ask Ray to end the task, without waiting for that."""
        # Not twice: a second interrupt would hit the task while it cleans up.
        if self._ended is None and (force or not self._is_cancelled):
            self._is_cancelled = True
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(self._task, force=force)

    def stop(self) -> None:
        """End it at once."""
        self.cancel()
        latest = time.monotonic() + _CANCEL_SECONDS
        while self.ended() is None and time.monotonic() < latest:
            time.sleep(0.05)
        self.cancel(force=True)

    def _result(self) -> Ended:
        errors = self._ray.exceptions
        try:
            return ended_with(self._ray.get(self._task), self._directory / LOG)
        except errors.RayError as error:
            reason = last_line(str(error), type(error).__name__)
            is_cancelled = isinstance(error, errors.TaskCancelledError)
            failed = (errors.RayTaskError, errors.RuntimeEnvSetupError)
            if isinstance(error, failed) and not is_cancelled:
                return Ended(reason)
            if not self._is_cancelled:
                self.cancel(force=True)  # it may only be out of reach
            return Ended(f"Ray lost it: {reason}", is_lost=True)


class RayEngine:
    """Runs on the nodes of a Ray cluster.  Connects when the first run starts."""

    max_jobs = 100_000  # Ray queues what its nodes can't take yet

    def __init__(self, config: EngineConfig, options: tuple[str, ...] = ()) -> None:
        """Import Ray, or raise InputError; ``options`` are the worker's."""
        self._address, self._options = config.ray.address, options
        self.ray = _import_ray(is_local=not self._address)
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
        return [self._submit(config, path.absolute()) for config, path in runs]

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
        task = self.ray.remote(run_worker).options(
            num_cpus=self._needs["CPU"],
            num_gpus=self._needs["GPU"],
            memory=self._needs["memory"],
            max_retries=0,
            name=config.name,
        )
        given = (config_text(config), directory, self._options, worker_environment())
        return RayJob(self.ray, task.remote(*given), directory)

    def _connect(self) -> None:
        settings: dict[str, Any] = {"address": self._address}
        if self._address:
            _require_cluster(self._address)
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
            reason = last_line(str(error), type(error).__name__)
            raise _no_connection(settings["address"], reason) from error

    def _require_room(self) -> None:
        nodes = [node["Resources"] for node in self.ray.nodes() if node["Alive"]]
        fits = lambda node: all(node.get(n, 0) >= k for n, k in self._needs.items())
        sizes = sorted({_in_words(node) for node in nodes})
        require(
            any(map(fits, nodes)),
            f"No node of the Ray cluster has {_in_words(self._needs)}, as a run needs "
            f"(engine.resources). It has nodes of {'; '.join(sizes)}.",
        )


def _import_ray(*, is_local: bool) -> Any:
    """Import Ray with its usage statistics switched off."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    for name, value in _LOCAL_CLUSTER.items() if is_local else ():
        os.environ.setdefault(name, value)
    try:
        import_module("ray.exceptions")
        return import_module("ray")
    except ModuleNotFoundError:
        raise InputError(
            "Runs on Ray need the extra 'ray': pip install 'driftrl[ray]'."
        ) from None


def _require_cluster(address: str) -> None:
    """Connect once from another process: Ray tries for minutes, then ends its own."""
    require(
        not address.startswith("ray://"),
        f"{address!r} is the address of a Ray client server. Name the head node "
        "instead, HOST:PORT with the port of `ray start --head` (6379 by default).",
    )
    command = [sys.executable, "-P", "-c", _CONNECT, address]
    wanted = {"capture_output": True, "text": True, "timeout": _CONNECT_SECONDS}
    try:
        subprocess.run(command, check=True, **wanted)
    except subprocess.TimeoutExpired:
        reason = f"no answer within {_CONNECT_SECONDS:g} s."
        raise _no_connection(address, reason) from None
    except subprocess.CalledProcessError as error:
        raise _no_connection(address, last_line(error.stderr, "no reason.")) from None


def _no_connection(address: str, reason: str) -> InputError:
    return InputError(
        f"Can't connect to a Ray cluster at {address!r}: {reason} Start one there (ray "
        "start --head), or leave the address out to start one on this machine."
    )


def _in_words(resources: Mapping[str, float]) -> str:
    return (
        f"{counted(int(resources.get('CPU', 0)), 'core')}, "
        f"{counted(int(resources.get('GPU', 0)), 'accelerator')} and "
        f"{resources.get('memory', 0) / 1e9:.3g} GB"
    )
