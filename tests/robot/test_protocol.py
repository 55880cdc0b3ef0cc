"""Messages and their bytes: everything that is said, and nothing else."""

import math
from typing import Any, get_args

import msgpack
import pytest

from driftrl.robot import protocol


def packed(value: Any) -> bytes:
    data = msgpack.packb(value)
    assert isinstance(data, bytes)
    return data


EXAMPLES: list[protocol.Message] = [
    protocol.Hello(protocol.VERSION, "a secret of some length"),
    protocol.Welcome(protocol.VERSION, "car", 13, 2, 1 / 30, 1 / 60, 200, True, True),
    protocol.Refused(protocol.VERSION, "taken", "This robot has a learner."),
    protocol.Begin(3, 400, 12345),
    protocol.Preparing(3),
    protocol.Observation(3, 7, (0.5, -1.25), 0.035, False, True, None, (1.0, -1.0)),
    protocol.Action(3, 7, (0.25, -0.75)),
    protocol.Abort(3),
    protocol.Stopped(3, 7, "deadline", "No action came."),
    protocol.Alive(),
]


@pytest.mark.parametrize("message", EXAMPLES)
def test_a_message_comes_back_as_it_was(message: protocol.Message) -> None:
    assert protocol.decode(protocol.encode(message)) == message


def test_every_message_has_an_example() -> None:
    assert {type(message) for message in EXAMPLES} == set(get_args(protocol.Message))


def test_bytes_are_a_map_of_the_fields() -> None:
    assert msgpack.unpackb(protocol.encode(protocol.Action(3, 7, (0.25, -0.75)))) == {
        "type": "action",
        "episode": 3,
        "step": 7,
        "values": [0.25, -0.75],
    }


def test_the_largest_observation_fits() -> None:
    most = (0.1,) * protocol.MAX_VECTOR
    message = protocol.Observation(1, 1, most, 0.0, False, False, 1.0, most)
    assert protocol.decode(protocol.encode(message)) == message
    assert len(protocol.encode(message)) < protocol.MAX_BYTES


ACTION: dict[str, Any] = {"type": "action", "episode": 1, "step": 0, "values": [0.0]}
NOT_MESSAGES = [
    b"",
    b"\xc1",
    b"\x93\x01",
    packed(ACTION) + b"\x00",
    packed([1, 2]),
    packed({}),
    packed({"type": "explode"}),
    packed({"type": ["action"]}),
    packed({1: 2}),
    *(packed(ACTION | {"values": [bad]}) for bad in (math.nan, math.inf, True, "1")),
    *(packed(ACTION | {"values": bad}) for bad in (1.0, b"0000", [0.0] * 5000)),
    *(packed(ACTION | {"episode": bad}) for bad in (0, 1.0, True, 2**64 - 1, None)),
    packed(ACTION | {"step": -1}),
    packed(ACTION | {"more": 1}),
    packed({"type": "action"}),
    packed({"type": "hello", "token": ""}),
    packed(
        {
            "type": "hello",
            "version": protocol.VERSION,
            "token": "a" * (protocol.MAX_TEXT + 1),
        }
    ),
    packed({"type": "refused", "version": 1, "code": "no", "reason": ""}),
    packed(msgpack.ExtType(5, b"x")),
    packed(ACTION | {"values": [msgpack.Timestamp(1)]}),
    b"\x91" * 5000 + b"\xc0",
    b"\xdd\xff\xff\xff\xff",
    packed("a" * protocol.MAX_BYTES),
]


@pytest.mark.parametrize("data", NOT_MESSAGES)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(protocol.Malformed):
        protocol.decode(data)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_is_not_sent(value: float) -> None:
    with pytest.raises(protocol.Malformed, match="reward"):
        protocol.encode(
            protocol.Observation(1, 1, (0.0,), value, False, False, None, ())
        )
    with pytest.raises(protocol.Malformed, match="values"):
        protocol.encode(protocol.Action(1, 1, (value,)))


@pytest.mark.parametrize("others", [{}, {"name": "x"}, {"token": 5}])
def test_hello_of_another_version_is_understood(others: dict[str, Any]) -> None:
    data = packed({"type": "hello", "version": protocol.VERSION + 1, **others})
    assert protocol.decode(data) == protocol.Hello(protocol.VERSION + 1, "")
