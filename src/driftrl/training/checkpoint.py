"""Checkpoints: one npz file each, written atomically; no pickle anywhere.

The newest two are kept, so that one damaged checkpoint costs one episode.
"""

import dataclasses
import io
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import equinox as eqx
import jax
import numpy as np

from driftrl.errors import CorruptFile, DriftrlError, InputError
from driftrl.exported import read_arrays
from driftrl.io import write_atomically
from driftrl.memory.forgetting import Decision

T = TypeVar("T")
KEPT = 2
_FIRST, _COLUMNS = "first_retained", "forgetting_columns"
_MACHINE = "machine."


class OtherState(CorruptFile):
    """A checkpoint is readable, but of a state of another structure."""


def flatten(state: Any, prefix: str = "") -> dict[str, np.ndarray]:
    """Return every array and number of a state by its dotted path.

    A state is made of dataclasses; what is not a plain dataclass is a pytree of JAX.
    """
    if _is_plain(state):
        parts = (
            flatten(getattr(state, field.name), _join(prefix, field.name))
            for field in dataclasses.fields(state)
        )
        return {path: array for part in parts for path, array in part.items()}
    leaves = jax.tree_util.tree_leaves_with_path(state)
    return {_path(prefix, path): np.asarray(leaf) for path, leaf in leaves}


def unflatten(template: T, arrays: dict[str, np.ndarray], prefix: str = "") -> T:
    """Return ``template`` with ``arrays`` in it: the inverse of ``flatten``."""
    if _is_plain(template):
        values = {
            field.name: unflatten(
                getattr(template, field.name), arrays, _join(prefix, field.name)
            )
            for field in dataclasses.fields(template)  # pyright: ignore[reportArgumentType]
        }
        return dataclasses.replace(template, **values)  # pyright: ignore[reportArgumentType]
    return jax.tree_util.tree_map_with_path(
        lambda path, old: _restored(old, arrays[_path(prefix, path)]), template
    )


def _is_plain(value: Any) -> bool:
    return dataclasses.is_dataclass(value) and not isinstance(value, eqx.Module)


def _path(prefix: str, path: tuple[Any, ...]) -> str:
    return _join(prefix, jax.tree_util.keystr(path, simple=True, separator="."))


def _join(prefix: str, name: str) -> str:
    return f"{prefix}.{name}" if prefix and name else prefix or name


def _restored(old: Any, stored: np.ndarray) -> Any:
    """Return a stored array as what it was: of NumPy, of JAX, or a number."""
    if isinstance(old, np.ndarray):
        return stored
    if isinstance(old, jax.Array):
        if stored.shape != old.shape or stored.dtype != old.dtype:
            raise ValueError(
                f"an array is {stored.shape} {stored.dtype} where {old.shape} "
                f"{old.dtype} belongs"
            )
        return jax.numpy.asarray(stored)
    return type(old)(stored.item())


def save_checkpoint(
    directory: Path,
    episodes: int,
    state: Any,
    decision: Decision,
    machine: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Write the state after ``episodes`` episodes, and drop all but the newest two.

    ``decision`` says which episodes it was learned from, and ``machine`` where the
    machine was, if that can be restored.
    """
    content = io.BytesIO()
    text = json.dumps(dict(decision.columns)).encode()
    arrays: dict[str, Any] = {
        **flatten(state),
        _FIRST: np.asarray(decision.first),
        _COLUMNS: np.frombuffer(text, np.uint8),
        **{_MACHINE + name: array for name, array in (machine or {}).items()},
    }
    np.savez(content, **arrays)
    directory.mkdir(exist_ok=True)
    write_atomically(_file(directory, episodes), content.getvalue())
    for old in saved_checkpoints(directory)[:-KEPT]:
        _file(directory, old).unlink(missing_ok=True)


def saved_checkpoints(directory: Path) -> list[int]:
    """Return the episode counts for which there is a checkpoint, oldest first."""
    stems = [path.stem for path in directory.glob("*.npz") if path.stem.isdecimal()]
    return sorted(int(stem) for stem in stems if stem == f"{int(stem):06d}")


def load_checkpoint(directory: Path, episodes: int, template: T) -> tuple[T, Decision]:
    """Read the state after ``episodes`` episodes, and what it was learned from.

    ``OtherState`` if it is of another structure, ``CorruptFile`` if it is damaged.
    """
    arrays = load_arrays(directory, episodes)
    try:
        state, first = unflatten(template, arrays), int(arrays[_FIRST])
        text = arrays[_COLUMNS].tobytes() if _COLUMNS in arrays else "{}"
        columns = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in json.loads(text).items()
        }
        return state, Decision(first, columns=columns)
    except (ValueError, KeyError, TypeError) as error:
        raise OtherState(_damage(_file(directory, episodes), error)) from error


def load_machine(directory: Path, episodes: int) -> dict[str, np.ndarray]:
    """Return where the machine was after ``episodes``; empty if that is unknown."""
    arrays = load_arrays(directory, episodes) if episodes else {}
    known = (name for name in arrays if name.startswith(_MACHINE))
    return {name.removeprefix(_MACHINE): arrays[name] for name in known}


def load_arrays(directory: Path, episodes: int) -> dict[str, np.ndarray]:
    """Read the arrays of a checkpoint by their dotted paths, of whatever state."""
    path = _file(directory, episodes)
    try:
        return read_arrays(path.read_bytes())
    except Exception as error:
        # A damaged archive fails in many ways, all of which mean the same.
        raise CorruptFile(_damage(path, error)) from error


def newest(run: Path, load: Callable[[Path, int], T]) -> tuple[T, int]:
    """Return what ``load`` reads from a run's newest readable checkpoint, and n − 1.

    ``InputError`` if there is none yet, ``CorruptFile`` if none can be read.
    """
    directory = run / "checkpoint"
    tried: list[int] = []
    problem: DriftrlError = InputError(
        f"The run in {run} has no checkpoint yet; it writes one after every "
        "episode. Wait for the first."
    )
    # A run under way replaces its checkpoints: while they change, look again.
    while (saved := saved_checkpoints(directory)) != tried:
        tried = saved
        for episodes in reversed(saved):
            try:
                return load(directory, episodes), episodes
            except CorruptFile as error:
                problem = error
    raise problem


def _damage(path: Path, error: Exception) -> str:
    return f"The checkpoint {path} is damaged: {error or type(error).__name__}."


def _file(directory: Path, episodes: int) -> Path:
    return directory / f"{episodes:06d}.npz"
