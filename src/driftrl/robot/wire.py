"""ZeroMQ, as far as a robot and a learner need it: one frame a message, and no more.

The library answers its own heartbeats from a thread of its own, so a connection lives
while a learner learns for minutes, and ends soon after its process or network does.
"""

import importlib.util
import time
from typing import Any

from driftrl.errors import InputError
from driftrl.robot.protocol import MOST_BYTES

NOT_INSTALLED = "Robots need the extra 'robot': pip install 'driftrl[robot]'."
_HEARTBEAT = 500  # ms
_DEAD_AFTER = 2000  # ms
_MOST_WAITING = 256  # messages
_LAST_WORDS = 200  # ms in which a robot that ends can still say so


def require_installed() -> None:
    """Refuse to talk to robots without the packages that it takes."""
    if not all(importlib.util.find_spec(name) for name in ("zmq", "msgpack")):
        raise InputError(NOT_INSTALLED)


def _socket(kind: str, address: str) -> tuple[Any, Any]:
    require_installed()
    import zmq

    context = zmq.Context()
    socket = context.socket(getattr(zmq, kind))
    socket.linger = 0
    socket.maxmsgsize = MOST_BYTES
    socket.sndhwm = socket.rcvhwm = _MOST_WAITING
    socket.heartbeat_ivl = _HEARTBEAT
    socket.heartbeat_timeout = _DEAD_AFTER
    socket.ipv6 = "[" in address
    return context, socket


def _wait(socket: Any, until: float) -> bool:
    """Say whether there is something to receive before ``until`` (monotonic clock).

    ZeroMQ waits in whole milliseconds; the last one is slept through.
    """
    import zmq

    while (left := until - time.monotonic()) > 0:
        if left < 1e-3:
            if socket.poll(0, zmq.POLLIN):
                return True
            time.sleep(max(0.0, until - time.monotonic()))
            return False
        if socket.poll(int(left * 1e3), zmq.POLLIN):
            return True
    return False


class Listener:
    """The robot's end: many may knock, each known by a name that the wire gives it."""

    def __init__(self, address: str) -> None:
        import zmq

        self._context, self._socket = _socket("ROUTER", address)
        self._socket.router_mandatory = True
        self._socket.linger = _LAST_WORDS
        try:
            self._socket.bind(address)
        except zmq.ZMQError as error:
            self.close()
            raise InputError(f"Cannot listen at {address}: {error}.") from error
        self.address: str = self._socket.last_endpoint.decode()

    def receive(self, until: float) -> tuple[bytes, bytes] | None:
        """Return who sent the next message, and it; None if none came in time.

        A message of several frames, which no learner sends, comes as an empty one.
        """
        if not _wait(self._socket, until):
            return None
        peer, *frames = self._socket.recv_multipart()
        return peer, frames[0] if len(frames) == 1 else b""

    def send(self, peer: bytes, message: bytes) -> bool:
        """Send, and say whether the peer is still connected and takes messages."""
        import zmq

        try:
            self._socket.send_multipart([peer, message], flags=zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True

    def close(self) -> None:
        """Drop every connection."""
        self._socket.close()
        self._context.term()


class Dialer:
    """The learner's end."""

    def __init__(self, address: str) -> None:
        import zmq

        self._context, self._socket = _socket("DEALER", address)
        try:
            self._socket.connect(address)
        except zmq.ZMQError as error:
            self.close()
            raise InputError(f"Cannot connect to {address}: {error}.") from error

    def receive(self, until: float) -> bytes | None:
        """Return the next message; None if none came in time."""
        if not _wait(self._socket, until):
            return None
        frames = self._socket.recv_multipart()
        return frames[0] if len(frames) == 1 else b""

    def send(self, message: bytes) -> None:
        """Send, at once or when the robot can be reached."""
        import zmq

        try:
            self._socket.send(message, flags=zmq.NOBLOCK)
        except zmq.Again:
            # Nobody has taken messages for long; silence will tell.
            return

    def close(self) -> None:
        """Drop the connection, and what was not sent yet."""
        self._socket.close()
        self._context.term()
