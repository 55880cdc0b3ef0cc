"""``train``: any Gymnasium environment, in one call, which may be called again."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

import driftrl
from driftrl.config.toml import read_toml
from driftrl.drift.schedules import Linear
from driftrl.errors import InputError
from driftrl.training.train import train
from driftrl.types import EpisodeRecord
from factories import Chaotic, Stop, load_module, stop_after

TINY: dict[str, Any] = {
    "agent": {
        "model": {"members": 2, "hidden": [8]},
        "sac": {"hidden": [8, 8], "batch_size": 8},
        "learning": {"model_updates": 1, "policy_updates": 2, "learning_starts": 80},
    }
}
RULE = driftrl.Window(2)  # 80 transitions are reserved in every run: compiled once


def tanks() -> gymnasium.Env[np.ndarray, np.ndarray]:
    """Return the two tanks of the example, whose valve clogs."""
    path = Path(__file__).parents[2] / "examples" / "my_machine.py"
    return load_module(path).Tanks()


def timeless(records: tuple[EpisodeRecord, ...]) -> list[EpisodeRecord]:
    return [replace(row, wall_s=0.0, theta=0.0) for row in records]


def test_training_goes_on_where_it_stopped(tmp_path: Path) -> None:
    five = partial(train, tanks(), forgetting=RULE, episodes=5, settings=TINY)
    whole = five(out=tmp_path / "whole")
    with pytest.raises(Stop):
        five(out=tmp_path / "cut", on_episode=stop_after(3))
    again = five(out=tmp_path / "cut")
    assert timeless(again.records) == timeless(whole.records)
    assert len(whole.records) == 5 and whole.records[0].steps == 40
    obs = np.array([0.2, 0.4, 0.5])
    volts = whole.act(obs)
    assert volts.shape == (1,) and 0.0 <= volts[0] <= 10.0
    np.testing.assert_array_equal(again.act(obs), volts)


class Forgetful(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Does not say which day it is, so that the valve is new after a restart."""

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self.env.reset(seed=seed)


def test_a_simulator_that_is_new_after_a_restart_is_noticed(
    tmp_path: Path, recwarn: pytest.WarningsRecorder
) -> None:
    def noticed() -> int:
        return sum("options['episode']" in str(one.message) for one in recwarn)

    for env, out, times in ((Forgetful(tanks()), "new", 1), (tanks(), "told", 0)):
        recwarn.clear()
        for episodes in (1, 3):
            assert noticed() == 0
            options: dict[str, Any] = {"forgetting": RULE, "settings": TINY}
            train(env, episodes=episodes, out=tmp_path / out, **options)
        assert noticed() == times  # once, though two episodes followed


@pytest.mark.filterwarnings("ignore:Nothing was learned")
def test_rules_become_methods(tmp_path: Path) -> None:
    """Given as an object, by kind, or by import path."""
    rules: list[tuple[Any, str, str, dict[str, Any]]] = [
        (driftrl.Reset(3), "r-ombrl", "", {"kind": "reset", "period": 3}),
        ("keep_all", "sombrl", "", {"kind": "keep_all"}),
        (Chaotic(4), "custom", "Chaotic", {"kind": "factories:Chaotic", "salt": 4}),
        ("factories:Chaotic", "custom", "Chaotic", {"kind": "factories:Chaotic"}),
    ]
    for number, (rule, method, variant, table) in enumerate(rules):
        out = tmp_path / str(number)
        for episodes in (1, 2):  # the second call resumes
            done = train(
                tanks(), forgetting=rule, episodes=episodes, out=out, settings=TINY
            )
        assert len(done.records) == 2
        config = read_toml(out / "config.toml")
        assert (config["method"], config["variant"]) == (method, variant)
        assert table.items() <= config["forgetting"].items()


class Settable(gymnasium.Wrapper[np.ndarray, np.ndarray, np.ndarray, np.ndarray]):
    """Tanks with a parameter that scales the reward."""

    values: dict[str, float]

    def set_parameters(self, values: dict[str, float]) -> None:
        self.values = values

    def step(self, action: np.ndarray) -> Any:
        obs, reward, *rest = self.env.step(action)
        return obs, self.values["valve"] * float(reward), *rest


def test_a_schedule_sets_a_parameter_and_is_recorded(tmp_path: Path) -> None:
    """By the method or by a setter, and on the frozen copy for evaluation."""
    drift = Linear(1.0, 0.0, start=1, duration=2)
    records = []
    for name, setter in (
        ("method", None),
        ("setter", lambda env, values: env.set_parameters(values)),
    ):
        env = Settable(tanks())
        done = train(
            env,
            forgetting=RULE,
            drift=drift,
            parameter="valve",
            setter=setter,
            episodes=3,
            out=tmp_path / name,
            settings={**TINY, "evaluation": {"episodes": 1}},
        )
        records.append([replace(row, wall_s=0.0) for row in done.records])
        assert env.values == {"valve": 0.0}
    assert [row.theta for row in records[0]] == [1.0, 0.5, 0.0]
    assert records[0] == records[1]
    evaluated = [row.return_eval for row in records[0]]
    assert evaluated[2] == 0.0 and evaluated[0] not in (0.0, None)


def test_what_can_not_be_set_or_copied_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    drift = Linear(1.0, 0.0)
    with pytest.raises(InputError, match="'valve'"):
        train(tanks(), drift=drift, parameter="valve", out=tmp_path / "none")
    with pytest.raises(InputError, match="environment.parameter"):
        train(Settable(tanks()), drift=drift, out=tmp_path / "none")
    env = Settable(tanks())
    env.spring = (n for n in range(3))  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(InputError, match="evaluation.episodes"):
        train(
            env,
            drift=drift,
            parameter="valve",
            out=tmp_path / "none",
            settings={"evaluation": {"episodes": 1}},
        )
    assert not (tmp_path / "none").exists()


@pytest.mark.usefixtures("unchecked_types")
def test_only_an_environment_is_trained(tmp_path: Path) -> None:
    wrong: list[Any] = [type(tanks()), "tanks"]
    for env in wrong:
        with pytest.raises(InputError):
            train(env, out=tmp_path / "none")
    rule: Any = driftrl.Window
    with pytest.raises(InputError, match="first_retained"):
        train(tanks(), forgetting=rule, out=tmp_path / "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.slow
@pytest.mark.timeout(1200)
def test_forgetting_keeps_up_with_a_clogging_valve(tmp_path: Path) -> None:
    """With default settings, on a system that no setting was chosen for."""
    late: dict[str, list[float]] = {}
    for seed in (0, 1, 2):
        for rule in (driftrl.KeepAll(), driftrl.Reset(10), driftrl.Window(10)):
            out = tmp_path / f"{rule.kind}-{seed}"
            settings = {"seed": seed}
            done = train(
                tanks(), forgetting=rule, episodes=60, out=out, settings=settings
            )
            returns = [row.return_executed for row in done.records[-15:]]
            late.setdefault(rule.kind, []).append(float(np.mean(returns)))
    for kind in ("reset", "window"):
        better = np.array(late[kind]) - np.array(late["keep_all"])
        assert (better > 1.0).all(), late
