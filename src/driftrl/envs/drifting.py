"""The only place where θ_n is applied.

θ is set from the nominal value at every reset, or every few steps, and shown in
``info["theta"]`` only: the learner never sees it.
"""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import numpy as np
from jaxtyping import Array

from driftrl.config.run import Clock, EnvironmentConfig, ExtraDrift, RunConfig
from driftrl.config.task import Task
from driftrl.drift.schedules import Constant, Schedule, Unknown, extremes, value_at
from driftrl.envs.custom import NO_PARAMETER, GymPlant, is_custom, load_env
from driftrl.envs.limits import with_limits
from driftrl.envs.plant import Observation, Plant, StepResult
from driftrl.envs.tasks import task_named, task_of_run
from driftrl.errors import EnvironmentFault, at_least, require
from driftrl.plugins import load_object

Reward = Callable[[Array, Array, Array], Array]
Condition = Callable[[Array, Array, Array], Array]
"""(obs, action, next_obs) ↦ whether the task ends in next_obs."""
NextObs = Callable[[Array, Array, Array], Array]
"""(obs, action, prediction of next_obs) ↦ the same with the exact values of a part."""


class DriftingEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A plant whose θ_n is applied at the start of episode n, or θ_t within it.

    The clock counts resets, from 1, or the decisions taken before a reset.  With
    ``every`` = k > 0 it counts all decisions: θ is that of the last multiple of k.
    ``reset(options={"episode": n, "steps": t})`` sets either, which is how a
    resumed run, or a learner that discards an episode, keeps its place.
    """

    def __init__(
        self,
        plant: Plant,
        schedules: Mapping[str, Schedule],
        clock: Clock = "episodes",
        every: int = 0,
    ) -> None:
        """Let a plant drift, or ``InputError`` if it can't take a schedule's values.

        ``schedules`` say what drifts, by the plant's names; the first one's value is θ.
        They are empty if the plant drifts on its own.
        """
        self._plant = plant
        self._schedules = dict(schedules)
        self._clock: Clock = clock
        self._every = every
        self._episode = 0
        self._decisions = 0
        # A value that the plant refuses must show now, not after a hundred episodes.
        for values in zip(*map(extremes, self._schedules.values()), strict=True):
            plant.set_parameters(dict(zip(self._schedules, values, strict=True)))
        self._apply_drift()
        self.observation_space = plant.observation_space
        self.action_space = plant.action_space
        self.metadata = plant.metadata
        self.render_mode = plant.render_mode

    @property
    def ignores_place(self) -> bool:
        """Whether a custom environment goes by no number of the episode."""
        return not self.thetas and getattr(self._plant, "ignores_place", False)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Advance the clock by one episode, or set it, and apply θ_n."""
        clock = self._begin(seed, options or {})
        obs, info = self._plant.reset(seed=seed, options=clock)
        return obs, {**info, "theta": self.theta}

    def _begin(self, seed: int | None, options: dict[str, Any]) -> dict[str, int]:
        self._episode = options.get("episode", self._episode + 1)
        self._decisions = options.get("steps", self._decisions)
        at_least("options['episode']", self._episode, 1)
        at_least("options['steps']", self._decisions, 0)
        super().reset(seed=seed)
        self._apply_drift()
        return {"episode": self._episode, "steps": self._decisions}

    def _apply_drift(self) -> None:
        now = max(1, self._episode) if self._clock == "episodes" else self._decisions
        now -= now % self._every if self._every else 0
        self.thetas = {
            name: value_at(schedule, now) for name, schedule in self._schedules.items()
        }
        """All drifting parameters of the running episode, by name."""
        self.theta = next(iter(self.thetas.values()), math.nan)
        """θ of the running episode, or of its last step; NaN if it is unknown."""
        self._plant.set_parameters(self.thetas)

    def step(self, action: np.ndarray) -> StepResult:
        """Step the plant, at θ of the reset or of this step."""
        if self._every and self._decisions % self._every == 0:
            self._apply_drift()
        obs, reward, terminated, truncated, info = self._plant.step(action)
        self._decisions += 1
        info["theta"] = self.theta
        return obs, reward, terminated, truncated, info

    def render(self) -> Any:
        """Draw the plant."""
        return self._plant.render()

    def close(self) -> None:
        """Close the plant."""
        self._plant.close()


