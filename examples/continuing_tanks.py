"""A process that runs for a year, with a daily cycle and wear, through two power cuts.

The same from the shell, in the directory of this file:

    driftrl run continuing_tanks:Tanks --continuing --segment 48 --episodes 365 --resume
"""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import driftrl

DAY = 48  # steps of half an hour


class Tanks(gymnasium.Env[np.ndarray, np.ndarray]):
    """Two tanks, one above the other; keep the lower at half its height."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(-1.5, 1.5, (4,))
        self.action_space = spaces.Box(0.0, 10.0, (1,))  # volts
        self.levels, self.time = np.full(2, 0.3), 0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Fill the tanks, which happens once: before the first day."""
        self.levels, self.time = np.full(2, 0.3), (options or {}).get("steps", 0)
        return self.seen(), {}

    def get_state(self) -> dict[str, Any]:
        """Return what a restart needs to go on from here."""
        return {"levels": self.levels, "time": self.time}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Go on from there."""
        self.levels, self.time = np.array(state["levels"]), int(state["time"])

    def seen(self) -> np.ndarray:
        """Return both levels and the hour, as an angle."""
        hour = 2 * np.pi * self.time / DAY
        return np.array([*self.levels, np.sin(hour), np.cos(hour)], np.float32)

    def step(
        self, action: np.ndarray
    ) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        """Pump for half an hour, while more is drawn by day and the valve clogs."""
        valve = 0.4 + 0.6 * np.exp(-self.time / (120 * DAY))
        drawn = valve * (1.0 + 0.3 * np.sin(2 * np.pi * self.time / DAY))
        for _ in range(4):
            upper, lower = np.sqrt(self.levels)
            into, between = 0.02 * float(action[0]), 0.12 * upper
            flows = [into - between, between - 0.12 * drawn * lower]
            self.levels = np.clip(self.levels + flows, 0.0, 1.5)
        self.time += 1
        return self.seen(), -float(abs(self.levels[1] - 0.5)), False, False, {}


def cut(row: Any) -> None:
    """Stand for two power cuts."""
    if row.episode in (100, 200):
        raise ConnectionError(f"no power on day {row.episode}")


year = None
settings = {"continuing": True, "environment": {"sim_steps": DAY}}
while year is None:  # with the same directory it goes on from there
    try:
        year = driftrl.train(
            Tanks(), episodes=365, out="runs/year", settings=settings, on_episode=cut
        )
        rates = [row.return_executed / row.steps for row in year.records]
        print("mean error of the level, in the first and last ten days:")
        print(f"{-np.mean(rates[:10]):.3f} {-np.mean(rates[-10:]):.3f}")
    except ConnectionError as error:
        print(f"stopped: {error}; it goes on from the last segment")
