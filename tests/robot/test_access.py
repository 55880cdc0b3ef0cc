"""Who may talk to a robot."""

from pathlib import Path

import pytest

from driftrl.errors import InputError
from driftrl.robot.transport import TOKEN_VARIABLE, check_access, read_token

TOKEN = "0123456789abcdef"


@pytest.mark.parametrize(
    ("address", "local"),
    [
        ("tcp://127.0.0.1:5557", True),
        ("tcp://[::1]:5557", True),
        ("tcp://localhost:5557", True),
        ("ipc:///tmp/robot", True),
        ("tcp://0.0.0.0:5557", False),
        ("tcp://*:5557", False),
        ("tcp://192.168.0.7:5557", False),
        ("tcp://robot.example:5557", False),
        ("tcp://127.0.0.1.example:5557", False),
    ],
)
def test_off_loopback_a_token_is_needed(address: str, local: bool) -> None:
    check_access(address, TOKEN)
    if local:
        check_access(address, "")
    else:
        with pytest.raises(InputError, match="token"):
            check_access(address, "")


@pytest.mark.parametrize(
    "address", ["", "5557", "127.0.0.1:5557", "tcp://127.0.0.1", "udp://1.2.3.4:5"]
)
def test_addresses_look_like_addresses(address: str) -> None:
    with pytest.raises(InputError, match="address"):
        check_access(address, "")


@pytest.mark.parametrize("port", [0, 65_536, 99_999])
@pytest.mark.parametrize("token", ["", TOKEN])
def test_ports_are_ports(port: int, token: str) -> None:
    with pytest.raises(InputError, match=str(port)):
        check_access(f"tcp://127.0.0.1:{port}", token)
    for last in (1, 65_535):
        check_access(f"tcp://127.0.0.1:{last}", "")


def test_token_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    monkeypatch.delenv(TOKEN_VARIABLE, raising=False)
    assert read_token(None) == ""
    monkeypatch.setenv(TOKEN_VARIABLE, "f" * 20)
    assert read_token(file) == TOKEN and read_token(None) == "f" * 20


@pytest.mark.parametrize("content", [b"", b"short", b"x" * 257, b"\xff\xfe" * 20])
def test_bad_tokens_are_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "token"
    with pytest.raises(InputError, match="token"):
        read_token(file)
    file.write_bytes(content)
    with pytest.raises(InputError, match="token"):
        read_token(file)
