"""The registry of tasks and methods: a row each, all data.

A task says what drifts, how long an episode is, and the settings that a run starts
from; a method says how a run forgets and what it makes of the task's agent.  Adding
either is adding a row.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from driftrl.config.deep import (
    DeepOptimismConfig,
    EnsembleAgentConfig,
    EnsembleConfig,
    LearningConfig,
    SACAgentConfig,
    SACConfig,
)
from driftrl.config.gp import GPAgentConfig, GPConfig
from driftrl.config.run import (
    AgentConfig,
    EnvironmentConfig,
    EvaluationConfig,
    RunConfig,
)
from driftrl.config.task import Task
from driftrl.config.toml import overridden
from driftrl.drift.schedules import Exponential, Unknown
from driftrl.envs.custom import custom_task, is_custom, made, registered, task_of
from driftrl.errors import InputError, at_least, require, unknown_name
from driftrl.memory.forgetting import Doubling, Forgetting, KeepAll, Reset, Window
from driftrl.presets.mujoco import MUJOCO_TASKS
from driftrl.presets.rccar import RCCAR


@dataclass(frozen=True)
class Method:
    """A way to forget, and what it makes of the agent of a task."""

    name: str
    label: str
    """How figures write it."""
    summary: str
    forgetting: Callable[[Task], Forgetting] = lambda task: KeepAll()
    agent: Callable[[AgentConfig], AgentConfig] = lambda agent: agent


def _greedy(agent: AgentConfig) -> AgentConfig:
    """Return the agent that looks at expected reward alone: λ = 0."""
    if isinstance(agent, SACAgentConfig):
        raise InputError(
            "Method 'mean' is an agent with a model, and agent.kind = 'sac' has none; "
            "the method without one is 'sac'."
        )
    optimism = replace(agent.optimism, rule="constant", weight=0.0)
    return replace(agent, optimism=optimism)


def _sampling(agent: AgentConfig) -> AgentConfig:
    """Return the greedy agent whose imagination follows a member drawn a step."""
    if not isinstance(agent, EnsembleAgentConfig):
        raise InputError(
            "Method 'pets' draws from the members of an ensemble, and this agent is "
            f"{agent.kind!r}; choose a task with an ensemble, or --agent.kind ensemble."
        )
    imagination = replace(agent.imagination, dynamics="member")
    return _greedy(replace(agent, imagination=imagination))


def _model_free(agent: AgentConfig) -> AgentConfig:
    """Return SAC on collected transitions, with the settings that the agent has."""
    if isinstance(agent, EnsembleAgentConfig):
        return SACAgentConfig(agent.sac, agent.learning, agent.soft_reset)
    return agent if isinstance(agent, SACAgentConfig) else SACAgentConfig()


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
            minutes=0.3,
            environment=EnvironmentConfig(
                sim_steps=200, action_repeat=5, start="hanging"
            ),
            agent=GPAgentConfig(model=GPConfig(learn_noise=True, compression=1e-3)),
            # Nothing is random but the planner: the executed episode is the measure.
            evaluation=EvaluationConfig(episodes=0),
            more_is_better=True,
        ),
        Task(
            name="pendulum-decay",
            summary="Swing a pendulum up and balance it, with 20 decisions a second.",
            drifts="torque of the full action, N·m",
            gymnasium_id="driftrl/PendulumDecay-v0",
            state_size=3,
            action_size=1,
            starts=("hanging", "random"),
            nominal=5.0,
            drift=Exponential(theta_max=5.0, theta_min=1.0, rate=0.1, start=5),
            episodes=75,
            reset_period=20,
            window=20,
            minutes=1.3,
            environment=EnvironmentConfig(
                sim_steps=200, action_repeat=1, start="hanging"
            ),
            # Smaller than the paper's: a run takes two minutes on one core.
            agent=EnsembleAgentConfig(
                model=EnsembleConfig(hidden=(64, 64)),
                optimism=DeepOptimismConfig(rule="tuned"),
                sac=SACConfig(hidden=(64, 64), batch_size=64, critic="residual"),
                learning=LearningConfig(
                    model_updates=2, policy_updates=5, learning_starts=128
                ),
            ),
            # The policy explores while it learns; what it would do is the measure.
            evaluation=EvaluationConfig(episodes=1),
            more_is_better=True,
        ),
        RCCAR,
        *MUJOCO_TASKS,
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
            lambda task: Reset(period=task.reset_period, unit=task.forgets_in),
        ),
        Method(
            "sw-ombrl",
            "SW-OMBRL",
            "Optimistic, forgets what is older than w episodes.",
            lambda task: Window(window=task.window, unit=task.forgets_in),
        ),
        Method(
            "doubling",
            "doubling",
            "Optimistic, resets ever more rarely: needs neither H nor N.",
            lambda task: Doubling(),
        ),
        Method(
            "mean",
            "mean",
            "Greedy on the mean of the model (λ = 0), keeps all data.",
            agent=_greedy,
        ),
        Method(
            "pets",
            "PETS",
            "Greedy on sampled members of an ensemble (λ = 0), keeps all data.",
            agent=_sampling,
        ),
        Method(
            "sac",
            "SAC",
            "No model: soft actor-critic on the collected transitions, keeps all data.",
            agent=_model_free,
        ),
    )
}


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


def method_named(name: str) -> Method:
    """Return the method of that name."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]


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
