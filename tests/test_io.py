"""Atomic writing: all or nothing, also on a full disk or with a sudden end."""

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from driftrl.io import remove_leftovers, write_atomically


def test_content_is_written_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"one")
    assert path.read_bytes() == b"one"
    write_atomically(path, b"")
    assert path.read_bytes() == b""
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt()]
)
@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_failure_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, error: BaseException
) -> None:
    path = tmp_path / "file"
    write_atomically(path, b"old")

    def fail(*arguments: object) -> None:
        raise error

    monkeypatch.setattr(os, step, fail)
    with pytest.raises(type(error)):
        write_atomically(path, b"new")
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_an_error_of_the_system(tmp_path: Path) -> None:
    script = (
        "import resource, sys, signal, pathlib\n"
        "from driftrl.io import write_atomically\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))\n"
        "try:\n"
        "    write_atomically(pathlib.Path(sys.argv[1]), b'n' * 100_000)\n"
        "except OSError as error:\n"
        "    sys.exit(error.errno)\n"
    )
    path = tmp_path / "file"
    write_atomically(path, b"old")
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == errno.EFBIG
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_data_reach_the_disk_before_the_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, replace = os.fsync, os.replace

    def logged_fsync(descriptor: int) -> None:
        target = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        steps.append("directory" if target.is_dir() else target.read_text())
        fsync(descriptor)

    def logged_replace(source: Path, target: Path) -> None:
        assert source.parent == target.parent
        steps.append("rename")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", logged_fsync)
    monkeypatch.setattr(os, "replace", logged_replace)
    write_atomically(tmp_path / "file", b"all of it")
    assert steps == ["all of it", "rename", "directory"]


def test_a_killed_writer_leaves_the_old_file(tmp_path: Path) -> None:
    script = (
        "import os, pathlib, signal, sys\n"
        "from driftrl import io\n"
        "io.os.replace = lambda *names: os.kill(os.getpid(), signal.SIGKILL)\n"
        "io.write_atomically(pathlib.Path(sys.argv[1]), b'new')\n"
    )
    path = tmp_path / "file"
    write_atomically(path, b"old")
    done = subprocess.run([sys.executable, "-c", script, str(path)], check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"
    (tmp_path / ".hidden").write_bytes(b"the user's")
    assert len(list(tmp_path.iterdir())) == 3
    remove_leftovers(tmp_path)
    assert sorted(entry.name for entry in tmp_path.iterdir()) == [".hidden", "file"]
