"""Tasks by name, those of the presets and custom ones, and the runs on them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import gymnasium

from driftrl.config.deep import EnsembleAgentConfig
from driftrl.config.run import EvaluationConfig, RunConfig
from driftrl.config.task import Task
from driftrl.config.toml import overridden
from driftrl.drift.schedules import Unknown
from driftrl.envs.custom import custom_task, is_custom, registered, sized_task
from driftrl.errors import at_least, require, unknown_name
from driftrl.presets.methods import METHODS, method_named
from driftrl.presets.tasks import TASKS

if TYPE_CHECKING:
    from driftrl.robot.protocol import Welcome


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
    """Return the task of that name, or of the custom environment "module:factory"."""
    if is_custom(name):
        return _custom(name)
    if name in TASKS:
        return TASKS[name]
    if name in gymnasium.registry:
        raise registered(name)
    raise unknown_name("task", name, TASKS)


_custom = cache(custom_task)  # making an environment may take long


def task_of_run(config: RunConfig) -> Task:
    """Return the task of a configuration, without making any environment."""
    if not is_custom(config.task):
        return task_named(config.task)
    environment = config.environment
    sizes = (environment.observations, environment.actions)
    task = sized_task(config.task, sizes, environment.sim_steps)
    return replace(task, drift=config.drift, environment=environment)


def task_of_robot(robot: "Welcome", name: str | None = None) -> Task:
    """Return the task of a robot: a preset's by its name, or else a custom one.

    No episodes are spent on evaluation: the robot's returns are those executed.
    """
    sizes = (robot.observation_size, robot.action_size)
    name = name or robot.name
    if name not in TASKS:
        return sized_task(name if ":" in name else f"robot:{name}", sizes, robot.steps)
    task = TASKS[name]
    expected = task.sizes(task.environment)
    require(
        sizes == expected,
        f"Task {name!r} has {expected[0]} observations and {expected[1]} actions; the "
        f"robot {robot.name!r} has {sizes[0]} and {sizes[1]}.",
    )
    steps = robot.steps * task.environment.action_repeat
    environment = replace(task.environment, sim_steps=steps)
    return replace(
        task, environment=environment, evaluation=EvaluationConfig(episodes=0)
    )


def configure(
    task: str | Task,
    method_name: str | None = None,
    changes: Mapping[str, Any] | None = None,
) -> RunConfig:
    """Return the run of a method on a task, with nested ``changes`` laid over it.

    Beside the fields of a run, ``changes`` may have ``forget_after``, H and w of those
    methods that forget, and ``forgets_in``, their unit.  What a method changes in the
    agent comes last.  Without a method it is that of the forgetting rule, by default a
    window, or on a custom environment "adaptive"; a user's rule makes the method
    "custom", with the name of its class as the variant.
    """
    task = task_named(task) if isinstance(task, str) else task
    changes = dict(changes or {})
    after = changes.pop("forget_after", None)
    task = replace(task, forgets_in=changes.pop("forgets_in", task.forgets_in))
    adapts = is_custom(task.name) and after is None
    method = method_named(method_name or ("adaptive" if adapts else "sw-ombrl"))
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
    if method_name is None and "method" not in changes:
        rule = type(config.forgetting)
        named = (m.name for m in METHODS.values() if type(m.forgetting(task)) is rule)
        config = replace(config, method=next(named, "custom"))
    if method_name is None and config.method == "custom":
        name = config.variant or type(config.forgetting).__name__
        config = replace(config, variant=name)
    check_fits(config)
    return config


def check_fits(config: RunConfig) -> None:
    """Refuse a configuration that its task does not support."""
    task = task_of_run(config)
    method_named(config.method)
    environment = config.environment
    task.check_environment(environment)
    limits = environment.limits
    ends = environment.terminates or (limits.states and limits.penalty is not None)
    if ends and isinstance(config.agent, EnsembleAgentConfig):
        require(
            config.agent.imagination.termination != "absent",
            "With environment.terminates = true, or environment.limits.penalty, "
            "imagined rollouts must end too: set "
            "agent.imagination.termination to 'known' or 'learned'; received 'absent'.",
        )
    unknown = isinstance(config.drift, Unknown)
    if is_custom(task.name):
        require(
            config.evaluation.episodes == 0 or not unknown,
            f"{task.name!r} drifts on its own and can't be frozen to evaluate a "
            "policy: set evaluation.episodes to 0, or give it a parameter and a "
            f"schedule; received {config.evaluation.episodes}.",
        )
    else:
        require(
            not unknown,
            f"Task {task.name!r} drifts by a schedule: drift.kind can't be 'unknown'; "
            "'constant' is no drift.",
        )
