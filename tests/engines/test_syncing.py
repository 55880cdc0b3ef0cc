"""Files of a run between machines: only what is new, and resumable at any moment."""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from driftrl.engines import syncing
from driftrl.engines.syncing import (
    Outbox,
    Piece,
    forget_old_checkpoints,
    receive,
    settle,
)
from driftrl.errors import CorruptFile


class PowerCut(Exception):
    """The driver was killed."""


@pytest.fixture(scope="module", autouse=True)
def quick_disk() -> Iterator[None]:
    """Leave out what only a real power cut would miss, for it is slow."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda descriptor: None)
        yield


def checkpoint(directory: Path, number: int, state: bytes) -> None:
    place = directory / "checkpoint" / f"{number:06d}"
    place.mkdir(parents=True)
    (place / "state.npz").write_bytes(state)
    sums = {"state.npz": hashlib.sha256(state).hexdigest()}
    (place / "manifest.json").write_text(json.dumps({"sha256": sums}))
    for old in sorted((directory / "checkpoint").glob("0*"))[:-2]:
        for file in old.iterdir():
            file.unlink()
        old.rmdir()


def write_episode(directory: Path, number: int) -> Iterator[None]:
    """Write what a run writes for an episode; stop after every file."""
    (directory / "memory").mkdir(parents=True, exist_ok=True)
    (directory / "config.toml").write_text("seed = 1\n")
    (directory / "memory" / f"{number:06d}.npz").write_bytes(b"episode %d" % number)
    yield
    with open(directory / "episodes.jsonl", "ab") as rows:
        rows.write(b'{"episode": %d}\n' % number)
    yield
    checkpoint(directory, number, b"state %d" % number)
    with open(directory / "log.txt", "ab") as log:
        log.write(b"said after %d\n" % number)
    yield


def content(directory: Path) -> dict[str, bytes]:
    paths = (path for path in directory.rglob("*") if path.is_file())
    return {str(path.relative_to(directory)): path.read_bytes() for path in paths}


def numbers(directory: Path) -> list[int]:
    return sorted(int(path.name) for path in (directory / "checkpoint").glob("0*"))


def assert_resumable(directory: Path) -> None:
    """Check what resuming a run asks of its directory."""
    saved = numbers(directory)
    rows = directory / "episodes.jsonl"
    count = rows.read_bytes().count(b"\n") if rows.exists() else 0
    assert count >= max(saved, default=0)
    assert saved or count <= 1
    assert not count or (directory / "config.toml").exists()
    for number in range(1, max(saved, default=0) + 1):
        file = directory / "memory" / f"{number:06d}.npz"
        assert file.read_bytes() == b"episode %d" % number
    for number in saved:
        place = directory / "checkpoint" / f"{number:06d}"
        assert (place / "state.npz").read_bytes() == b"state %d" % number


def test_only_what_a_checkpoint_covers_is_sent_and_only_once(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    assert outbox.take() == ()
    writing = write_episode(tmp_path, 1)
    next(writing)
    next(writing)
    assert [piece.name for piece in outbox.take()] == ["config.toml"]
    next(writing)
    assert [piece.name for piece in outbox.take()] == [
        "memory/000001.npz",
        "episodes.jsonl",
        "checkpoint/000001/manifest.json",
        "checkpoint/000001/state.npz",
        "log.txt",
    ]
    assert outbox.take() == ()
    list(write_episode(tmp_path, 2))
    second = {piece.name: piece for piece in outbox.take()}
    assert second["episodes.jsonl"].data == b'{"episode": 2}\n'
    assert second["episodes.jsonl"].offset == len(b'{"episode": 1}\n')
    assert second["log.txt"] == Piece("log.txt", 13, b"said after 2\n")
    assert "memory/000001.npz" not in second and "config.toml" in second


def test_rows_ahead_of_the_checkpoint_wait_for_theirs(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    list(write_episode(tmp_path, 1))
    writing = write_episode(tmp_path, 2)
    next(writing)
    next(writing)
    for rows in (b'{"episode": 1}\n', b'{"episode": 2}\n'):
        sent = {piece.name: piece.data for piece in outbox.take()}
        assert sent["episodes.jsonl"] == rows
        next(writing, None)


def test_rows_that_became_others_are_sent_anew(tmp_path: Path) -> None:
    outbox = Outbox(tmp_path)
    list(write_episode(tmp_path, 1))
    outbox.take()
    (tmp_path / "episodes.jsonl").write_bytes(b'{"episode": 1, "more": 0}\n')
    list(write_episode(tmp_path, 2))
    (rows,) = (piece for piece in outbox.take() if piece.name == "episodes.jsonl")
    assert rows.offset == 0 and rows.data.count(b"\n") == 2


@settings(max_examples=25)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(1, 6))
def test_looks_at_any_moment_end_with_equal_directories(
    tmp_path_factory: pytest.TempPathFactory, looks: list[int], episodes: int
) -> None:
    """A look at the files after so many steps of writing, again and again."""
    node = tmp_path_factory.mktemp("node")
    driver = tmp_path_factory.mktemp("driver")
    outbox = Outbox(node)
    steps = (step for n in range(1, episodes + 1) for step in write_episode(node, n))
    for count in looks:
        for _ in range(count):
            next(steps, None)
        receive(driver, outbox.take())
        forget_old_checkpoints(driver)
        assert_resumable(driver)
    list(steps)
    receive(driver, outbox.take())
    forget_old_checkpoints(driver)
    assert content(driver) == content(node)


def cut_after(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let no more than so many writes succeed."""
    left = [count]

    def limited(function: Callable) -> Callable:
        def wrapper(*arguments: object) -> object:
            if left[0] == 0:
                raise PowerCut
            left[0] -= 1
            return function(*arguments)

        return wrapper

    for name in ("write_atomically", "_write", "_put_in_place"):
        monkeypatch.setattr(syncing, name, limited(getattr(syncing, name)))


