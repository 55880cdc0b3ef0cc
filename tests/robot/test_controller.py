"""One machine under control: its clock and limits, and nobody on the wire."""

import contextlib
import threading
import time
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from driftrl.errors import InputError
from driftrl.robot.controller import Controller, Event
from driftrl.robot.machine import Sample
from driftrl.robot.protocol import Begin
from driftrl.robot.safety import Interrupted, Limits
from driftrl.robot.timing import Timing

WAITING = Timing(period=0.01, real_time=False)


class Driver:
    """Answers by a function of the observation."""

    def __init__(self, policy: Callable[[np.ndarray], np.ndarray]) -> None:
        self.policy, self.obs = policy, np.zeros(0)

    def prepare(self) -> None:
        time.sleep(0.001)

    def show(self, step: int, sample: Sample) -> None:
        self.obs = sample.obs

    def act(self, step: int, deadline: float) -> np.ndarray | None:
        return self.policy(self.obs)

    def idle(self, step: int, until: float) -> None:
        time.sleep(max(0.0, until - time.monotonic()))


def run(driven: Controller, policy: Callable[[np.ndarray], np.ndarray]) -> None:
    """Run an episode, and end."""
    try:
        with contextlib.suppress(Interrupted):
            driven.run(Begin(1, 0, 1), Driver(policy))
    finally:
        driven.close()


def drive(
    point_mass: ModuleType, timing: Timing, events: list[Event], **limits: Any
) -> Any:
    chosen = Limits(stop=(point_mass.STOP,), observation_size=2, **limits)
    return Controller(point_mass.Point(), chosen, timing, events.append)


@pytest.mark.parametrize("answer", [np.array([np.nan]), np.zeros(2)])
def test_wrong_answers_stop_the_machine(
    point_mass: ModuleType, answer: np.ndarray
) -> None:
    events: list[Event] = []
    driven = drive(point_mass, WAITING, events)
    run(driven, lambda obs: answer)
    assert [event["code"] for event in events] == ["malformed"]
    assert driven.machine.actions == [point_mass.STOP]


def test_a_robot_that_is_late_itself_says_so(point_mass: ModuleType) -> None:
    class Slow(Driver):
        """Takes as long to be shown an observation as it has to answer it."""

        def show(self, step: int, sample: Sample) -> None:
            time.sleep(0.011)

    driven = drive(point_mass, Timing(period=0.02), [])
    with pytest.raises(Interrupted) as raised:
        driven.run(Begin(1, 0, 1), Slow(lambda obs: obs[:1]))
    assert raised.value.code == "late"
    driven.close()
    assert driven.machine.actions == [point_mass.STOP]


def test_an_interrupt_stops_the_machine_first(point_mass: ModuleType) -> None:
    events: list[Event] = []
    driven = drive(point_mass, WAITING, events)

    def interrupted(obs: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(driven, interrupted)
    assert [event["code"] for event in events if event["event"] == "halted"] == [
        "shutdown"
    ]
    assert driven.machine.actions == [point_mass.STOP] and driven.machine.closed


def test_after_a_terminal_state_nothing_is_stepped(point_mass: ModuleType) -> None:
    events: list[Event] = []
    driven = drive(point_mass, WAITING, events)
    driven.machine.disturb = lambda step, sample: Sample(
        sample.obs, terminated=step == 2
    )
    run(driven, lambda obs: np.array([0.5]))
    assert driven.machine.actions == [0.5, 0.5] and driven.machine.halts == 1


def test_a_reset_that_takes_too_long(point_mass: ModuleType) -> None:
    gate, events = threading.Event(), []
    timing = Timing(period=0.01, real_time=False, reset=0.05)
    driven = drive(point_mass, timing, events)

    def hang(step: int, sample: Sample) -> Sample:
        gate.wait(10)
        return sample

    driven.machine.disturb = hang
    run(driven, lambda obs: np.array([0.5]))
    gate.set()
    (stop,) = events
    assert stop["code"] == "stale"
    assert stop["hanging"]


def test_stop_action_fits_the_machine(point_mass: ModuleType) -> None:
    with pytest.raises(InputError, match="2"):
        Controller(
            point_mass.Point(), Limits(stop=(0.0, 0.0), observation_size=2), Timing()
        )
