"""What a robot moves: any Gymnasium environment, and the thread that calls it."""

import threading
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
from driftrl.robot.protocol import Begin


@dataclass(frozen=True)
class Sample:
    """One observation of a machine, not checked yet."""

    obs: np.ndarray
    reward: float = 0.0
    terminated: bool = False
    truncated: bool = False
    theta: float | None = None

    @property
    def is_last(self) -> bool:
        """Whether the episode ends with it."""
        return self.terminated or self.truncated


class Machine:
    """A Gymnasium environment that acts on [−1, 1], in a simulator or in hardware.

    All but ``halt`` is called from one thread.  ``reset`` may take as long as an
    operator needs; ``step`` puts an action into force and returns what is seen a period
    later: at once, as a simulator does, or when the period is over.
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
            halt: Takes all power away at once, also while ``step`` hangs in another
                thread; by default the environment's method ``halt``, if it has one.
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
        self._halt = halt or getattr(env.unwrapped, "halt", None)
        self.name, self.steps, self.theta_known = name, steps, theta_known
        self.observation_size = observed.shape[0]
        self.action_size = chosen.shape[0]

    def reset(self, begin: Begin) -> Sample:
        """Go to the start of an episode, with ``options`` its number and clock."""
        options = {"episode": begin.episode, "steps": begin.steps}
        obs, info = self._env.reset(seed=begin.seed, options=options)
        return Sample(np.array(obs, np.float64), theta=self._theta(info))

    def step(self, action: Float[np.ndarray, " A"]) -> Sample:
        """Step the environment."""
        obs, reward, terminated, truncated, info = self._env.step(action)
        return Sample(
            np.array(obs, np.float64),
            float(reward),
            bool(terminated),
            bool(truncated),
            self._theta(info),
        )

    def _theta(self, info: dict[str, Any]) -> float | None:
        return float(info["theta"]) if self.theta_known else None

    def halt(self) -> None:
        """Take all power away, if there is such a switch."""
        if self._halt is not None:
            self._halt()

    def close(self) -> None:
        """Close the environment."""
        self._env.close()


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
