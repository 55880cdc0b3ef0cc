"""Power cuts: a run killed at random moments equals one that never was."""

import os
import random
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
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


def killed_and_resumed(config: RunConfig, directory: Path, kills: int) -> None:
    """Kill a run ``kills`` times at random moments, then let it end."""
    moments = random.Random(0)
    for landed in range(kills):
        process = start(config, directory)
        before = saved(directory)
        # Wait until it works, then some: importing takes longer than an episode.
        while process.poll() is None and saved(directory) == before:
            time.sleep(0.002)
        time.sleep(moments.uniform(0.0, 0.25))
        process.kill()
        if process.wait() == 0:
            raise AssertionError(f"the run ended after {landed} of {kills} kills")
    assert start(config, directory).wait() == 0


def saved(directory: Path) -> int:
    return len(list(directory.glob("memory/0*.npz")))


def check(config: RunConfig, tmp_path: Path, kills: int) -> None:
    assert start(config, tmp_path / "whole").wait() == 0
    killed_and_resumed(config, tmp_path / "killed", kills)
    assert rows_of(tmp_path / "killed") == rows_of(tmp_path / "whole")
    leftovers = [path.name for path in (tmp_path / "killed").rglob("*.tmp")]
    assert leftovers == []


@pytest.mark.kill
@pytest.mark.timeout(400)  # three processes that each compile
def test_a_kill(
    tiny: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a user's rule, which sees the same evidence after a resume."""
    monkeypatch.setenv("DRIFTRL_PLUGIN_PATH", str(Path(__file__).parents[1]))
    rule = {"kind": "factories:Chaotic", "salt": 3}
    check(overridden(tiny, {"episodes": 12, "forgetting": rule}), tmp_path, kills=1)
    retained = [row["first_retained"] for row in rows_of(tmp_path / "whole")]
    assert any(later < earlier for earlier, later in pairwise(retained))


@pytest.mark.kill
@pytest.mark.slow
@pytest.mark.parametrize("when", ["episode", "step"])
def test_kills_of_a_deep_agent(tiny_deep: RunConfig, tmp_path: Path, when: str) -> None:
    """The last checkpoint, with all networks and optimisers, is the same too."""
    learning = {"agent": {"learning": {"when": when}}}
    check(overridden(tiny_deep, {"episodes": 100, **learning}), tmp_path, kills=5)
    last = "checkpoint/000100.npz"
    whole, killed = tmp_path / "whole" / last, tmp_path / "killed" / last
    with np.load(whole) as one, np.load(killed) as other:
        assert one.files == other.files
        for name in one.files:
            np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.kill
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("background", "kills"),
    [
        (True, 1),
        pytest.param(False, 20, marks=pytest.mark.slow),
        pytest.param(True, 20, marks=pytest.mark.slow),
    ],
)
def test_kills_of_a_machine_that_never_stops(
    tiny_deep: RunConfig, tmp_path: Path, background: bool, kills: int
) -> None:
    episodes = 80 + 16 * kills
    changes = {"continuing": True, "background": background, "episodes": episodes}
    check(overridden(tiny_deep, changes), tmp_path, kills)


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
