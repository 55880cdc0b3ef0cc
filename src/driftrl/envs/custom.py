"""A machine of one's own: any Gymnasium environment with box spaces, as a plant.

It drifts by itself, if it does.  Nobody sets θ and nobody knows it, so there is no
oracle for it; everything else is as for a task that comes with driftrl.
"""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import PurePath
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from driftrl.config.deep import (
    DeepOptimismConfig,
    EnsembleAgentConfig,
    EnsembleConfig,
    ImaginationConfig,
    LearningConfig,
    SACConfig,
    SoftResetConfig,
)
from driftrl.config.run import EnvironmentConfig, EvaluationConfig
from driftrl.config.task import Task
from driftrl.drift.schedules import Unknown
from driftrl.envs.plant import Observation, Plant, StepResult
from driftrl.envs.spaces import box_sizes
from driftrl.errors import InputError, at_least, require

Env = gymnasium.Env[Any, Any]
Bounds = tuple[tuple[float, ...], tuple[float, ...]]
START = "own"
"""Where an environment of one's own starts is its own affair."""
PARAMETER = "none"
"""What θ sets there."""
STEPS = 1000
"""Decisions of an episode where the environment does not say."""
_ASSUMED = (
    f"The environment declares no length of an episode: {STEPS} steps are assumed at "
    "most. Say it with gymnasium.wrappers.TimeLimit or environment.sim_steps."
)
# Networks grow with what is observed: these have learned the tasks of that size.
_WIDTHS = ((8, 64), (32, 128))
_LARGEST_WIDTH = 256


def is_custom(task: str) -> bool:
    """Say whether a task is an environment of one's own, by its name."""
    return ":" in task


def factory_named(spec: str) -> Callable[[], Env]:
    """Return what makes the environment of "package.module:factory".

    The directory that one stands in is searched too.

    Raises:
        InputError: There is no such module, or nothing callable of that name in it.
    """
    module_name, _, name = spec.partition(":")
    if not (module_name and name):
        raise registered(spec) or InputError(
            f"An environment of one's own is named MODULE:FACTORY, such as "
            f"my_machine:make_env; received {spec!r}."
        )
    _check_module_name(module_name, name)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not module_name.startswith(error.name):
            raise  # the module is there, and what it imports is not
        raise InputError(
            f"There is no module {module_name!r} to make the environment {spec!r} "
            "from; stand in its directory, or install it."
        ) from None
    for part in name.split("."):
        require(
            hasattr(found, part),
            f"Module {module_name!r} has no {name!r} to make an environment with.",
        )
        found = getattr(found, part)
    require(
        callable(found),
        f"{spec!r} is {found!r}; it must be a function or class that makes an "
        "environment when it is called without arguments.",
    )
    if (lacking := _mismatch(found)) is not None:
        raise InputError(
            f"{spec!r} can't be called without arguments: {lacking}. Write a function "
            "without arguments that makes the environment, and name that."
        )
    return found


def registered(name: str) -> InputError | None:
    """Return how to name what Gymnasium has registered; None if it has not."""
    if name not in gymnasium.registry:
        return None
    return InputError(
        f"{name!r} is registered with Gymnasium, and driftrl takes what makes an "
        f'environment: write `def make(): return gymnasium.make("{name}")` in a '
        "module, say my_machine.py, and name my_machine:make."
    )


def _check_module_name(module_name: str, name: str) -> None:
    """Refuse the path of a file where the name of a module belongs."""
    path = PurePath(module_name)
    if path.suffix != ".py" and not set(module_name) & {"/", "\\"}:
        require(
            not module_name.startswith("."),
            f"A module is named from where you stand, without leading dots; received "
            f"{module_name!r}.",
        )
        return
    path = path.with_suffix("") if path.suffix == ".py" else path
    where = ""
    if path.is_absolute() or ".." in path.parts:
        where, path = f"stand in {path.parent} and ", PurePath(path.name)
    raise InputError(
        f"{module_name!r} is a file, and a module is named as Python imports it: "
        f"{where}write {'.'.join(path.parts)}:{name}."
    )


