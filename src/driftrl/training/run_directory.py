"""The files of one run, and who may write them.

config.toml      the complete configuration, with the versions that ran it, and what
                 was changed on the way
episodes.jsonl   one row an episode
memory/          one immutable file an episode
pending/         an episode that has ended and was not learned from yet
checkpoint/      the newest two
lock             held by the process that runs it
heartbeat        touched by that process while it lives
"""

import contextlib
import fcntl
import functools
import importlib.metadata
import json
import math
import platform
import shutil
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

import numpy as np

from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict, read_toml, to_dict, toml_text, upgraded
from driftrl.errors import CorruptFile, InputError, require
from driftrl.io import remove_leftovers, write_atomically
from driftrl.memory.episodes import (
    EpisodeMemory,
    LazyEpisodes,
    episode_file,
    load_episode,
    load_memory,
    save_episode,
)
from driftrl.memory.forgetting import (
    EpisodeSummary,
    Evidence,
    checked_first_retained,
)
from driftrl.records import (
    BESIDE_SETTINGS,
    CONFIG_FILE,
    HEARTBEAT_FILE,
    RECORDS_FILE,
    RecordWriter,
    complete_rows,
    read_records,
    truncate_records,
)
from driftrl.training.checkpoint import (
    load_arrays,
    load_checkpoint,
    save_checkpoint,
    saved_checkpoints,
)
from driftrl.training.differences import Difference, all_said, differences
from driftrl.types import Episode, EpisodeRecord, Precision

# Well within records.HEARTBEAT_LIMIT, by which others tell that this process lives.
_BEAT_SECONDS = 10.0
Warn = Callable[[str], None]
_PENDING, _TOLD = "pending", "told.json"
_ELSEWHERE = "choose another directory (--out)"
# Settings with which an episode would have been another one.
_SYSTEM = ("environment", "drift", "extra_drifts", "clock")


