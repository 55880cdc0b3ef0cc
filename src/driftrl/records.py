"""The record of a run: one JSON line per episode, appended and never rewritten.

A row is complete once its line ends; a process that dies while writing leaves at most
an unterminated last line, which every reader here ignores.  After its columns a row has
``sum``, a checksum of them; rows of version 0.1.0 have none.  Anything that can't be
read is reported with its file and line, never skipped.
"""

import json
import math
import operator
import os
import time
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, get_type_hints

import msgspec

from driftrl.config.toml import read_toml, upgraded
from driftrl.errors import CorruptFile, InputError, require
from driftrl.io import flush_directory, write_atomically
from driftrl.types import EpisodeRecord

CONFIG_FILE = "config.toml"
RECORDS_FILE = "episodes.jsonl"
HEARTBEAT_FILE = "heartbeat"
"""Touched every few seconds by the process that has the run open; removed when it
closes it.  A run whose file is older than ``HEARTBEAT_LIMIT`` was killed."""
HEARTBEAT_LIMIT = 60.0
BESIDE_SETTINGS = ("versions", "changes")
"""Tables in a run's configuration file that are not settings."""

COLUMNS: dict[str, Any] = get_type_hints(EpisodeRecord)
"""Type of each column of a record, in the order in which they are written."""
OPTIONAL = ("violations", "reach")
"""Columns that are left out of rows in which they are None."""
_FLOATS = [name for name, kind in COLUMNS.items() if kind is float]
_UNKNOWN = {name: None for name, kind in COLUMNS.items() if kind == float | None}
_LEAST = {"episode": 1, "steps": 1, "first_retained": 1, "transitions": 0}
_MOST = 2**53  # beyond it, a number in JSON need not be exact
_SUM = "sum"


def encode_record(record: EpisodeRecord) -> str:
    """Return the record as one line of strict JSON, without the line's end.

    Floats are written with the shortest digits that read back to the same float.
    JSON has no NaN or infinity, so these become null.
    """
    row = {name: _to_json(getattr(record, name), COLUMNS[name]) for name in COLUMNS}
    row = {k: v for k, v in row.items() if v is not None or k not in OPTIONAL}
    return json.dumps({**row, _SUM: _checksum(row)}, allow_nan=False)


def _checksum(row: dict[str, Any]) -> str:
    """Return the CRC-32 of a row as JSON, whatever the white space of its line is.

    The time an episode took doesn't count: rows of a repeated run differ in it alone.
    """
    counted = {name: value for name, value in row.items() if name != "wall_s"}
    return f"{zlib.crc32(json.dumps(counted).encode()):08x}"


def _to_json(value: Any, kind: Any) -> Any:
    if value is None:
        return None
    if kind is bool:
        return bool(value)
    if kind in (int, int | None):
        return operator.index(value)
    if isinstance(value, tuple):
        finite = all(map(math.isfinite, value))
        return [float(number) for number in value] if finite else None
    return float(value) if math.isfinite(value) else None


class RecordWriter:
    """Appends rows to a run's record; each is on the disk when ``append`` returns.

    Use it as a context manager, or call ``close``.  An unterminated last line that an
    earlier process left behind is removed first, so that it cannot swallow a new row.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        is_new = not self._path.exists()
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        content = self._path.read_bytes()
        os.ftruncate(self._file, content.rfind(b"\n") + 1)
        if is_new:
            flush_directory(self._path.parent)

    def append(self, record: EpisodeRecord) -> None:
        """Write one row; if the disk refuses, take back the part that was written."""
        size = os.fstat(self._file).st_size
        rest = memoryview(encode_record(record).encode() + b"\n")
        try:
            while rest:
                rest = rest[os.write(self._file, rest) :]
            os.fsync(self._file)
        except OSError:
            os.ftruncate(self._file, size)
            raise

    def close(self) -> None:
        """Release the file; a second call does nothing."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_records(path: str | Path) -> list[EpisodeRecord]:
    """Return the complete rows of a record, that of episode n at index n − 1.

    An unterminated last line is dropped.  Columns that this version does not know are
    ignored, and one that is missing has its default or else, if it is optional, is
    None, so that records outlive the version that wrote them.  A null where a number is
    required is read as NaN.  ``CorruptFile`` if a complete line is not a row, or not
    the row of its episode.
    """
    records, damage = readable_records(path)
    if damage is not None:
        raise damage
    return records


def readable_records(
    path: str | Path,
) -> tuple[list[EpisodeRecord], CorruptFile | None]:
    """Return the rows before the first damaged one, and what is wrong with that."""
    path, records = Path(path), []
    for number, line in enumerate(_complete_lines(path), start=1):
        try:
            records.append(_decode_line(line, path, number))
        except CorruptFile as damage:
            return records, damage
    return records, None