def _mismatch(function: Callable[..., Any], **words: None) -> str | None:
    """Say why a function does not take just these arguments; None if it does."""
    try:
        inspect.signature(function).bind(**words)
    except TypeError as error:
        return str(error)
    except ValueError:  # some that are written in C do not tell
        return None
    return None


def made(spec: str) -> Env:
    """Return the environment that "package.module:factory" makes."""
    factory = factory_named(spec)
    try:
        made_one = factory()
    # Whatever a factory of the user's own raises, it is the user who can mend it.
    except Exception as error:
        raise InputError(
            f"{spec!r} made no environment: {type(error).__name__}: {error}"
        ) from error
    return as_env(made_one, spec)


def as_env(made_one: Any, name: str) -> Env:
    """Return what a factory has made, if it is an environment."""
    if not isinstance(made_one, gymnasium.Env):
        raise InputError(f"{name!r} made {made_one!r}, which is no gymnasium.Env.")
    return made_one


def name_of(env: Env) -> str:
    """Return the name of an environment as a task, after its class."""
    kind = type(env.unwrapped)
    return f"{kind.__module__}:{kind.__qualname__}".replace("<locals>.", "")


def steps_of(env: Env) -> int | None:
    """Return the longest that an episode can be, if the environment says so."""
    limit = env.spec.max_episode_steps if env.spec is not None else None
    wrapper: Any = env
    while limit is None and isinstance(wrapper, gymnasium.Wrapper):
        limit = getattr(wrapper, "_max_episode_steps", None)
        wrapper = wrapper.env
    return limit


def check_reset(env: Env) -> None:
    """Refuse an environment whose reset can't be told seed and place.

    Raises:
        InputError: It, or one of its wrappers, does not take them.
    """
    layer: Any = env
    while layer is not None:
        lacking = _mismatch(layer.reset, seed=None, options=None)
        require(
            lacking is None,
            f"reset() of {type(layer).__name__} can't be called with seed and options "
            f"({lacking}): write it as def reset(self, *, seed=None, options=None).",
        )
        layer = layer.env if isinstance(layer, gymnasium.Wrapper) else None


def episode_steps(declared: int | None) -> int:
    """Return how long a run lets an episode be: as declared, or ``STEPS``."""
    return STEPS if declared is None else declared


def custom_task(
    name: str, sizes: tuple[int, int], steps: int, bounds: Bounds = ((), ())
) -> Task:
    """Return the settings that a run on a machine of one's own starts from.

    Args:
        name: What to call it.
        sizes: Numbers of observations and of actions.
        steps: Decisions of an episode that runs its full time.
        bounds: What actions of −1 and of 1 command, if it is not just that.
    """
    width = next((wide for most, wide in _WIDTHS if sizes[0] <= most), _LARGEST_WIDTH)
    return Task(
        name=name,
        summary="A machine of one's own.",
        drifts="not known",
        gymnasium_id="",
        state_size=sizes[0],
        action_size=sizes[1],
        starts=(START,),
        nominal=0.0,
        drift=Unknown(),
        episodes=100,
        reset_period=20,
        window=20,
        environment=EnvironmentConfig(
            sim_steps=steps,
            start=START,
            parameter=PARAMETER,
            observations=sizes[0],
            actions=sizes[1],
            low=bounds[0],
            high=bounds[1],
        ),
        agent=EnsembleAgentConfig(
            model=EnsembleConfig(hidden=(width, width), learning_rate=1e-3),
            # Right for a machine that may fail as well as for one that never does.
            imagination=ImaginationConfig(termination="learned"),
            optimism=DeepOptimismConfig(rule="tuned"),
            sac=SACConfig(
                hidden=(width, width),
                batch_size=width,
                critic="residual",
                learning_rate=1e-3,
            ),
            learning=LearningConfig(
                model_updates=1, policy_updates=3, learning_starts=2 * width
            ),
            # A machine pays for what a softly reset policy tries; the paper's car and
            # our ablation (docs/deep_pendulum.md) do better without.
            soft_reset=SoftResetConfig(model=0.0, policy=0.0),
        ),
        # Judging it would take an episode of the machine, which drifts meanwhile.
        evaluation=EvaluationConfig(episodes=0),
        plant=START,
    )


