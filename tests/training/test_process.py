"""What a process sets up: one thread, and a cache that repairs itself."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest

from driftrl.training.process import repaired_cache


def test_other_warnings_travel_on() -> None:
    with pytest.warns(UserWarning, match="watch out"), repaired_cache():
        warnings.warn("watch out", stacklevel=1)


def test_a_torn_cache_of_compiled_code_is_cleared_in_silence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    code = (
        "import os; from driftrl.training.process import repaired_cache, prepare;"
        "os.environ.pop('JAX_COMPILATION_CACHE_DIR', None); prepare(os.environ);"
        "import jax, jax.numpy as jnp\n"
        "with repaired_cache(): jax.jit(lambda x: jnp.sin(x) + 1)(1.0)"
    )

    def compile_something() -> list[Path]:
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        )
        assert done.stderr == ""
        return list((tmp_path / "driftrl" / "jax").glob("*-cache"))

    entries = compile_something()
    assert entries
    for entry in entries:
        entry.write_bytes(entry.read_bytes()[:-20])
    assert compile_something() == []  # cleared
    again = compile_something()
    assert [path.name for path in again] == [path.name for path in entries]
