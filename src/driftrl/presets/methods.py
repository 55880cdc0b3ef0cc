"""The methods of the paper and its baselines: one row each, as data.

A method says how a run forgets, and what it changes in the agent of a task.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import AgentConfig
from driftrl.config.task import Task
from driftrl.errors import InputError, unknown_name
from driftrl.memory.forgetting import (
    Adaptive,
    Doubling,
    Event,
    ForgettingRule,
    Hindsight,
    KeepAll,
    Reset,
    Window,
)


@dataclass(frozen=True)
class Method:
    """A way to forget, and what it makes of the agent of a task."""

    name: str
    label: str
    """How figures write it."""
    summary: str
    forgetting: Callable[[Task], ForgettingRule] = lambda task: KeepAll()
    agent: Callable[[AgentConfig], AgentConfig] = lambda agent: agent


def _least(task: Task) -> dict[str, Any]:
    """Return what rules that look for changes retain in any case."""
    is_gp = isinstance(task.agent, GPAgentConfig)
    return {"least_episodes": 1, "least_transitions": 1} if is_gp else {}


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
            "adaptive",
            "adaptive",
            "Optimistic, forgets what the data contradict: needs neither H nor w.",
            lambda task: Adaptive(**_least(task)),
        ),
        Method(
            "event",
            "event-triggered",
            "Optimistic, forgets when an episode surprises the model.",
            lambda task: Event(**_least(task)),
        ),
        Method(
            "hindsight",
            "hindsight",
            "Optimistic, told the changes: --forgetting.changes 11 21.",
            lambda task: Hindsight(**_least(task)),
        ),
        Method(
            "custom",
            "custom",
            "Optimistic, forgets by your own rule: --forgetting MODULE:NAME.",
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


def method_named(name: str) -> Method:
    """Return the method of that name."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    return METHODS[name]
