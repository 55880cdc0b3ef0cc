"""The simulator's loop: a configuration becomes episodes, records and checkpoints."""

import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium

from driftrl.agents.deep_agent import DeepAgent
from driftrl.agents.gp_agent import GPAgent
from driftrl.agents.interface import Agent, State
from driftrl.config import RunConfig
from driftrl.config_gp import GPAgentConfig
from driftrl.envs.drifting import DriftingEnv, environment_of
from driftrl.envs.plants import known_end, known_reward
from driftrl.envs.spaces import box_sizes
from driftrl.envs.tasks import check_fits, task_named
from driftrl.errors import EnvironmentFault, require
from driftrl.memory.episodes import EpisodeMemory
from driftrl.memory.forgetting import most_transitions
from driftrl.training.evaluate import Watch, evaluate, unwatched
from driftrl.training.process import mended_cache
from driftrl.training.run_directory import RunDirectory, Warn
from driftrl.training.session import Session
from driftrl.training.streams import Purpose, integer_for, key_for
from driftrl.types import Episode, EpisodeRecord


def run(
    config: RunConfig,
    directory: Path,
    *,
    resume: bool = False,
    change: bool = False,
    on_episode: Callable[[EpisodeRecord], None] = lambda record: None,
    warn: Warn = warnings.warn,
    watch: Watch | None = None,
) -> None:
    """Run a configuration in a directory, from where it stands to its last episode.

    Args:
        config: The run.
        directory: Where its files are; made if it is not there.
        resume: Whether episodes that are already there may be continued.
        change: Whether they may be continued with other settings.
        on_episode: Is told each episode's row once the episode is safe on disk.
        warn: Is told what a user should know but needn't act on.
        watch: Looks on at the executed episodes, and may draw them.
    """
    check_fits(config)
    agent, sizes = make_agent(config)
    env = environment_of(config, None if watch is None else "rgb_array")
    twin = environment_of(config)
    with RunDirectory(
        directory, config, resume=resume, change=change, warn=warn
    ) as files:
        memory = EpisodeMemory(*sizes, agent.precision)
        state = files.restore(_initial_state(agent, config), memory)
        session = _session(config, agent, memory, state)
        if session.number <= config.episodes:
            with mended_cache():
                agent.warm_up(_most_points(config), config.environment.decisions)
        while session.number <= config.episodes:
            record, episode = run_episode(
                session, env, twin, config, watch or unwatched
            )
            files.append(record, episode, session.state)
            on_episode(record)
        env.close()
        twin.close()


def run_episode(
    session: Session,
    env: DriftingEnv,
    twin: DriftingEnv,
    config: RunConfig,
    watch: Watch = unwatched,
) -> tuple[EpisodeRecord, Episode]:
    """Live through episode n, judge π_n and its model, then learn from it.

    ``twin`` is a second environment of the same kind: π_n is judged on it at the same
    place of its clock, which is the system of episode n, frozen.
    """
    started = time.perf_counter()
    number, policy, place = session.number, session.policy, _place(session)
    try:
        episode = collect(session, env, config.seed, watch)
        evaluated = evaluate(
            policy,
            twin,
            episodes=config.evaluation.episodes,
            seed=config.seed,
            place=place,
        )
    except EnvironmentFault as fault:
        raise EnvironmentFault(
            f"Task {config.task!r}, episode {number}, θ = {env.theta:.6g}: {fault} The "
            f"{number - 1} episodes before it are kept: mend the environment and "
            "resume, or resume with other settings (--resume --change)."
        ) from fault
    found = policy.diagnose(episode)
    first = session.first_retained
    transitions = sum(session.memory.lengths[first - 1 :])
    session.learn(episode)
    record = EpisodeRecord(
        episode=number,
        theta=env.theta,
        steps=len(episode),
        return_executed=episode.executed_return,
        return_eval=evaluated,
        terminated=episode.terminated,
        first_retained=first,
        transitions=transitions,
        optimism=policy.weight,
        model_error=found.model_error,
        coverage=found.coverage,
        epistemic_std=found.epistemic_std,
        wall_s=time.perf_counter() - started,
        **policy.notes,
    )
    return record, episode


def collect(
    session: Session, env: DriftingEnv, seed: int, watch: Watch = unwatched
) -> Episode:
    """Drive the environment through episode n with the session's policy."""
    number = session.begin_episode()
    obs, _ = env.reset(
        seed=integer_for(seed, Purpose.ENVIRONMENT, number), options=_place(session)
    )
    over = False
    with watch(env, number) as seen:
        while not over:
            obs, reward, terminated, truncated, _ = env.step(session.act(obs))
            session.observe(obs, reward, terminated, truncated)
            seen(reward)
            over = terminated or truncated
    return session.end_episode()


def _place(session: Session) -> dict[str, int]:
    """Return where the session's episode is on either clock of the environment."""
    return {"episode": session.number, "decisions": sum(session.memory.lengths)}


def make_agent(
    config: RunConfig, env: gymnasium.Env[Any, Any] | None = None
) -> tuple[Agent, tuple[int, int]]:
    """Build the agent of a configuration; also return its state and action sizes.

    With an environment of one's own its spaces count, in place of the task's.
    """
    task = task_named(config.task)
    sizes = task.sizes(config.environment) if env is None else box_sizes(env)
    settings = config.agent
    if isinstance(settings, GPAgentConfig):
        require(
            env is None,
            "agent.kind = 'gp' plans with a known reward, which an environment "
            "does not have; choose agent.kind = 'ensemble' or 'sac'.",
        )
        reward = known_reward(task, config.environment)
        return GPAgent(sizes, reward, settings), sizes
    steps, points = config.environment.decisions, _most_points(config)
    room = points + steps if settings.learning.when == "step" else points
    ends = known_end(task, config.environment) if env is None else None
    return DeepAgent(sizes, settings, capacity=room, steps=steps, known_end=ends), sizes


def _most_points(config: RunConfig) -> int:
    steps = config.environment.decisions
    return most_transitions(config.forgetting, config.episodes, steps)


def make_session(
    config: RunConfig, env: gymnasium.Env[Any, Any] | None = None
) -> Session:
    """Return a new session of a configuration, for loops of one's own.

    Args:
        config: The run; of its task only the settings count if ``env`` is given.
        env: An environment of one's own, whose spaces set the sizes.  The session acts
            in [−1, 1]; ``gymnasium.wrappers.RescaleAction`` takes such actions.
    """
    check_fits(config)
    agent, sizes = make_agent(config, env)
    memory = EpisodeMemory(*sizes, agent.precision)
    return _session(config, agent, memory, _initial_state(agent, config))


def _initial_state(agent: Agent, config: RunConfig) -> State:
    return agent.initial_state(key=key_for(config.seed, Purpose.LEARNING, 0))


def _session(
    config: RunConfig, agent: Agent, memory: EpisodeMemory, state: State
) -> Session:
    return Session(
        agent,
        config.forgetting,
        memory,
        steps=config.environment.decisions,
        seed=config.seed,
        state=state,
    )
