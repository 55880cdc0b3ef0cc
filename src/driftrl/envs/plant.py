"""What the drifting environment needs of a system, whichever simulator runs it."""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np

Observation = np.ndarray
StepResult = tuple[Observation, float, bool, bool, dict[str, Any]]


class Plant(gymnasium.Env[np.ndarray, np.ndarray]):
    """A system that acts on [−1, 1] and whose parameters can be set.

    ``reset(seed=…)`` leaves nothing of the episode before: with the same seed,
    parameters and actions an episode is the same, bit for bit.
    """

    @abstractmethod
    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set parameters by name, each from its nominal value."""

    @abstractmethod
    def step(self, action: np.ndarray) -> StepResult:
        """Hold an action in [−1, 1] for one decision."""
