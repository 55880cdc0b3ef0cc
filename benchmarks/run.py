"""Run the benchmarks, each in a process of its own: ``make bench``.

Every other file in this directory is a benchmark that prints what it measured.
``python benchmarks/run.py planning`` runs the named ones only; ``peers``, which takes
hours, runs only then.
"""

import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

from rich.console import Console

HERE = Path(__file__).parent
HOURS = ("peers",)  # run when they are named
LIBRARIES = ("jax", "numpy", "scipy", "scikit-learn")


def main(wanted: list[str]) -> int:
    """Run the wanted benchmarks, all if none is named; return the exit status."""
    console = Console()
    known = {path.stem: path for path in sorted(HERE.glob("*.py"))}
    del known[Path(__file__).stem]
    if unknown := [name for name in wanted if name not in known]:
        listed = ", ".join(known)
        console.print(f"Unknown benchmark {', '.join(unknown)}. Known: {listed}.")
        return 2
    libraries = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    load = f", load {os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else ""
    console.print(f"{processor()}, {os.cpu_count()} cores{load}", highlight=False)
    console.print(f"Python {platform.python_version()}, {libraries}", highlight=False)
    failed = []
    for name in wanted or [name for name in known if name not in HOURS]:
        console.print()
        console.rule(name, align="left")
        if subprocess.run([sys.executable, known[name]], check=False).returncode:
            failed.append(name)
    if failed:
        console.print(f"[red]Failed: {', '.join(failed)}.")
    return 1 if failed else 0


def processor() -> str:
    """Return the model of the processor, if the system says it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]
    return names[0] if names else platform.machine()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
