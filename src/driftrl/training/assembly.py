"""Turn a configuration into an agent, and refuse one that could not learn."""

from dataclasses import replace

import numpy as np

from driftrl.agents.base import Agent, State
from driftrl.agents.gp_mpc import GPAgent
from driftrl.agents.guided import Control, GuidedAgent
from driftrl.agents.model_based import ModelBasedAgent
from driftrl.agents.model_free import SACAgent
from driftrl.agents.rollouts import TaskFunctions, limited
from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.config.gp import GPAgentConfig
from driftrl.config.run import RunConfig
from driftrl.envs.custom import scaled
from driftrl.envs.drifting import (
    environment_of,
    known_end,
    known_next_obs,
    known_reward,
)
from driftrl.envs.tasks import check_fits, task_of_run
from driftrl.errors import EnvironmentFault, InputError, counted, require, shown
from driftrl.memory.forgetting import ENDLESS, max_transitions
from driftrl.plugins import load_object
from driftrl.training.streams import Purpose, key_for

MORE_DATA = (
    "Forget less (a larger forgetting.window or forgetting.period), or make "
    "agent.learning.learning_starts smaller, and agent.sac.batch_size with it."
)
"""What lets a run learn that forgets too soon."""


def make_agent(config: RunConfig, functions: TaskFunctions | None = None) -> Agent:
    """Build the agent of a configuration; a custom task may bring its functions."""
    agent = _learning_agent(config, functions)
    if not config.initial.controller:
        return agent
    if not isinstance(agent, ModelBasedAgent):
        raise InputError(
            "A learner with an initial controller compares policies in its model: "
            "choose agent.kind = 'ensemble'."
        )
    return GuidedAgent(agent, _initial_controller(config), config.initial)


def _initial_controller(config: RunConfig) -> Control:
    """Return the controller of a run, as a choice of −1 to 1 for what it observes."""
    function, limits = load_object(config.initial.controller), config.environment.limits
    require(callable(function), f"{config.initial.controller!r} is not a function.")
    observed, actions = sizes_of(config)
    observed -= actions * limits.observes_action
    low, high = (np.array(v) for v in (config.environment.low, config.environment.high))

    def control(obs: np.ndarray) -> np.ndarray:
        values = np.atleast_1d(np.asarray(function(obs[:observed]), np.float64))
        require(
            values.shape == (actions,),
            f"The initial controller must return {counted(actions, 'number')}, "
            f"received {shown(values)}.",
        )
        if not np.isfinite(values).all():
            raise EnvironmentFault(f"The initial controller returned {values}.")
        action = np.clip(scaled(values, low, high) if len(low) else values, -1.0, 1.0)
        return (
            limits.choice(obs[observed:], action) if limits.limits_actions else action
        )

    return control


def _learning_agent(config: RunConfig, functions: TaskFunctions | None) -> Agent:
    sizes = sizes_of(config)
    if functions is None:
        task, environment = task_of_run(config), config.environment
        end, reward = known_end(task, environment), known_reward(task, environment)
        if config.continuing and config.recovery == "policy":
            end = None  # a fall is not the end of anything
        functions = TaskFunctions(end, reward, known_next_obs(task))
    settings, limits = config.agent, config.environment.limits
    functions = limited(functions, limits, sizes[0] - sizes[1] * limits.observes_action)
    if isinstance(settings, GPAgentConfig):
        if functions.reward is None:
            raise InputError(
                f"agent.kind = 'gp' plans with a known reward, and the reward of task "
                f"{config.task!r} is not known to the learner; choose agent.kind = "
                "'ensemble' or 'sac'."
            )
        known = functions.next_obs if limits.observes_action else None
        return GPAgent(sizes, functions.reward, settings, known, limits)
    steps, points = config.environment.steps, most_points(config)
    room = points + steps if settings.learning.when == "step" else points
    if isinstance(settings, SACAgentConfig):
        return SACAgent(sizes, settings, capacity=room, steps=steps)
    return ModelBasedAgent(
        sizes, settings, capacity=room, steps=steps, functions=functions, limits=limits
    )


def with_functions(config: RunConfig, functions: TaskFunctions) -> RunConfig:
    """Return the configuration whose imagination uses all known task functions."""
    agent = config.agent
    if not isinstance(agent, EnsembleAgentConfig):
        return config
    imagination = agent.imagination
    if functions.termination is not None:
        imagination = replace(imagination, termination="known")
    if functions.reward is not None:
        imagination = replace(imagination, reward="known")
    return replace(config, agent=replace(agent, imagination=imagination))


def sizes_of(config: RunConfig) -> tuple[int, int]:
    """Return the numbers of observations and of actions."""
    return task_of_run(config).sizes(config.environment)


def most_points(config: RunConfig) -> int:
    """Return how many transitions are learned from at once, at most."""
    steps = config.environment.steps
    return max_transitions(config.forgetting, config.episodes + 1, steps)


def least_points(config: RunConfig) -> int:
    """Return the retained transitions below which nothing is learned."""
    agent = config.agent
    if isinstance(agent, GPAgentConfig):
        return 1
    return agent.learning.learning_starts


def counted_within(config: RunConfig, steps: int) -> int:
    """Return how many steps of the running episode count as retained: all or none."""
    agent = config.agent
    between = isinstance(agent, GPAgentConfig) or agent.learning.when == "episode"
    return 0 if between else steps


def check_learns(config: RunConfig) -> None:
    """Refuse a run that would forget each episode before it may learn from it."""
    steps, least = config.environment.steps, least_points(config)
    most = max_transitions(config.forgetting, ENDLESS, steps)
    most += counted_within(config, steps)
    require(
        most >= least,
        f"This run would never learn: it retains at most {most:g} transitions in "
        f"episodes of {steps} steps, and learning begins with {least} "
        f"(agent.learning.learning_starts). {MORE_DATA}",
    )


def check_run(config: RunConfig) -> None:
    """Refuse a run that could not begin, before anything is written."""
    check_fits(config)
    check_learns(config)
    make_agent(config)
    environment_of(config).close()


def initial_state(agent: Agent, config: RunConfig) -> State:
    """Return the state of a run's agent before its first episode."""
    return agent.initial_state(key=key_for(config.seed, Purpose.LEARNING, 0))
