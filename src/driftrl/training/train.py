"""``train(env)``: learn to control an environment of one's own, in one call."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from driftrl.agents.base import Policy
from driftrl.agents.rollouts import TaskFunctions
from driftrl.envs.custom import Env, GymPlant, name_of, task_of
from driftrl.envs.drifting import DriftingEnv
from driftrl.envs.tasks import configure
from driftrl.errors import InputError, require
from driftrl.memory.forgetting import (
    Doubling,
    ForgettingRule,
    KeepAll,
    Reset,
    Window,
    require_rule,
)
from driftrl.records import RECORDS_FILE, read_records
from driftrl.training.loop import OnEpisode, drive, ignored
from driftrl.training.session import Session
from driftrl.training.streams import Purpose, key_for
from driftrl.types import EpisodeRecord


@dataclass(frozen=True)
class Trained:
    """What came of a training."""

    directory: Path
    """Where the run is; ``train`` with the same directory goes on from there."""
    records: tuple[EpisodeRecord, ...]
    """One row an episode."""
    policy: Policy
    """The newest policy, without what it did to explore."""
    plant: GymPlant

    def act(self, obs: np.ndarray) -> np.ndarray:
        """Return the command for what was observed, in the environment's own units."""
        key = key_for(0, Purpose.EVALUATION, 1)
        action, _ = self.policy.act(np.asarray(obs), self.policy.begin(), key=key)
        return self.plant.command(action)


# The methods that are told apart by how they forget.
_METHODS = {
    KeepAll: "sombrl",
    Reset: "r-ombrl",
    Window: "sw-ombrl",
    Doubling: "doubling",
}


def _require_made(env: Any) -> None:
    """Refuse what is no environment, such as the class that makes one."""
    if isinstance(env, type) and issubclass(env, gymnasium.Env):
        raise InputError(
            f"train() takes an environment, received its class: train({env.__name__}()"
            ", …) is one."
        )
    require(
        isinstance(env, gymnasium.Env),
        f"train() takes a gymnasium.Env, received {env!r}.",
    )


def train(
    env: Env,
    *,
    forgetting: ForgettingRule | None = None,
    episodes: int = 100,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    known: TaskFunctions | None = None,
    on_episode: OnEpisode = ignored,
) -> Trained:
    """Learn to control an environment that may drift by itself.

    Called again with the same directory it goes on where it was stopped, or, with more
    episodes, from where it ended.

    Args:
        env: Any Gymnasium environment with box spaces.
        forgetting: Which episodes to learn from (default: the newest 20).
        episodes: How many episodes to live through.
        out: Directory of the run (default: runs/<name of the environment>).
        settings: Further settings, laid over the configuration table by table, such as
            ``{"seed": 1, "environment": {"sim_steps": 500}}``.
        known: The reward and the end of the task, where they need not be learned.
        on_episode: Is told each episode's row once the episode is safe on disk.
    """
    _require_made(env)
    rule = Window(20) if forgetting is None else forgetting
    require_rule(rule)
    changes = {**(settings or {}), "episodes": episodes}
    method = _METHODS.get(type(rule), "custom")
    if method == "custom":
        changes = {"variant": type(rule).__name__, **changes}
    config = configure(task_of(name_of(env), env), method, changes)
    config = replace(config, forgetting=rule)
    known = known or TaskFunctions()
    directory = Path("runs") / config.name if out is None else Path(out)
    plant = GymPlant(env, config.environment)
    with Session(
        config, directory, reward=known.reward, ended=known.termination, resume=True
    ) as session:
        drive(session, DriftingEnv(plant, {}), on_episode=on_episode)
        policy = session.policy.deterministic()
    records = read_records(directory / RECORDS_FILE)
    return Trained(directory, tuple(records), policy, plant)
