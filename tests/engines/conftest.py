"""Commands of Slurm to act the real ones, where a test asks for them."""

import os
import sys
import types
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass(frozen=True)
class FakeSlurm:
    """Commands that are a line of shell each."""

    path: Path

    def answer(self, name: str, line: str) -> None:
        """Let a command be that line."""
        (self.path / name).write_text(f"#!/bin/sh\n{line}\n")
        (self.path / name).chmod(0o755)


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeSlurm:
    from driftrl.engines import slurm

    fake = FakeSlurm(tmp_path / "bin")
    fake.path.mkdir()
    for name in ("sbatch", "squeue", "scancel", "scontrol", "srun"):
        fake.answer(name, "true")
    monkeypatch.setenv("PATH", f"{fake.path}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setattr(slurm, "_ASK_SECONDS", 0.0)
    submitit = types.ModuleType("submitit")
    submitit.__spec__ = types.SimpleNamespace()  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "submitit", submitit)
    return fake