class ContinuingEnv(DriftingEnv):
    """A machine that is reset once: then ``reset`` only begins the next segment.

    A step that the plant calls terminated is an event: it costs ``event_cost``, and an
    operator puts the machine back, or the policy goes on, as ``recovery`` says.
    """

    def __init__(
        self, plant: Plant, schedules: Mapping[str, Schedule], config: RunConfig
    ) -> None:
        super().__init__(plant, schedules, config.clock, config.drift_every)
        self._config = config
        self._obs: Observation | None = None  # what the next segment begins with
        self._state: Mapping[str, np.ndarray] | None = None  # where, after a restart
        self.events: list[dict[str, Any]] = []
        """What happened in the newest segment."""

    @property
    def machine(self) -> dict[str, np.ndarray]:
        """Where the machine is, by name; empty if that can't be restored."""
        if self._obs is None or (state := self._plant.get_state()) is None:
            return {}
        return {"obs": self._obs, **{f"plant.{name}": state[name] for name in state}}

    def restore(self, machine: Mapping[str, np.ndarray]) -> None:
        """Go on at the next ``reset`` from where ``machine`` was."""
        if "obs" in machine:
            super().reset(seed=0, options={})
            self._obs = np.array(machine["obs"])
            named = [name for name in machine if name.startswith("plant.")]
            self._state = {name.removeprefix("plant."): machine[name] for name in named}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Begin a segment where the last one ended; the first at a reset."""
        self.events, self._fallen = [], False
        self._left = self._config.environment.steps
        if self._obs is None:
            self._obs, info = super().reset(seed=seed, options=options)
            return self._obs, info
        self._begin(seed, options or {})
        # Set in any case: it may compute something, as MuJoCo does, and a resumed run
        # must equal an uninterrupted one.
        state = self._plant.get_state() if self._state is None else self._state
        if state is not None:
            self._plant.set_state(state)
            self._plant.reseed(int(self.np_random.integers(2**31)))
        self._state = None
        return self._obs, {"theta": self.theta}

    def step(self, action: np.ndarray) -> StepResult:
        """Step the plant; the last step of a segment is truncated."""
        obs, reward, terminated, truncated, info = super().step(action)
        if truncated:
            raise EnvironmentFault(
                f"The environment truncated itself after {self._decisions} steps; in "
                "continuing operation it is never reset. Remove its time limit."
            )
        self._left -= 1
        if terminated and not self._fallen:
            reward -= self._config.event_cost
            event = {
                "segment": self._episode,
                "step": self._config.environment.steps - self._left,
                "clock": self._decisions,
                "event": str(info.get("event", "terminated")),
                "cost": self._config.event_cost,
                "recovery": self._config.recovery,
            }
            self.events.append(event)
        self._fallen, self._obs = terminated, obs
        ended = terminated and self._config.recovery == "operator"
        if ended:
            clock = {"episode": self._episode, "steps": self._decisions}
            seed = int(self.np_random.integers(2**31))
            self._obs, _ = self._plant.reset(seed=seed, options=clock)
        return obs, reward, ended, not ended and self._left == 0, info


def make_env(
    task: str | Task,
    environment: EnvironmentConfig | None = None,
    drift: Schedule | None = None,
    extra_drifts: tuple[ExtraDrift, ...] = (),
    clock: Clock | None = None,
    render_mode: str | None = None,
    drift_every: int = 0,
) -> DriftingEnv:
    """Build the drifting environment of a task, by default with the task's settings."""
    row = task_named(task) if isinstance(task, str) else task
    environment = environment or row.environment
    schedules = schedules_of(row.name, environment, drift or row.drift, extra_drifts)
    plant = make_plant(row, environment, render_mode)
    return DriftingEnv(plant, schedules, clock or row.clock, drift_every)


