"""The robot's door: who is let in, and what nonsense does there."""

import random
import time
from collections.abc import Callable
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from driftrl.errors import EpisodeAborted, InputError
from driftrl.robot.client import RemoteEnv
from driftrl.robot.protocol import MAX_BYTES, VERSION, Action, Begin, Hello, encode

Serve = Callable[..., Any]
Connect = Callable[..., RemoteEnv]
Knock = Callable[[str], Any]
STOP = -0.25
COMMANDS = [np.array([0.8 * np.sin(k + 1.0)]) for k in range(6)]
TOKEN = "a token of enough letters"


def test_client_says_why_it_is_refused(
    serve: Serve, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    served = serve(token=TOKEN)
    for wrong in ("", TOKEN[:-1], TOKEN + "x"):
        with pytest.raises(InputError, match="token"):
            connect(served.address, wrong)
    monkeypatch.setattr("driftrl.robot.client.VERSION", VERSION + 1)
    with pytest.raises(InputError, match=f"version {VERSION}"):
        connect(served.address, TOKEN)
    monkeypatch.undo()
    assert served.machine.places == [] and served.controller.counts["refused"] == 4
    connect(served.address, TOKEN).reset(seed=1)
    assert len(served.machine.places) == 1


def test_one_learner_at_a_time(serve: Serve, connect: Connect, knock: Knock) -> None:
    served = serve()
    env, second = connect(served.address), knock(served.address)
    for running in (False, True):
        if running:
            env.reset(seed=1)
        second.send(Hello(VERSION, ""))
        assert second.next().code == "taken"
        second.send(Begin(1, 0, 5))
        second.send(Action(1, 0, (0.9,)))
        assert [second.next().code for _ in range(2)] == ["stranger", "stranger"]
    for action in COMMANDS:
        env.step(action)
    assert 0.9 not in served.machine.actions and served.stops() == []
    env.close()
    # Now it is free; that the first one is gone takes a moment to arrive.
    connect(served.address).reset(seed=2)
    assert len(served.machine.places) == 2


def test_a_waiting_learner_never_displaces_a_busy_one(
    serve: Serve, connect: Connect, knock: Knock, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every hello probes the busy learner, which reads nothing: its queue fills up.
    monkeypatch.setattr("driftrl.robot.server._PROBE_EVERY", 0.0)
    served = serve()
    busy, waiting = connect(served.address), knock(served.address)
    for _ in range(1000):
        waiting.send(Hello(VERSION, ""))
        assert waiting.next().code == "taken"
    busy.reset(seed=1)
    for action in COMMANDS:
        busy.step(action)
    served.wait(lambda: served.controller.counts["finished"] == 1)


def test_refusals_are_logged_once(serve: Serve, knock: Knock) -> None:
    served = serve()
    peer = knock(served.address)
    for version in range(10, 60):
        peer.send(msgpack.packb({"type": "hello", "version": version}))
        assert peer.next().code == "version"
    assert served.controller.counts["refused"] == 50 and len(served.events) == 1


def test_an_oversized_frame_is_dropped_unread(serve: Serve, connect: Connect) -> None:
    served = serve()
    env = connect(served.address)
    env.reset(seed=1)
    counts = served.controller.counts
    with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
        socket.linger = 0
        socket.connect(served.address)
        socket.send_multipart([encode(Hello(VERSION, "")), b"and more"])
        served.wait(lambda: counts["malformed frames"] == 1)
        socket.send(b"\x00" * (MAX_BYTES + 1))
        # The wire drops the connection, and what was on it; the next one works.
        while not counts["refused"]:
            socket.send(encode(Hello(VERSION, "")))
            time.sleep(0.05)
    assert counts["malformed frames"] == 1
    for action in COMMANDS:
        env.step(action)
    served.wait(lambda: served.controller.counts["finished"] == 1)


def nonsense(source: random.Random) -> bytes:
    whole = encode(Action(1, source.randrange(6), (0.9,)))
    at = source.randrange(len(whole))
    match source.randrange(3):
        case 0:
            return source.randbytes(source.randrange(1, 100))
        case 1:
            return whole[:at]
        case _:
            return whole[:at] + source.randbytes(2) + whole[at + 2 :]


def test_nonsense_from_a_stranger_disturbs_nobody(
    serve: Serve, connect: Connect, knock: Knock
) -> None:
    served, source = serve(), random.Random(1)
    env, stranger = connect(served.address), knock(served.address)
    env.reset(seed=1)
    for action in COMMANDS:
        for _ in range(50):
            stranger.send(nonsense(source))
        env.step(action)
    counts = served.controller.counts
    served.wait(lambda: counts["malformed frames"] + counts["refused"] == 300)
    assert counts["finished"] == 1 and served.stops() == []
    rest = [a for a in served.machine.actions if a != STOP]
    assert rest == [float(a[0]) for a in COMMANDS]


def test_an_address_in_use(serve: Serve) -> None:
    served = serve()
    with pytest.raises(InputError, match=served.address):
        type(served.robot)(served.controller, served.address)


def test_ending_stops_the_machine_first(serve: Serve, connect: Connect) -> None:
    served = serve()
    env = connect(served.address)
    env.reset(seed=1)
    env.step(np.array([0.5]))
    served.robot.end()
    stop = served.stopped()
    assert stop["code"] == "shutdown"
    with pytest.raises(EpisodeAborted, match="ends"):
        env.step(np.array([0.5]))
    served.wait(lambda: served.machine.closed)
    assert served.machine.actions == [0.5, STOP]
