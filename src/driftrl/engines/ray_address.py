"""Whether anything answers at the address of a Ray cluster.

Ray itself tries for minutes, and then ends the whole process.
"""

import contextlib
import os
import socket
from pathlib import Path
from urllib.parse import urlsplit

from driftrl.errors import InputError, require

_SECONDS = 5.0
# HTTP/2, as far as one question of gRPC needs it: a frame is nine bytes (length, type,
# flags, stream) and its payload; headers are packed by RFC 7541.
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_DATA, _HEADERS, _SETTINGS, _HEAD = 0, 1, 4, 9
_END_STREAM, _END_HEADERS = 1, 4
_MOST_FRAMES = 20  # before the answer: settings, pings, windows
_QUESTION = b"/ray.rpc.NodeInfoGcsService/GetClusterId"
_STATUS_200 = 0x88  # a server of gRPC says so to every question, even if it refuses it
_ADVICE = (
    "Start one there (ray start --head), or leave the address out to have a local one."
)


def require_answer(address: str) -> None:
    """Refuse the address of a cluster that does not answer within seconds.

    Args:
        address: ``HOST:PORT`` of the head, or ``auto`` for the one that Ray has noted
            on this machine; without a note it is left to Ray to look for one.
    """
    require(
        not address.startswith("ray://"),
        f"The address {address!r} is that of a Ray client server, which can't report "
        "what runs write. Name the head itself, HOST:PORT with the port of "
        "`ray start --head` (6379 unless chosen), from a machine of the cluster.",
    )
    where = _noted() if address == "auto" else address
    if not where:
        return
    host, port = _host_and_port(where)
    said = where if address == where else f"{where} (found by {address!r})"
    try:
        with socket.create_connection((host, port), timeout=_SECONDS) as line:
            is_ray = _speaks_grpc(line)
    except OSError as error:
        reason = str(error) or type(error).__name__
        raise InputError(
            f"No Ray cluster answers at {said}: {reason}. {_ADVICE}"
        ) from None
    require(is_ray, f"What answers at {said} is no Ray cluster. {_ADVICE}")


def _noted() -> str:
    """Return the address that Ray would find by itself, if it is written anywhere."""
    note = Path(os.environ.get("RAY_TMPDIR", "/tmp")) / "ray" / "ray_current_cluster"
    written = note.read_text().strip() if note.is_file() else ""
    return os.environ.get("RAY_ADDRESS", "") or written


def _host_and_port(address: str) -> tuple[str, int]:
    parts = urlsplit(f"//{address}")
    with contextlib.suppress(ValueError):  # the port is no number
        if parts.hostname and parts.port and not parts.path:
            return parts.hostname, parts.port
    raise InputError(
        "A Ray address is HOST:PORT or auto, for example 127.0.0.1:6379; received "
        f"{address!r}."
    )


def _speaks_grpc(line: socket.socket) -> bool:
    """Say whether the other side answers as a server of gRPC does, which Ray's is.

    A proxy or a web server may speak HTTP/2 as well, but says that there is no such
    page.
    """
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return True  # only Ray has the keys to ask
    line.settimeout(_SECONDS)
    headers = (
        *(b"\x83\x86", b"\x04" + _packed(_QUESTION)),  # POST, http, path
        *(b"\x01" + _packed(b"ray"), b"\x0f\x10" + _packed(b"application/grpc")),
        b"\x00" + _packed(b"te") + _packed(b"trailers"),
    )
    line.sendall(
        _PREFACE
        + _frame(_SETTINGS, 0, 0, b"")
        + _frame(_HEADERS, _END_HEADERS, 1, b"".join(headers))
        + _frame(_DATA, _END_STREAM, 1, bytes(5))  # an empty message
    )
    for number in range(_MOST_FRAMES):
        head = _received(line, _HEAD)
        if len(head) < _HEAD or (number == 0 and head[3] != _SETTINGS):
            return False
        payload = _received(line, int.from_bytes(head[:3], "big"))
        if head[3] == _HEADERS:
            # The first header is the status, but for sizes of the packer's table.
            packed = (byte for byte in payload if not 0x20 <= byte < 0x40)
            return next(packed, 0) == _STATUS_200
    return False


def _frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    head = len(payload).to_bytes(3, "big") + bytes([kind, flags])
    return head + stream.to_bytes(4, "big") + payload


def _packed(text: bytes) -> bytes:
    return bytes([len(text)]) + text


def _received(line: socket.socket, count: int) -> bytes:
    """Return so many bytes, or fewer if the other side ends the connection."""
    answer = b""
    while len(answer) < count:
        part = line.recv(count - len(answer))
        if not part:
            break
        answer += part
    return answer
