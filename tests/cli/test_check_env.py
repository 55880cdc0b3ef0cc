"""``driftrl check-env`` as a user meets it."""

import json
import sys
from pathlib import Path
from typing import Any

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
    breaks = False

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.level = self.np_random.uniform(size=2)
        return self.level.copy(), {}

    def step(self, action):
        print("pumping")
        self.level = 0.9 * self.level + 0.1 * float(action[0])
        if self.breaks:
            self.level = self.level * np.nan
        return self.level.copy(), -float(np.sum(self.level)), False, False, {}


def make():
    return TimeLimit(Tank(), 10)


def broken():
    tank = Tank()
    tank.breaks = True
    return tank


def discrete():
    return gymnasium.make("CartPole-v1")


def fails():
    raise RuntimeError("no cable")


number = 3


def three():
    return 3
"""


@pytest.fixture(autouse=True)
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand where the module is."""
    (tmp_path / "tank_to_check.py").write_text(MODULE)
    (tmp_path / "torn_to_check.py").write_text("import numpy as np\nnp.no_such_thing")
    (tmp_path / "lacks_to_check.py").write_text("import no_such_package")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path), *sys.path])


def test_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-env", "tank_to_check:make"]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("tank_to_check:make can be learned.\n\nFound:\n")
    assert "pumping" not in out and "pumping" in err
    assert "declares 10 steps at most; random ones took 10 steps" in out
    assert "finite bounds, not symmetric; driftrl scales [−1, 1] to them" in out
    assert "A run would start from:" in out
    assert "environment.sim_steps" in out and "agent.imagination.termination" in out


def test_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-env", "tank_to_check:make", "--json", "--episodes", "2"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["learnable"] and document["must_mend"] == []
    assert document["found"]["driven"]["lengths"] == [10, 10]
    assert document["found"]["high"] == [3.0]
    assert document["defaults"]["steps"] == 10
    assert document["defaults"]["reasons"]["steps"] == "the environment declares it"


def test_what_must_be_mended_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check-env", "tank_to_check:broken"]) == 1
    out = capsys.readouterr().out
    first, second = out.splitlines()[:2]
    assert "Worth knowing" not in out and "start from" not in out
    assert first == "tank_to_check:broken can't be learned before this is mended:"
    assert second == (
        "  1. step() number 1 of an episode returned what is not finite: number 0 "
        "(from 0) is nan."
    )
    assert main(["check-env", "tank_to_check:discrete"]) == 1
    out = capsys.readouterr().out
    assert "Actions must be a Box of one axis" in out and "start from" not in out
    assert main(["check-env", "tank_to_check:discrete", "--json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["defaults"] is None and not document["learnable"]


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("no_such_module:make", "There is no module 'no_such_module'"),
        ("tank_to_check", "is named MODULE:FACTORY"),
        ("tank_to_check.py:make", "imports it: write tank_to_check:make."),
        ("Pendulum-v1", "'Pendulum-v1' is registered with Gymnasium"),
        ("tank_to_check:gone", "has no 'gone'"),
        ("tank_to_check:number", "must be a function or class"),
        ("tank_to_check:three", "made 3, which is no gymnasium.Env."),
        ("tank_to_check:fails", "'tank_to_check:fails' raised RuntimeError: no cable."),
        (
            "torn_to_check:make",
            "Importing the module of 'torn_to_check:make' raised AttributeError: ",
        ),
        ("lacks_to_check:make", "No module named 'no_such_package'"),
    ],
)
def test_bad_input_is_a_sentence_and_status_two(
    spec: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check-env", spec]) == 2
    out, err = capsys.readouterr()
    assert out == "" and sentence in err
    assert "Traceback" not in err and err.count("\n") == 1


def test_bad_options(capsys: pytest.CaptureFixture[str]) -> None:
    options: Any = ["--episodes", "0"]
    assert main(["check-env", "tank_to_check:make", *options]) == 2
    assert "episodes must be a number of at least 1" in capsys.readouterr().err
