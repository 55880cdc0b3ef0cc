"""The files of one run, and who may write them.

config.toml      the complete configuration, with the versions that ran it
episodes.jsonl   one row an episode
memory/          one immutable file an episode
checkpoint/      the newest two
lock             held by the process that runs it
"""

import fcntl
import importlib.metadata
import platform
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from driftrl.atomic import remove_leftovers, write_atomically
from driftrl.config import RunConfig
from driftrl.config_file import from_dict, read_toml, to_dict, toml_text
from driftrl.errors import CorruptFile, InputError
from driftrl.memory.episodes import EpisodeMemory, load_memory, save_episode
from driftrl.results.records import RecordWriter, read_records, truncate_records
from driftrl.training.checkpoint import (
    load_checkpoint,
    save_checkpoint,
    saved_checkpoints,
)
from driftrl.types import Episode, EpisodeRecord

Warn = Callable[[str], None]


class RunDirectory:
    """One run's directory, locked while it is open."""

    def __init__(
        self, path: Path, config: RunConfig, *, resume: bool, warn: Warn
    ) -> None:
        """Open the directory of a new run, or of the same run to go on with it.

        Args:
            path: The directory; made if it is not there.
            config: The run.
            resume: Whether episodes that are already there may be continued.
            warn: Is told what a user should know but needn't act on.

        Raises:
            InputError: The directory holds another run, or belongs to another process.
        """
        self.path = path
        self._warn = warn
        path.mkdir(parents=True, exist_ok=True)
        self._lock = open(path / "lock", "a")  # noqa: SIM115 - held until close()
        try:
            self._take_lock()
            self._settle_config(config, resume)
        except BaseException:
            self._lock.close()
            raise
        remove_leftovers(path)
        remove_leftovers(path / "memory")
        self._records: RecordWriter | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._records is not None:
            self._records.close()
        self._lock.close()

    def restore(
        self, template: Any, sizes: tuple[int, int]
    ) -> tuple[Any, EpisodeMemory]:
        """Return state and memory at the newest readable checkpoint.

        Rows and files of later episodes, which no checkpoint covers, no longer count.
        """
        state, episodes = self._newest_state(template)
        memory = load_memory(self.path / "memory", episodes, *sizes)
        if self._records_path.exists():
            truncate_records(self._records_path, episodes)
        self._records = RecordWriter(self._records_path)
        return state, memory

    def append(self, record: EpisodeRecord, episode: Episode, state: Any) -> None:
        """Store an episode: data, row, then the checkpoint that makes them count."""
        assert self._records is not None, "restore() comes first"
        save_episode(self.path / "memory", record.episode, episode)
        self._records.append(record)
        save_checkpoint(self.path / "checkpoint", record.episode, state)

    @property
    def _records_path(self) -> Path:
        return self.path / "episodes.jsonl"

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Another process is running in {self.path}. Wait for it, stop it, or "
                "choose another --out."
            ) from None

    def _settle_config(self, config: RunConfig, resume: bool) -> None:
        """Write the configuration, or make sure that the one there is the same."""
        path = self.path / "config.toml"
        if not path.exists():
            if self._records_path.exists():
                raise InputError(
                    f"{self.path} has episodes but no config.toml, so it can't be "
                    "known which run they belong to. Choose another --out."
                )
            table = {**to_dict(config), "versions": _versions()}
            write_atomically(path, toml_text(table).encode())
            return
        stored = read_toml(path)
        versions = stored.pop("versions", {})
        _require_same(from_dict(RunConfig, stored), config, self.path)
        if not resume and self._done():
            raise InputError(
                f"{self.path} already holds {self._done()} episodes of this run. Add "
                "--resume to go on with it, or choose another --out."
            )
        if self._done() and versions != _versions():
            self._warn(
                "This run was begun with other versions of its libraries; it goes on, "
                "but need not equal an uninterrupted one bit for bit."
            )

    def _done(self) -> int:
        return max(saved_checkpoints(self.path / "checkpoint"), default=0)

    def _newest_state(self, template: Any) -> tuple[Any, int]:
        directory = self.path / "checkpoint"
        saved = saved_checkpoints(directory)
        for episodes in reversed(saved):
            try:
                return load_checkpoint(directory, episodes, template), episodes
            except CorruptFile as error:
                self._warn(f"{error} Falling back to the one before it.")
        # A run stopped between its first row and its first checkpoint has one row.
        if saved or self._rows() > 1:
            raise CorruptFile(
                f"No checkpoint in {directory} can be read, so the run can't be "
                "continued; its rows and episodes are untouched. To run it again from "
                "the start, choose another --out."
            )
        return template, 0

    def _rows(self) -> int:
        return (
            len(read_records(self._records_path)) if self._records_path.exists() else 0
        )


def _require_same(stored: RunConfig, asked: RunConfig, path: Path) -> None:
    differing = _differences(to_dict(stored), to_dict(asked))
    if differing:
        raise InputError(
            f"{path} holds a different run: {'; '.join(differing)}. Choose another "
            "--out, or ask for the run that is there."
        )


def _differences(
    stored: dict[str, Any], asked: dict[str, Any], at: str = ""
) -> list[str]:
    found = []
    for key in sorted(stored.keys() | asked.keys()):
        old, new = stored.get(key), asked.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            found += _differences(old, new, f"{at}{key}.")
        elif old != new:
            found.append(f"{at}{key} is {old!r} there and {new!r} here")
    return found


def _versions() -> dict[str, str]:
    names = ("driftrl", "jax", "jaxlib", "numpy", "scipy", "gymnasium", "mujoco")
    found = {name: importlib.metadata.version(name) for name in names}
    return {**found, "python": platform.python_version()}
