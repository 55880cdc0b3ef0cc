"""The files of one run, and the lock on them.

config.toml      the complete configuration, with the versions that ran it, and what
                 was changed on the way
episodes.jsonl   one row per episode
events.jsonl     one line per fall in continuing operation
memory/          one immutable file per episode
pending/         an episode that has ended and was not learned from yet
checkpoint/      the newest two
log.json         range of the observations in episodes that something else drove
lock             held by the process that runs it
heartbeat        touched by that process while it lives
"""

import contextlib
import fcntl
import importlib.metadata
import io
import json
import math
import os
import platform
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

import driftrl
from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict, read_toml, to_dict, toml_text
from driftrl.errors import CorruptFile, InputError, counted, require
from driftrl.exported import read_arrays
from driftrl.io import remove_leftovers, write_atomically
from driftrl.memory.episodes import (
    EpisodeMemory,
    episode_file,
    load_episode,
    save_episode,
)
from driftrl.memory.forgetting import Decision, EpisodeSummary
from driftrl.records import (
    CONFIG_FILE,
    HEARTBEAT_FILE,
    RECORDS_FILE,
    RecordWriter,
    complete_rows,
    read_settings,
    readable_records,
    truncate_records,
)
from driftrl.training.checkpoint import (
    OtherState,
    load_checkpoint,
    load_machine,
    save_checkpoint,
    saved_checkpoints,
)
from driftrl.types import Episode, EpisodeRecord, Precision

Warn = Callable[[str], None]
# Well within records.HEARTBEAT_LIMIT, by which others tell that this process lives.
_BEAT_SECONDS = 10.0
EVENTS_FILE = "events.jsonl"
_PENDING, _THETA, _LOGGED = "pending", "theta.json", "log.json"
_MACHINE, _EVENTS = "machine.npz", "events.json"
_ELSEWHERE = "choose another directory (--out)"
# Settings with which an episode would have been another one.
_SYSTEM = ("environment", "drift", "extra_drifts", "clock", "continuing", "recovery")
# Settings that make a run another run.
_IDENTITY = ("task", "method", "seed", "variant")


class Pending(NamedTuple):
    """An episode that has ended, and what goes with it until it is learned from."""

    episode: Episode
    theta: float
    machine: Mapping[str, np.ndarray] = MappingProxyType({})
    """Where the machine was at its end, if that can be restored."""
    events: Sequence[Mapping[str, Any]] = ()
    """What happened in it."""


class Difference(NamedTuple):
    """A setting that differs between a stored run and the requested one."""

    path: str  # Its dotted path
    old: Any
    new: Any

    def __str__(self) -> str:
        """Return the two values, for messages."""
        return f"{self.path} is {_brief(self.old)} there and {_brief(self.new)} here"


def _brief(value: Any) -> str:
    """Return a setting in a few words: of a table its kind and its numbers."""
    if not isinstance(value, dict):
        return repr(value)
    kind = value.get("kind", "")
    rest = [f"{k} {_brief(v)}" for k, v in value.items() if k != "kind"]
    return f"{kind} ({', '.join(rest)})" if rest else kind


