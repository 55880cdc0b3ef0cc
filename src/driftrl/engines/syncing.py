"""The files of a run on their way between machines that share no disk.

A node starts from what the driver has of a run and sends back what its worker writes,
as it is written: an ``Outbox`` there finds what is new, ``receive`` here puts it in its
place.  What arrives is written to files of a few known names and is never executed.

The order is that in which a run itself writes: episode files, rows, and then the
checkpoint that makes both count.  So the driver, too, may be killed at any moment.
"""

import hashlib
import json
import operator
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import compress
from pathlib import Path

from driftrl.engines.seam import LOG
from driftrl.errors import CorruptFile
from driftrl.io import flush_directory, write_atomically
from driftrl.records import CONFIG_FILE, RECORDS_FILE

_ARRAYS, _MANIFEST = "state.npz", "manifest.json"
_MEMORY = re.compile(r"memory/([0-9]{6,})\.npz")
_CHECKPOINT = re.compile(r"checkpoint/([0-9]{6,})/(state\.npz|manifest\.json)")
_GROWING = (RECORDS_FILE, LOG)


@dataclass(frozen=True)
class Piece:
    """A file, or what was added to it."""

    name: str
    """Its path in the directory of the run."""
    offset: int
    """How many of its bytes come before; 0 for a whole file."""
    data: bytes


@dataclass(frozen=True)
class _Sent:
    """What was sent of a file."""

    signature: tuple[int, ...]
    size: int
    digest: str


class Outbox:
    """Finds what of a run's directory was not sent yet.

    The run may be writing meanwhile: of episodes and rows only those are sent that a
    checkpoint covers, and what is gone before it could be read is left out.
    """

    def __init__(self, directory: Path) -> None:
        """Look at a directory of which nothing was sent."""
        self._directory = directory
        self._sent: dict[str, _Sent] = {}

    def take(self) -> tuple[Piece, ...]:
        """Return what is new, in the order in which it is to be written."""
        checkpoints = _whole_checkpoints(self._directory)
        newest = max(checkpoints, default=0)
        pieces: list[Piece] = []
        sent = dict(self._sent)
        try:
            for name, signature in self._changed(checkpoints):
                data = (self._directory / name).read_bytes()
                if name == RECORDS_FILE:
                    data = b"".join(data.splitlines(keepends=True)[:newest])
                piece = _addition(name, data, sent.get(name))
                sent[name] = _Sent(signature, len(data), _digest(data))
                pieces += [piece] if piece.data or piece.offset == 0 else []
        except FileNotFoundError:
            return ()  # an old checkpoint, removed meanwhile; the next look will do
        self._sent = sent
        return tuple(pieces)

    def _changed(self, checkpoints: list[int]) -> list[tuple[str, tuple[int, ...]]]:
        """Return the files to look into, with what tells their states apart."""
        newest = max(checkpoints, default=0)
        names = [CONFIG_FILE, LOG]
        arrays = [f"checkpoint/{n:06d}/{_ARRAYS}" for n in checkpoints]
        new = any(self._signature(name) != self._known(name) for name in arrays)
        if new:
            memory = (f"memory/{n:06d}.npz" for n in range(1, newest + 1))
            parts = (name.replace(_ARRAYS, _MANIFEST) for name in arrays)
            names += [*memory, *arrays, *parts]
        states = {name: self._signature(name) for name in names}
        if new:
            # A row is there before the checkpoint that covers it.
            states[RECORDS_FILE] = (newest, *self._signature(RECORDS_FILE))
        changed = [name for name in states if states[name] != self._known(name)]
        ordered = sorted(changed, key=_place_in_order)
        return [(name, states[name]) for name in ordered if states[name]]

    def _known(self, name: str) -> tuple[int, ...]:
        return self._sent[name].signature if name in self._sent else ()

    def _signature(self, name: str) -> tuple[int, ...]:
        """Return what is another for every content of a file; nothing if it is gone."""
        try:
            status = (self._directory / name).stat()
        except FileNotFoundError:
            return ()
        return (status.st_ino, status.st_size, status.st_mtime_ns)


def receive(directory: Path, pieces: Iterable[Piece]) -> None:
    """Write what arrived, such that the run can be resumed at any moment.

    Raises:
        CorruptFile: A piece is none of a run, or does not fit what is there; nothing
            was written then.
    """
    pieces = tuple(pieces)
    for piece in pieces:
        _require_sound(directory, piece)
    is_state = [bool(_CHECKPOINT.fullmatch(piece.name)) for piece in pieces]
    staged = _stage(directory, compress(pieces, is_state))
    for piece in compress(pieces, map(operator.not_, is_state)):
        _write(directory / piece.name, piece)
    for place in staged:
        _put_in_place(place)


