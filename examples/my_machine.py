"""A Gymnasium class of your own, learned while its valve clogs, through a power cut.

The same from the shell, in the directory of this file:

    driftrl check-env my_machine:Tanks
    driftrl run my_machine:Tanks --episodes 60 --resume
    driftrl report runs/my_machine.Tanks-adaptive-s0
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import driftrl


class Tanks(gymnasium.Env[np.ndarray, np.ndarray]):
    """Two tanks, one above the other; keep the lower at its level with the pump."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0.0, 1.5, (3,))
        self.action_space = spaces.Box(0.0, 10.0, (1,))  # volts
        self.day = 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Begin a day with tanks that are somewhere, and a level to keep."""
        super().reset(seed=seed)
        # A simulation must be told how worn it is; a machine would just be so.
        self.day = (options or {}).get("episode", self.day + 1)
        self.valve = 0.35 + 0.65 * np.exp(-0.06 * max(0, self.day - 20))
        self.levels = self.np_random.uniform(0.1, 0.9, 2)
        self.goal = self.np_random.uniform(0.3, 0.8)
        self.left = 40
        return self.seen(), {}

    def seen(self) -> np.ndarray:
        """Return both levels, and the one to keep."""
        return np.array([*self.levels, self.goal], np.float32)

    def step(
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Pump for a while."""
        for _ in range(4):
            upper, lower = np.sqrt(self.levels)
            into, between = 0.02 * float(action[0]), 0.12 * upper
            flows = [into - between, between - 0.12 * self.valve * lower]
            self.levels = np.clip(self.levels + flows, 0.0, 1.5)
        self.left -= 1
        reward = -abs(self.levels[1] - self.goal)
        return self.seen(), float(reward), False, self.left == 0, {}


if __name__ == "__main__":
    # Learn from the newest ten episodes.  Called again it goes on where it stopped.
    trained = driftrl.train(
        Tanks(), forgetting=driftrl.Window(10), episodes=6, out="runs/tanks"
    )
    for row in trained.records:
        print(f"day {row.episode}: return {row.return_executed:.2f}")

    env = Tanks()
    obs, _ = env.reset(seed=1, options={"episode": 7})
    print("pump voltage:", trained.act(obs))
