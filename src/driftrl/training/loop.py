"""A session drives an environment: a configuration becomes episodes and records."""

import math
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from driftrl.config.run import RunConfig
from driftrl.envs.drifting import DriftingEnv, environment_of
from driftrl.errors import DriftrlError, EnvironmentFault, EpisodeAborted, require
from driftrl.training.evaluate import Env, Watch, evaluate, unwatched
from driftrl.training.learner import Learner
from driftrl.training.run_directory import Warn
from driftrl.training.session import Session
from driftrl.training.streams import Purpose, integer_for
from driftrl.types import EpisodeRecord

OnEpisode = Callable[[EpisodeRecord], None]
# So often in a row an episode may be stopped from outside before the run gives up.
_ATTEMPTS = 20


def ignored(record: EpisodeRecord) -> None:
    """Do nothing about a finished episode."""
    del record


def run(
    config: RunConfig,
    directory: Path,
    *,
    resume: bool = False,
    change: bool = False,
    on_episode: OnEpisode = ignored,
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
    with (
        # First, as it may refuse the configuration: then nothing of it is on disk.
        closing(environment_of(config, None if watch is None else "rgb_array")) as env,
        Session(config, directory, resume=resume, change=change, warn=warn) as session,
    ):
        drive(session, env, on_episode=on_episode, warn=warn, watch=watch or unwatched)


def drive(
    session: Session,
    machine: Env,
    *,
    on_episode: OnEpisode = ignored,
    warn: Warn = warnings.warn,
    watch: Watch = unwatched,
) -> None:
    """Let a session drive a machine to the last episode of its configuration.

    An episode that is stopped from outside is discarded and begins again.
    """
    config = session.config
    judged = config.evaluation.episodes > 0
    twin = environment_of(config) if judged else None
    stopped = 0
    while session.number <= config.episodes:
        try:
            record = run_episode(session, machine, twin, watch)
        except EpisodeAborted as aborted:
            session.abort_episode()
            stopped += 1
            why = str(aborted).rstrip(".")
            advice = " ".join(getattr(aborted, "__notes__", ["Mend that."]))
            require(
                stopped < _ATTEMPTS,
                f"Episode {session.number} was stopped {stopped} times in a row, the "
                f"last time: {why}. {advice} Then resume.",
            )
            warn(
                f"Episode {session.number}, attempt {stopped} of {_ATTEMPTS}: {why}; "
                "it begins again."
            )
            continue
        stopped = 0
        on_episode(record)
    if twin is not None:
        twin.close()


def run_episode(
    session: Session,
    machine: Env,
    twin: DriftingEnv | None,
    watch: Watch = unwatched,
) -> EpisodeRecord:
    """Live through episode n, judge π_n, then learn from it.

    ``twin`` is a second environment of the same kind: π_n is judged on it at the same
    place of its clock, which is the system of episode n, frozen.
    """
    config, number = session.config, session.number
    try:
        if session.unlearned is None:
            with _told_where(session):
                collect(session, machine, config.seed, watch, place=session.place)
            session.end_episode(theta=_theta(machine))
        evaluated = None
        if twin is not None:
            evaluated = evaluate(
                session.policy,
                twin,
                episodes=config.evaluation.episodes,
                seed=config.seed,
                place=session.place,
            )
    except EnvironmentFault as fault:
        raise EnvironmentFault(
            f"Task {config.task!r}, episode {number}{_at_theta(machine)}: {fault} "
            f"{_kept(number - 1)}: mend the environment and resume, or resume with "
            "other settings (--resume --change)."
        ) from fault
    return session.learn(return_eval=evaluated)


def collect(
    asked: Session | Learner,
    machine: Env,
    seed: int,
    watch: Watch = unwatched,
    *,
    place: dict[str, int] | None = None,
) -> None:
    """Drive a machine through episode n, with actions that are asked for."""
    number = asked.begin_episode()
    obs, _ = machine.reset(
        seed=integer_for(seed, Purpose.ENVIRONMENT, number),
        options=place or {"episode": number},
    )
    over = False
    with watch(machine, number) as seen:
        while not over:
            obs, reward, terminated, truncated, _ = machine.step(asked.act(obs))
            asked.observe(obs, float(reward), terminated, truncated)
            seen(float(reward))
            over = terminated or truncated


def _kept(episodes: int) -> str:
    """Say that the episodes before the running one are safe."""
    if episodes == 0:
        return "There was no episode before it"
    if episodes == 1:
        return "The episode before it is kept"
    return f"The {episodes} episodes before it are kept"


@contextmanager
def _told_where(session: Session) -> Iterator[None]:
    """Add to what a machine's own code raises where that was, and what is safe."""
    try:
        yield
    except DriftrlError:
        raise
    except Exception as error:
        raised = f"{type(error).__name__}: {error}".strip().rstrip(".")
        error.add_note(
            f"Task {session.config.task!r} raised {raised}, in episode "
            f"{session.number} after {session.steps_taken} steps. "
            f"{_kept(session.number - 1)}: mend it, then go on with --resume, or from "
            "Python with the same call."
        )
        raise


def _at_theta(machine: Env) -> str:
    theta = _theta(machine)
    return "" if math.isnan(theta) else f", θ = {theta:.6g}"


def _theta(machine: Env) -> float:
    """Return θ of the running episode; NaN where nobody knows it."""
    theta = machine.get_wrapper_attr("theta")
    return math.nan if theta is None else float(theta)