class RunDirectory:
    """One run's directory, locked while it is open."""

    def __init__(
        self,
        path: Path,
        config: RunConfig,
        *,
        resume: bool,
        change: bool = False,
        warn: Warn,
    ) -> None:
        """Open the directory of a new run, or of the same run to go on with it.

        Args:
            path: The directory; made if it is not there.
            config: The run.
            resume: Whether episodes that are already there may be continued.
            change: Whether they may be continued with other settings.
            warn: Is told what a user should know but needn't act on.

        Raises:
            InputError: The directory holds episodes of another run, or belongs to
                another process.
        """
        self.path = path
        self._config = config
        self._forgetting = config.forgetting
        self._precision: Precision = np.float64
        self._warn = warn
        path.mkdir(parents=True, exist_ok=True)
        self._lock = open(path / "lock", "a")  # noqa: SIM115 - held until close()
        try:
            self._take_lock()
            self._changes = self._settle_config(config, resume, change)
        except BaseException:
            self._lock.close()
            raise
        remove_leftovers(path)
        remove_leftovers(path / "memory")
        remove_leftovers(path / _PENDING)
        self._records: RecordWriter | None = None
        self._closed = threading.Event()
        (path / HEARTBEAT_FILE).touch()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let others have the directory."""
        if self._records is not None:
            self._records.close()
        self._closed.set()
        self._heart.join()
        self._lock.close()

    def _beat(self) -> None:
        """Touch the heartbeat until the directory is closed, then remove it."""
        heartbeat = self.path / HEARTBEAT_FILE
        while not self._closed.wait(_BEAT_SECONDS):
            with contextlib.suppress(OSError):  # a full disk stops the run, not this
                heartbeat.touch()
        heartbeat.unlink(missing_ok=True)

    def restore(self, template: Any, memory: EpisodeMemory) -> Any:
        """Return the state at the newest readable checkpoint, and fill the memory.

        Of the episodes only those are read that are still learned from, m(n) … n−1.
        Rows and files of later episodes, which no checkpoint covers, no longer count.

        Args:
            template: A state of the same structure; returned if there is no checkpoint.
            memory: Empty; its precision is that of the files to come.
        """
        state, episodes = self._newest_state(template)
        self._write_changes(episodes)
        history = self._settle_records(episodes)
        directory = self.path / "memory"
        past = LazyEpisodes(
            range(1, episodes + 1), functools.partial(load_episode, directory)
        )
        evidence = Evidence.of(history, past)
        first = checked_first_retained(self._forgetting, episodes + 1, evidence)
        load_memory(directory, memory, history, first)
        self._records = RecordWriter(self._records_path)
        self._precision = memory.precision
        return state

    def append(self, record: EpisodeRecord, episode: Episode, state: Any) -> None:
        """Store an episode: data, row, then the checkpoint that makes them count."""
        assert self._records is not None, "restore() comes first"
        memory = self.path / "memory"
        save_episode(memory, record.episode, episode, self._precision)
        self._records.append(record)
        self.checkpoint(record.episode, state)
        self._release()

    def checkpoint(self, episodes: int, state: Any) -> None:
        """Store the state after so many episodes."""
        save_checkpoint(self.path / "checkpoint", episodes, state)

    def hold(self, number: int, episode: Episode, theta: float) -> None:
        """Store an episode that has ended, in full, until it has been learned from.

        A simulator could repeat it; a machine can't.
        """
        place = self.path / _PENDING
        place.mkdir(exist_ok=True)
        told = {"episode": number, "theta": theta if math.isfinite(theta) else None}
        write_atomically(place / _TOLD, json.dumps(told).encode())
        save_episode(place, number, episode)

    def held(self, number: int) -> tuple[Episode, float] | None:
        """Return episode n and its θ, if it has ended and was not learned from yet.

        One that was recorded on another system than the run now has does not count.
        """
        place = self.path / _PENDING
        elsewhere = any(what.at.startswith(_SYSTEM) for what in self._changes)
        if elsewhere or not episode_file(place, number).exists():
            self._release()
            return None
        try:
            told = json.loads((place / _TOLD).read_bytes())
            theta = math.nan if told["theta"] is None else float(told["theta"])
            return load_episode(place, number), theta
        except (CorruptFile, OSError, ValueError, KeyError, TypeError) as error:
            self._warn(f"Episode {number} ended but can't be read: {error}")
            return None

    def change(self, config: RunConfig, from_episode: int) -> None:
        """Store other settings that hold from an episode on."""
        self._changes = differences(to_dict(self._config), to_dict(config))
        self._config, self._forgetting = config, config.forgetting
        self._write_changes(from_episode - 1)

    def remembered(self, memory: EpisodeMemory, first: int) -> EpisodeMemory:
        """Return the memory with the episodes from ``first`` on, which it may lack."""
        fuller = EpisodeMemory(*memory.sizes, memory.precision)
        load_memory(self.path / "memory", fuller, memory.history, first)
        return fuller

    def _release(self) -> None:
        """Remove what was held; its place among the episodes is taken."""
        shutil.rmtree(self.path / _PENDING, ignore_errors=True)

    def _settle_records(self, episodes: int) -> tuple[EpisodeSummary, ...]:
        """Drop rows that don't count, and return what the others say."""
        if not self._records_path.exists():
            if episodes > 0:
                raise CorruptFile(
                    f"{self._records_path} is missing, though the run has come "
                    f"{episodes} episodes far. Restore the file or start the run anew."
                )
            return ()
        truncate_records(self._records_path, episodes)
        return tuple(map(EpisodeSummary.of, read_records(self._records_path)))

    @property
    def _records_path(self) -> Path:
        return self.path / RECORDS_FILE

    def _take_lock(self) -> None:
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(
                f"Another process is running in {self.path}. Wait for it, stop it, or "
                f"{_ELSEWHERE}."
            ) from None

    def _settle_config(
        self, config: RunConfig, resume: bool, change: bool
    ) -> list[Difference]:
        """Write the configuration, or compare it with the one there.

        Returns:
            What is asked to be different, none if nothing is.
        """
        path = self.path / CONFIG_FILE
        if not path.exists():
            require(
                not self._has_episodes(),
                f"{self.path} has episodes but no config.toml, so it can't be "
                f"known which run they belong to; {_ELSEWHERE}.",
            )
            self._write_new(config)
            return []
        versions = read_toml(path).get("versions", {})
        stored = read_config(path)
        differing = differences(to_dict(stored), to_dict(config))
        # Of a run that never came to an episode nothing is lost.  A file without
        # versions was not written here.
        if differing and versions and not self._has_episodes():
            self._write_new(config)
            return []
        done = self._done()
        if differing and not (resume and _is_only_longer(stored, config, differing)):
            _require_possible(stored, config, differing, done, self.path)
            require(
                resume and change,
                f"{self.path} holds a different run: {all_said(differing)}. Ask for "
                f"the run that is there, or {_ELSEWHERE}; --resume --change (from "
                "Python: Session(…, resume=True, change=True)) goes on with these "
                "settings.",
            )
        if not resume and done:
            raise InputError(
                f"{self.path} already holds {done} episodes of this run. Add --resume "
                f"(from Python: resume=True) to go on with it, or {_ELSEWHERE}."
            )
        if done and versions != _versions():
            self._warn(
                "This run was begun with other versions of its libraries; it goes on, "
                "but need not equal an uninterrupted one bit for bit."
            )
        return differing

    def _write_new(self, config: RunConfig) -> None:
        """Store the configuration of a run that begins."""
        table = {**to_dict(config), "versions": _versions()}
        write_atomically(self.path / CONFIG_FILE, toml_text(table).encode())

    def _has_episodes(self) -> bool:
        """Say whether any episode has ended here, learned from or not."""
        rows = self._records_path
        return (
            self._done() > 0
            or (rows.exists() and rows.stat().st_size > 0)
            or episode_file(self.path / _PENDING, 1).exists()
        )

    def _write_changes(self, episodes: int) -> None:
        """Store the changed configuration, and from which episode on it holds.

        Not before a checkpoint was read that fits it.
        """
        if not self._changes:
            return
        path = self.path / CONFIG_FILE
        what = [change.noted for change in self._changes]
        noted = {"from_episode": episodes + 1, "what": what}
        history = [*read_toml(path).get("changes", []), noted]
        table = {**to_dict(self._config), "changes": history, "versions": _versions()}
        write_atomically(path, toml_text(table).encode())

    def _done(self) -> int:
        return max(saved_checkpoints(self.path / "checkpoint"), default=0)

    def _newest_state(self, template: Any) -> tuple[Any, int]:
        directory = self.path / "checkpoint"
        saved = self._covered(saved_checkpoints(directory))
        for episodes in reversed(saved):
            try:
                return load_checkpoint(directory, episodes, template), episodes
            except CorruptFile as error:
                if self._changes and _is_whole(directory, episodes):
                    raise InputError(
                        f"The run in {self.path} can't go on with other settings: "
                        f"{all_said(self._changes)}. What it has learned does not fit "
                        f"them: networks keep their sizes. For new ones {_ELSEWHERE}."
                    ) from error
                self._warn(f"{error} Falling back to the one before it.")
        # A run stopped between its first row and its first checkpoint has one row.
        if saved or self._rows() > 1:
            raise CorruptFile(
                f"No checkpoint in {directory} can be read, so the run can't be "
                "continued; its rows and episodes are untouched. To run it again from "
                f"the start, {_ELSEWHERE}."
            )
        return template, 0

    def _covered(self, saved: list[int]) -> list[int]:
        """Return the checkpoints whose rows are all there, or all if none has them."""
        whole = complete_rows(self._records_path)
        covered = [episodes for episodes in saved if episodes <= whole]
        if covered == saved or not covered:
            return saved
        self._warn(
            f"{self._records_path} holds {whole} whole rows where {saved[-1]} episodes "
            f"had ended; the run goes on after episode {covered[-1]}."
        )
        return covered

    def _rows(self) -> int:
        return (
            len(read_records(self._records_path)) if self._records_path.exists() else 0
        )


