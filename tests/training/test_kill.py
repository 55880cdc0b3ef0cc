"""Power cuts: a run killed equals one that never was."""

import os
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import pytest

from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden, to_dict, toml_text
from factories import rows_of

WORKER = [sys.executable, "-P", "-m", "driftrl.engines.worker"]


def start(config: RunConfig, directory: Path) -> subprocess.Popen:
    process = subprocess.Popen(
        [*WORKER, str(directory), "--parent", str(os.getpid())], stdin=subprocess.PIPE
    )
    assert process.stdin is not None
    process.stdin.write(toml_text(to_dict(config)).encode())
    process.stdin.close()
    return process


@pytest.mark.kill
@pytest.mark.timeout(400)  # three processes that each compile
def test_a_kill(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a user's rule, which sees the same evidence after a resume."""
    monkeypatch.setenv("DRIFTRL_PLUGIN_PATH", str(Path(__file__).parents[1]))
    rule = {"kind": "factories:Chaotic", "salt": 3}
    config = overridden(tiny, {"episodes": 12, "forgetting": rule})
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert start(config, whole).wait() == 0
    process = start(config, killed)
    while process.poll() is None and not (killed / "memory" / "000003.npz").exists():
        time.sleep(0.002)
    process.kill()
    assert process.wait() != 0
    assert start(config, killed).wait() == 0
    assert rows_of(killed) == rows_of(whole)
    assert list(killed.rglob("*.tmp")) == []
    retained = [row["first_retained"] for row in rows_of(whole)]
    assert any(later < earlier for earlier, later in pairwise(retained))


@pytest.mark.kill
def test_a_worker_ends_with_its_parent(tiny: RunConfig, tmp_path: Path) -> None:
    endless = overridden(tiny, {"episodes": 10_000})
    (tmp_path / "config.toml").write_text(toml_text(to_dict(endless)))
    script = (
        "import os, subprocess, time\n"
        f"child = subprocess.Popen({[*WORKER, str(tmp_path / 'run'), '--parent']!r} +"
        f" [str(os.getpid())], stdin=open({str(tmp_path / 'config.toml')!r}))\n"
        "print(child.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    parent.kill()
    parent.wait()
    parent.stdout.close()
    patience = time.monotonic() + 20
    while Path(f"/proc/{child}/cmdline").exists() and time.monotonic() < patience:
        if not Path(f"/proc/{child}/cmdline").read_bytes():
            break  # a zombie that nobody waits for
        time.sleep(0.1)
    else:
        assert not Path(f"/proc/{child}/cmdline").exists()
