"""Machines of one's own: made by name, driven in [−1, 1], ended on time."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from driftrl.config.deep import EnsembleAgentConfig
from driftrl.config.run import EnvironmentConfig
from driftrl.drift.schedules import Constant, Unknown
from driftrl.envs.custom import (
    GymPlant,
    custom_task,
    factory_named,
    is_custom,
    made,
    name_of,
    steps_of,
    task_of,
)
from driftrl.envs.drifting import DriftingEnv, environment_of, make_env
from driftrl.envs.tasks import configure, task_of_run
from driftrl.errors import InputError


class Press(gymnasium.Env[np.ndarray, np.ndarray]):
    """Counts what it is told, and ends where it is told to."""

    def __init__(self, end: int | None = None, stop: int | None = None) -> None:
        self.observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
        low, high = np.array([0.0, -2.0]), np.array([10.0, 2.0])
        self.action_space = spaces.Box(
            low.astype(np.float32), high.astype(np.float32), dtype=np.float32
        )
        self.end, self.stop = end, stop
        self.told: list[Any] = []

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        self.told.append(options)
        self.count = 0
        return np.zeros(2, np.float32), {}

    def step(
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        self.count += 1
        self.action = action
        over, late = self.count == self.end, self.count == self.stop
        return np.full(2, self.count, np.float32), 1.0, over, late, {}


def plant(env: Press, **changes: Any) -> GymPlant:
    settings = {"sim_steps": 6, "start": "own", "parameter": "none", **changes}
    return GymPlant(env, EnvironmentConfig(**settings))


@pytest.mark.parametrize(
    ("action", "command"),
    [([-1, -1], [0, -2]), ([1, 1], [10, 2]), ([0, 0.5], [5, 1]), ([9, -9], [10, -2])],
)
def test_actions_are_scaled_to_the_machine(
    action: list[float], command: list[float]
) -> None:
    env = Press()
    own = plant(env)
    own.reset(seed=0)
    own.step(np.array(action))
    np.testing.assert_allclose(env.action, command)
    assert env.action.dtype == np.float32


def test_an_episode_ends_on_time_and_time_is_no_end() -> None:
    own = plant(Press())
    own.reset(seed=0)
    flags = [own.step(np.zeros(2))[2:4] for _ in range(6)]
    assert flags == [(False, False)] * 5 + [(False, True)]


@pytest.mark.parametrize(
    ("env", "last"), [(Press(end=3), (True, False)), (Press(stop=3), (False, True))]
)
def test_the_machine_may_end_before(env: Press, last: tuple[bool, bool]) -> None:
    own = plant(env)
    own.reset(seed=0)
    flags = [own.step(np.zeros(2))[2:4] for _ in range(3)]
    assert flags == [(False, False)] * 2 + [last]


def test_an_end_at_the_last_step_is_an_end() -> None:
    own = plant(Press(end=6))
    own.reset(seed=0)
    assert [own.step(np.zeros(2))[2:4] for _ in range(6)][-1] == (True, False)


def test_held_actions_sum_rewards_until_the_end() -> None:
    env = Press(end=5)
    own = plant(env, action_repeat=3)
    own.reset(seed=0)
    seen = [own.step(np.zeros(2))[1:4] for _ in range(2)]
    assert seen == [(3.0, False, False), (2.0, True, False)]
    assert env.count == 5


def test_nobody_sets_a_parameter_and_the_place_is_told() -> None:
    env = Press()
    drifting = DriftingEnv(plant(env), {})
    assert np.isnan(drifting.theta)
    drifting.reset(seed=0, options={"episode": 7, "steps": 40})
    assert env.told == [{"episode": 7, "steps": 40}]
    with pytest.raises(InputError, match="Nobody sets 'torque'"):
        DriftingEnv(plant(env), {"torque": Constant(value=1.0)})


MODULE = """
import gymnasium
from tests.envs.test_custom import Press
def make(): return Press()
def limited(): return gymnasium.wrappers.TimeLimit(Press(), 77)
def broken(): return 3
def burning(): raise RuntimeError("no licence")
def sized(size, colour="red"): return Press()
number = 4
class inner:
    factory = Press