def environment_of(config: RunConfig, render_mode: str | None = None) -> DriftingEnv:
    """Build the drifting environment of a run."""
    plant = make_plant(task_of_run(config), config.plant_environment, render_mode)
    return drifting(plant, config)


def drifting(plant: Plant, config: RunConfig) -> DriftingEnv:
    """Let a plant drift as the configuration of a run says."""
    schedules = schedules_of(
        config.task, config.environment, config.drift, config.extra_drifts
    )
    plant = with_limits(plant, config.environment.limits)
    if config.continuing:
        return ContinuingEnv(plant, schedules, config)
    return DriftingEnv(plant, schedules, config.clock, config.drift_every)


def freeze(
    task: str, theta: float, environment: EnvironmentConfig | None = None
) -> DriftingEnv:
    """Build the stationary twin of a task at θ, for evaluation and for oracles."""
    return make_env(task, environment, Constant(value=theta))


def schedules_of(
    task: str,
    environment: EnvironmentConfig,
    drift: Schedule,
    extra_drifts: tuple[ExtraDrift, ...] = (),
) -> dict[str, Schedule]:
    """Return what drifts by its parameter, θ first; empty if nothing has a schedule."""
    if isinstance(drift, Unknown):
        require(
            environment.parameter == NO_PARAMETER and not extra_drifts,
            f"Task {task!r}: environment.parameter = {environment.parameter!r} needs a "
            "schedule, such as --drift.kind exponential.",
        )
        return {}
    require(
        environment.parameter != NO_PARAMETER,
        f"Task {task!r} has a schedule, but no parameter that it sets. Name one with "
        "--environment.parameter NAME.",
    )
    schedules: dict[str, Schedule] = {environment.parameter: drift}
    for extra in extra_drifts:
        require(
            extra.parameter not in schedules,
            f"Parameter {extra.parameter!r} of task {task!r} has two schedules; give "
            "each parameter one.",
        )
        schedules[extra.parameter] = extra.schedule
    return schedules


PLANTS = {
    "pendulum": "driftrl.envs.pendulum:PendulumPlant",
    "rccar": "driftrl.envs.rccar:RCCarPlant",
}
"""Every simulator but MuJoCo's and custom ones, imported when it is needed."""


def make_plant(
    task: Task, environment: EnvironmentConfig, render_mode: str | None = None
) -> Plant:
    """Build the system of a task."""
    if is_custom(task.name):
        return GymPlant(load_env(task.name), environment)
    task.check_environment(environment)
    if task.plant in PLANTS:
        return load_object(PLANTS[task.plant])(environment, render_mode)
    from driftrl.envs.mujoco import MujocoPlant

    return MujocoPlant(task, environment, render_mode)


def known_reward(task: Task, environment: EnvironmentConfig) -> Reward | None:
    """Return the reward of one decision if a learner may know it."""
    if task.plant not in ("pendulum", "rccar"):
        return None
    decision_reward = load_object(f"driftrl.envs.{task.plant}:decision_reward")
    return decision_reward(environment.action_repeat, task.nominal)


def known_next_obs(task: Task) -> NextObs | None:
    """Return what puts the known part into a predicted observation, if there is one."""
    if task.plant != "rccar":
        return None
    return load_object("driftrl.envs.rccar:known_next_obs")


def known_end(task: Task, environment: EnvironmentConfig) -> Condition | None:
    """Return when an episode of a task ends early; None if it never does."""
    if not (task.may_end and environment.terminates):
        return None
    return _end_of(task.plant)


@functools.cache  # one function for a plant, which is compiled once
def _end_of(plant: str) -> Condition:
    from driftrl.envs.termination import ENDS

    ended = ENDS[plant]
    return lambda obs, action, next_obs: ended(next_obs)
