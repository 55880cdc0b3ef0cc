"""What a robot and a learner say to each other: messages, and their bytes.

A message is one MessagePack map with its ``type`` and exactly the fields of its class
below.  Everything is checked on the way out and on the way in; whatever is not a
message raises ``Malformed``, and nothing that arrives is ever executed.
``docs/robot_protocol.md`` says who sends what, and when.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal, get_args, get_type_hints

from driftrl.errors import DriftrlError

VERSION = 1
MOST_BYTES = 131_072
"""A longer message is dropped before it is read."""
MOST_NUMBERS = 4096
"""Entries of an observation or an action."""
MOST_LETTERS = 500
"""In a text."""
PREPARING_EVERY = 0.5
"""Seconds after which a robot that still prepares says so again."""

Code = Literal[
    "deadline",  # no answer in time
    "late",  # the robot itself was late
    "stale",  # no new observation in time, or the same one over and over
    "observation",  # not finite, or of a wrong size
    "range",  # beyond what the sensors can read
    "bounds",  # outside of where the machine may be
    "malformed",  # the learner said what it may not say
    "gone",  # the learner can no longer be reached
    "machine",  # the machine reported an error
    "aborted",  # the learner, or who watches the robot, asked for it
    "shutdown",  # the robot's program ends
]
"""Why an episode was stopped."""
Refusal = Literal["version", "token", "taken", "stranger"]
"""Why a learner is not served; after "taken" and "stranger" it may try again."""


class Malformed(DriftrlError):
    """Bytes, or values, that are no message of this protocol."""


@dataclass(frozen=True)
class _Whole:
    least: int = 0
    most: int = 2**63 - 1

    def read(self, value: Any) -> int:
        whole = isinstance(value, int) and not isinstance(value, bool)
        if whole and self.least <= value <= self.most:
            return value
        raise Malformed(f"a whole number from {self.least} to {self.most}")


@dataclass(frozen=True)
class _Number:
    """A finite number; a whole one will do, for some languages write 1.0 as 1."""

    positive: bool = False

    def read(self, value: Any) -> float:
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and _is_finite(value) and (value > 0 or not self.positive):
            return float(value)
        raise Malformed(f"a {'positive ' if self.positive else ''}finite number")


@dataclass(frozen=True)
class _Flag:
    def read(self, value: Any) -> bool:
        if isinstance(value, bool):
            return value
        raise Malformed("true or false")


@dataclass(frozen=True)
class _Text:
    among: tuple[str, ...] = ()

    def read(self, value: Any) -> str:
        text = isinstance(value, str) and len(value) <= MOST_LETTERS
        if text and (not self.among or value in self.among):
            return value
        allowed = f"one of {', '.join(self.among)}" if self.among else "text"
        raise Malformed(f"{allowed}, of at most {MOST_LETTERS} letters")


@dataclass(frozen=True)
class _Numbers:
    def read(self, value: Any) -> tuple[float, ...]:
        if isinstance(value, list | tuple) and len(value) <= MOST_NUMBERS:
            return tuple(_Number().read(entry) for entry in value)
        raise Malformed(f"a list of at most {MOST_NUMBERS} numbers")


@dataclass(frozen=True)
class _Maybe:
    kind: _Whole | _Number

    def read(self, value: Any) -> float | None:
        return None if value is None else self.kind.read(value)


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number that no float can hold
        return False


EpisodeNumber = Annotated[int, _Whole(least=1)]
Step = Annotated[int, _Whole()]
Size = Annotated[int, _Whole(least=1, most=MOST_NUMBERS)]
Seconds = Annotated[float, _Number(positive=True)]
Number = Annotated[float, _Number()]
Vector = Annotated[tuple[float, ...], _Numbers()]
Flag = Annotated[bool, _Flag()]
Text = Annotated[str, _Text()]


@dataclass(frozen=True)
class Hello:
    """Learner: I speak this version, and I know the token ("" if there is none)."""

    version: Step
    token: Text


@dataclass(frozen=True)
class Welcome:
    """Robot: you are my learner, and this is what I am."""

    version: Step
    name: Text
    observation_size: Size
    action_size: Size
    period: Seconds
    """From one observation to the next."""
    deadline: Seconds
    """From an observation to the last moment at which its action counts."""
    steps: Annotated[int, _Whole(least=1)]
    """Actions in an episode that runs its full time."""
    theta_known: Flag
    """Whether observations come with θ, which only a simulator knows."""
    real_time: Flag
    """Whether the robot keeps to its period, or waits for its learner."""


@dataclass(frozen=True)
class Refused:
    """Robot: I don't serve you, and why."""

    version: Step
    code: Annotated[Refusal, _Text(among=get_args(Refusal))]
    reason: Text