@pytest.mark.parametrize("first", [0, 1, 3])
def test_a_driver_killed_at_any_write_can_go_on(
    first: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = tmp_path / "node"
    outbox = Outbox(node)
    for number in range(1, first + 1):
        list(write_episode(node, number))
    before = outbox.take()
    for number in range(first + 1, first + 4):
        list(write_episode(node, number))
    message = outbox.take()
    for count in range(30):
        driver = tmp_path / f"driver-{count}"
        receive(driver, before)
        try:
            with monkeypatch.context() as patch:
                cut_after(count, patch)
                receive(driver, message)
        except PowerCut:
            settle(driver)
            assert_resumable(driver)
            assert not list(driver.rglob("*.tmp"))
        else:
            assert_resumable(driver)
            assert count > 8 and max(numbers(driver)) == first + 3
            break
    else:
        raise AssertionError("it was never written whole")


def test_settling_drops_what_is_torn_or_ahead_of_its_rows(tmp_path: Path) -> None:
    list(write_episode(tmp_path, 1))
    for number in (2, 3):
        checkpoint(tmp_path, number, b"state")
        place = tmp_path / "checkpoint" / f"{number:06d}"
        place.rename(place.parent / f".{number:06d}.tmp")
    with open(tmp_path / "episodes.jsonl", "a") as rows:
        rows.write('{"episode": 2}\n')
    (tmp_path / "checkpoint" / ".000002.tmp" / "state.npz").write_bytes(b"torn")
    settle(tmp_path)
    assert numbers(tmp_path) == [1]
    assert not list(tmp_path.rglob("*.tmp"))


@pytest.mark.parametrize(
    "name",
    [
        "../episodes.jsonl",
        "/tmp/episodes.jsonl",
        "memory/../../000001.npz",
        "memory/1.npz",
        "memory/000001.npz\n",
        "memory/٠٠٠٠٠١.npz",
        "checkpoint/000001/../state.npz",
        "checkpoint/000001/run.py",
        "lock",
        "",
    ],
)
def test_other_names_are_refused(name: str, tmp_path: Path) -> None:
    good = Piece("config.toml", 0, b"seed = 1\n")
    with pytest.raises(CorruptFile, match="which is no file of a run"):
        receive(tmp_path, [good, Piece(name, 0, b"x")])
    assert content(tmp_path) == {}


def test_pieces_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    receive(tmp_path, [Piece("log.txt", 0, b"four")])
    with pytest.raises(CorruptFile, match=r"follows 5 bytes of .*log.txt, which has 4"):
        receive(tmp_path, [Piece("log.txt", 5, b"x")])
    with pytest.raises(CorruptFile, match=r"follows 1 bytes of .*config.toml"):
        receive(tmp_path, [Piece("config.toml", 1, b"x")])
    with pytest.raises(CorruptFile, match="a part of checkpoint 000001: state.npz"):
        receive(tmp_path, [Piece("checkpoint/000001/state.npz", 0, b"x")])
    assert content(tmp_path) == {"log.txt": b"four"}
