"""The only place where θ_n is put into force.

θ is set from the nominal value at every reset and shown in ``info["theta"]`` only: the
learner never sees it.
"""

import math
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

from driftrl.config.run import Clock, EnvironmentConfig, ExtraDrift, RunConfig
from driftrl.drift.schedules import Constant, Schedule, Unknown, extremes, value_at
from driftrl.envs.plant import Observation, Plant, StepResult
from driftrl.envs.plants import make_plant
from driftrl.envs.tasks import task_named
from driftrl.errors import require


class DriftingEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A plant whose θ_n is put into force at the start of episode n.

    The clock counts resets, from 1, or the decisions taken before a reset.
    ``reset(options={"episode": n, "steps": t})`` sets either, which is how a
    resumed run, or a learner that discards an episode, keeps its place.
    """

    def __init__(
        self, plant: Plant, schedules: Mapping[str, Schedule], clock: Clock = "episodes"
    ) -> None:
        """Make an environment.

        Args:
            plant: The machine.
            schedules: What drifts, by the plant's names; the first one's value is θ.
                Empty if the plant drifts by itself.
            clock: What the schedules count.

        Raises:
            InputError: The plant can't take what a schedule comes to, sooner or later.
        """
        self._plant = plant
        self._schedules = dict(schedules)
        self._clock: Clock = clock
        self._episode = 0
        self._decisions = 0
        # Once now, so that no episode is lived before it turns out.
        for ends in zip(*map(extremes, self._schedules.values()), strict=True):
            plant.set_parameters(dict(zip(self._schedules, ends, strict=True)))
        self._settle()
        self.observation_space = plant.observation_space
        self.action_space = plant.action_space
        self.metadata = plant.metadata
        self.render_mode = plant.render_mode

    @property
    def theta(self) -> float:
        """θ of the running episode; NaN where nobody knows it."""
        return self._theta

    @property
    def thetas(self) -> dict[str, float]:
        """All that drifts, by its name, as it is in the running episode."""
        return dict(self._thetas)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Advance the clock by one episode, or set it, and apply θ_n."""
        options = options or {}
        self._episode = _whole(options, "episode", self._episode + 1, least=1)
        self._decisions = _whole(options, "steps", self._decisions, least=0)
        super().reset(seed=seed)
        self._settle()
        place = {"episode": self._episode, "steps": self._decisions}
        obs, info = self._plant.reset(seed=seed, options=place)
        return obs, {**info, "theta": self._theta}

    def _settle(self) -> None:
        now = max(1, self._episode) if self._clock == "episodes" else self._decisions
        self._thetas = {
            name: value_at(schedule, now) for name, schedule in self._schedules.items()
        }
        self._theta = next(iter(self._thetas.values()), math.nan)
        self._plant.set_parameters(self._thetas)

    def step(self, action: np.ndarray) -> StepResult:
        """Step the plant; θ stays what it was at the reset."""
        obs, reward, terminated, truncated, info = self._plant.step(action)
        self._decisions += 1
        info["theta"] = self._theta
        return obs, reward, terminated, truncated, info

    def render(self) -> Any:
        """Draw the plant."""
        return self._plant.render()

    def close(self) -> None:
        """Close the plant."""
        self._plant.close()


def make_env(
    task: str,
    environment: EnvironmentConfig | None = None,
    drift: Schedule | None = None,
    extra_drifts: tuple[ExtraDrift, ...] = (),
    clock: Clock | None = None,
    render_mode: str | None = None,
) -> DriftingEnv:
    """Build the drifting environment of a task, by default with the task's settings."""
    row = task_named(task)
    environment = environment or row.environment
    drift = drift or row.drift
    schedules: dict[str, Schedule] = {}
    if not isinstance(drift, Unknown):
        schedules[environment.parameter] = drift
    for further in extra_drifts:
        require(
            further.parameter not in schedules,
            f"Parameter {further.parameter!r} of task {task!r} has two schedules; give "
            "each parameter one.",
        )
        schedules[further.parameter] = further.schedule
    plant = make_plant(row, environment, render_mode)
    return DriftingEnv(plant, schedules, clock or row.clock)


def environment_of(config: RunConfig, render_mode: str | None = None) -> DriftingEnv:
    """Build the drifting environment of a run."""
    return make_env(
        config.task,
        config.environment,
        config.drift,
        config.extra_drifts,
        config.clock,
        render_mode,
    )


def freeze(
    task: str,
    theta: float,
    environment: EnvironmentConfig | None = None,
    render_mode: str | None = None,
) -> DriftingEnv:
    """Build the stationary twin of a task at θ, for evaluation and for oracles."""
    return make_env(task, environment, Constant(value=theta), render_mode=render_mode)


def _whole(options: dict[str, Any], name: str, otherwise: int, *, least: int) -> int:
    chosen = options.get(name, otherwise)
    require(
        isinstance(chosen, int) and chosen >= least,
        f"options[{name!r}] must be a whole number from {least}, received {chosen!r}.",
    )
    return chosen