"""


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "my_own_press.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    return "my_own_press"


def test_environments_are_made_by_name(module: str) -> None:
    assert is_custom(f"{module}:make") and not is_custom("pendulum")
    assert isinstance(made(f"{module}:make"), Press)
    assert isinstance(made(f"{module}:inner.factory"), Press)
    assert task_of("x:y", made(f"{module}:limited")).environment.sim_steps == 77


@pytest.mark.parametrize(
    ("spec", "sentence"),
    [
        ("{}:nothing", "has no 'nothing'"),
        ("{}:number", "must be a function or class"),
        ("{}:broken", "made 3, which is no gymnasium.Env"),
        ("{}:burning", "made no environment: RuntimeError: no licence"),
        ("no_such_module_at_all:make", "no module 'no_such_module_at_all'"),
        ("{}:sized", r"missing a required argument: 'size'. Write a function without"),
        ("{}.py:make", "a file, and .* imports it: write my_own_press:make"),
        ("./{}:make", "a file, and .* imports it: write my_own_press:make"),
        ("./parts/{}.py:make", "write parts.my_own_press:make"),
        ("../{}.py:make", r"stand in \.\. and write my_own_press:make"),
        (".{}:make", "without leading dots; received '.my_own_press'"),
        ("Pendulum-v1", r"gymnasium.make\(.Pendulum-v1.\)` in a module"),
        (":make", "MODULE:FACTORY"),
        ("{}:", "MODULE:FACTORY"),
    ],
)
def test_bad_names_are_sentences(module: str, spec: str, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        made(spec.format(module))


def test_what_a_module_lacks_itself_is_its_own_error(
    module: str, tmp_path: Path
) -> None:
    (tmp_path / "my_broken_press.py").write_text("import no_such_library_here\n")
    with pytest.raises(ModuleNotFoundError, match="no_such_library_here"):
        factory_named("my_broken_press:make")


def test_a_run_knows_its_machine_without_making_it(module: str) -> None:
    config = configure(f"{module}:make", "sw-ombrl", {"episodes": 3})
    assert (config.environment.observations, config.environment.actions) == (2, 2)
    assert config.environment.sim_steps == 1000 and isinstance(config.drift, Unknown)
    assert config.name == "my_own_press.make-sw-ombrl-s0"
    task = task_of_run(config)
    assert task.sizes(config.environment) == (2, 2)
    assert isinstance(environment_of(config), DriftingEnv)


@pytest.mark.parametrize(
    ("size", "width"), [(1, 64), (8, 64), (9, 128), (32, 128), (33, 256)]
)
def test_networks_grow_with_what_is_observed(size: int, width: int) -> None:
    agent = custom_task("a:b", (size, 1), 10).agent
    assert isinstance(agent, EnsembleAgentConfig)
    assert agent.model.hidden == agent.sac.hidden == (width, width)
    assert agent.learning.learning_starts == 2 * width
    assert agent.soft_reset.model == agent.soft_reset.policy == 0.0


def test_length_of_an_episode_is_found_under_wrappers() -> None:
    assert steps_of(Press()) is None
    wrapped = gymnasium.wrappers.OrderEnforcing(TimeLimit(Press(), 9))
    assert steps_of(wrapped) == 9
    assert steps_of(gymnasium.make("Pendulum-v1")) == 200


def test_names_of_environments() -> None:
    assert name_of(Press()) == f"{Press.__module__}:Press"


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"drift": {"kind": "constant"}}, "drift.kind must be 'unknown'"),
        ({"evaluation": {"episodes": 1}}, "evaluation.episodes must be 0"),
    ],
)
def test_what_a_machine_of_ones_own_can_not_have(
    changes: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        configure(custom_task("a:b", (2, 1), 10), "sombrl", changes)


def test_a_registered_environment_is_no_task_and_can_be_made_one() -> None:
    sentence = "'Pendulum-v1' is registered with Gymnasium, .*name my_machine:make"
    with pytest.raises(InputError, match=sentence):
        configure("Pendulum-v1", "sombrl", {})


def test_a_reset_that_can_not_be_told_its_place_is_no_task() -> None:
    class Deaf(Press):
        def reset(self, seed: int | None = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
            return super().reset(seed=seed)

    for env in (Deaf(), TimeLimit(Deaf(), 9)):
        with pytest.raises(InputError, match=r"reset\(\) of Deaf can't be called with"):
            task_of("a:b", env)
    assert task_of("a:b", Press(), steps=7).notes == ""


def test_a_task_with_a_schedule_has_no_unknown_drift() -> None:
    with pytest.raises(InputError, match="'constant' is no drift"):
        configure("pendulum", "sombrl", {"drift": {"kind": "unknown"}})
    assert np.isfinite(make_env("pendulum").theta)
