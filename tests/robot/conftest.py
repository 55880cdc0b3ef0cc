"""A point mass that is served by a robot in a thread of the test."""

import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from driftrl.robot import protocol
from driftrl.robot.client import RemoteEnv
from driftrl.robot.controller import Controller, Event
from driftrl.robot.safety import Limits
from driftrl.robot.server import Robot
from driftrl.robot.timing import Timing
from driftrl.robot.transport import Dialer
from factories import load_module


@pytest.fixture(scope="session")
def point_mass() -> ModuleType:
    """Return the module beside this one, which is also a program."""
    return load_module(Path(__file__).parent / "point_mass.py")


@dataclass
class Served:
    """A robot at work, and all that can be known of it."""

    robot: Robot
    machine: Any
    events: list[Event]
    controller: Controller

    @property
    def address(self) -> str:
        return self.robot.address

    def stops(self) -> list[Event]:
        return [event for event in self.events if event["event"] == "halted"]

    def wait(self, condition: Callable[[], bool], seconds: float = 20.0) -> None:
        """Wait for something to happen, for long, since the machine may be busy."""
        until = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < until, (self.events, self.controller.counts)
            time.sleep(0.005)

    def stopped(self, count: int = 1) -> Event:
        """Wait for so many stops, and return the last."""
        self.wait(lambda: len(self.stops()) >= count)
        return self.stops()[count - 1]


Serve = Callable[..., Served]

PATIENT = Timing(period=0.01, real_time=False, patience=20.0)
"""Waits for its learner, so nothing depends on how busy the machine is."""
LONG: dict[str, Any] = {"away": 20.0, "silence": 20.0}


@pytest.fixture
def serve(point_mass: ModuleType) -> Iterator[Serve]:
    """Return what starts a robot; all are ended, and must have ended well."""
    started: list[tuple[Served, threading.Thread]] = []
    raised: list[BaseException] = []

    def start(timing: Timing = PATIENT, token: str = "", **limits: Any) -> Served:
        machine, events = point_mass.Point(), []
        chosen = {"stop": (point_mass.STOP,), "observation_size": 2, **limits}
        controller = Controller(machine, Limits(**chosen), timing, events.append)
        robot = Robot(controller, "tcp://127.0.0.1:*", token)

        def work() -> None:
            try:
                robot.serve()
            except BaseException as error:
                raised.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        served = Served(robot, machine, events, controller)
        started.append((served, thread))
        return served

    yield start
    for served, thread in started:
        served.robot.end()
        thread.join(timeout=10)
        assert not thread.is_alive()
    assert raised == []


class Peer:
    """Somebody on the wire who says whatever the test says."""

    def __init__(self, address: str) -> None:
        self._dialer = Dialer(address)

    def send(self, message: protocol.Message | bytes) -> None:
        self._dialer.send(
            message if isinstance(message, bytes) else protocol.encode(message)
        )

    def next(self, kind: type[Any] | None = None, seconds: float = 10.0) -> Any:
        """Return the next message, or the next of a kind."""
        until = time.monotonic() + seconds
        while (frame := self._dialer.receive(until)) is not None:
            message = protocol.decode(frame)
            if kind is None or isinstance(message, kind):
                return message
        raise AssertionError(f"no {kind} came")

    def begin(self, episode: int = 1) -> protocol.Observation:
        """Be the learner, and begin."""
        self.send(protocol.Hello(protocol.VERSION, ""))
        self.next(protocol.Welcome)
        self.send(protocol.Begin(episode, 0, 5))
        self.next(protocol.Preparing)
        return self.next(protocol.Observation)

    def close(self) -> None:
        self._dialer.close()


@pytest.fixture
def knock() -> Iterator[Callable[[str], Peer]]:
    peers: list[Peer] = []

    def start(address: str) -> Peer:
        peers.append(Peer(address))
        return peers[-1]

    yield start
    for peer in peers:
        peer.close()


@pytest.fixture
def connect() -> Iterator[Callable[..., RemoteEnv]]:
    made: list[RemoteEnv] = []

    def start(address: str, token: str = "") -> RemoteEnv:
        made.append(RemoteEnv(address, token, **LONG))
        return made[-1]

    yield start
    for env in made:
        env.close()