def require_same_run(path: Path, config: RunConfig) -> None:
    """Refuse a directory with episodes of another run; one with fewer may go on.

    Nothing is written, and no lock is needed.
    """
    stored_at = path / CONFIG_FILE
    if not (stored_at.exists() and saved_checkpoints(path / "checkpoint")):
        return
    stored = read_config(stored_at)
    differing = differences(to_dict(stored), to_dict(config))
    require(
        not differing or _is_only_longer(stored, config, differing),
        f"{path} holds a different run: {all_said(differing)}. Remove it, or "
        f"{_ELSEWHERE}.",
    )


def _is_only_longer(
    stored: RunConfig, config: RunConfig, differing: list[Difference]
) -> bool:
    """Say whether a run is another one in that it has more episodes, and no more."""
    only_length = [what.at for what in differing] == ["episodes"]
    return only_length and stored.episodes < config.episodes


def read_config(path: Path) -> RunConfig:
    """Return the configuration in a run's ``config.toml``, as it is now."""
    table = read_toml(path)
    for beside in BESIDE_SETTINGS:
        table.pop(beside, None)
    return from_dict(RunConfig, upgraded(table))


def _require_possible(
    stored: RunConfig,
    asked: RunConfig,
    differing: list[Difference],
    done: int,
    path: Path,
) -> None:
    """Refuse to go on with settings that a run of ``done`` episodes can't change."""
    said = all_said(differing)
    for name in ("task", "method", "seed", "variant"):
        if getattr(stored, name) != getattr(asked, name):
            raise InputError(
                f"{path} holds a different run: {said}. Its settings may change, but "
                f"not its {name}; {_ELSEWHERE}."
            )
    require(
        asked.episodes >= min(done, stored.episodes),
        f"The run in {path} can't become one of {asked.episodes} episodes: {done} are "
        "done already.",
    )


def _is_whole(directory: Path, episodes: int) -> bool:
    """Say whether a checkpoint is as it was written, whatever it was written for."""
    try:
        load_arrays(directory, episodes)
    except CorruptFile:
        return False
    return True


def _versions() -> dict[str, str]:
    names = ("driftrl", "jax", "jaxlib", "numpy", "scipy", "gymnasium", "mujoco")
    found = {name: importlib.metadata.version(name) for name in names}
    return {**found, "python": platform.python_version()}
