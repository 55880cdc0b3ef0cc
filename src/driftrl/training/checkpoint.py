"""Checkpoints: a directory of npz files with a manifest of SHA-256 sums.

A checkpoint is written beside its place, forced to the disk, and renamed; the newest
two are kept, so that one damaged checkpoint costs one episode.  No pickle anywhere.
"""

import dataclasses
import hashlib
import io
import json
import os
import shutil
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from driftrl.atomic import flush_directory
from driftrl.errors import CorruptFile

T = TypeVar("T")
KEPT = 2
_ARRAYS = "state.npz"
_MANIFEST = "manifest.json"


def flatten(state: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Return every array and number of nested dataclasses by its dotted path."""
    arrays: dict[str, np.ndarray] = {}
    for field in dataclasses.fields(state):
        value, path = getattr(state, field.name), f"{prefix}{field.name}"
        if dataclasses.is_dataclass(value):
            arrays.update(flatten(value, f"{path}."))
        else:
            arrays[path] = np.asarray(value)
    return arrays


def unflatten(template: T, arrays: dict[str, np.ndarray], prefix: str = "") -> T:
    """Return ``template`` with ``arrays`` in it: the inverse of ``flatten``."""
    values: dict[str, Any] = {}
    for field in dataclasses.fields(template):  # pyright: ignore[reportArgumentType]
        old, path = getattr(template, field.name), f"{prefix}{field.name}"
        if dataclasses.is_dataclass(old):
            values[field.name] = unflatten(old, arrays, f"{path}.")
        elif isinstance(old, np.ndarray):
            values[field.name] = arrays[path]
        else:
            values[field.name] = type(old)(arrays[path].item())
    return dataclasses.replace(template, **values)  # pyright: ignore[reportArgumentType]


def save_checkpoint(directory: Path, episodes: int, state: Any) -> None:
    """Write the state after ``episodes`` episodes, and drop all but the newest two."""
    content = io.BytesIO()
    np.savez(content, **flatten(state))  # pyright: ignore[reportArgumentType]
    data = content.getvalue()
    manifest = {"episodes": episodes, "sha256": {_ARRAYS: _digest(data)}}
    place = _place(directory, episodes)
    beside = directory / f".{place.name}.tmp"
    shutil.rmtree(beside, ignore_errors=True)
    try:
        beside.mkdir(parents=True)
        _write(beside / _ARRAYS, data)
        _write(beside / _MANIFEST, json.dumps(manifest, indent=1).encode())
        flush_directory(beside)
        # A checkpoint of this number can only be one that could not be read.
        shutil.rmtree(place, ignore_errors=True)
        os.rename(beside, place)
    except BaseException:
        shutil.rmtree(beside, ignore_errors=True)
        raise
    flush_directory(directory)
    for old in saved_checkpoints(directory)[:-KEPT]:
        shutil.rmtree(_place(directory, old), ignore_errors=True)


def saved_checkpoints(directory: Path) -> list[int]:
    """Return the episode counts for which there is a checkpoint, oldest first."""
    if not directory.is_dir():
        return []
    return sorted(int(path.name) for path in directory.iterdir() if path.name.isdigit())


def load_checkpoint(directory: Path, episodes: int, template: T) -> T:
    """Read the checkpoint after ``episodes`` episodes.

    Raises:
        CorruptFile: It is incomplete, or not as it was written.
    """
    place = _place(directory, episodes)
    try:
        manifest = json.loads((place / _MANIFEST).read_bytes())
        data = (place / _ARRAYS).read_bytes()
        if manifest["sha256"][_ARRAYS] != _digest(data):
            raise ValueError("the SHA-256 sum does not match")
        with np.load(io.BytesIO(data), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        return unflatten(template, arrays)
    except (OSError, ValueError, KeyError, TypeError) as error:
        reason = str(error) or type(error).__name__
        raise CorruptFile(f"The checkpoint {place} is damaged: {reason}.") from error


def _place(directory: Path, episodes: int) -> Path:
    return directory / f"{episodes:06d}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _write(path: Path, data: bytes) -> None:
    with open(path, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
