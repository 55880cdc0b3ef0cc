"""What a run has learned, shown: its newest policy drives once more, and is filmed.

The run may be finished or under way: its files are read, not locked and not changed.
"""

import math
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from driftrl.agents.base import Policy, State
from driftrl.config.run import RunConfig
from driftrl.drift.schedules import Constant
from driftrl.envs.drifting import environment_of
from driftrl.errors import at_least, positive, require
from driftrl.records import CONFIG_FILE, RECORDS_FILE, read_records
from driftrl.training.assembly import make_agent
from driftrl.training.checkpoint import load_checkpoint, newest
from driftrl.training.filming import NoPicture, filmed, try_out
from driftrl.training.loop import Watch, evaluate, unwatched
from driftrl.training.run_directory import read_config
from driftrl.training.streams import Purpose, key_for


@dataclass(frozen=True)
class Scene:
    """What is to be played; what is None is as in the last episode of the run."""

    episode: int | None = None
    """Number of the episode whose system is driven."""
    theta: float | None = None
    """θ, in place of that episode's."""
    seed: int | None = None
    """Seed of start and planner (default: the run's)."""
    fps: float | None = None
    """Frames a second (default: as fast as the machine)."""


@dataclass(frozen=True)
class Played:
    """One rollout of a run's newest policy."""

    learned: int
    """Episodes that the policy was learned from, at most: those before it."""
    episode: int
    """Whose place on the schedule's clock the system is at."""
    theta: float | None
    """None where nobody knows it."""
    seed: int
    value: float
    """Its return."""
    video: Path | None
    """None if the environment does not draw itself."""
    unfilmed: str | None = None
    """Why there is no video, in a sentence."""


def config_of(directory: Path) -> RunConfig:
    """Return the configuration of the run in a directory."""
    path = directory / CONFIG_FILE
    require(
        path.is_file(),
        f"{directory} is not the directory of a run: it has no {CONFIG_FILE}. Of a "
        "study, name one of the directories in it.",
    )
    return read_config(path)


def play(directory: Path, scene: Scene, out: Path | None = None) -> Played:
    """Roll out the newest policy of a run, without exploration, and film it.

    It is the rollout by which the policy would be judged in that episode: the streams
    of chance are the same.  What does not draw itself is rolled out all the same,
    unless a video was asked for by its name.

    Args:
        directory: The run.
        scene: On which system.
        out: The mp4 (default: in the run's ``videos/``).
    """
    config = config_of(directory)
    seed = config.seed if scene.seed is None else scene.seed
    at_least("--seed", seed, 0)
    if scene.fps is not None:
        positive("--fps", scene.fps)
    policy, learned = newest_policy(directory, config)
    number = learned if scene.episode is None else scene.episode
    place = _place(directory, config, number)
    if scene.theta is not None:
        config = replace(config, drift=Constant(value=scene.theta))
    natural, unfilmed = _speed(config, required=out is not None)
    with closing(environment_of(config, "rgb_array")) as env:
        env.reset(seed=0, options=place)
        theta = None if math.isnan(env.theta) else env.theta
        watch: Watch = unwatched
        if unfilmed is None:
            at = "" if theta is None else f"-theta{theta:.4g}"
            name = f"play-{learned:06d}-episode{number}{at}-s{seed}.mp4"
            film = directory / "videos" / name if out is None else out
            out, title, fps = film, policy_title(learned), scene.fps or natural
            watch = lambda env, _: filmed(film, env, title, fps)
        value = evaluate(policy, env, episodes=1, seed=seed, place=place, watch=watch)
    return Played(learned, number, theta, seed, value, out, unfilmed)


def _speed(config: RunConfig, *, required: bool) -> tuple[float, str | None]:
    """Return the frames a second of a run, and why it can't be filmed, if so."""
    try:
        return try_out(config), None
    except NoPicture as reason:
        if required:
            raise
        return math.nan, str(reason)


def policy_title(learned: int) -> str:
    """Return how the policy that a checkpoint drives is spoken of."""
    return f"policy after {learned} episode{'' if learned == 1 else 's'}"


def newest_policy(directory: Path, config: RunConfig) -> tuple[Policy, int]:
    """Return the policy of the newest readable checkpoint, and its episodes.

    Raises:
        InputError: There is no checkpoint yet.
        CorruptFile: There are, and none can be read.
    """
    agent = make_agent(config)
    template = agent.initial_state(key=key_for(config.seed, Purpose.LEARNING, 0))

    def load(place: Path, episodes: int) -> State:
        return load_checkpoint(place, episodes, template)

    state, episodes = newest(directory, load)
    return agent.policy(state), episodes


def _place(directory: Path, config: RunConfig, number: int) -> dict[str, int]:
    """Return where episode n is on the clocks of the environment."""
    require(number >= 1, f"--episode counts from 1, received {number}.")
    path = directory / RECORDS_FILE
    records = read_records(path) if path.is_file() else []
    require(
        config.clock == "episodes" or number <= len(records) + 1,
        f"The schedule of {directory} counts decisions, so θ of episode {number} is "
        f"not known before the {number - 1} episodes before it have been run; there "
        f"are {len(records)}. Choose an earlier --episode, or --theta.",
    )
    return {
        "episode": number,
        "steps": sum(record.steps for record in records[: number - 1]),
    }
