"""What a robot moves: any machine, or any Gymnasium environment in its start."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from jaxtyping import Float

from driftrl.errors import InputError, require


@dataclass(frozen=True)
class EpisodeStart:
    """Number of an episode, the steps taken before it, and its seed."""

    episode: int
    steps: int
    seed: int | None


@dataclass(frozen=True)
class Sample:
    """One observation of a machine, not checked yet."""

    obs: np.ndarray
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    theta: float | None = None


class Machine(ABC):
    """A machine that acts on [−1, 1].  All but ``halt`` is called from one thread."""

    name: str
    observation_size: int
    action_size: int
    steps: int
    """Actions in an episode that runs its full time."""
    theta_known: bool = False
    """Whether samples come with θ."""

    @abstractmethod
    def reset(self, start: EpisodeStart) -> Sample:
        """Go to the start of an episode; may take as long as an operator needs."""

    @abstractmethod
    def step(self, action: Float[np.ndarray, " A"]) -> Sample:
        """Put an action into force, and return what is seen a period later.

        It may return at once, as a simulator does, or when the period is over.
        """

    def halt(self) -> None:
        """Take all power away, at once, also while ``step`` hangs in another thread.

        The stop action is stepped as well, so a machine without such a switch needs
        nothing here.
        """
        return

    def close(self) -> None:
        """Release the machine."""
        return


class GymnasiumMachine(Machine):
    """A Gymnasium environment that acts on [−1, 1], as a machine.

    Its ``reset`` is given ``options={"episode": n, "steps": t}``.
    """

    def __init__(
        self,
        env: gymnasium.Env[Any, Any],
        *,
        name: str,
        steps: int,
        theta_known: bool = False,
        halt: Callable[[], None] | None = None,
    ) -> None:
        """Wrap an environment.

        Args:
            env: The environment.
            name: Its name, which learners see.
            steps: Actions in an episode that runs its full time.
            theta_known: Whether ``info["theta"]`` is what drifts in it.
            halt: Takes all power away, if there is such a switch; see ``Machine.halt``.
        """
        observed, chosen = env.observation_space, env.action_space
        if not (
            isinstance(observed, spaces.Box)
            and isinstance(chosen, spaces.Box)
            and len(observed.shape) == len(chosen.shape) == 1
        ):
            raise InputError(
                "A robot needs vectors as observations and actions, received "
                f"{observed} and {chosen}."
            )
        require(
            bool((chosen.low == -1).all() and (chosen.high == 1).all()),
            f"A robot acts on [−1, 1], received {chosen}; wrap the environment in "
            "gymnasium.wrappers.RescaleAction.",
        )
        self._env = env
        self.name, self.steps, self.theta_known = name, steps, theta_known
        self.observation_size = observed.shape[0]
        self.action_size = chosen.shape[0]
        self._halt = halt

    def reset(self, start: EpisodeStart) -> Sample:
        """Reset the environment to an episode."""
        options = {"episode": start.episode, "steps": start.steps}
        obs, info = self._env.reset(seed=start.seed, options=options)
        return Sample(_numbers(obs), theta=self._theta(info))

    def step(self, action: Float[np.ndarray, " A"]) -> Sample:
        """Step the environment."""
        obs, reward, terminated, truncated, info = self._env.step(action)
        return Sample(
            _numbers(obs),
            float(reward),
            bool(terminated),
            bool(truncated),
            self._theta(info),
        )

    def _theta(self, info: dict[str, Any]) -> float | None:
        return float(info["theta"]) if self.theta_known else None

    def halt(self) -> None:
        """Call the given switch, if there is one."""
        if self._halt is not None:
            self._halt()

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


def _numbers(obs: Any) -> np.ndarray:
    return np.array(obs, np.float64)


class MachineThread:
    """Calls a machine in a thread of its own, so that a call that hangs is noticed."""

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Callable[[], Sample], Future[Sample]] | None]
        self._calls = SimpleQueue()
        self._newest: Future[Sample] | None = None
        # A machine that hangs for ever must not keep the process from ending.
        threading.Thread(target=self._work, name=name, daemon=True).start()

    @property
    def busy(self) -> bool:
        """Whether a call has not come back yet."""
        return self._newest is not None and not self._newest.done()

    def call(self, function: Callable[[], Sample]) -> Future[Sample]:
        """Have a function called after those before it."""
        self._newest = Future()
        self._calls.put((function, self._newest))
        return self._newest

    def close(self) -> None:
        """Let the thread end after its last call."""
        self._calls.put(None)

    def _work(self) -> None:
        while (item := self._calls.get()) is not None:
            function, future = item
            try:
                future.set_result(function())
            except Exception as error:  # reported with the result
                future.set_exception(error)