def truncate_records(path: str | Path, episodes: int) -> None:
    """Keep the first ``episodes`` rows of a record, byte for byte, atomically.

    A run that resumes from a checkpoint of episode k drops the rows after k this way:
    it will write them again.
    """
    path = Path(path)
    lines = _complete_lines(path)
    if len(lines) < episodes:
        raise CorruptFile(
            f"{path} holds {len(lines)} complete rows where {episodes} were expected: "
            "rows are missing. Restore the file or start the run anew."
        )
    kept = b"".join(line + b"\n" for line in lines[:episodes])
    if kept != path.read_bytes():
        write_atomically(path, kept)


def complete_rows(path: Path) -> int:
    """Return how many rows of a record are complete, without reading what they say."""
    return path.read_bytes().count(b"\n") if path.is_file() else 0


def _complete_lines(path: Path) -> list[bytes]:
    require(path.is_file(), f"There is no record {path}.")
    return path.read_bytes().split(b"\n")[:-1]


def _decode_line(line: bytes, path: Path, number: int) -> EpisodeRecord:
    try:
        row = msgspec.json.decode(line, type=dict[str, Any])
        if row.pop(_SUM, None) not in (None, _checksum(row)):
            raise ValueError("its checksum does not match")
        row = {**_UNKNOWN, **row}
        nulls = {name: math.nan for name in _FLOATS if row.get(name, 0) is None}
        record = msgspec.convert({**row, **nulls}, EpisodeRecord)
        for name, least in _LEAST.items():
            if not least <= getattr(record, name) <= _MOST:
                raise ValueError(f"{name} is {getattr(record, name)}")
        if record.episode != number:
            raise ValueError(f"it holds episode {record.episode}")
    except (ValueError, RecursionError, msgspec.MsgspecError) as error:
        raise CorruptFile(
            f"Line {number} of {path} is not the row of episode {number}: "
            f"{str(error)[:200]}. Restore the file from a copy, or repeat the run."
        ) from error
    return record


@dataclass(frozen=True)
class Run:
    """One run as it lies on the disk: its configuration and its rows so far."""

    directory: Path
    config: dict[str, Any]  # Contents of ``config.toml``, nested as there
    records: tuple[EpisodeRecord, ...]

    @property
    def task(self) -> str:
        """Name of the task."""
        return self.config["task"]

    @property
    def variant(self) -> str:
        """Name of the variant that a study made, empty without one."""
        return self.config.get("variant", "")

    @property
    def method(self) -> str:
        """Name of the method, with the variant that a study made of it."""
        return f"{self.config['method']} {self.variant}".strip()

    @property
    def seed(self) -> int:
        """Seed of every random stream of the run."""
        return self.config["seed"]

    @property
    def label(self) -> str:
        """Name by which the run is spoken of: task, method, variant and seed."""
        return f"{self.task}-{self.method.replace(' ', '-')}-s{self.seed}"

    @property
    def planned_episodes(self) -> int:
        """Number of episodes that the finished run will have."""
        return self.config["episodes"]

    @property
    def is_finished(self) -> bool:
        """Whether every planned episode is recorded."""
        return len(self.records) >= self.planned_episodes


def load_run(directory: str | Path) -> Run:
    """Read one run's directory; a run that has not recorded anything has no rows."""
    directory = Path(directory)
    config = _read_config(directory / CONFIG_FILE)
    path = directory / RECORDS_FILE
    records = read_records(path) if path.exists() else []
    return Run(directory, config, tuple(records))


def read_settings(path: Path) -> dict[str, Any]:
    """Read the settings in a TOML file, which may be a run's ``config.toml``."""
    table = upgraded(read_toml(path))
    return {key: table[key] for key in table if key not in BESIDE_SETTINGS}


def is_running(directory: str | Path) -> bool:
    """Return whether a process, here or on another machine, has the run open."""
    try:
        beat = (Path(directory) / HEARTBEAT_FILE).stat().st_mtime
    except OSError:
        return False
    return time.time() - beat < HEARTBEAT_LIMIT


def load_runs(directory: str | Path) -> list[Run]:
    """Read the run in a directory, or those of a study, by task, method and seed."""
    runs = [load_run(path) for path in run_directories(directory)]
    return sorted(runs, key=lambda run: (run.task, run.method, run.seed))


def run_directories(directory: str | Path) -> list[Path]:
    """Return the directory itself if it is that of a run, or those of its runs."""
    directory = Path(directory)
    require(directory.is_dir(), f"There is no directory {directory}.")
    if (directory / CONFIG_FILE).is_file():
        return [directory]
    runs = [path.parent for path in directory.glob(f"*/{CONFIG_FILE}")]
    require(
        bool(runs),
        f"There are no runs in {directory}: neither it nor a directory in it holds "
        f"a {CONFIG_FILE}. Name the directory of a run or of a study.",
    )
    return runs


def _read_config(path: Path) -> dict[str, Any]:
    try:
        config = read_toml(path)
    except InputError as error:
        raise CorruptFile(str(error)) from None
    for key, kind in {"task": str, "method": str, "seed": int, "episodes": int}.items():
        if type(config.get(key)) is not kind:
            raise CorruptFile(
                f"{path} must have {key!r} of type {kind.__name__}, "
                f"found {str(config.get(key))[:40]}."
            )
    return upgraded(config)
