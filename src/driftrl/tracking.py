"""TensorBoard and Weights & Biases: every episode's row, as it is recorded.

Nothing depends on a tracker: ``episodes.jsonl`` is the record.  A tracker that fails
warns once, and the run goes on.  ``tracked.json`` beside its files holds the last
episode that was written, so a resumed run writes no episode twice and skips none.
"""

import contextlib
import importlib
import importlib.util
import json
import math
import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

from driftrl.config.run import RunConfig
from driftrl.config.toml import to_dict
from driftrl.errors import InputError, unknown_name
from driftrl.io import write_atomically
from driftrl.records import RECORDS_FILE, read_records
from driftrl.training.run_directory import Warn
from driftrl.types import EpisodeRecord

TAGS = {
    "return_executed": "return/executed",
    "return_eval": "return/eval",
    "terminated": "return/terminated",
    "theta": "drift/theta",
    "model_error": "model/error",
    "coverage": "model/coverage",
    "epistemic_std": "model/epistemic_std",
    "predictive_loss": "model/predictive_loss",
    "model_loss": "model/loss",
    "optimism": "agent/optimism",
    "bonus": "agent/bonus",
    "temperature": "agent/temperature",
    "entropy": "agent/entropy",
    "q": "agent/q",
    "critic_loss": "agent/critic_loss",
    "soft_reset": "agent/soft_reset",
    "steps": "data/steps",
    "first_retained": "data/first_retained",
    "transitions": "data/transitions",
    "wall_s": "time/wall_s",
}
"""Name of each column of a record, in groups."""

NOT_INSTALLED = "Tracking by {} needs the extra 'track': pip install 'driftrl[track]'."
_MARK = "tracked.json"
_PROJECT = "driftrl"


def scalars(record: EpisodeRecord) -> dict[str, float]:
    """Return the finite columns of a record as floats."""
    values = {tag: getattr(record, column) for column, tag in TAGS.items()}
    return {
        tag: float(value)
        for tag, value in values.items()
        if value is not None and math.isfinite(value)
    }


class Backend(Protocol):
    """Writes numbers to a tracker."""

    keeps_at_once: bool
    """Whether what is written survives a kill before ``close``."""

    def write(self, episode: int, values: Mapping[str, float]) -> None:
        """Write the numbers of an episode."""
        ...

    def close(self) -> None:
        """Write the rest."""
        ...


Open = Callable[[Path, RunConfig, dict[str, Any]], Backend]
"""Opens a backend in a run's directory, given ``tracked.json``, which it may extend."""


