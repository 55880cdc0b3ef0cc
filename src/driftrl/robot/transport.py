"""ZeroMQ sockets, addresses and the token that robot and learner share.

One frame is one message.  ZeroMQ answers its own heartbeats from a thread of its own,
so a connection survives a learner that learns for minutes, and ends soon after its
process or network does.
"""

import contextlib
import ipaddress
import os
import re
import time
from pathlib import Path
from typing import Any

import zmq

from driftrl.errors import InputError, require
from driftrl.robot.protocol import MAX_BYTES

TOKEN_VARIABLE = "DRIFTRL_ROBOT_TOKEN"
_TOKEN_LENGTHS = (16, 256)
_ADDRESS = re.compile(r"ipc://.+|tcp://(?P<host>.+):(?P<port>\d+|\*)")
_MAX_PORT = 65_535
_HEARTBEAT = 500  # ms
_DEAD_AFTER = 2000  # ms
_QUEUE = 256  # messages
_LINGER = 200  # ms in which a robot that ends can still say so


def read_token(file: Path | None) -> str:
    """Return the shared token from a file or the environment; "" if there is none.

    It is never a command-line argument, which every user of the computer could read.
    """
    if file is not None:
        try:
            token, source = file.read_text(encoding="utf-8").strip(), str(file)
        except (OSError, UnicodeDecodeError) as error:
            raise InputError(f"Cannot read the token in {file}: {error}.") from error
    else:
        token, source = os.environ.get(TOKEN_VARIABLE, "").strip(), TOKEN_VARIABLE
    if token or file is not None:
        shortest, longest = _TOKEN_LENGTHS
        require(
            shortest <= len(token) <= longest,
            f"The token in {source} has {len(token)} characters; it needs {shortest} "
            f"to {longest}. Make one with: openssl rand -hex 32.",
        )
    return token


def check_access(address: str, token: str) -> None:
    """Refuse what is no address, and one that others can reach without a token."""
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise InputError(
            f"An address looks like tcp://127.0.0.1:5557, received {address!r}."
        )
    port, host = match["port"], (match["host"] or "localhost").strip("[]")
    # ZeroMQ would wrap a larger one around.
    require(
        port in (None, "*") or 1 <= int(port) <= _MAX_PORT,
        f"A port is a number from 1 to {_MAX_PORT}, received {port} in {address!r}.",
    )
    try:
        is_local = ipaddress.ip_address(host).is_loopback
    except ValueError:
        is_local = host == "localhost"
    require(
        bool(token) or is_local,
        f"{address} can be reached from other computers, so both sides need the same "
        f"token: put one in a file (--token-file FILE) or in {TOKEN_VARIABLE}.",
    )


class _Socket:
    """A ZeroMQ socket whose messages are one frame each."""

    def __init__(self, kind: int, address: str) -> None:
        self._context = zmq.Context()
        socket: Any = self._context.socket(kind)
        self._socket = socket
        socket.linger = 0
        socket.maxmsgsize = MAX_BYTES
        socket.sndhwm = socket.rcvhwm = _QUEUE
        socket.heartbeat_ivl = _HEARTBEAT
        socket.heartbeat_timeout = _DEAD_AFTER
        socket.ipv6 = "[" in address

    def _open(self, verb: str, address: str) -> None:
        """Bind or connect."""
        try:
            getattr(self._socket, verb)(address)
        except zmq.ZMQError as error:
            self.close()
            raise InputError(f"Cannot {verb} to {address}: {error}.") from error

    def _frames(self, until: float) -> list[bytes]:
        """Return the frames that arrive before ``until`` (monotonic clock), or none.

        ZeroMQ waits in whole milliseconds; the last one is slept through.
        """
        while (left := until - time.monotonic()) > 0:
            if self._socket.poll(int(left * 1e3), zmq.POLLIN):
                return self._socket.recv_multipart()
            if left < 1e-3:
                time.sleep(max(0.0, until - time.monotonic()))
        return []

    def close(self) -> None:
        """Drop every connection, and what was not sent yet."""
        self._socket.close()
        self._context.term()


class Listener(_Socket):
    """The robot's end; ZeroMQ gives every connected peer a name."""

    def __init__(self, address: str) -> None:
        super().__init__(zmq.ROUTER, address)
        self._socket.router_mandatory = True
        self._socket.linger = _LINGER
        self._open("bind", address)
        self.address: str = self._socket.last_endpoint.decode()

    def receive(self, until: float) -> tuple[bytes, bytes] | None:
        """Return the next sender and message; None if none came in time.

        A message of several frames, which no learner sends, is returned as empty.
        """
        match self._frames(until):
            case []:
                return None
            case [peer, message]:
                return peer, message
            case [peer, *_]:
                return peer, b""

    def send(self, peer: bytes, message: bytes, *, lossy: bool = False) -> bool:
        """Send, and return whether the peer is connected and its queue has room.

        With ``lossy`` a full queue loses the message and counts as connected.
        """
        try:
            self._socket.send_multipart([peer, message], flags=zmq.NOBLOCK)
        except zmq.Again:
            return lossy
        except zmq.ZMQError as error:
            if error.errno != zmq.EHOSTUNREACH:
                raise
            return False
        return True


class Dialer(_Socket):
    """The learner's end."""

    def __init__(self, address: str) -> None:
        super().__init__(zmq.DEALER, address)
        self._open("connect", address)

    def receive(self, until: float) -> bytes | None:
        """Return the next message; None if none came in time."""
        frames = self._frames(until)
        return frames[0] if len(frames) == 1 else b"" if frames else None

    def send(self, message: bytes) -> None:
        """Send at once, or when the robot can be reached."""
        with contextlib.suppress(zmq.Again):  # nothing was taken: it will be noticed
            self._socket.send(message, flags=zmq.NOBLOCK)
