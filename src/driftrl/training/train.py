"""``train(env)``: learn to control a Gymnasium environment, in one call."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from driftrl.agents.base import Policy
from driftrl.agents.rollouts import TaskFunctions
from driftrl.config.limits import LimitsConfig
from driftrl.drift.schedules import Schedule
from driftrl.envs.custom import (
    Env,
    GymPlant,
    Setter,
    copied,
    name_of,
    setter_path,
    task_of,
)
from driftrl.envs.drifting import drifting
from driftrl.envs.tasks import configure
from driftrl.errors import InputError, require
from driftrl.memory.forgetting import ForgettingRule
from driftrl.records import RECORDS_FILE, read_records
from driftrl.training.loop import OnEpisode, run_session
from driftrl.training.session import Session
from driftrl.training.streams import Purpose, key_for
from driftrl.types import EpisodeRecord


@dataclass(frozen=True)
class Trained:
    """A finished training."""

    directory: Path
    """Where the run is; ``train`` with the same directory goes on from there."""
    records: tuple[EpisodeRecord, ...] = field(repr=False)
    """One row per episode."""
    policy: Policy = field(repr=False)
    """The newest policy, without exploration."""
    plant: GymPlant = field(repr=False)
    limits: LimitsConfig = field(default_factory=LimitsConfig, repr=False)
    """Of the actions, among others."""

    def act(self, obs: np.ndarray, before: np.ndarray | None = None) -> np.ndarray:
        """Return the action for an observation, in the environment's own units.

        Where the rate is limited it follows ``before``, by default from rest.
        """
        key, limits, obs = key_for(0, Purpose.EVALUATION, 1), self.limits, np.array(obs)
        last = limits.before((self.plant.action_space.shape or (1,))[0])
        if before is not None:
            last = self.plant.share(before)
        if limits.observes_action:
            obs = np.append(obs, last)
        action, _ = self.policy.act(obs, self.policy.begin(), key=key)
        if limits.limits_actions:
            action = limits.applied(last, action)
        return self.plant.command(action)


def train(  # noqa: PLR0913 - every argument but the first is optional
    env: Env,
    *,
    forgetting: ForgettingRule | str | None = None,
    drift: Schedule | None = None,
    parameter: str | None = None,
    setter: Setter | None = None,
    functions: TaskFunctions | None = None,
    episodes: int = 100,
    out: str | Path | None = None,
    settings: Mapping[str, Any] | None = None,
    on_episode: OnEpisode | None = None,
) -> Trained:
    """Learn to control an environment that may drift.

    Called again with the same directory it goes on where it was stopped, or, with more
    episodes, from where it ended.

    Args:
        env: Any Gymnasium environment with box spaces.
        forgetting: Which episodes to learn from: any object with ``first_retained``, a
            kind such as "window", or "module:Name" (default: "adaptive", which keeps
            everything but what newer data contradict).
        drift: Schedule of ``parameter`` (default: the environment drifts on its own).
        parameter: What the schedule sets at every reset, by the environment's method
            ``set_parameters({name: value})`` or by ``setter(env, {name: value})``.
        setter: Sets parameters of an environment without that method.
        functions: Reward and termination of the task, where they need not be learned.
        episodes: Number of episodes.
        out: Directory of the run (default: runs/<name of the environment>).
        settings: Further settings, laid over the configuration table by table, such as
            ``{"seed": 1, "environment": {"sim_steps": 500}}``.
        on_episode: Called with each episode's row once the episode is on disk.
    """
    if isinstance(env, type) and issubclass(env, gymnasium.Env):
        raise InputError(
            f"train() takes an environment, received its class: use {env.__name__}()."
        )
    require(
        isinstance(env, gymnasium.Env),
        f"train() takes a gymnasium.Env, received {env!r}.",
    )
    changes: dict[str, Any] = {**(settings or {}), "episodes": episodes}
    if isinstance(forgetting, str):
        changes["forgetting"] = {"kind": forgetting}
    elif forgetting is not None:
        changes["forgetting"] = forgetting
    task = task_of(name_of(env), env)
    environment = replace(task.environment, setter=setter_path(setter))
    if parameter is not None:
        environment = replace(environment, parameter=parameter)
    task = replace(task, drift=drift or task.drift, environment=environment)
    config = configure(task, changes=changes)
    directory = Path("runs") / config.name if out is None else Path(out)
    plant, twin = GymPlant(env, config.plant_environment, setter), None
    if config.evaluation.episodes > 0 and not config.continuing:
        twin = drifting(GymPlant(copied(env), config.environment, setter), config)
    machine = drifting(plant, config)
    with Session(config, directory, functions=functions, resume=True) as session:
        run_session(session, machine, on_episode=on_episode, twin=twin)
        policy = session.policy.deterministic()
    records = read_records(directory / RECORDS_FILE)
    limits = config.environment.limits
    return Trained(directory, tuple(records), policy, plant, limits)
