"""A robot that drives alone: the same clock and limits, and nobody on the wire."""

import threading
import time
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from driftrl.errors import InputError
from driftrl.robot.controller import Actor, Controller, Event, run_policy
from driftrl.robot.machine import Sample
from driftrl.robot.protocol import Begin
from driftrl.robot.safety import Interrupted, Limits
from driftrl.robot.timing import Timing

WAITING = Timing(period=0.01, real_time=False, coast=0.0)


def drive(
    point_mass: ModuleType, timing: Timing, events: list[Event], **limits: Any
) -> Any:
    chosen = Limits(stop=(point_mass.STOP,), observation_size=2, **limits)
    return Controller(point_mass.Point(), chosen, timing, events.append)


def test_a_policy_drives(point_mass: ModuleType) -> None:
    events: list[Event] = []
    timing = Timing(period=0.01, real_time=False, coast=0.02)
    driven = drive(point_mass, timing, events)
    run_policy(driven, lambda obs: -obs[:1], episodes=2)
    machine, twin = driven.machine, point_mass.Point()
    expected = []
    for episode in (1, 2):
        obs = twin.reset(Begin(episode, 6 * (episode - 1), episode)).obs
        for _ in range(6):
            obs = twin.step(-obs[:1]).obs
        expected += [*twin.actions, *[point_mass.STOP] * 3]
        twin.actions.clear()
    assert machine.actions == expected
    assert machine.closed and machine.halts == 2
    assert [event["steps"] for event in events if event["event"] == "finished"] == [
        6,
        6,
    ]


@pytest.mark.parametrize("answer", [np.array([np.nan]), np.zeros(2)])
def test_wrong_answers_stop_the_machine(
    point_mass: ModuleType, answer: np.ndarray
) -> None:
    events: list[Event] = []
    driven = drive(point_mass, WAITING, events)
    run_policy(driven, lambda obs: answer, episodes=2)
    assert [event["code"] for event in events] == ["malformed", "malformed"]
    assert driven.machine.actions == [point_mass.STOP] * 2


def test_a_robot_that_is_late_itself_says_so(point_mass: ModuleType) -> None:
    class Slow(Actor):
        """Takes as long to be shown an observation as it has to answer it."""

        def show(self, step: int, sample: Sample) -> None:
            time.sleep(0.011)

        def act(self, step: int, deadline: float) -> None:
            raise AssertionError

    driven = drive(point_mass, Timing(period=0.02), [])
    with pytest.raises(Interrupted) as raised:
        driven.run(Begin(1, 0, 1), Slow())
    assert raised.value.code == "late"
    driven.close()
    assert driven.machine.actions == [point_mass.STOP]


def test_an_interrupt_stops_the_machine_first(point_mass: ModuleType) -> None:
    events: list[Event] = []
    driven = drive(point_mass, WAITING, events)

    def interrupted(obs: np.ndarray) -> np.ndarray:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_policy(driven, interrupted)
    assert [event["code"] for event in events if event["event"] == "halted"] == [
        "shutdown"
    ]
    assert driven.machine.actions == [point_mass.STOP] and driven.machine.closed


def test_after_a_terminal_state_nothing_is_stepped(point_mass: ModuleType) -> None:
    events: list[Event] = []
    timing = Timing(period=0.01, real_time=False, coast=0.05)
    driven = drive(point_mass, timing, events)
    driven.machine.disturb = lambda step, sample: Sample(
        sample.obs, terminated=step == 2
    )
    run_policy(driven, lambda obs: np.array([0.5]), episodes=1)
    assert driven.machine.actions == [0.5, 0.5] and driven.machine.halts == 1


def test_a_reset_that_takes_too_long(point_mass: ModuleType) -> None:
    gate, events = threading.Event(), []
    timing = Timing(period=0.01, real_time=False, coast=0.0, reset=0.05)
    driven = drive(point_mass, timing, events)

    def hang(step: int, sample: Sample) -> Sample:
        gate.wait(10)
        return sample

    driven.machine.disturb = hang
    run_policy(driven, lambda obs: np.array([0.5]), episodes=1)
    gate.set()
    (stop,) = events
    assert stop["code"] == "stale"
    assert stop["hanging"]


def test_stop_action_fits_the_machine(point_mass: ModuleType) -> None:
    with pytest.raises(InputError, match="2"):
        Controller(
            point_mass.Point(),
            Limits(stop=(0.0, 0.0), observation_size=2),
            Timing(),
        )
