"""Messages between a robot and a learner, and their bytes.

A message is one MessagePack map with its ``type`` and the fields of its class below.
Types and bounds are checked when a message is sent and when it arrives; anything else
raises ``Malformed``, and nothing that arrives is ever executed.
``docs/robot_protocol.md`` says who sends what, and when.
"""

import contextlib
import sys
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from driftrl.errors import DriftrlError

VERSION = 2
MAX_BYTES = 131_072
"""A longer message is dropped before it is read."""
MAX_VECTOR = 4096
"""Entries of an observation or an action."""
MAX_TEXT = 500
"""Characters of a text."""
PREPARING_EVERY = 0.5
"""Seconds after which a robot that still prepares repeats ``Preparing``."""

Code = Literal[
    "deadline",  # no answer in time
    "late",  # the robot itself was late
    "stale",  # no new observation in time
    "observation",  # not finite, or of the wrong size
    "range",  # beyond what the sensors can read
    "bounds",  # outside of where the machine may be
    "malformed",  # the learner sent something it must not send
    "gone",  # the learner can no longer be reached
    "machine",  # the machine reported an error
    "aborted",  # the learner or the operator asked for it
    "shutdown",  # the robot's program ends
]
"""Why an episode was stopped."""
Refusal = Literal["version", "token", "taken", "stranger"]
"""Why a learner is not served; after "taken" and "stranger" it may try again."""

_MAX_FLOAT = sys.float_info.max
Count = Annotated[int, Meta(ge=0, le=2**63 - 1)]
Positive = Annotated[int, Meta(ge=1, le=2**63 - 1)]
Size = Annotated[int, Meta(ge=1, le=MAX_VECTOR)]
Number = Annotated[float, Meta(ge=-_MAX_FLOAT, le=_MAX_FLOAT)]
Seconds = Annotated[float, Meta(gt=0, le=_MAX_FLOAT)]
Vector = Annotated[tuple[Number, ...], Meta(max_length=MAX_VECTOR)]
Text = Annotated[str, Meta(max_length=MAX_TEXT)]


class Malformed(DriftrlError):
    """Bytes, or values, that are no message of this protocol."""


class _Message(
    Struct, frozen=True, tag_field="type", tag=str.lower, forbid_unknown_fields=True
):
    """A map with the name of its class as ``type``."""


class Hello(_Message, frozen=True):
    """Learner: this is my version and my token ("" if there is none)."""

    version: Count
    token: Text


class Welcome(_Message, frozen=True):
    """Robot: you are my learner, and this is what I am."""

    version: Count
    name: Text
    observation_size: Size
    action_size: Size
    period: Seconds
    """From one observation to the next."""
    deadline: Seconds
    """From an observation to the last moment at which its action counts."""
    steps: Positive
    """Actions in an episode that runs its full time."""
    theta_known: bool
    """Whether observations come with θ, which only a simulator knows."""
    real_time: bool
    """Whether the robot keeps to its period, or waits for its learner."""


class Refused(_Message, frozen=True):
    """Robot: I don't serve you, and why."""

    version: Count
    code: Refusal
    reason: Text


class Begin(_Message, frozen=True):
    """Learner: go to the start of this episode; ``steps`` were taken before it."""

    episode: Positive
    steps: Count
    seed: Count | None


class Preparing(_Message, frozen=True):
    """Robot: I am going to the start of that episode; sent at once and repeated."""

    episode: Positive


class Observation(_Message, frozen=True):
    """Robot: the observation, and the outcome of the action before."""

    episode: Positive
    step: Count
    """Number of actions taken so far, and of the one that is wanted; 0 at the start."""
    obs: Vector
    reward: Number
    terminated: bool
    truncated: bool
    theta: Number | None
    applied: Vector
    """The previous action as it was applied, clipped and limited; empty at first."""


class Action(_Message, frozen=True):
    """Learner: apply this for one period, in answer to the observation of that step."""

    episode: Positive
    step: Count
    values: Vector


class Abort(_Message, frozen=True):
    """Learner: stop this episode."""

    episode: Positive


class Stopped(_Message, frozen=True):
    """Robot: the episode was stopped, and why; don't learn from it."""

    episode: Positive
    step: Count
    code: Code
    reason: Text
    obs: Vector = ()
    """Of code "bounds": the observation that was outside; otherwise empty."""
    reward: Number = 0.0
    """Of the step that led there."""


class Alive(_Message, frozen=True):
    """Robot: are you still connected?  Needs no answer."""


FromRobot = Welcome | Refused | Preparing | Observation | Stopped | Alive
Message = Hello | Begin | Action | Abort | FromRobot


class _HelloOfAnyVersion(Struct, tag_field="type", tag="hello"):
    version: Count


# A text that is not UTF-8 is a ValueError of Python's own.
_INVALID = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
_encoder = msgspec.msgpack.Encoder()
_decoder: "msgspec.msgpack.Decoder[Message]" = msgspec.msgpack.Decoder(Message)
_hello_decoder = msgspec.msgpack.Decoder(_HelloOfAnyVersion)


def encode(message: Message) -> bytes:
    """Return the bytes of a message; ``Malformed`` if a value is not allowed (NaN)."""
    data = _encoder.encode(message)
    decode(data)
    return data


def decode(data: bytes) -> Message:
    """Return the message that the bytes are; ``Malformed`` if they are none.

    Of a ``hello`` of another version only the version is read, so that it can be
    refused whatever else that version sends.
    """
    if len(data) > MAX_BYTES:
        raise Malformed(f"A message of {len(data)} bytes; {MAX_BYTES} are allowed.")
    try:
        return _decoder.decode(data)
    except _INVALID as error:
        with contextlib.suppress(*_INVALID):
            version = _hello_decoder.decode(data).version
            if version != VERSION:
                return Hello(version, "")
        raise Malformed(f"Not a message: {str(error)[:200]}.") from error
