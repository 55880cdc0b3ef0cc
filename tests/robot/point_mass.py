"""A point mass on a line, as a machine that can be told to fail; also a program.

As a program it is a robot: ``python point_mass.py ADDRESS LOG PERIOD``.
"""

import json
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np

from driftrl.robot.controller import Controller
from driftrl.robot.machine import Machine, Sample
from driftrl.robot.protocol import Begin
from driftrl.robot.safety import Limits
from driftrl.robot.server import Robot
from driftrl.robot.timing import Timing

STOP = -0.25
"""Unlike anything that the tests command."""


class Point(Machine):
    """x' = x + v, v' = v + 0.1 u; the reward is −x²; starts where the seed says."""

    name = "point"
    observation_size = 2
    action_size = 1
    theta_known = True

    def __init__(self, steps: int = 6) -> None:
        self.steps = steps
        self.actions: list[float] = []
        """Everything that was put into force, in order."""
        self.places: list[Begin] = []
        self.halts = 0
        self.closed = False
        self.disturb: Callable[[int, Sample], Sample] = lambda step, sample: sample
        """Is given the step of the episode, and may change what is seen."""

    def reset(self, begin: Begin) -> Sample:
        self.places.append(begin)
        self._step = 0
        position = np.random.default_rng(begin.seed).uniform(-1.0, 1.0)
        self._state = np.array([position, 0.0])
        return self.disturb(0, Sample(self._state.copy(), theta=self._value))

    def step(self, action: np.ndarray) -> Sample:
        self.actions.append(float(action[0]))
        self._step += 1
        x, v = self._state
        self._state = np.array([x + v, v + 0.1 * action[0]])
        seen = Sample(self._state.copy(), -float(x * x), theta=self._value)
        return self.disturb(self._step, seen)

    @property
    def _value(self) -> float:
        return 1.0 / self.places[-1].episode

    def halt(self) -> None:
        self.halts += 1

    def close(self) -> None:
        self.closed = True


def serve(address: str, log: Path, period: float) -> None:
    """Serve a point until the process is killed."""
    events = log.open("a")
    drive = Controller(
        Point(steps=8),
        Limits(stop=(STOP,), observation_size=2),
        Timing(period=period),
        lambda event: print(json.dumps(event), file=events, flush=True),
    )
    robot = Robot(drive, address)
    print(robot.address, flush=True)
    robot.serve()


if __name__ == "__main__":
    serve(sys.argv[1], Path(sys.argv[2]), float(sys.argv[3]))
