"""Strike at the N-th file operation of a process; Python imports this by its name.

The variable CHAOS is JSON: ``fault`` ("kill" or "full"), ``at`` (N), ``under`` (only
files there count), ``worker`` (whether a study's workers are meant, or other
processes), and ``log``, where a strike is written to.  A kill comes before an
operation, or in the middle of a write; a disk that is full stays full.
"""

import builtins
import errno
import io
import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from typing import Any

NEED_SPACE = ("open", "write", "fsync", "mkdir", "replace")
OTHERS = ("unlink", "rmdir", "ftruncate")


class Chaos:
    """Counts operations, and strikes."""

    def __init__(self, fault: str, at: int, under: str, log: str) -> None:
        """Replace the functions that change files."""
        self.fault, self.at, self.under, self.log = fault, at, under, log
        self.lock, self.count, self.open = threading.Lock(), 0, io.open
        for name in NEED_SPACE + (OTHERS if fault == "kill" else ()):
            setattr(os, name, self.counted(name, getattr(os, name)))
        io.open = builtins.open = self.opened

    def is_due(self, target: Any, directory: int | None = None) -> bool:
        """Count an operation on a file; return whether it is the one to strike."""
        name = (
            os.readlink(f"/proc/self/fd/{target}")
            if isinstance(target, int)
            else target
        )
        if directory is not None:
            name = os.path.join(os.readlink(f"/proc/self/fd/{directory}"), name)
        if not os.path.abspath(name).startswith(self.under):
            return False
        with self.lock:
            self.count += 1
            return self.count >= self.at

    def strike(self, operation: str) -> None:
        if self.count == self.at:
            with self.open(self.log, "a") as file:
                file.write(f"{operation}\n")
        if self.fault == "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any, **options: Any) -> Any:
            reads = name == "open" and not rest[0] & os.O_CREAT
            if not reads and self.is_due(target, options.get("dir_fd")):
                if name == "write":
                    real(target, rest[0][: len(rest[0]) // 2])
                self.strike(name)
            return real(target, *rest, **options)

        return call

    def opened(self, file: Any, mode: str = "r", *rest: Any, **options: Any) -> Any:
        is_read = isinstance(file, int) or not {*mode} & {*"wax"}
        if is_read or not os.path.abspath(str(file)).startswith(self.under):
            return self.open(file, mode, *rest, **options)
        if self.is_due(file):
            self.strike("open")
        chaos = self

        class File(io.FileIO):
            def write(self, data: Any, /) -> int:
                if chaos.is_due(file):
                    super().write(bytes(data)[: len(data) // 2])
                    chaos.strike("write")
                return super().write(data)

        buffered = io.BufferedWriter(File(file, mode.replace("b", "")))
        return buffered if "b" in mode else io.TextIOWrapper(buffered)


if "CHAOS" in os.environ:
    settings = json.loads(os.environ["CHAOS"])
    if settings.pop("worker") == ("driftrl.engines.worker" in sys.orig_argv):
        Chaos(**settings)
