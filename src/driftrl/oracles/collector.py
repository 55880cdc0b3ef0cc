"""Training episodes for an oracle: from every start of a task, a decision at a time."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from driftrl.config.run import EnvironmentConfig
from driftrl.config.task import Task
from driftrl.envs.drifting import freeze
from driftrl.training.loop import Env
from driftrl.training.streams import Purpose, integer_for
from driftrl.types import Data

Action = Float[np.ndarray, " A"]


def starting_everywhere(
    task: Task, theta: float, environment: EnvironmentConfig
) -> list[Env]:
    """Return the frozen task with its own start, then with every other it offers."""
    others = [start for start in task.starts if start != environment.start]
    return [
        freeze(task.name, theta, replace(environment, start=start))
        for start in (environment.start, *others)
    ]


class Collector:
    """Steps through episodes of environments that take turns, and stores it all."""

    def __init__(
        self, envs: Sequence[Env], sizes: tuple[int, int], capacity: int, *, seed: int
    ) -> None:
        states, actions = sizes
        self._envs = envs
        self._seed = seed
        self._episodes = 0
        self._size = 0
        self._data = Data(
            obs=np.zeros((capacity, states)),
            actions=np.zeros((capacity, actions)),
            rewards=np.zeros(capacity),
            next_obs=np.zeros((capacity, states)),
            terminated=np.zeros(capacity, bool),
        )
        self._begin()

    def collect(
        self, decisions: int, decide: Callable[[Float[np.ndarray, " S"], int], Action]
    ) -> None:
        """Take so many more decisions; ``decide(obs, number)`` names each action."""
        data = self._data
        for number in range(decisions):
            action = decide(self._obs, number)
            next_obs, reward, terminated, truncated, _ = self._env.step(action)
            row = self._size
            data.obs[row], data.actions[row] = self._obs, action
            data.rewards[row], data.next_obs[row] = reward, next_obs
            data.terminated[row] = terminated
            self._size += 1
            self._obs = next_obs
            if terminated or truncated:
                self._begin()

    @property
    def data(self) -> Data:
        """All that was collected so far."""
        rows, data = slice(self._size), self._data
        return Data(
            data.obs[rows],
            data.actions[rows],
            data.rewards[rows],
            data.next_obs[rows],
            data.terminated[rows],
        )

    def _begin(self) -> None:
        self._env = self._envs[self._episodes % len(self._envs)]
        place = integer_for(self._seed, Purpose.ENVIRONMENT, self._episodes)
        self._obs, _ = self._env.reset(seed=place)
        self._episodes += 1
