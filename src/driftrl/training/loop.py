"""A session and an environment: a configuration becomes episodes and records."""

import math
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path

import gymnasium
import numpy as np

from driftrl.agents.base import Policy
from driftrl.config.run import RunConfig
from driftrl.envs.drifting import ContinuingEnv, environment_of
from driftrl.errors import DriftrlError, EnvironmentFault, EpisodeAborted, require
from driftrl.training.learner import Learner
from driftrl.training.run_directory import Warn
from driftrl.training.session import Session
from driftrl.training.streams import Purpose, integer_for, key_for
from driftrl.types import EpisodeRecord

Env = gymnasium.Env[np.ndarray, np.ndarray]
OnEpisode = Callable[[EpisodeRecord], None]
"""Called with each episode's row once the episode is on disk."""
OnReward = Callable[[float], None]
"""Called with the reward of every step of an episode."""
Watch = Callable[[Env, int], AbstractContextManager[OnReward]]
"""Opens an observer of episode n, which has just been reset; closed when it ends."""
# An episode may be stopped from outside this often in a row.
_ATTEMPTS = 20


def unwatched(env: Env, number: int) -> AbstractContextManager[OnReward]:
    """Watch nothing."""
    del env, number
    return nullcontext(lambda reward: None)


def run(
    config: RunConfig,
    directory: Path,
    *,
    resume: bool = False,
    change: bool = False,
    on_episode: OnEpisode | None = None,
    warn: Warn = warnings.warn,
) -> None:
    """Run a configuration in a directory to its last episode.

    ``resume`` and ``change`` are those of a session.
    """
    with (
        # First, as it may refuse the configuration: then nothing is written.
        closing(environment_of(config)) as env,
        Session(config, directory, resume=resume, change=change, warn=warn) as session,
    ):
        run_session(session, env, on_episode=on_episode, warn=warn)


def run_session(
    session: Session,
    env: Env,
    *,
    on_episode: OnEpisode | None = None,
    warn: Warn = warnings.warn,
    twin: Env | None = None,
) -> None:
    """Run a session in an environment to the last episode of its configuration.

    An episode that is stopped from outside is discarded and starts again.  Policies are
    evaluated on ``twin``, by default a second environment of the configuration, but not
    in continuing operation: what counts there is what was earned.
    """
    config, machine = session.config, env.unwrapped
    show = on_episode or (lambda record: None)
    if config.continuing:
        require(
            isinstance(machine, ContinuingEnv),
            "A robot is driven in episodes: it can't run with continuing = true.",
        )
        assert isinstance(machine, ContinuingEnv)
        machine.restore(session.machine)
    elif twin is None and config.evaluation.episodes > 0:
        twin = environment_of(config)
    stopped, resumed = 0, session.number > 1 and not session.machine
    was_warned = not config.continuing
    while session.number <= config.episodes:
        is_pending = session.unlearned is not None  # then nothing is reset
        try:
            record = _run_episode(session, env, twin)
        except EpisodeAborted as aborted:
            session.abort_episode(vary=aborted.out_of_bounds)
            stopped += 1
            reason = str(aborted).rstrip(".")
            advice = " ".join(getattr(aborted, "__notes__", ["Fix the cause."]))
            require(
                stopped < _ATTEMPTS,
                f"Episode {session.number} was stopped {stopped} times in a row, the "
                f"last time: {reason}. {advice} Then resume.",
            )
            warn(
                f"Episode {session.number}, attempt {stopped} of {_ATTEMPTS}: {reason};"
                " it starts again."
            )
            continue
        if resumed and getattr(env, "ignores_place", False):
            warn(
                f"The run goes on with episode {session.number - 1}, and reset() does "
                "not look at options['episode']: a simulation of wear is as new again. "
                "A real machine is as worn as it is, and needs nothing."
            )
        stopped, resumed = 0, resumed and is_pending
        if not session.machine and not was_warned:
            was_warned = True
            warn(
                f"The state of {config.task!r} can't be restored: after a restart it "
                "begins at a reset, and the run need not equal an uninterrupted one. "
                "Give it get_state() and set_state(state)."
            )
        if record is not None:
            show(record)
    if (record := session.finish()) is not None:
        show(record)
    if twin is not None:
        twin.close()


