"""Custom environments: made by path, driven in [−1, 1], ended on time, set to θ."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from driftrl.config.run import EnvironmentConfig, RunConfig
from driftrl.config.toml import from_dict, to_dict
from driftrl.drift.schedules import Constant, Exponential, Linear, Unknown
from driftrl.envs.custom import GymPlant, custom_task
from driftrl.envs.drifting import DriftingEnv, environment_of, freeze
from driftrl.envs.tasks import configure, task_of_run
from driftrl.errors import InputError

HERE = "tests.envs.test_custom"
LOW, HIGH = np.array([0.0, -2.0], np.float32), np.array([10.0, 2.0], np.float32)


class Press(gymnasium.Env[np.ndarray, np.ndarray]):
    """Counts its steps, and ends where the arguments say."""

    def __init__(self, end: int | None = None, stop: int | None = None) -> None:
        self.observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
        self.action_space = spaces.Box(LOW, HIGH, dtype=np.float32)
        self.end, self.stop = end, stop
        self.resets: list[Any] = []
        self.values: list[dict[str, float]] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.resets.append(options)
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.action = action
        over, late = self.count == self.end, self.count == self.stop
        return np.full(2, self.count, np.float32), 1.0, over, late, {}


class SettablePress(Press):
    """Its θ is observed as the second number."""

    mass = 1.0

    def set_parameters(self, values: dict[str, float]) -> None:
        if "mass" not in values or values["mass"] <= 0:
            raise ValueError(values)
        self.values.append(values)
        self.mass = values["mass"]

    def reset(self, **keywords: Any) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(**keywords)
        return np.array([0.0, self.mass], np.float32), {}


def test_a_setter_is_called_every_few_steps() -> None:
    press = SettablePress()
    drift = Linear(3.0, 1.0, start=0, duration=8)
    env = DriftingEnv(plant(press), {"mass": drift}, "steps", every=2)
    env.reset(options={"episode": 2, "steps": 4})
    press.values.clear()
    for _ in range(5):
        env.step(np.zeros(2))
    assert [values["mass"] for values in press.values] == [drift(4), drift(6), drift(8)]


def limited_press() -> gymnasium.Env[Any, Any]:
    return TimeLimit(SettablePress(), 7)


def store(env: gymnasium.Env[Any, Any], values: dict[str, float]) -> None:
    """Set parameters of an environment that has no method for it."""
    env.get_wrapper_attr("values").append(values)


def plant(env: Press, **changes: Any) -> GymPlant:
    settings = {"sim_steps": 6, "start": "own", "parameter": "none", **changes}
    return GymPlant(env, EnvironmentConfig(**settings))


@pytest.mark.parametrize(
    ("action", "command"), [([-1, 1], [0, 2]), ([0, 0.5], [5, 1]), ([9, -9], [10, -2])]
)
def test_actions_are_scaled(action: list[float], command: list[float]) -> None:
    env = Press()
    scaled = plant(env)
    scaled.reset(seed=0)
    scaled.step(np.array(action))
    np.testing.assert_allclose(env.action, command)
    assert env.action.dtype == np.float32


@pytest.mark.parametrize(
    ("env", "steps", "last"),
    [
        (Press(), 6, (False, True)),
        (Press(end=3), 3, (True, False)),
        (Press(stop=3), 3, (False, True)),
        (Press(end=6), 6, (True, False)),
    ],
)
def test_the_end_of_an_episode(env: Press, steps: int, last: tuple[bool, bool]) -> None:
    ending = plant(env)
    ending.reset(seed=0)
    flags = [ending.step(np.zeros(2))[2:4] for _ in range(steps)]
    assert flags == [(False, False)] * (steps - 1) + [last]


def test_held_actions_sum_rewards_until_the_end() -> None:
    env = Press(end=5)
    holding = plant(env, action_repeat=3)
    holding.reset(seed=0)
    results = [holding.step(np.zeros(2))[1:4] for _ in range(2)]
    assert results == [(3.0, False, False), (2.0, True, False)]
    assert env.count == 5


def test_without_a_setter_it_drifts_on_its_own() -> None:
    env = Press()
    drifting = DriftingEnv(plant(env), {})
    assert np.isnan(drifting.theta)
    drifting.reset(seed=0, options={"episode": 7, "steps": 40})
    assert env.resets == [{"episode": 7, "steps": 40}]
    with pytest.raises(InputError, match="'torque'"):
        DriftingEnv(plant(env), {"torque": Constant(value=1.0)})


def test_set_parameters_is_called_at_every_reset() -> None:
    env = SettablePress()
    wrapped = TimeLimit(env, 9)
    schedule, ramp = Exponential(2.0, 1.0, 0.5, start=2), Linear(8.0, 4.0, 4, start=1)
    drifting = DriftingEnv(
        GymPlant(wrapped, EnvironmentConfig(sim_steps=6)),
        {"mass": schedule, "load": ramp},
    )
    env.values.clear()
    for n in (1, 2, 3, 4, 9, 2):
        obs, info = drifting.reset(seed=0, options={"episode": n})
        assert obs[1] == np.float32(schedule(n)) and info["theta"] == schedule(n)
        assert env.values[-1] == {"mass": schedule(n), "load": ramp(n)}
    assert len(env.values) == 6


def test_a_setter_comes_before_the_method() -> None:
    env = SettablePress()
    own = GymPlant(env, EnvironmentConfig(), setter=store)
    own.set_parameters({"any": -3.0})
    by_path = GymPlant(env, EnvironmentConfig(setter=f"{HERE}:store"))
    by_path.set_parameters({"other": 4.0})
    assert env.values == [{"any": -3.0}, {"other": 4.0}] and env.mass == 1.0


def test_values_that_the_environment_refuses_show_before_the_first_episode() -> None:
    settings = EnvironmentConfig(sim_steps=6)
    with pytest.raises(InputError, match=r"'mass': -1\.0"):
        DriftingEnv(GymPlant(SettablePress(), settings), {"mass": Linear(2.0, -1.0)})
    with pytest.raises(InputError, match="'weight'"):
        DriftingEnv(GymPlant(SettablePress(), settings), {"weight": Constant(1.0)})


def test_a_custom_task_has_its_own_parameter_and_schedule() -> None:
    schedule = Exponential(2.0, 1.0, 0.5, start=2)
    task = custom_task(f"{HERE}:limited_press", parameter="mass", drift=schedule)
    assert task.drift == schedule
    config = configure(task, "sw-ombrl", {"evaluation": {"episodes": 1}})
    assert from_dict(RunConfig, to_dict(config)) == config
    drifting, twin = environment_of(config), environment_of(config)
    for n in (1, 5):
        obs, _ = drifting.reset(seed=n, options={"episode": n})
        again, _ = twin.reset(seed=n, options={"episode": n})
        assert obs.tolist() == again.tolist() == [0.0, np.float32(schedule(n))]
    frozen = freeze(task.name, 1.25, config.environment)
    assert frozen.reset(seed=0)[0].tolist() == [0.0, 1.25]
    assert custom_task(limited_press, parameter="mass", drift=schedule) == (
        custom_task(f"{HERE}:limited_press", parameter="mass", drift=schedule)
    )


def test_the_same_task_from_settings() -> None:
    """As a study file or the command line gives them."""
    changes = {
        "environment": {"parameter": "mass", "setter": f"{HERE}:store"},
        "drift": {"kind": "constant", "value": 3.0},
        "extra_drifts": [
            {"parameter": "load", "schedule": {"kind": "constant", "value": 5.0}}
        ],
    }
    config = configure(f"{HERE}:Press", "sombrl", changes)
    drifting = environment_of(config)
    assert drifting.theta == 3.0 and drifting.thetas == {"mass": 3.0, "load": 5.0}
    task = custom_task(Press, parameter="mass", drift=Constant(3.0), setter=store)
    assert configure(task, "sombrl", changes) == config


@pytest.mark.parametrize(
    ("changes", "value"),
    [
        ({"drift": {"kind": "constant"}}, "--environment.parameter"),
        ({"environment": {"parameter": "mass"}}, "--drift.kind"),
        (
            {"environment": {"parameter": "mass"}, "drift": {"kind": "constant"}},
            "'mass'",
        ),
        (
            {"extra_drifts": [{"parameter": "m", "schedule": {"kind": "constant"}}]},
            "--drift.kind",
        ),
        ({"evaluation": {"episodes": 1}}, "evaluation.episodes"),
    ],
)
def test_settings_that_do_not_fit(changes: dict[str, Any], value: str) -> None:
    with pytest.raises(InputError, match=value):
        environment_of(configure(f"{HERE}:Press", "sombrl", changes))


def test_a_machine_that_a_session_drives() -> None:
    task = custom_task("press", observations=7, actions=2, steps=200)
    assert task.name == "machine:press" and task.sizes(task.environment) == (7, 2)
    assert task.environment.steps == 200 and isinstance(task.drift, Unknown)
    for bad in ("a/b", "", "two words"):
        with pytest.raises(InputError):
            custom_task(bad, observations=1, actions=1, steps=1)
    with pytest.raises(InputError, match="observations"):
        custom_task("press")
    with pytest.raises(InputError, match="steps"):
        custom_task("press", observations=1, actions=1, steps=0)
    with pytest.raises(InputError, match="import path"):
        custom_task(Press, setter=lambda env, values: None)


def broken() -> int:
    return 3


def failing() -> Press:
    raise RuntimeError("no licence")


def sized(size: int) -> Press:
    return Press(size)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("{}:nothing", "'nothing'"),
        ("{}:HERE", HERE),
        ("{}:broken", "3"),
        ("{}:failing", "RuntimeError: no licence"),
        ("{}:sized", "'size'"),
        ("no_such_module_at_all:make", "no_such_module_at_all"),
        ("Pendulum-v1", r"gymnasium.make\(.Pendulum-v1.\)"),
    ],
)
def test_bad_paths(path: str, value: str) -> None:
    with pytest.raises(InputError, match=value):
        configure(path.format(HERE), "sombrl")


def test_a_run_knows_its_task_without_making_an_environment() -> None:
    config = configure(f"{HERE}:Press", "sw-ombrl", {"episodes": 3})
    assert (config.environment.observations, config.environment.actions) == (2, 2)
    assert config.environment.sim_steps == 1000
    limited = configure(f"{HERE}:limited_press", "sw-ombrl")
    assert limited.environment.sim_steps == 7
    assert isinstance(config.drift, Unknown)
    assert config.name == f"{HERE}.Press-sw-ombrl-s0"
    assert task_of_run(config).sizes(config.environment) == (2, 2)
