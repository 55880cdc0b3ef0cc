"""Two hundred runs of which some crash, some hang and one says NaN."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from driftrl.engines.launcher import episodes_done

RUNS, CRASHES, HANGS = 200, range(0, 10), range(10, 14)
NAN = 14
MACHINE = """
import os, sys, time
from pathlib import Path
import gymnasium, numpy as np

PLACE = Path(sys.argv[1] if len(sys.argv) > 1 else ".")
SEED = int(PLACE.name.rpartition("-s")[2] or -1) if "-s" in PLACE.name else -1

class Cart(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-10.0, 10.0, (1,))
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (1,))
    episodes = 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episodes += 1
        self.x, self.steps = np.zeros(1, np.float32), 0
        if self.episodes == 2 and not (PLACE / "troubled").exists():
            (PLACE / "troubled").touch()
            if SEED in range(0, 10):
                raise RuntimeError("the motor is on fire")
            if SEED in range(10, 14):
                time.sleep(1e6)
        return self.x, {}

    def step(self, action):
        self.steps += 1
        self.x = (self.x + 0.1 * np.asarray(action, np.float32)).clip(-10, 10)
        if SEED == 14:
            self.x = self.x * np.nan
        return self.x, float(-abs(self.x[0])), False, self.steps >= 4, {}

def make():
    return Cart()
"""
STUDY = f"""
name = "troubled"
title = "t"
summary = "s"
task = "troubled_machine:make"
methods = ["sw-ombrl"]
seeds = {list(range(RUNS))}

[settings]
episodes = 3

[settings.agent]
model = {{ members = 2, hidden = [8] }}
sac = {{ hidden = [8], batch_size = 4 }}
learning = {{ learning_starts = 5 }}
"""


@pytest.mark.slow
@pytest.mark.kill
@pytest.mark.timeout(3000)
def test_the_rest_finishes_and_a_second_call_mends_what_can_be(tmp_path: Path) -> None:
    (tmp_path / "troubled_machine.py").write_text(MACHINE)
    (tmp_path / "troubled.toml").write_text(STUDY)
    out = tmp_path / "out"
    places = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]

    def study() -> tuple[int, str]:
        words = ["study", str(tmp_path / "troubled.toml"), "--out", str(out)]
        done = subprocess.run(
            [sys.executable, "-m", "driftrl", *words, "--patience", "1"],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
            capture_output=True,
            text=True,
            check=False,
        )
        print(done.stdout, done.stderr)
        return done.returncode, done.stdout

    def reasons(said: str) -> dict[int, str]:
        found = re.findall(r"^Failed: \S+-s(\d+): (.*) See \S+log.txt\.$", said, re.M)
        return {int(seed): reason for seed, reason in found}

    def finished() -> set[int]:
        return {
            int(path.name.rpartition("-s")[2])
            for path in out.glob("*-s*")
            if episodes_done(path) == 3
        }

    status, said = study()
    failed = reasons(said)
    assert status == 1 and "185 of 200 runs finished" in said
    assert set(failed) == {*CRASHES, *HANGS, NAN}
    assert all("the motor is on fire" in failed[seed] for seed in CRASHES)
    assert all("No episode ended in 1 min" in failed[seed] for seed in HANGS)
    assert "finite" in failed[NAN] or "NaN" in failed[NAN]
    assert finished() == set(range(RUNS)) - set(failed)
    status, said = study()
    assert status == 1 and "199 of 200 runs finished" in said
    assert set(reasons(said)) == {NAN}
    assert finished() == set(range(RUNS)) - {NAN}
