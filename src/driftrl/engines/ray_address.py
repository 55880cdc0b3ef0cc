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
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"  # how a client of HTTP/2 begins
_SETTINGS = bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # an empty frame of type 4
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
    """Say whether the other side answers as a server of gRPC does, which Ray's is."""
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return True  # only Ray has the keys to ask
    line.settimeout(_SECONDS)
    line.sendall(_PREFACE + _SETTINGS)
    answer = b""
    while len(answer) < len(_SETTINGS):
        received = line.recv(len(_SETTINGS) - len(answer))
        if not received:
            return False
        answer += received
    return answer[3] == _SETTINGS[3]
