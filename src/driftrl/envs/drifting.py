"""The only place where θ_n is put into force, and the plants it drives.

``PendulumPlant`` is Gymnasium's Pendulum-v1 with four differences: the agent acts in
[−1, 1] and the torque is θ times that; an action may be held for several steps; an
episode may start hanging; the state may carry Gaussian process noise (the paper's
x' = f(x, u) + w).  θ is set from the nominal value at every reset and shown in
``info["theta"]`` only: the learner never sees it.
"""

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Array

from driftrl.config import EnvironmentConfig
from driftrl.drift.schedules import Constant, Schedule
from driftrl.envs.pendulum import HANGING, MAX_SPEED, decision_reward
from driftrl.envs.tasks import Task, task_named
from driftrl.errors import InputError, require

Observation = np.ndarray
StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]


class PendulumPlant(gymnasium.Env[np.ndarray, np.ndarray]):
    """Gymnasium's Pendulum-v1 whose full action ±1 commands the torque ±θ.

    Observation (cos φ, sin φ, ω), φ = 0 upright; reward −(φ² + 0.1 ω² + 0.001 τ²)
    summed over the steps that the action is held.  Never terminates.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": ["rgb_array", "human"],
        "render_fps": 30,
    }

    def __init__(
        self, config: EnvironmentConfig, theta: float, render_mode: str | None = None
    ) -> None:
        self.render_mode = render_mode
        self._inner = gymnasium.make("Pendulum-v1", render_mode=render_mode).unwrapped
        self._config = config
        bound = np.array([1.0, 1.0, MAX_SPEED])
        self.observation_space = spaces.Box(-bound, bound, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)
        self.set_parameter(theta)

    def set_parameter(self, theta: float) -> None:
        """Set the torque of the full action, in N·m."""
        require(
            np.isfinite(theta) and theta >= 0,
            f"The pendulum's torque θ must be a number of at least 0, got {theta!r}.",
        )
        self._theta = float(theta)
        # Gymnasium clips at max_torque, so the limit must follow the commanded torque.
        self._inner.max_torque = self._theta  # pyright: ignore[reportAttributeAccessIssue]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode where ``environment.start`` says."""
        super().reset(seed=seed)
        if self._config.start == "hanging":
            state = np.array(HANGING)
        else:
            state = self.np_random.uniform([-np.pi, -1.0], [np.pi, 1.0])
        self._inner.reset(seed=0)  # Gymnasium's own start is replaced, not used.
        self._set_state(state)
        self._left = self._config.steps
        return self._observe(), {}

    def step(self, action: np.ndarray) -> StepResult:
        """Hold ``action`` in [−1, 1] for ``action_repeat`` steps of the simulator."""
        torque = self._theta * np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        total = 0.0
        for _ in range(self._config.action_repeat):
            _, reward, _, _, _ = self._inner.step(torque)
            total += float(reward)
        self._left -= self._config.action_repeat
        if self._config.noise_std > 0:
            noise = self.np_random.normal(0.0, self._config.noise_std, 2)
            angle, speed = self._state() + noise
            self._set_state(np.array([angle, np.clip(speed, -MAX_SPEED, MAX_SPEED)]))
        return self._observe(), total, False, self._left <= 0, {}

    def render(self) -> Any:
        """Return or show the picture that Gymnasium draws."""
        return self._inner.render()

    def close(self) -> None:
        """Close Gymnasium's window, if there is one."""
        self._inner.close()

    def _state(self) -> np.ndarray:
        return np.asarray(self._inner.state)  # pyright: ignore[reportAttributeAccessIssue]

    def _set_state(self, state: np.ndarray) -> None:
        self._inner.state = state  # pyright: ignore[reportAttributeAccessIssue]

    def _observe(self) -> Observation:
        angle, speed = self._state()
        return np.array([np.cos(angle), np.sin(angle), speed])


class DriftingEnv(gymnasium.Env[np.ndarray, np.ndarray]):
    """A plant whose θ_n is put into force at the start of episode n.

    The clock counts resets, from 1.  ``reset(options={"episode": n})`` sets it, which
    is how a resumed run, or a learner that discards an episode, keeps its place.
    """

    def __init__(self, plant: PendulumPlant, schedule: Schedule) -> None:
        self._plant = plant
        self._schedule = schedule
        self._episode = 0
        self.observation_space = plant.observation_space
        self.action_space = plant.action_space
        self.metadata = plant.metadata
        self.render_mode = plant.render_mode

    @property
    def theta(self) -> float:
        """θ of the running episode."""
        return self._schedule(max(1, self._episode))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Advance the clock by one episode, or set it, and apply θ_n."""
        chosen = (options or {}).get("episode", self._episode + 1)
        require(
            isinstance(chosen, int) and chosen >= 1,
            f"options['episode'] must be a whole number from 1, received {chosen!r}.",
        )
        super().reset(seed=seed)
        self._episode = chosen
        self._plant.set_parameter(self.theta)
        obs, info = self._plant.reset(seed=seed)
        return obs, {**info, "theta": self.theta}

    def step(self, action: np.ndarray) -> StepResult:
        """Step the plant; θ stays what it was at the reset."""
        obs, reward, terminated, truncated, info = self._plant.step(action)
        return obs, reward, terminated, truncated, {**info, "theta": self.theta}

    def render(self) -> Any:
        """Draw the plant."""
        return self._plant.render()

    def close(self) -> None:
        """Close the plant."""
        self._plant.close()


Reward = Callable[[Array, Array, Array], Array]

PLANTS = {"pendulum": PendulumPlant}
REWARDS: dict[type, Callable[[int, float], Reward]] = {PendulumPlant: decision_reward}


def make_env(
    task: str,
    environment: EnvironmentConfig | None = None,
    drift: Schedule | None = None,
    render_mode: str | None = None,
) -> DriftingEnv:
    """Build the drifting environment of a task, by default with the task's settings."""
    row = task_named(task)
    schedule = drift or row.drift
    plant = _plant(row)(environment or row.environment, schedule(1), render_mode)
    return DriftingEnv(plant, schedule)


def freeze(
    task: str, theta: float, environment: EnvironmentConfig | None = None
) -> DriftingEnv:
    """Build the stationary twin of a task at θ, for evaluation and for oracles."""
    return make_env(task, environment, Constant(value=theta))


def known_reward(task: str, environment: EnvironmentConfig) -> Reward:
    """Return the reward of one decision as the learner knows it (see the plant)."""
    row = task_named(task)
    return REWARDS[_plant(row)](environment.action_repeat, row.nominal)


def _plant(task: Task) -> type[PendulumPlant]:
    if task.plant not in PLANTS:
        raise InputError(f"Task {task.name!r} has no environment in this installation.")
    return PLANTS[task.plant]
