"""Who may talk to a robot: addresses, and the token that two sides share."""

import hmac
import ipaddress
import os
from collections.abc import Mapping
from pathlib import Path

from driftrl.errors import InputError, require

VARIABLE = "DRIFTRL_ROBOT_TOKEN"
SHORTEST_TOKEN = 16
LONGEST_TOKEN = 256
LARGEST_PORT = 65_535


def is_local(address: str) -> bool:
    """Say whether only programs of this machine can reach an address.

    Raises:
        InputError: It is no address.
    """
    scheme, _, rest = address.partition("://")
    if scheme == "ipc" and rest:
        return True
    host, _, port = rest.rpartition(":")
    if scheme != "tcp" or not host or not (port.isdecimal() or port == "*"):
        raise InputError(
            f"An address looks like tcp://127.0.0.1:5557, received {address!r}."
        )
    # ZeroMQ would take the rest of a larger one, by 65536.
    require(
        port == "*" or 1 <= int(port) <= LARGEST_PORT,
        f"The port of an address is from 1 to {LARGEST_PORT}, received {port} in "
        f"{address!r}.",
    )
    host = host.strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def read_token(file: Path | None, environment: Mapping[str, str]) -> str:
    """Return the shared token, from a file or the environment; "" if there is none.

    It is never an argument of a command, where every user of the machine could read it.
    """
    if file is not None:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except UnicodeDecodeError:
            raise InputError(f"The token in {file} must be text.") from None
        except OSError as error:
            raise InputError(f"Cannot read {file}: {error.strerror}.") from error
        where = str(file)
    else:
        token, where = environment.get(VARIABLE, "").strip(), VARIABLE
    if token or file is not None:
        require(
            SHORTEST_TOKEN <= len(token) <= LONGEST_TOKEN,
            f"The token in {where} has {len(token)} letters; it needs "
            f"{SHORTEST_TOKEN} to {LONGEST_TOKEN}. A good one: openssl rand -hex 32.",
        )
    return token


def check_access(address: str, token: str) -> None:
    """Refuse an address that others can reach, unless there is a token."""
    local = is_local(address)  # which also judges whether it is one
    require(
        bool(token) or local,
        f"{address} can be reached from other machines, so both sides need the same "
        f"token: put one in a file (--token-file FILE) or in {VARIABLE}.",
    )


def same_token(received: str, own: str) -> bool:
    """Compare tokens in a time that tells nothing about how they differ."""
    return hmac.compare_digest(received.encode(), own.encode())


def token_from(file: Path | None) -> str:
    """Return this process's token; see ``read_token``."""
    return read_token(file, os.environ)
