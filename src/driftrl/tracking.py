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
from typing import Any, Protocol, Self, runtime_checkable

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


@runtime_checkable
class Backend(Protocol):
    """Writes numbers to a tracker."""

    @property
    def keeps_at_once(self) -> bool:
        """Whether what is written survives a kill before ``close``."""
        ...

    def write(self, episode: int, values: Mapping[str, float]) -> None:
        """Write the numbers of an episode."""
        ...

    def close(self) -> None:
        """Write the rest."""
        ...


Open = Callable[[Path, RunConfig, dict[str, Any]], Backend]
"""Opens a backend in a run's directory, given ``tracked.json``, which it may extend."""


class Tracker:
    """Writes a run's episodes to a backend; a context manager."""

    def __init__(
        self,
        name: str,
        directory: Path,
        config: RunConfig,
        opening: Open,
        warn: Warn = warnings.warn,
    ) -> None:
        """Track a run.  Nothing is opened before its first episode.

        Args:
            name: Of the backend, and of the directory in the run's where it writes.
            directory: The run's.
            config: The run.
            opening: Opens the backend.
            warn: Called once if it fails.
        """
        self._name = name
        self._directory = directory
        self._config = config
        self._opening = opening
        self._warn = warn
        self._mark: dict[str, Any] = {}
        self._backend: Backend | None = None
        self._failed = False

    def __call__(self, record: EpisodeRecord) -> None:
        """Write an episode, and those recorded before it that are missing.

        Errors end the tracking, not the run.
        """
        if self._failed:
            return
        try:
            earlier: list[EpisodeRecord] = []
            if self._backend is None:
                self._mark = self._read_mark()
                earlier = read_records(self._directory / RECORDS_FILE)
                self._backend = self._opening(self._directory, self._config, self._mark)
                self._keep_mark()
            for row in (*earlier[: record.episode - 1], record):
                if row.episode > self._mark.get("episode", 0):
                    self._write(self._backend, row)
        except Exception as error:
            self._give_up(error)

    def close(self) -> None:
        """Close the backend, if it was opened."""
        backend, self._backend = self._backend, None
        if backend is None:
            return
        try:
            backend.close()
            self._keep_mark()
        except Exception as error:
            self._give_up(error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, backend: Backend, record: EpisodeRecord) -> None:
        backend.write(record.episode, scalars(record))
        self._mark["episode"] = record.episode
        if backend.keeps_at_once:
            self._keep_mark()

    def _keep_mark(self) -> None:
        directory = self._directory / self._name
        directory.mkdir(exist_ok=True)
        write_atomically(directory / _MARK, json.dumps(self._mark).encode())

    def _read_mark(self) -> dict[str, Any]:
        path = self._directory / self._name / _MARK
        return json.loads(path.read_bytes()) if path.exists() else {}

    def _give_up(self, error: Exception) -> None:
        """Warn once, and write nothing from then on."""
        backend, self._backend, self._failed = self._backend, None, True
        reason = f"{type(error).__name__}: {error}".strip().rstrip(".")
        self._warn(
            f"Tracking by {self._name} has stopped ({reason}). The run goes on, and "
            f"{RECORDS_FILE} has every episode."
        )
        if backend is not None:
            with contextlib.suppress(Exception):  # it has failed already
                backend.close()


class _TensorBoard:
    """Event files in ``tensorboard/``.

    They are written synchronously: the usual writer hands its events to a thread, and
    after a full disk every further episode would wait for that thread forever.
    """

    keeps_at_once = True

    def __init__(self, place: Path, first: int) -> None:
        self._protocol = importlib.import_module("tensorboardX.proto.event_pb2")
        self._summary = importlib.import_module("tensorboardX.proto.summary_pb2")
        writer = importlib.import_module("tensorboardX.event_file_writer")
        place.mkdir(parents=True, exist_ok=True)
        # Two files of one second would have the same name but for the suffix.
        self._events = writer.EventsWriter(str(place / "events"), f".{first}")
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

    def __init__(self, directory: Path, config: RunConfig, run_id: str) -> None:
        wandb = importlib.import_module("wandb")
        self._run = wandb.init(
            project=os.environ.get("WANDB_PROJECT", _PROJECT),
            dir=str(directory),
            name=config.name,
            group=config.task,
            config=to_dict(config),
            id=run_id,
            resume="allow",
            mode=os.environ.get("WANDB_MODE", "offline"),
            settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
        )

    def write(self, episode: int, values: Mapping[str, float]) -> None:
        self._run.log(dict(values), step=episode)

    def close(self) -> None:
        self._run.finish()


def _tensorboard(directory: Path, config: RunConfig, mark: dict[str, Any]) -> Backend:
    del config  # the directory's name tells the run
    return _TensorBoard(directory / "tensorboard", mark.get("episode", 0) + 1)


def _wandb(directory: Path, config: RunConfig, mark: dict[str, Any]) -> Backend:
    run_id = mark.setdefault("id", secrets.token_hex(4))
    return _WeightsAndBiases(directory, config, run_id)


_TRACKERS: dict[str, tuple[str, Open]] = {
    "tensorboard": ("tensorboardX", _tensorboard),
    "wandb": ("wandb", _wandb),
}
NAMES = tuple(_TRACKERS)
"""The trackers."""


def require_tracker(name: str) -> None:
    """Refuse a tracker that does not exist or whose package is not installed."""
    if name not in _TRACKERS:
        raise unknown_name("tracker", name, NAMES)
    if importlib.util.find_spec(_TRACKERS[name][0]) is None:
        raise InputError(NOT_INSTALLED.format(name))


def tracker_named(
    name: str, directory: Path, config: RunConfig, *, warn: Warn = warnings.warn
) -> Tracker:
    """Return the tracker of a run.

    Raises:
        InputError: There is no such tracker, or its package is not installed.
    """
    require_tracker(name)
    return Tracker(name, directory, config, _TRACKERS[name][1], warn)


@contextlib.contextmanager
def tracking(
    name: str | None, directory: Path, config: RunConfig, *, warn: Warn = warnings.warn
) -> Iterator[Callable[[EpisodeRecord], None]]:
    """Yield a function to call with every record; it does nothing without a name."""
    if name is None:
        yield lambda record: None
        return
    with tracker_named(name, directory, config, warn=warn) as tracker:
        yield tracker
