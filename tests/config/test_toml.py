"""Configurations: complete out, strict in."""

import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.config.gp import ICEMConfig, OptimismConfig
from driftrl.config.run import RunConfig
from driftrl.config.toml import (
    from_dict,
    merged,
    overridden,
    read_toml,
    to_dict,
    toml_text,
)
from driftrl.drift.schedules import SCHEDULES, Constant, Join, Step
from driftrl.envs.custom import custom_task
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.memory.forgetting import KeepAll, Reset, Window
from driftrl.presets.methods import METHODS
from driftrl.presets.tasks import TASKS


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [kind for kind in SCHEDULES if kind != "unknown"])
def test_every_configuration_survives_toml(method: str, kind: str) -> None:
    config = configure("pendulum-decay", method, {"drift": {"kind": kind}, "seed": 3})
    again = from_dict(RunConfig, tomllib.loads(toml_text(to_dict(config))))
    assert again == config
    assert type(again.drift) is SCHEDULES[kind]


def test_a_machine_of_ones_own_survives_toml() -> None:
    press = custom_task("my.press:make", (3, 2), 40, ((0.0, -1.5), (10.0, 1.5)))
    config = configure(press, "r-ombrl", {"forgetting": {"kind": "since", "first": 4}})
    again = from_dict(RunConfig, tomllib.loads(toml_text(to_dict(config))))
    assert again == config and hash(again.environment) == hash(config.environment)


def test_nested_schedules_survive_toml() -> None:
    join = Join(parts=(Step(theta_max=3.0), Constant(value=0.5)), boundaries=(20,))
    config = RunConfig("pendulum", "sombrl", drift=join)
    assert from_dict(RunConfig, tomllib.loads(toml_text(to_dict(config)))) == config


@given(st.text(), st.floats(allow_nan=False), st.booleans(), st.integers(-9, 9))
def test_toml_values_read_back(
    text: str, number: float, truth: bool, whole: int
) -> None:
    table = {"a": text, "b": {"c": number, "d": [truth, whole]}, "e": whole}
    assert tomllib.loads(toml_text(table)) == table


def test_methods_differ_in_forgetting_alone() -> None:
    task = TASKS["pendulum"]
    names = ("sombrl", "r-ombrl", "sw-ombrl")
    plain = {name: configure("pendulum", name) for name in names}
    assert plain["sombrl"].forgetting == KeepAll()
    assert plain["r-ombrl"].forgetting == Reset(period=task.reset_period)
    assert plain["sw-ombrl"].forgetting == Window(window=task.window)
    rests = [{**to_dict(c), "method": "", "forgetting": ""} for c in plain.values()]
    assert rests[0] == rests[1] == rests[2]


def test_override_changes_one_thing() -> None:
    base = configure("pendulum", "sw-ombrl")
    changed = overridden(base, {"agent": {"planner": {"horizon": 7}}})
    assert to_dict(changed)["agent"]["planner"]["horizon"] == 7
    horizon = to_dict(base)["agent"]["planner"]["horizon"]
    assert overridden(changed, {"agent": {"planner": {"horizon": horizon}}}) == base


def test_a_new_kind_starts_from_its_own_defaults() -> None:
    config = configure("pendulum", "sw-ombrl", {"forgetting": {"kind": "reset"}})
    assert config.forgetting == Reset()
    base = {"t": {"kind": "a", "x": 1}, "y": 2}
    assert merged(base, {"t": {"kind": "b"}}) == {"t": {"kind": "b"}, "y": 2}
    assert merged(base, {"t": {"z": 3}})["t"] == {"kind": "a", "x": 1, "z": 3}


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"forgeting": {}}, "key 'forgeting'. Did you mean 'forgetting'"),
        (
            {"agent": {"planner": {"horzon": 3}}},
            "'agent.planner.horzon'. Did you mean 'agent.planner.horizon'",
        ),
        ({"drift": {"kind": "expnential"}}, "kind of drift 'expnential'. Did you mean"),
        ({"drift": {"theta_min": 5}}, "theta_min must be at most theta_max"),
        ({"seed": 1.5}, "seed must be a whole number, received 1.5"),
        ({"seed": True}, "seed must be a whole number, received True"),
        ({"seed": -1}, "seed must be a number of at least 0"),
        ({"episodes": 0}, "episodes must be a number of at least 1, received 0"),
        (
            {"agent": {"model": {"noise_std": "a"}}},
            "model.noise_std must be a number, received 'a'",
        ),
        ({"agent": {"model": {"noise_std": 0}}}, "model.noise_std must be positive"),
        ({"agent": {"model": {"kernel": "sse"}}}, "'sse'. Did you mean 'se'"),
        ({"agent": {"model": 3}}, "model must be a table, received 3"),
        (
            {"environment": {"noise_std": -0.1}},
            "noise_std must be a number of at least 0",
        ),
        ({"environment": {"action_repeat": 7}}, "not a multiple of"),
        ({"environment": {"start": "lying"}}, "no start 'lying'.*hanging or random"),
        ({"forgetting": {"window": 0}}, "window must be a whole number, at least 1"),
        (
            {"forgetting": {"kind": "reset", "period": 0}},
            "period must be a whole number",
        ),
        (
            {"agent": {"optimism": {"theory": {"failure_probability": 1.0}}}},
            "strictly between 0 and 1",
        ),
        ({"agent": {"optimism": {"weight": float("nan")}}}, "at least 0, received nan"),
        (
            {"agent": {"planner": {"elites": 300}}},
            "must not exceed agent.planner.samples",
        ),
        (
            {"agent": {"planner": {"carried": 1.5}}},
            r"planner.carried must lie in \[0, 1\]",
        ),
        ({"variant": "../x"}, "letters, digits"),
    ],
)
def test_bad_input_is_a_sentence(changes: dict, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        configure("pendulum", "sw-ombrl", changes)


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(InputError, match="task 'pendlum'. Did you mean 'pendulum'"):
        configure("pendlum", "sombrl")
    with pytest.raises(InputError, match="method 'sw-omrl'. Did you mean 'sw-ombrl'"):
        configure("pendulum", "sw-omrl")


def test_files_that_are_not_toml(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="Cannot read .*: No such file"):
        read_toml(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_text("a = = 1")
    with pytest.raises(InputError, match="not valid TOML"):
        read_toml(tmp_path / "bad.toml")
    with pytest.raises(
        InputError, match="The configuration is incomplete: it needs task"
    ):
        from_dict(RunConfig, {"method": "sombrl"})


def test_carried_elites_are_at_least_one() -> None:
    assert ICEMConfig(elites=20, carried=0.3).carried_elites == 6
    assert ICEMConfig(elites=2, carried=0.0).carried_elites == 1
    assert OptimismConfig().rule == "constant"
