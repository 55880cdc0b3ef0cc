"""What the drifting environment needs of a system, whichever simulator runs it."""

from abc import abstractmethod
from collections import deque
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.utils import seeding

Observation = np.ndarray
StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]


class Plant(gymnasium.Env[np.ndarray, np.ndarray]):
    """A system that acts on [−1, 1] and whose parameters can be set.

    ``reset(seed=…)`` leaves nothing of the episode before: with the same seed,
    parameters and actions an episode is the same, bit for bit.
    """

    _inner: Any = None
    """The environment that this one wraps, if it does: it draws, and is closed."""

    @abstractmethod
    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set parameters by name, each from its nominal value."""

    @abstractmethod
    def step(self, action: np.ndarray) -> StepResult:
        """Hold an action in [−1, 1] for one decision."""

    def get_state(self) -> dict[str, np.ndarray] | None:
        """Return what ``set_state`` needs to go on from here; None if it can't."""
        return None

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Go on from a state, with other draws of the noise (``reseed``)."""
        raise NotImplementedError

    def reseed(self, seed: int) -> None:
        """Draw the noise from here on from another seed."""
        self.np_random = seeding.np_random(seed)[0]

    def render(self) -> Any:
        """Return or show the picture that the wrapped environment draws."""
        return self._inner.render()

    def close(self) -> None:
        """Close the wrapped environment."""
        if self._inner is not None:
            self._inner.close()


class Signals:
    """Delays, in decisions, and Gaussian noise between agent and system.

    Where a delay grows within an episode, what arrived last is held; where it shrinks,
    what is overtaken is lost.
    """

    def __init__(self) -> None:
        self.action_delay = 0
        self.observation_delay = 0
        self.observation_noise = 0.0
        self._commands: deque[np.ndarray] = deque()
        self._observations: deque[np.ndarray] = deque()

    def reset(
        self, action_size: int, obs: np.ndarray, rng: np.random.Generator
    ) -> np.ndarray:
        """Start an episode, with nothing on its way; return what is observed."""
        self._commands = deque([np.zeros(action_size)] * self.action_delay)
        self._observations = deque([obs] * self.observation_delay)
        return self.observed(obs, rng)

    def get_state(self) -> dict[str, np.ndarray]:
        """Return what is on its way."""
        return {
            "commands": np.array(self._commands),
            "observations": np.array(self._observations),
        }

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Put on its way what was."""
        self._commands = deque(state["commands"])
        self._observations = deque(state["observations"])

    def command(self, action: np.ndarray) -> np.ndarray:
        """Send an action; return the one that arrives now."""
        return _delayed(self._commands, action, self.action_delay)

    def observed(self, obs: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Return what the agent observes, given the newest observation."""
        obs = _delayed(self._observations, obs, self.observation_delay)
        if self.observation_noise:
            return obs + self.observation_noise * rng.standard_normal(obs.shape)
        return obs


def _delayed(line: deque[np.ndarray], newest: np.ndarray, delay: int) -> np.ndarray:
    line.append(newest)
    while len(line) > delay + 1:
        line.popleft()
    return line[0]
