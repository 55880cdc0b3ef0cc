"""Delays and noise between agent and system."""

from collections import deque

import numpy as np


class Signals:
    """Delays in decisions, and Gaussian noise on observations."""

    def __init__(self) -> None:
        self.action_delay = 0
        self.observation_delay = 0
        self.observation_noise = 0.0
        self._commands: deque[np.ndarray] = deque()
        self._observations: deque[np.ndarray] = deque()

    def reset(
        self, action_size: int, obs: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Start an episode: no command is on its way, and no older observation.

        Returns:
            What the agent observes.
        """
        self._commands = deque([np.zeros(action_size)] * self.action_delay)
        self._observations = deque([obs] * self.observation_delay)
        return self.observed(obs, rng)

    def command(self, action: np.ndarray) -> np.ndarray:
        """Send an action; return the one that arrives now."""
        if self.action_delay == 0:
            return action
        self._commands.append(action)
        return self._commands.popleft()

    def observed(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return what the agent observes, given the newest observation."""
        if self.observation_delay:
            self._observations.append(obs)
            obs = self._observations.popleft()
        if self.observation_noise:
            return obs + self.observation_noise * rng.standard_normal(obs.shape)
        return obs