def _run_episode(session: Session, env: Env, twin: Env | None) -> EpisodeRecord | None:
    """Execute episode n, evaluate π_n, then learn from the episode.

    ``twin`` is a second environment of the same kind: π_n is evaluated on it at the
    same clock values, which is the system of episode n, frozen.  Returns the row that
    has come to the disk.
    """
    config, return_eval = session.config, None
    try:
        if session.unlearned is None:
            thetas = collect(session, env, config.seed, place=session.place)
            theta, now = thetas if config.drift_every else thetas[-1], {}
            if isinstance(machine := env.unwrapped, ContinuingEnv):
                now = {"machine": machine.machine, "events": machine.events}
            session.end_episode(theta=theta, **now)
        if twin is not None:
            return_eval = evaluate(
                session.policy,
                twin,
                episodes=config.evaluation.episodes,
                seed=config.seed,
                place=session.place,
            )
    except EnvironmentFault as fault:
        raise EnvironmentFault(f"{fault} {_place_of_fault(session, env)}") from fault
    except DriftrlError:
        raise
    except Exception as error:
        # A study's table of failures quotes the last line of this run's log.
        raised = f"{type(error).__name__}: {error}".rstrip(". ")
        error.add_note(f"{raised}. {_place_of_fault(session, env)}")
        raise
    if config.background:
        return session.learn_beside()
    return session.learn(return_eval=return_eval)


def collect(
    learner: Learner, env: Env, seed: int, *, place: dict[str, int] | None = None
) -> list[float]:
    """Execute episode n in an environment; return θ of every step, NaN if unknown.

    ``place`` is where n is on its clocks.
    """
    number = learner.begin_episode()
    obs, _ = env.reset(
        seed=integer_for(seed, Purpose.ENVIRONMENT, number),
        options=place or {"episode": number},
    )
    thetas, over = [], False
    while not over:
        obs, reward, terminated, truncated, info = env.step(learner.act(obs))
        applied = info.get("applied")  # a robot's and a custom environment's
        learner.observe(obs, float(reward), terminated, truncated, action=applied)
        thetas.append(_theta(env))
        over = terminated or truncated
    return thetas


def evaluate(
    policy: Policy,
    env: Env,
    *,
    episodes: int,
    seed: int,
    place: dict[str, int],
    watch: Watch = unwatched,
) -> float:
    """Return the mean return of π_n without exploration, over ``episodes`` rollouts.

    ``place`` is where n is on the clocks of a drifting environment; every reset sets
    it.  Draws from the evaluation streams only: training is not affected.
    """
    policy, number, returns = policy.deterministic(), place["episode"], []
    for rollout in range(episodes):
        stream = (seed, Purpose.EVALUATION, number, rollout)
        obs, _ = env.reset(seed=integer_for(*stream), options=place)
        carry, total, step, over = policy.begin(), 0.0, 0, False
        with watch(env, number) as on_reward:
            while not over:
                key = key_for(*stream, step)
                action, carry = policy.act(obs, carry, key=key)
                obs, reward, terminated, truncated, _ = env.step(action)
                on_reward(float(reward))
                total += float(reward)
                over = terminated or truncated
                step += 1
        returns.append(total)
    return float(np.mean(returns))


def _place_of_fault(session: Session, env: Env) -> str:
    """Say where an environment failed, and how to go on."""
    theta, step = _theta(env), session.steps_taken
    at = "" if math.isnan(theta) else f", θ = {theta:.6g}"
    at += "" if step is None else f", step {step}"
    return (
        f"This was task {session.config.task!r}, episode {session.number}{at}; the "
        "episodes before it are kept. Fix the environment and resume, or resume with "
        "other settings (--resume --change)."
    )


def _theta(env: Env) -> float:
    """Return θ of the running episode or step; NaN where it is unknown."""
    theta = env.get_wrapper_attr("theta")
    return math.nan if theta is None else float(theta)
