"""``driftrl check-env`` as a user meets it."""

import sys
from pathlib import Path

import pytest

from driftrl.cli.main import main

MODULE = """
import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit


class Tank(gymnasium.Env):
    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float64)
    action_space = spaces.Box(0.0, 3.0, (1,))
    scale = 1.0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = self.np_random.uniform(size=2)
        return self.level.copy(), {}

    def step(self, action):
        print("pumping")
        self.level = self.scale * (0.9 * self.level + 0.1 * float(action[0]))
        return self.level.copy(), -float(np.sum(self.level)), False, False, {}


def make():
    return TimeLimit(Tank(), 10)


def broken():
    tank = Tank()
    tank.scale = np.nan
    return tank


def fails():
    raise RuntimeError("no cable")

"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tank_to_check.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])


def test_report(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-env", "tank_to_check:make"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("tank_to_check:make can be learned.")
    assert "pumping" not in out and "pumping" in err
    assert "at most 10 steps" in out and "environment.sim_steps" in out


def test_errors(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-env", "tank_to_check:broken"]) == 1
    out = capsys.readouterr().out
    assert "can NOT be learned" in out and "nan" in out and "assume" not in out


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("no_such_module:make", "no_such_module"),
        ("tank_to_check:fails", "RuntimeError: no cable"),
        ("tank_to_check:make --episodes 0", "received 0"),
    ],
)
def test_bad_input_is_one_line_and_status_two(
    path: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-env", *path.split()]) == 2
    out, err = capsys.readouterr()
    assert out == "" and value in err
    assert "Traceback" not in err and err.count("\n") == 1
