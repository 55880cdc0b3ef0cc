"""``driftrl oracle`` as a user meets it."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from driftrl.cli import oracle as command
from driftrl.cli.main import main
from driftrl.config.run import EnvironmentConfig
from driftrl.oracles import sac
from driftrl.oracles.optimum import Optimum
from driftrl.oracles.sac_settings import SACOracleSettings


@pytest.fixture(autouse=True)
def unprepared(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Train nothing, cache elsewhere, and leave this process as it is."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(command, "prepare", lambda environment: None)
    monkeypatch.setattr(sac, "optimal_return", fake_training)


def fake_training(
    task: str,
    theta: float,
    environment: EnvironmentConfig,
    settings: SACOracleSettings,
    trained: Callable[[], None],
) -> Optimum:
    for _ in range(settings.seeds):
        trained()
    value = -100.0 * environment.action_repeat / theta
    return Optimum(theta, value, 7.0, 0.0, "SAC", str(settings), {})


def answered(words: str, capsys: pytest.CaptureFixture[str]) -> dict:
    assert main(["oracle", *words.split(), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize("task", ["pendulum", "pendulum-decay"])
def test_the_environment_is_the_tasks_own_but_for_the_repeat(
    task: str, capsys: pytest.CaptureFixture[str]
) -> None:
    document = answered(f"{task} --theta 1", capsys)
    assert document["by"] == "dp"
    assert document["environment"] == {
        "steps": 200,
        "action_repeat": 1,
        "start": "hanging",
        "noise_std": 0.0,
        "parameter": "torque",
        "observation": "paper",
        "terminates": False,
        "observations": 0,
        "actions": 0,
        "low": [],
        "high": [],
        "machine": 0,
    }
    assert document["values"][0]["value"] == pytest.approx(-580.85, abs=0.05)


def test_what_is_asked_for_is_laid_over_it(capsys: pytest.CaptureFixture[str]) -> None:
    document = answered("pendulum --theta 1 --action-repeat 5", capsys)
    assert document["environment"]["action_repeat"] == 5
    assert document["values"][0]["value"] == pytest.approx(-588.2, abs=0.05)
    words = "pendulum --by sac --theta 1 --start random --steps 10"
    environment = answered(words, capsys)["environment"]
    assert (environment["start"], environment["steps"]) == ("random", 10)


def test_sac_prints_its_value_its_error_and_its_progress(
    capsys: pytest.CaptureFixture[str],
) -> None:
    words = "pendulum-decay --by sac --seeds 2 --theta 4 1"
    assert main(["oracle", *words.split()]) == 0
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines()[1:3]]
    assert rows == [["4", "-25.00", "7.00"], ["1", "-100.00", "7.00"]]
    assert "(by SAC)" in out and "2 seeds × " in out and "Values: 2 computed." in out
    told = err.splitlines()
    assert len(told) == 5 and told[0].endswith("0 of 4")
    assert "2 of 4" in told[2] and told[2].endswith(" left")


def test_the_default_is_three_trainings(capsys: pytest.CaptureFixture[str]) -> None:
    document = answered("pendulum --by sac --theta 2", capsys)
    assert "3 seeds × " in document["provenance"]
    assert document["values"] == [
        {"theta": 2.0, "value": -50.0, "error": 7.0, "spread": 0.0}
    ]


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("pendulum --seeds 2", "--seeds is for SAC alone"),
        ("pendulum --by sac --seeds 0", "seeds must be a number of at least 1"),
        ("pendulum --start falling", "no start 'falling'"),
        ("pendulum --action-repeat 7", "not a multiple"),
        ("pendulum --by sac --theta nan", "values of θ that are finite"),
    ],
)
def test_bad_input_is_a_sentence(
    words: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["oracle", *words.split()]) == 2
    out, err = capsys.readouterr()
    assert sentence in err and "Traceback" not in err and out == ""
