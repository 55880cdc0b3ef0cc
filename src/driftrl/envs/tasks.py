"""Tasks by name, those of the presets and custom ones, and the runs on them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import gymnasium

from driftrl.config.deep import EnsembleAgentConfig
from driftrl.config.run import RunConfig
from driftrl.config.task import Task
from driftrl.config.toml import overridden
from driftrl.drift.schedules import Unknown
from driftrl.envs.custom import custom_task, is_custom, made, registered, task_of
from driftrl.errors import at_least, require, unknown_name
from driftrl.presets.methods import method_named
from driftrl.presets.tasks import TASKS


def register() -> None:
    """Register every task, so that ``gymnasium.make("driftrl/Pendulum-v0")`` works."""
    for task in TASKS.values():
        if task.gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                id=task.gymnasium_id,
                entry_point="driftrl.envs.drifting:make_env",
                kwargs={"task": task.name},
            )


def task_named(name: str) -> Task:
    """Return the task of that name, or that of an environment of one's own."""
    if is_custom(name):
        return _own_task(name)
    if name not in TASKS:
        raise registered(name) or unknown_name("task", name, TASKS)
    return TASKS[name]


@cache
def _own_task(name: str) -> Task:
    env = made(name)
    try:
        return task_of(name, env)
    finally:
        env.close()


def task_of_run(config: RunConfig) -> Task:
    """Return the task of a configuration, without making any environment."""
    if not is_custom(config.task):
        return task_named(config.task)
    environment = config.environment
    sizes = (environment.observations, environment.actions)
    return custom_task(config.task, sizes, environment.sim_steps)


def configure(
    task: str | Task, method_name: str, changes: Mapping[str, Any] | None = None
) -> RunConfig:
    """Return the run of a method on a task, with nested ``changes`` laid over it.

    Beside the fields of a run, ``changes`` may have ``forget_after``, H and w of those
    methods that forget.  What a method makes of the agent comes last: it is what the
    method is.
    """
    task = task_named(task) if isinstance(task, str) else task
    method = method_named(method_name)
    changes = dict(changes or {})
    after = changes.pop("forget_after", None)
    if after is not None:
        at_least("forget_after", after, 1)
        task = replace(task, reset_period=after, window=after)
    config = RunConfig(
        task=task.name,
        method=method.name,
        episodes=task.episodes,
        environment=task.environment,
        drift=task.drift,
        clock=task.clock,
        forgetting=method.forgetting(task),
        agent=task.agent,
        evaluation=task.evaluation,
    )
    config = overridden(config, changes)
    config = replace(config, agent=method.agent(config.agent))
    check_fits(config)
    return config


def check_fits(config: RunConfig) -> None:
    """Refuse a configuration that its task can't serve."""
    task = task_of_run(config)
    method_named(config.method)
    environment = config.environment
    require(
        environment.start in task.starts,
        f"Task {task.name!r} has no start {environment.start!r}; "
        f"environment.start may be {' or '.join(task.starts)}.",
    )
    task.sizes(environment)
    task.check_machine(environment)
    require(
        task.may_end or not environment.terminates,
        f"Task {task.name!r} has no states in which it fails, so "
        "environment.terminates must be false.",
    )
    if environment.terminates and isinstance(config.agent, EnsembleAgentConfig):
        require(
            config.agent.imagination.termination != "absent",
            "With environment.terminates = true imagined rollouts must end too: set "
            "agent.imagination.termination to 'known' or 'learned'; received 'absent'.",
        )
    _check_drift(config, task)


def _check_drift(config: RunConfig, task: Task) -> None:
    """Refuse a schedule where nobody sets θ, and none where somebody must."""
    if not isinstance(task.drift, Unknown):
        require(
            not isinstance(config.drift, Unknown),
            f"The drift of task {task.name!r} is set by a schedule, so drift.kind "
            "can't be 'unknown'; 'constant' is no drift.",
        )
        return
    require(
        isinstance(config.drift, Unknown) and not config.extra_drifts,
        f"{task.name!r} is a machine of one's own, which drifts by itself: drift.kind "
        "must be 'unknown', and nothing else may have a schedule.",
    )
    require(
        config.evaluation.episodes == 0,
        f"{task.name!r} is a machine of one's own, which can't be frozen to judge a "
        "policy: evaluation.episodes must be 0, and executed episodes are the measure.",
    )