def differences(
    stored: Mapping[str, Any], asked: Mapping[str, Any], prefix: str = ""
) -> list[Difference]:
    """Return the settings that differ; tables of one kind are compared key by key."""
    result = []
    for key in sorted(stored.keys() | asked.keys()):
        old: Any = stored.get(key)
        new: Any = asked.get(key)
        tables = isinstance(old, dict) and isinstance(new, dict)
        if tables and old.get("kind") == new.get("kind"):
            result += differences(old, new, f"{prefix}{key}.")
        elif old != new:
            result.append(Difference(f"{prefix}{key}", old, new))
    return result


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

        ``resume`` allows to continue episodes that are already there, and ``change`` to
        do so with other settings.  Episodes of another run or of another version are
        refused, and a directory that another process has open.
        """
        self.path = path
        self._records_path, self._checkpoints = path / RECORDS_FILE, path / "checkpoint"
        self._config = config
        self._precision: Precision = np.float64
        self._warn = warn
        self._records: RecordWriter | None = None
        self.machine: Mapping[str, np.ndarray] = {}
        """Where the machine was at the end of the newest episode, if that is known."""
        path.mkdir(parents=True, exist_ok=True)
        self._lock = _take_lock(path)
        try:
            changes = require_same_run(path, config, resume=resume, change=change)
        except BaseException:
            os.close(self._lock)
            raise
        self._is_new, self._changes = changes is None, changes or []
        if not self._is_new and _stored_versions(path) != _versions():
            warn(
                "This run was begun with other versions of its libraries; it goes on, "
                "but need not equal an uninterrupted one bit for bit."
            )
        for directory in ("", "memory", "checkpoint", _PENDING):
            remove_leftovers(path / directory)
        self._closed = threading.Event()
        (path / HEARTBEAT_FILE).touch()
        self._heart = threading.Thread(target=self._beat, daemon=True)
        self._heart.start()

    def close(self) -> None:
        """Release the directory; a second call does nothing."""
        if self._closed.is_set():
            return
        if self._records is not None:
            self._records.close()
        self._closed.set()
        self._heart.join()
        os.close(self._lock)

    def _beat(self) -> None:
        """Touch the heartbeat until the directory is closed, then remove it."""
        heartbeat = self.path / HEARTBEAT_FILE
        while not self._closed.wait(_BEAT_SECONDS):
            with contextlib.suppress(OSError):  # a full disk stops the run, not this
                heartbeat.touch()
        heartbeat.unlink(missing_ok=True)

    def restore(self, template: Any, memory: EpisodeMemory) -> tuple[Any, Decision]:
        """Return state and m(n) of the newest readable checkpoint; fill the memory.

        Only the episodes m(n) … n−1 are read, and what else the forgetting rule asks
        for.  Rows and files of later episodes, which no checkpoint covers, no longer
        count.  Nothing is written before everything has been read.  ``template`` is a
        state of the same structure, and what is returned if there is no checkpoint.
        """
        exists = self._records_path.exists()
        rows, damage = readable_records(self._records_path) if exists else ([], None)
        state, decision, episodes = self._newest_state(template, len(rows), damage)
        if self._config.continuing:
            self.machine = load_machine(self._checkpoints, episodes)
            self._truncate_events(episodes)
        history = [EpisodeSummary.of(row) for row in rows[:episodes]]
        memory.attach(self.path / "memory", history)
        memory.since(decision.first)
        self._precision = memory.precision
        if self._is_new or self._changes:
            self._write_config(episodes)
        if exists:
            truncate_records(self._records_path, episodes)
        self._records = RecordWriter(self._records_path)
        return state, decision

    def append(
        self, record: EpisodeRecord, ended: Pending, state: Any, decision: Decision
    ) -> None:
        """Store an episode: data, row, then the checkpoint that makes them count."""
        assert self._records is not None, "restore() comes first"
        number, memory = record.episode, self.path / "memory"
        save_episode(memory, number, ended.episode, self._precision)
        self._records.append(record)
        if ended.events:
            with (self.path / EVENTS_FILE).open("a") as log:
                log.writelines(f"{json.dumps(event)}\n" for event in ended.events)
                log.flush()
                os.fsync(log.fileno())
        save_checkpoint(self._checkpoints, number, state, decision, ended.machine)
        self._remove_pending()

    def save_pending(self, number: int, ended: Pending) -> None:
        """Store an episode that has ended, in full, until it has been learned from.

        A simulator could repeat it; a real machine can't.
        """
        pending = self.path / _PENDING
        pending.mkdir(exist_ok=True)
        known = ended.theta if math.isfinite(ended.theta) else None
        write_atomically(pending / _THETA, json.dumps(known).encode())
        if self._config.continuing:
            content, arrays = io.BytesIO(), dict[str, Any](ended.machine)
            np.savez(content, **arrays)
            write_atomically(pending / _MACHINE, content.getvalue())
            events = json.dumps(list(ended.events))
            write_atomically(pending / _EVENTS, events.encode())
        save_episode(pending, number, ended.episode)

    def load_pending(self, number: int) -> Pending | None:
        """Return episode n, if it has ended and was not learned from yet.

        One that was recorded on another system than the run now has does not count.
        """
        pending = self.path / _PENDING
        changed = any(change.path.startswith(_SYSTEM) for change in self._changes)
        if changed or not episode_file(pending, number).exists():
            self._remove_pending()
            return None
        try:
            theta = json.loads((pending / _THETA).read_bytes())
            theta = math.nan if theta is None else float(theta)
            machine, events = {}, []
            if self._config.continuing:
                machine = read_arrays((pending / _MACHINE).read_bytes())
                events = json.loads((pending / _EVENTS).read_bytes())
            return Pending(load_episode(pending, number), theta, machine, events)
        except Exception as error:  # damaged files fail in many ways
            self._warn(f"Episode {number} ended but can't be read: {error}")
            return None

    def save_logged_range(self, limits: Float[np.ndarray, "2 S"]) -> None:
        """Store the least and the most of every observation in a log."""
        write_atomically(self.path / _LOGGED, json.dumps(limits.tolist()).encode())

    def load_logged_range(self, size: int) -> Float[np.ndarray, "2 S"] | None:
        """Return what ``save_logged_range`` has stored, if it has."""
        path = self.path / _LOGGED
        if not path.exists():
            return None
        try:
            limits = np.array(json.loads(path.read_bytes()), np.float64)
            if limits.shape != (2, size):
                raise ValueError(f"shape {limits.shape}")
            return limits
        except (OSError, ValueError, TypeError, RecursionError) as error:
            self._warn(f"{path} can't be read ({error}): values are not compared.")
            return None

    def change(self, config: RunConfig, from_episode: int) -> None:
        """Store other settings that hold from an episode on."""
        self._changes = differences(to_dict(self._config), to_dict(config))
        self._config = config
        self._write_config(from_episode - 1)

    def load_state(self, episodes: int, template: Any) -> tuple[Any, Decision]:
        """Return the state after so many episodes, and what it was learned from."""
        if episodes == 0:
            return template, Decision(1)
        return load_checkpoint(self._checkpoints, episodes, template)

    def _truncate_events(self, episodes: int) -> None:
        """Keep the events of the first segments: the others will happen again."""
        path = self.path / EVENTS_FILE
        if path.exists():
            lines = path.read_bytes().splitlines(keepends=True)
            kept = [line for line in lines if not _happens_again(line, episodes)]
            write_atomically(path, b"".join(kept))

    def _remove_pending(self) -> None:
        shutil.rmtree(self.path / _PENDING, ignore_errors=True)

    def _write_config(self, episodes: int) -> None:
        """Store the configuration, and from which episode on changes hold."""
        path = self.path / CONFIG_FILE
        table = to_dict(self._config)
        if not self._is_new:
            note = {
                "from_episode": episodes + 1,
                "what": [
                    f"{path} from {_brief(old)} to {_brief(new)}"
                    for path, old, new in self._changes
                ],
            }
            table["changes"] = [*read_toml(path).get("changes", []), note]
        text = toml_text({**table, "versions": _versions()})
        write_atomically(path, text.encode())
        self._is_new = False

    def _newest_state(
        self, template: Any, rows: int, damage: CorruptFile | None
    ) -> tuple[Any, Decision, int]:
        """Return the newest state whose episodes all have a readable row, m(n), n−1."""
        saved = saved_checkpoints(self._checkpoints)
        covered = [episodes for episodes in saved if episodes <= rows]
        if saved and not covered:
            raise damage or CorruptFile(
                f"{self._records_path} holds {counted(rows, 'row')} where "
                f"{saved[0]} or {saved[-1]} were expected. Restore the file from a "
                "copy, or start the run anew."
            )
        if covered != saved:
            reason = damage or f"{self._records_path} holds {counted(rows, 'row')}."
            self._warn(f"{reason} The run goes on after episode {covered[-1]}.")
        for episodes in reversed(covered):
            try:
                saved_state = load_checkpoint(self._checkpoints, episodes, template)
                return *saved_state, episodes
            except CorruptFile as error:
                require(
                    not (self._changes and isinstance(error, OtherState)),
                    f"The run in {self.path} can't go on with other settings: "
                    f"{_joined(self._changes)}. What it has learned does not fit "
                    f"them: networks keep their sizes. For new ones {_ELSEWHERE}.",
                )
                self._warn(f"{error} Falling back to the one before it.")
        # A run stopped between its first row and its first checkpoint has one row.
        if saved or complete_rows(self._records_path) > 1:
            raise CorruptFile(
                f"No checkpoint in {self._checkpoints} can be read, so the run can't "
                "be continued; its rows and episodes are untouched. To run it again "
                f"from the start, {_ELSEWHERE}."
            )
        return template, Decision(1), 0


def _happens_again(line: bytes, episodes: int) -> bool:
    """Return whether an event is of a later segment, or was cut off by a kill."""
    try:
        return json.loads(line)["segment"] > episodes
    except (ValueError, KeyError, TypeError, RecursionError):
        return not line.endswith(b"\n")


def read_config(directory: Path) -> RunConfig:
    """Return the configuration of the run in a directory, as it is now."""
    path = directory / CONFIG_FILE
    require(
        path.is_file(),
        f"{directory} is not the directory of a run: it has no {CONFIG_FILE}. For a "
        "study, name one of the directories in it.",
    )
    settings = read_settings(path)
    try:
        return from_dict(RunConfig, settings)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def require_same_run(
    path: Path, config: RunConfig, *, resume: bool = True, change: bool = False
) -> list[Difference] | None:
    """Return which settings of the run in a directory will change; None if it is new.

    Refuses a directory in which the run can't begin or go on.  Nothing is written.
    """
    records = path / RECORDS_FILE
    done = max(saved_checkpoints(path / "checkpoint"), default=0)
    has_episodes = (
        done > 0
        or (records.exists() and records.stat().st_size > 0)
        or episode_file(path / _PENDING, 1).exists()
    )
    if not (path / CONFIG_FILE).is_file():
        require(
            not has_episodes,
            f"{path} has episodes but no {CONFIG_FILE}, so it is unknown which run "
            f"they belong to; {_ELSEWHERE}.",
        )
        return None
    if has_episodes:
        require_same_version(path)
    elif _stored_versions(path):
        return None  # without versions it was written by hand: don't replace it
    stored = read_config(path)
    differing = differences(to_dict(stored), to_dict(config))
    is_longer = [change.path for change in differing] == ["episodes"]
    is_longer = is_longer and differing[0].old < differing[0].new
    if differing and not (resume and is_longer):
        is_another = any(each.path in _IDENTITY for each in differing)
        require(
            resume and change and not is_another,
            f"{path} holds a different run: {_joined(differing)}. Ask for the run "
            f"that is there, or {_ELSEWHERE}. Settings other than "
            f"{', '.join(_IDENTITY)} may change: --resume --change (from Python: "
            "Session(…, resume=True, change=True)) goes on with them.",
        )
        require(
            config.episodes >= min(done, stored.episodes),
            f"The run in {path} can't become one of {config.episodes} episodes: "
            f"{done} are done already.",
        )
    require(
        resume or not done,
        f"{path} already holds {counted(done, 'episode')} of this run. Add --resume "
        f"(from Python: resume=True) to go on with it, or {_ELSEWHERE}.",
    )
    return differing if has_episodes else None


def require_same_version(path: Path) -> None:
    """Refuse to use the checkpoints of a run that another minor version has written."""
    written = str(_stored_versions(path).get("driftrl", "an unknown version"))
    require(
        written.split(".")[:2] == driftrl.__version__.split(".")[:2],
        f"The run in {path} was written by driftrl {written}, and this is driftrl "
        f"{driftrl.__version__}: its records can be analysed (driftrl report), but it "
        f"can't be resumed or played. Use driftrl {written} for that, or "
        f"{_ELSEWHERE}.",
    )


def _joined(differing: Sequence[Difference]) -> str:
    return "; ".join(map(str, differing))


def _take_lock(path: Path) -> int:
    """Return the descriptor of a run's lock, which is held until it is closed."""
    file = path / "lock"
    require(
        file.is_file() or not file.exists(),
        f"{file} is not a regular file. Remove it, or {_ELSEWHERE}.",
    )
    lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        raise InputError(
            f"Another process is running in {path}. Wait for it, stop it, or "
            f"{_ELSEWHERE}."
        ) from None
    return lock


def _stored_versions(path: Path) -> dict[str, str]:
    return read_toml(path / CONFIG_FILE).get("versions", {})


def _versions() -> dict[str, str]:
    names = ("jax", "jaxlib", "numpy", "scipy", "gymnasium", "mujoco")
    return {
        "driftrl": driftrl.__version__,
        **{name: importlib.metadata.version(name) for name in names},
        "python": platform.python_version(),
    }
