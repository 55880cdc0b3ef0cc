"""What lies between agent and machine: late actions, late and noisy observations."""

from collections import deque

import numpy as np


class Signals:
    """Delays, in decisions, and Gaussian noise; without either, nothing is touched."""

    def __init__(self) -> None:
        self.action_delay = 0
        self.observation_delay = 0
        self.observation_noise = 0.0
        self._commands: deque[np.ndarray] = deque()
        self._seen: deque[np.ndarray] = deque()

    def reset(
        self, action_size: int, obs: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Begin an episode: no command is under way, and the first sight is all seen.

        Returns:
            What the agent observes.
        """
        self._commands = deque([np.zeros(action_size)] * self.action_delay)
        self._seen = deque([obs] * self.observation_delay)
        return self.observed(obs, rng)

    def command(self, action: np.ndarray) -> np.ndarray:
        """Send an action; return the one that arrives at the machine now."""
        if self.action_delay == 0:
            return action
        self._commands.append(action)
        return self._commands.popleft()

    def observed(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return what reaches the agent of the machine's newest observation."""
        if self.observation_delay:
            self._seen.append(obs)
            obs = self._seen.popleft()
        if self.observation_noise:
            return obs + self.observation_noise * rng.standard_normal(obs.shape)
        return obs