def machine(name: str, *, observations: int, actions: int, steps: int) -> Task:
    """Return the task of a machine that is no Gymnasium environment.

    Args:
        name: What to call it, such as "press".
        observations: Numbers observed.
        actions: Numbers commanded, each in [−1, 1].
        steps: Decisions of an episode that runs its full time.
    """
    for what, count in (
        ("observations", observations),
        ("actions", actions),
        ("steps", steps),
    ):
        at_least(what, count, 1)
    require(
        name.replace("-", "").replace("_", "").isalnum(),
        f"The name of a machine becomes part of a directory's name: letters, digits, "
        f"- and _ only, received {name!r}.",
    )
    return custom_task(f"machine:{name}", (observations, actions), steps)


def task_of(name: str, env: Env, steps: int | None = None) -> Task:
    """Return the task of an environment of one's own.

    Its ``notes`` say which length of an episode is assumed, where nothing is declared.

    Args:
        name: What to call it.
        env: The environment.
        steps: Decisions of an episode, if that is not what the environment says.
    """
    sizes, chosen = box_sizes(env), env.action_space
    check_reset(env)
    assert isinstance(chosen, spaces.Box)
    bounds = (tuple(chosen.low.tolist()), tuple(chosen.high.tolist()))
    limit = steps_of(env) if steps is None else steps
    task = custom_task(name, sizes, episode_steps(limit), bounds)
    return replace(task, notes=_ASSUMED if limit is None else "")


class GymPlant(Plant):
    """An environment of one's own that acts on [−1, 1] and ends on time.

    Its ``reset`` is told the place of the run, ``options={"episode": n, "steps":
    t}``: a simulation of wear can go on from there when a run is resumed.
    """

    def __init__(self, env: Env, config: EnvironmentConfig) -> None:
        self._env = env
        self._config = config
        observed, chosen = box_sizes(env)
        assert isinstance(env.action_space, spaces.Box)
        self._low = env.action_space.low.astype(np.float64)
        self._high = env.action_space.high.astype(np.float64)
        self._dtype = env.action_space.dtype
        self.observation_space = spaces.Box(-np.inf, np.inf, (observed,), np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (chosen,), np.float64)
        self.metadata = env.metadata
        self.render_mode = env.render_mode

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set nothing: no parameter of the machine is ours."""
        if values:
            raise InputError(
                f"Nobody sets {next(iter(values))!r} of a machine of one's own: it "
                "drifts by itself. Its schedule must be --drift.kind unknown."
            )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode of the machine."""
        super().reset(seed=seed)
        self._left = self._config.steps
        obs, info = self._env.reset(seed=seed, options=options)
        return np.asarray(obs, np.float64), dict(info)

    def step(self, action: np.ndarray) -> StepResult:
        """Hold an action for ``action_repeat`` steps, or until the machine ends."""
        command = self.command(action)
        obs, reward, terminated, truncated, info = self._env.step(command)
        total = float(reward)
        for _ in range(1, self._config.action_repeat):
            if terminated or truncated:
                break
            obs, reward, terminated, truncated, info = self._env.step(command)
            total += float(reward)
        self._left -= 1
        late = self._left <= 0 and not terminated
        obs = np.asarray(obs, np.float64)
        return obs, total, bool(terminated), bool(truncated) or late, dict(info)

    def command(self, action: np.ndarray) -> np.ndarray:
        """Return an action of [−1, 1] in the machine's own units."""
        share = 0.5 * (np.clip(np.asarray(action, np.float64), -1.0, 1.0) + 1.0)
        return (self._low + share * (self._high - self._low)).astype(self._dtype)

    def render(self) -> Any:
        """Draw the machine."""
        return self._env.render()

    def close(self) -> None:
        """Close the environment."""
        self._env.close()