class Tracker:
    """Writes a run's episodes to a backend, opened at the first one.

    Errors end the tracking, not the run: they are told once, by ``warn``.
    """

    def __init__(
        self, name: str, directory: Path, config: RunConfig, opening: Open, warn: Warn
    ) -> None:
        self._name, self._opening, self._warn = name, opening, warn
        self._directory, self._config = directory, config
        self._mark: dict[str, Any] = {}
        self._backend: Backend | None = None
        self._failed = False

    def __call__(self, record: EpisodeRecord) -> None:
        """Write an episode, and those recorded before it that are missing."""
        if self._failed:
            return
        try:
            rows = [record]
            if self._backend is None:
                earlier = read_records(self._directory / RECORDS_FILE)
                rows = [*earlier[: record.episode - 1], record]
                path = self._directory / self._name / _MARK
                self._mark = json.loads(path.read_bytes()) if path.exists() else {}
                self._backend = self._opening(self._directory, self._config, self._mark)
                self._keep_mark()
            for row in rows:
                if row.episode > self._mark.get("episode", 0):
                    self._backend.write(row.episode, scalars(row))
                    self._mark["episode"] = row.episode
                    if self._backend.keeps_at_once:
                        self._keep_mark()
        except Exception as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the backend, if it was opened."""
        if self._backend is None or self._failed:
            return
        try:
            self._backend.close()
            self._keep_mark()
        except Exception as error:
            self._give_up(error)

    def _keep_mark(self) -> None:
        directory = self._directory / self._name
        directory.mkdir(exist_ok=True)
        write_atomically(directory / _MARK, json.dumps(self._mark).encode())

    def _give_up(self, error: Exception) -> None:
        self._failed = True
        reason = f"{type(error).__name__}: {error}".strip().rstrip(".")
        self._warn(
            f"Tracking by {self._name} has stopped ({reason}). The run goes on, and "
            f"{RECORDS_FILE} has every episode."
        )
        if self._backend is not None:
            with contextlib.suppress(Exception):  # it has failed already
                self._backend.close()


class _TensorBoard:
    """Event files in ``tensorboard/``.

    They are written synchronously: the usual writer hands its events to a thread, and
    after a full disk every further episode would wait for that thread forever.
    """

    keeps_at_once = True

    def __init__(
        self, directory: Path, config: RunConfig, mark: dict[str, Any]
    ) -> None:
        del config  # the directory's name tells the run
        self._protocol = importlib.import_module("tensorboardX.proto.event_pb2")
        self._summary = importlib.import_module("tensorboardX.proto.summary_pb2")
        writer = importlib.import_module("tensorboardX.event_file_writer")
        first = mark.get("episode", 0) + 1
        events = directory / "tensorboard" / "events"
        events.parent.mkdir(parents=True, exist_ok=True)
        # Two files of one second would have the same name but for the suffix.
        self._events = writer.EventsWriter(str(events), f".{first}")
        if first > 1:
            # Hides what an interrupted run wrote from here on.
            log = self._protocol.SessionLog
            self._add(first, session_log=log(status=log.START))

    def write(self, episode: int, values: Mapping[str, float]) -> None:
        summary = self._summary.Summary
        entries = [summary.Value(tag=tag, simple_value=v) for tag, v in values.items()]
        self._add(episode, summary=summary(value=entries))
        self._events.flush()

    def _add(self, step: int, **content: Any) -> None:
        event = self._protocol.Event(wall_time=time.time(), step=step, **content)
        self._events.write_event(event)

    def close(self) -> None:
        self._events.close()


class _WeightsAndBiases:
    """A run of Weights & Biases in ``wandb/``, offline unless WANDB_MODE says else.

    Its file is complete once it is closed.  After a kill the next one has the lost
    episodes too; they share their id, and of an episode that was in both the first
    counts where they are uploaded.
    """

    keeps_at_once = False

    def __init__(
        self, directory: Path, config: RunConfig, mark: dict[str, Any]
    ) -> None:
        wandb = importlib.import_module("wandb")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            dir=str(directory),
            name=config.name,
            group=config.task,
            config=to_dict(config),
            id=mark.setdefault("id", secrets.token_hex(4)),
            resume="allow",
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )

    def write(self, episode: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=episode)

    def close(self) -> None:
        self._run.finish()


_TRACKERS: dict[str, tuple[str, Open]] = {
    "tensorboard": ("tensorboardX", _TensorBoard),
    "wandb": ("wandb", _WeightsAndBiases),
}


def require_tracker(name: str) -> None:
    """Refuse a tracker that does not exist or whose package is not installed."""
    if name not in _TRACKERS:
        raise unknown_name("tracker", name, _TRACKERS)
    if importlib.util.find_spec(_TRACKERS[name][0]) is None:
        raise InputError(NOT_INSTALLED.format(name))


@contextlib.contextmanager
def tracking(
    name: str | None, directory: Path, config: RunConfig, *, warn: Warn = warnings.warn
) -> Iterator[Callable[[EpisodeRecord], None]]:
    """Yield a function to call with every record; it does nothing without a name."""
    if name is None:
        yield lambda record: None
        return
    require_tracker(name)
    tracker = Tracker(name, directory, config, _TRACKERS[name][1], warn)
    try:
        yield tracker
    finally:
        tracker.close()
