"""Set up a process that runs driftrl, before JAX is imported."""

import os
import threading
import time
from collections.abc import MutableMapping

from driftrl.io import cache_directory

_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",  # the size of XLA's own pool of threads
}


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1


def prepare(environment: MutableMapping[str, str]) -> None:
    """Ask for one thread and for a cache of compiled code, unless the user has chosen.

    Many small runs finish sooner side by side on one thread each than one after the
    other on all, and a second start need not compile again.
    """
    for name, value in _ONE_THREAD.items():
        environment.setdefault(name, value)
    environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_directory() / "jax"))
    environment.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def end_with(parent: int) -> None:
    """End this process as soon as the one that started it is gone.

    Files are written atomically, so it may end at any moment.
    """

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(0.5)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
