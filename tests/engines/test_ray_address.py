"""Addresses of Ray clusters: what does not answer is refused in a sentence, soon."""

import contextlib
import http.server
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from driftrl.engines import ray_address
from driftrl.engines.ray_address import require_answer
from driftrl.errors import InputError


@contextlib.contextmanager
def answering(answer: bytes | None) -> Iterator[str]:
    """Listen on a port and answer this; None says nothing."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            line, _ = server.accept()
            with line:
                line.recv(1000)
                if answer is None:
                    time.sleep(0.5)
                else:
                    line.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.fixture(autouse=True)
def nothing_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("RAY_TMPDIR", str(tmp_path))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.delenv("RAY_USE_TLS", raising=False)
    return tmp_path / "ray" / "ray_current_cluster"


SETTINGS = bytes([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100])
PING = bytes([0, 0, 8, 6, *range(13)])
# Headers of status 200, as RFC 7541 packs them; behind a change of the table's size.
FOUND = bytes([0, 0, 2, 1, 4, 0, 0, 0, 1, 0x88, 0x40])
SIZED = bytes([0, 0, 2, 1, 4, 0, 0, 0, 1, 0x20, 0x88])
MISSING = bytes([0, 0, 1, 1, 5, 0, 0, 0, 1, 0x8D])  # 404


@pytest.mark.parametrize("answer", [FOUND, PING + FOUND, SIZED])
def test_a_server_of_grpc_is_taken_for_ray(answer: bytes) -> None:
    with answering(SETTINGS + answer) as address:
        require_answer(address)


@pytest.mark.parametrize(
    "answer", [MISSING, PING + MISSING, b"", FOUND[:9], 20 * PING + FOUND]
)
def test_another_server_of_http2_is_not(answer: bytes) -> None:
    with (
        answering(SETTINGS + answer) as address,
        pytest.raises(InputError, match=f"What answers at {address} is no Ray cluster"),
    ):
        require_answer(address)


def test_other_servers_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    sentence = "What answers at 127.0.0.1:[0-9]+ is no Ray cluster. Start one there"
    with answering(b"") as address, pytest.raises(InputError, match=sentence):
        require_answer(address)
    handler = http.server.SimpleHTTPRequestHandler
    with http.server.HTTPServer(("127.0.0.1", 0), handler) as server:
        monkeypatch.setattr(handler, "log_message", lambda *_: None)
        thread = threading.Thread(target=server.handle_request)
        thread.start()
        with pytest.raises(InputError, match=sentence):
            require_answer(f"127.0.0.1:{server.server_port}")
        thread.join()


def test_silence_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ray_address._SECONDS <= 5
    monkeypatch.setattr(ray_address, "_SECONDS", 0.1)
    sentence = "No Ray cluster answers at 127.0.0.1:[0-9]+: timed out"
    with answering(None) as address, pytest.raises(InputError, match=sentence):
        require_answer(address)


def test_a_closed_port_and_an_unknown_host() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    with pytest.raises(InputError, match=f"answers at localhost:{port}: .*refused"):
        require_answer(f"localhost:{port}")
    with pytest.raises(InputError, match="No Ray cluster answers at no.invalid:6379"):
        require_answer("no.invalid:6379")


def test_keys_of_a_cluster_are_left_to_ray(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_USE_TLS", "1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        require_answer(f"127.0.0.1:{server.getsockname()[1]}")


def test_auto_is_what_ray_has_noted(
    nothing_noted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require_answer("auto")  # Ray looks for one itself
    nothing_noted.parent.mkdir()
    nothing_noted.write_text("127.0.0.1:9\n")
    with pytest.raises(InputError, match=r"at 127.0.0.1:9 \(found by 'auto'\): "):
        require_answer("auto")
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:7")
    with pytest.raises(InputError, match=r"at 127.0.0.1:7 \(found by 'auto'\): "):
        require_answer("auto")


@pytest.mark.parametrize(
    "address", ["host", "host:", ":1", "host:x", "host:99999", "h:1/x"]
)
def test_malformed_addresses(address: str) -> None:
    with pytest.raises(InputError, match=f"HOST:PORT or auto.*received '{address}'"):
        require_answer(address)


def test_client_servers_are_refused() -> None:
    with pytest.raises(InputError, match="'ray://h:1' is that of a Ray client server"):
        require_answer("ray://h:1")
