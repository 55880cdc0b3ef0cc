"""A task of your own: an environment with a parameter, its schedule, and its regret.

The same from the shell, in the directory of this file:

    driftrl run my_task:Heater --environment.parameter power --drift my_task:fade
    driftrl regret runs/my_task.Heater-adaptive-s0 --oracle my_task:optimal_return
"""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import driftrl

STEPS = 25


class Heater(gymnasium.Env[np.ndarray, np.ndarray]):
    """Keep a plate at temperature 1; the power of its heater is what drifts."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-20.0, 20.0, (1,))
        self.action_space = spaces.Box(-1.0, 1.0, (1,))
        self.power = 1.0

    def set_parameters(self, values: dict[str, float]) -> None:
        """Set what drifts; driftrl calls this before every episode."""
        self.power = values["power"]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Start with a cold plate."""
        super().reset(seed=seed)
        self.temperature, self.left = 0.0, STEPS
        return np.array([self.temperature], np.float32), {}

    def step(
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Heat or cool for one step; a fifth of the heat is lost."""
        self.temperature = 0.8 * self.temperature + self.power * float(action[0])
        self.left -= 1
        reward = -((self.temperature - 1.0) ** 2)
        obs = np.array([self.temperature], np.float32)
        return obs, reward, False, self.left == 0, {}


def fade(episode: int) -> float:
    """Return the power in an episode: a schedule is any function of the clock."""
    return 0.3 + 0.7 * np.exp(-0.3 * max(0, episode - 6))


def optimal_return(power: float) -> float:
    """Return J*: heat fully until one step suffices, then hold the temperature."""
    temperature, total = 0.0, 0.0
    for _ in range(STEPS):
        action = np.clip((1.0 - 0.8 * temperature) / power, -1.0, 1.0)
        temperature = 0.8 * temperature + power * action
        total -= (temperature - 1.0) ** 2
    return float(total)


if __name__ == "__main__":
    task = driftrl.custom_task(Heater, parameter="power", drift=fade, steps=STEPS)
    for method in ("sombrl", "sw-ombrl"):
        settings = {"episodes": 10, "forget_after": 6, "evaluation": {"episodes": 1}}
        config = driftrl.configure(task, method, settings)
        driftrl.run(config, Path("runs/plate") / config.name, resume=True)

    frame = driftrl.load("runs/plate", oracle=optimal_return)
    print(frame.select("method", "episode", "theta", "achieved_return", "regret"))
    print(driftrl.regret(frame).select("method", "seeds", "episodes", "regret"))