@dataclass(frozen=True)
class Begin:
    """Learner: go to the start of episode n, of which ``decisions`` went before."""

    episode: EpisodeNumber
    decisions: Annotated[int, _Whole()]
    seed: Annotated[int | None, _Maybe(_Whole())]


@dataclass(frozen=True)
class Preparing:
    """Robot: I am going to the start of that episode; sent at once and repeated."""

    episode: EpisodeNumber


@dataclass(frozen=True)
class Observation:
    """Robot: what I see, and what came of the action before."""

    episode: EpisodeNumber
    step: Step
    """0 at the start: the number of actions taken so far, and of the one wanted."""
    obs: Vector
    reward: Number
    terminated: Flag
    truncated: Flag
    theta: Annotated[float | None, _Maybe(_Number())]
    applied: Vector
    """The action before as the machine got it, clipped and limited; empty at first."""


@dataclass(frozen=True)
class Action:
    """Learner: do this for one period, in answer to the observation of that step."""

    episode: EpisodeNumber
    step: Step
    values: Vector


@dataclass(frozen=True)
class Abort:
    """Learner: stop this episode."""

    episode: EpisodeNumber


@dataclass(frozen=True)
class Stopped:
    """Robot: the episode is over, don't learn from it; I am safe, and this is why."""

    episode: EpisodeNumber
    step: Step
    code: Annotated[Code, _Text(among=get_args(Code))]
    reason: Text


@dataclass(frozen=True)
class Alive:
    """Robot: are you still connected?  Needs no answer."""


Message = (
    Hello
    | Welcome
    | Refused
    | Begin
    | Preparing
    | Observation
    | Action
    | Abort
    | Stopped
    | Alive
)
_CLASSES: dict[str, type[Any]] = {
    kind.__name__.lower(): kind for kind in get_args(Message)
}


def _readers(kind: type[Any]) -> dict[str, Callable[[object], Any]]:
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: hints[field.name].__metadata__[0].read for field in fields(kind)
    }


_READERS = {name: _readers(kind) for name, kind in _CLASSES.items()}


def encode(message: Message) -> bytes:
    """Return the bytes of a message.

    Raises:
        Malformed: A field holds what the protocol doesn't allow, such as NaN.
    """
    import msgpack

    name = type(message).__name__.lower()
    packed = msgpack.packb({"type": name, **_read_fields(name, vars(message))})
    assert isinstance(packed, bytes)
    return packed


def decode(data: bytes) -> Message:
    """Return the message that the bytes are.

    A ``hello`` of another version keeps its version only, so that it can be refused by
    name whatever else that version says.

    Raises:
        Malformed: They are none.
    """
    received = _unpacked(data)
    name = received.pop("type", None)
    if not isinstance(name, str) or name not in _CLASSES:
        raise Malformed(f"A message of an unknown type: {_short(name)}.")
    if name == "hello" and received.get("version") != VERSION:
        version = _READERS["hello"]["version"](received.get("version", ""))
        return Hello(version, "")
    return _CLASSES[name](**_read_fields(name, received))


def _unpacked(data: bytes) -> dict[str, Any]:
    import msgpack

    if len(data) > MOST_BYTES:
        raise Malformed(f"A message of {len(data)} bytes; {MOST_BYTES} are allowed.")
    try:
        received = msgpack.unpackb(
            data,
            object_pairs_hook=_without_repeats,
            ext_hook=_no_extension,
            max_str_len=MOST_LETTERS * 4,  # bytes of as many letters
            max_array_len=MOST_NUMBERS,
            max_map_len=32,
            max_bin_len=0,
        )
    except Exception as error:  # its causes are many, and all mean the same here
        raise Malformed(f"Bytes that are no message: {_short(error)}.") from error
    if not isinstance(received, dict):
        raise Malformed(f"A message must be a map, received {_short(received)}.")
    return received


def _without_repeats(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Malformed("a field is given twice")
    return found


def _no_extension(code: int, data: bytes) -> Any:
    raise Malformed(f"extension type {code} of {len(data)} bytes")


def _read_fields(name: str, received: dict[str, Any]) -> dict[str, Any]:
    readers = _READERS[name]
    if received.keys() != readers.keys():
        raise Malformed(
            f"A message {name!r} has the fields {', '.join(readers) or 'none'}, "
            f"received {_short(sorted(map(str, received)))}."
        )
    values = {}
    for field, read in readers.items():
        try:
            values[field] = read(received[field])
        except Malformed as wanted:
            raise Malformed(
                f"Field {field!r} of a message {name!r} must be {wanted}, received "
                f"{_short(received[field])}."
            ) from None
    return values


def _short(value: object) -> str:
    text = repr(value) if not isinstance(value, Exception) else str(value)
    return text if len(text) <= 80 else text[:80] + "…"
