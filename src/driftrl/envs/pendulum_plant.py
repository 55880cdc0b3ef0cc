"""The pendulum as a plant: Gymnasium's Pendulum-v1, with four differences.

The agent acts in [−1, 1] and the torque is θ times that; an action may be held for
several steps; an episode may start hanging; the state may carry Gaussian process noise
(the paper's x' = f(x, u) + w).
"""

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from driftrl.config.run import EnvironmentConfig
from driftrl.envs.pendulum import HANGING, MAX_SPEED
from driftrl.envs.plant import Observation, Plant, StepResult
from driftrl.errors import require


class PendulumPlant(Plant):
    """Gymnasium's Pendulum-v1 whose full action ±1 commands the torque ±θ.

    Observation (cos φ, sin φ, ω), φ = 0 upright; reward −(φ² + 0.1 ω² + 0.001 τ²)
    summed over the steps that the action is held.  Never terminates.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": ["rgb_array", "human"],
        "render_fps": 20,  # as many steps as a second has
    }

    def __init__(
        self, config: EnvironmentConfig, render_mode: str | None = None
    ) -> None:
        self.render_mode = render_mode
        self._inner = gymnasium.make("Pendulum-v1", render_mode=render_mode).unwrapped
        self._config = config
        bound = np.array([1.0, 1.0, MAX_SPEED])
        self.observation_space = spaces.Box(-bound, bound, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)
        self._theta = 0.0

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set ``torque``, that of the full action, in N·m."""
        for name in values:
            require(
                name == "torque",
                f"The pendulum has no parameter {name!r}; it has 'torque' alone.",
            )
        theta = values["torque"]
        require(
            np.isfinite(theta) and theta >= 0,
            "The pendulum's torque θ must be a number of at least 0, received "
            f"{theta!r}.",
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
        self._left = self._config.sim_steps
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