def forget_old_checkpoints(directory: Path) -> None:
    """Keep the newest checkpoints alone, as a run itself does."""
    from driftrl.training.checkpoint import KEPT  # brings JAX

    for number in _whole_checkpoints(directory)[:-KEPT]:
        shutil.rmtree(directory / "checkpoint" / f"{number:06d}", ignore_errors=True)


def settle(directory: Path) -> None:
    """Finish, or undo, what a process that was killed had begun to write.

    A checkpoint that lies beside its place, whole, with all its rows, is put there.
    """
    rows = directory / RECORDS_FILE
    count = rows.read_bytes().count(b"\n") if rows.exists() else 0
    for beside in sorted((directory / "checkpoint").glob(".*.tmp")):
        number = beside.name[1 : -len(".tmp")]
        place = beside.parent / number
        covered = number.isdecimal() and int(number) <= count
        if covered and not place.exists() and _is_whole(beside):
            _put_in_place(place)
        else:
            shutil.rmtree(beside, ignore_errors=True)


def _whole_checkpoints(directory: Path) -> list[int]:
    """Return the numbers of the checkpoints of which both files are there."""
    places = (directory / "checkpoint").glob("[0-9]*")
    return sorted(
        int(place.name)
        for place in places
        if place.name.isdecimal()
        and (place / _MANIFEST).exists()
        and (place / _ARRAYS).exists()
    )


def _place_in_order(name: str) -> tuple[int, str]:
    kinds = (name == CONFIG_FILE, bool(_MEMORY.fullmatch(name)), name == RECORDS_FILE)
    rank = kinds.index(True) if any(kinds) else 4 if name == LOG else 3
    return rank, name


def _addition(name: str, data: bytes, sent: _Sent | None) -> Piece:
    """Return what was added to a file, or all of it if it is another now."""
    if name not in _GROWING or sent is None:
        return Piece(name, 0, data)
    if _digest(data[: sent.size]) != sent.digest:
        return Piece(name, 0, data)
    return Piece(name, sent.size, data[sent.size :])


def _require_sound(directory: Path, piece: Piece) -> None:
    growing = piece.name in _GROWING
    patterns = (_MEMORY, _CHECKPOINT)
    if not (
        growing
        or piece.name == CONFIG_FILE
        or any(pattern.fullmatch(piece.name) for pattern in patterns)
    ):
        raise CorruptFile(
            f"A node sent {piece.name!r}, which is no file of a run; it was not "
            "written."
        )
    path = directory / piece.name
    size = path.stat().st_size if path.exists() else 0
    if piece.offset and not (growing and piece.offset <= size):
        raise CorruptFile(
            f"A node sent what follows {piece.offset} bytes of {path}, which has "
            f"{size}; it was not written."
        )


def _stage(directory: Path, pieces: Iterable[Piece]) -> list[Path]:
    """Write checkpoints beside their places; return the places, oldest first."""
    places: dict[str, dict[str, bytes]] = {}
    for piece in pieces:
        number, name = piece.name.split("/")[1:]
        places.setdefault(number, {})[name] = piece.data
    for number, files in places.items():
        if files.keys() != {_ARRAYS, _MANIFEST}:
            raise CorruptFile(
                f"A node sent a part of checkpoint {number}: {', '.join(files)}."
            )
    found = []
    for number in sorted(places):
        place = directory / "checkpoint" / number
        beside = _beside(place)
        shutil.rmtree(beside, ignore_errors=True)
        beside.mkdir(parents=True)
        for name, data in places[number].items():
            write_atomically(beside / name, data)
        found.append(place)
    return found


def _beside(place: Path) -> Path:
    return place.parent / f".{place.name}.tmp"


def _put_in_place(place: Path) -> None:
    shutil.rmtree(place, ignore_errors=True)
    os.rename(_beside(place), place)
    flush_directory(place.parent)


def _is_whole(place: Path) -> bool:
    try:
        sums = json.loads((place / _MANIFEST).read_bytes())["sha256"]
        return sums[_ARRAYS] == _digest((place / _ARRAYS).read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _write(path: Path, piece: Piece) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if piece.offset == 0:
        write_atomically(path, piece.data)
        return
    with open(path, "r+b") as file:
        file.truncate(piece.offset)
        file.seek(piece.offset)
        file.write(piece.data)
        file.flush()
        os.fsync(file.fileno())


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
