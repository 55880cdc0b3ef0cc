"""Configurations: complete out, strict in."""

import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.agents.optimism import information_gain
from driftrl.config.gp import ICEMConfig
from driftrl.config.run import ExtraDrift, RunConfig
from driftrl.config.toml import (
    from_dict,
    merged,
    overridden,
    read_toml,
    to_dict,
    toml_text,
)
from driftrl.drift.schedules import SCHEDULES
from driftrl.envs.custom import sized_task
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.memory.forgetting import (
    Evidence,
    ForgettingRule,
    KeepAll,
    Reset,
    Since,
    Window,
)
from driftrl.presets.methods import METHODS
from driftrl.presets.tasks import TASKS


def again(config: RunConfig) -> RunConfig:
    return from_dict(RunConfig, tomllib.loads(toml_text(to_dict(config))))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("kind", [kind for kind in SCHEDULES if kind != "unknown"])
def test_every_configuration_survives_toml(method: str, kind: str) -> None:
    config = configure("pendulum-decay", method, {"drift": {"kind": kind}, "seed": 3})
    assert again(config) == config
    assert type(again(config).drift) is SCHEDULES[kind]


def test_a_custom_machine_survives_toml() -> None:
    press = sized_task("my.press:make", (3, 2), 40, ((0.0, -1.5), (10.0, 1.5)))
    config = configure(press, "r-ombrl", {"forgetting": {"kind": "since", "first": 4}})
    assert again(config) == config
    assert hash(again(config).environment) == hash(config.environment)


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
    ("changes", "words"),
    [
        ({"forgeting": {}}, "'forgetting'"),
        ({"agent": {"planner": {"horzon": 3}}}, "'agent.planner.horizon'"),
        ({"drift": {"kind": "expnential"}}, "'exponential'"),
        ({"drift": {"kind": [1]}}, r"\[1\]"),
        ({"drift": 3}, "drift"),
        ({"drift": {"theta_min": 5}}, "theta_min"),
        ({"seed": 1.5}, "seed.* 1.5"),
        ({"seed": True}, "seed.* True"),
        ({"seed": -1}, "seed.* -1"),
        ({"seed": 1 << 40_000}, "seed"),
        ({"seed": 2**63}, "seed"),
        ({"episodes": 0}, "episodes.* 0"),
        ({"episodes": float("inf")}, "episodes.* inf"),
        ({"agent": {"model": {"noise_std": "a"}}}, "agent.model.noise_std"),
        ({"agent": {"model": {"noise_std": 0}}}, "agent.model.noise_std"),
        ({"agent": {"model": {"kernel": "sse"}}}, "'se'"),
        ({"agent": {"model": 3}}, "agent.model"),
        ({"environment": {"noise_std": -0.1}}, "noise_std"),
        ({"environment": {"action_repeat": 7}}, "7"),
        ({"environment": {"start": "lying"}}, "hanging or random"),
        ({"forgetting": {"kind": "reset", "period": 0}}, "period"),
        ({"agent": {"optimism": {"theory": {"failure_probability": 1.0}}}}, "1.0"),
        ({"agent": {"optimism": {"weight": float("nan")}}}, "nan"),
        ({"agent": {"planner": {"elites": 300}}}, "300"),
        ({"agent": {"planner": {"carried": 1.5}}}, "1.5"),
        ({"variant": "../x"}, "variant"),
        ({"variant": 101 * "x"}, "variant"),
    ],
)
def test_bad_settings_are_refused(changes: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        configure("pendulum", "sw-ombrl", changes)


@pytest.mark.parametrize("variant", ["", "a-b", "w=3.5_x", 40 * "x", "größer"])
def test_variants_become_part_of_the_name(variant: str) -> None:
    assert variant in RunConfig("pendulum", "sombrl", variant=variant).name


def test_unknown_names_suggest_the_nearest() -> None:
    with pytest.raises(InputError, match="task 'pendlum'. Did you mean 'pendulum'"):
        configure("pendlum", "sombrl")
    with pytest.raises(InputError, match="method 'sw-omrl'. Did you mean 'sw-ombrl'"):
        configure("pendulum", "sw-omrl")


@pytest.mark.parametrize(
    "text",
    [
        "a = = 1",
        "seed = " + 5000 * "9",
        "a = " + 5000 * "[" + 5000 * "]",
        "a = " + 60 * "[" + 60 * "]",
        ".".join(5000 * "a") + " = 1",
        "a = \0",
        'a = "\udcff"',
    ],
)
def test_files_that_are_not_toml(text: str, tmp_path: Path) -> None:
    path = tmp_path / "bad.toml"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(InputError, match="bad.toml"):
        read_toml(path)


def test_missing_files_and_fields(tmp_path: Path) -> None:
    for path in (tmp_path / "none.toml", tmp_path, tmp_path / "a\0b"):
        with pytest.raises(InputError):
            read_toml(path)
    with pytest.raises(InputError, match="task"):
        from_dict(RunConfig, {"method": "sombrl"})


@dataclass
class Threshold:
    """A user's rule as a dataclass, with another rule within."""

    factor: float
    names: tuple[str, ...] = ()
    otherwise: ForgettingRule = field(default_factory=KeepAll)

    def first_retained(self, n: int, evidence: Evidence) -> int:
        return 1


class Plain:
    """A user's rule as a plain class, and a schedule as well."""

    def __init__(self, a: int, b: dict[str, list[float]] | None = None) -> None:
        self.a, self.b = a, b
        self._cache = object()

    def first_retained(self, n: int, evidence: Evidence) -> int:
        return self.a

    def __call__(self, clock: int) -> float:
        return self.a / clock


def sawtooth(clock: int) -> float:
    """A user's schedule."""
    return 1.0 + clock % 3


def test_users_objects_are_saved_by_path_and_settings() -> None:
    rule = Threshold(np.float64(1.5), ("a", "b"), Window(4))
    config = RunConfig("pendulum", "custom", forgetting=rule, drift=sawtooth)
    table = to_dict(config)
    assert table["forgetting"]["kind"].endswith("test_toml:Threshold")
    assert again(config) == config and again(config).drift is sawtooth
    numbers: Any = [1.0, np.float32(2)]
    plain = Plain(3, {"x": numbers})
    extra = (ExtraDrift("mass", sawtooth), ExtraDrift("gravity", Plain(5)))
    config = RunConfig(
        "pendulum",
        "custom",
        forgetting=Since(2, plain),
        drift=Plain(2),
        extra_drifts=extra,
    )
    assert to_dict(again(config)) == to_dict(config)
    assert again(config).drift(10) == 0.2
    restored = again(config).forgetting
    assert isinstance(restored, Since) and isinstance(restored.rule, Plain)
    assert restored.rule.b == {"x": [1.0, 2.0]}


def test_settings_of_users_objects_may_change() -> None:
    path = f"{__name__}:Threshold"
    changes = {"forgetting": {"kind": path, "factor": 2}}
    config = configure("pendulum", "custom", changes)
    assert config.forgetting == Threshold(2.0)
    changed = overridden(config, {"forgetting": {"factor": 3, "names": ["z"]}})
    assert changed.forgetting == Threshold(3.0, ("z",))
    assert overridden(config, {"forgetting": Window(2)}).forgetting == Window(2)
    bare = overridden(config, {"drift": f"{__name__}:sawtooth"})
    assert bare.drift is sawtooth


@pytest.mark.parametrize(
    ("table", "words"),
    [
        ({"forgetting": {"kind": "nowhere:Rule"}}, "nowhere"),
        ({"forgetting": {"kind": f"{__name__}:sawtooth"}}, "first_retained"),
        ({"forgetting": {"kind": "subprocess:Popen", "args": "ls"}}, "first_retained"),
        ({"drift": {"kind": "subprocess:Popen", "args": "ls"}}, "__call__"),
        ({"drift": {"kind": "subprocess:run", "args": "ls"}}, "without settings"),
        ({"drift": {"kind": "math:pi"}}, "3.14"),
        ({"forgetting": {"kind": f"{__name__}:Threshold"}}, "factor"),
        ({"forgetting": {"kind": f"{__name__}:Threshold", "facto": 1}}, "factor"),
        ({"forgetting": {"kind": f"{__name__}:Threshold", "factor": "x"}}, "factor"),
        ({"forgetting": {"kind": f"{__name__}:Plain", "z": 1}}, "TypeError.*'z'"),
    ],
)
def test_users_objects_that_can_not_be_made(table: dict, words: str) -> None:
    with pytest.raises(InputError, match=words):
        configure("pendulum", "custom", table)


def test_users_objects_that_can_not_be_saved() -> None:
    renamed = Plain(3)
    vars(renamed)["c"] = 4
    local = type("Local", (Plain,), {"__qualname__": "f.<locals>.Local"})
    for rule, words in (
        (Plain(object()), "setting a"),  # pyright: ignore[reportArgumentType]
        (Plain(3, {"x": [None]}), "setting b"),  # pyright: ignore[reportArgumentType]
        (renamed, "'c'"),
        (local(3), "import path"),
    ):
        with pytest.raises(InputError, match=words):
            to_dict(RunConfig("pendulum", "custom", forgetting=rule))


def test_carried_elites_are_at_least_one() -> None:
    assert ICEMConfig(elites=20, carried=0.3).carried_elites == 6
    assert ICEMConfig(elites=2, carried=0.0).carried_elites == 1


def test_a_function_is_stored_as_its_path() -> None:
    changes = {"agent": {"imagination": {"bonus": information_gain}}}
    config = configure("pendulum-decay", "sombrl", changes)
    path = "driftrl.agents.optimism:information_gain"
    assert to_dict(config)["agent"]["imagination"]["bonus"] == path
