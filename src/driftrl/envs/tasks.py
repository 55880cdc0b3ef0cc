"""The registry of tasks and methods: a row each, all data.

A task says what drifts, how long an episode is, and the settings that a run starts
from; a method says only how a run forgets.  Adding either is adding a row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from driftrl.config import (
    EnvironmentConfig,
    GPConfig,
    ICEMConfig,
    OptimismConfig,
    RunConfig,
)
from driftrl.config_file import overridden
from driftrl.drift.schedules import Exponential, Schedule
from driftrl.errors import require, unknown_name
from driftrl.memory.forgetting import Forgetting, KeepAll, Reset, Window


@dataclass(frozen=True)
class Task:
    """A system that drifts, and the settings a run on it starts from."""

    name: str
    summary: str
    """One sentence: the system and what it must do."""
    drifts: str
    """What θ is, with its unit."""
    gymnasium_id: str
    """The registered environment, for ``gymnasium.make``."""
    state_size: int
    action_size: int
    starts: tuple[str, ...]
    """The starts that ``environment.start`` may name."""
    nominal: float
    """θ of the machine as it was built, which the known reward refers to."""
    drift: Schedule
    episodes: int
    reset_period: int
    """H of R-OMBRL."""
    window: int
    """w of SW-OMBRL."""
    environment: EnvironmentConfig
    model: GPConfig
    planner: ICEMConfig
    optimism: OptimismConfig


@dataclass(frozen=True)
class Method:
    """A way to forget."""

    name: str
    label: str
    """How figures write it."""
    summary: str
    forgetting: Callable[[Task], Forgetting]


TASKS: dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            name="pendulum",
            summary="Swing a pendulum up from hanging and balance it.",
            drifts="torque of the full action, N·m",
            gymnasium_id="driftrl/Pendulum-v0",
            state_size=3,
            action_size=1,
            starts=("hanging", "random"),
            nominal=2.0,
            drift=Exponential(theta_max=2.0, theta_min=1.0, rate=1.0, start=10),
            episodes=30,
            reset_period=10,
            window=5,
            environment=EnvironmentConfig(steps=200, action_repeat=5, start="hanging"),
            model=GPConfig(learn_noise=True, compression=1e-3),
            planner=ICEMConfig(),
            optimism=OptimismConfig(weight=1.0),
        ),
    )
}

METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(
            "sombrl",
            "SOMBRL",
            "Optimistic, keeps all data: the stationary baseline.",
            lambda task: KeepAll(),
        ),
        Method(
            "r-ombrl",
            "R-OMBRL",
            "Optimistic, forgets everything every H episodes.",
            lambda task: Reset(period=task.reset_period),
        ),
        Method(
            "sw-ombrl",
            "SW-OMBRL",
            "Optimistic, forgets what is older than w episodes.",
            lambda task: Window(window=task.window),
        ),
    )
}


def task_named(name: str) -> Task:
    """Return the task of that name."""
    if name not in TASKS:
        raise unknown_name("task", name, TASKS)
    return TASKS[name]


def method_named(name: str) -> Method:
    """Return the method of that name."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


def configure(
    task_name: str, method_name: str, changes: Mapping[str, Any] | None = None
) -> RunConfig:
    """Return the run of a method on a task, with nested ``changes`` laid over it."""
    task, method = task_named(task_name), method_named(method_name)
    config = RunConfig(
        task=task.name,
        method=method.name,
        episodes=task.episodes,
        environment=task.environment,
        drift=task.drift,
        forgetting=method.forgetting(task),
        model=task.model,
        planner=task.planner,
        optimism=task.optimism,
    )
    config = overridden(config, changes or {})
    check_fits(config)
    return config


def check_fits(config: RunConfig) -> None:
    """Refuse a configuration that its task can't serve."""
    task = task_named(config.task)
    method_named(config.method)
    require(
        config.environment.start in task.starts,
        f"Task {task.name!r} has no start {config.environment.start!r}; "
        f"environment.start may be {' or '.join(task.starts)}.",
    )
