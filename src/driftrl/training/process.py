"""What a process that runs driftrl sets up before JAX is imported."""

import os
from collections.abc import MutableMapping
from pathlib import Path

_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
    "NPROC": "1",  # the size of XLA's own pool of threads
}


def cache_directory() -> Path:
    """Return driftrl's own corner of the user's cache directory."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "driftrl"


def prepare(environment: MutableMapping[str, str]) -> None:
    """Ask for one thread and for a cache of compiled code, unless the user has chosen.

    Runs are many and small: side by side on one thread each they finish sooner than one
    after the other on all, and a second start need not compile again.
    """
    for name, value in _ONE_THREAD.items():
        environment.setdefault(name, value)
    environment.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_directory() / "jax"))
    environment.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
