"""TensorBoard and Weights & Biases: every episode's row, as it is recorded.

Nothing depends on a tracker: ``episodes.jsonl`` is the record.  A tracker that fails
warns once, and the run goes on.  A resumed run writes its earlier episodes again, in
place of those that an interrupted run may have lost.
"""

import contextlib
import importlib
import importlib.util
import math
import os
import secrets
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from driftrl.config.run import RunConfig
from driftrl.config.toml import to_dict
from driftrl.errors import InputError, unknown_name
from driftrl.io import write_atomically
from driftrl.records import COLUMNS, RECORDS_FILE, read_records
from driftrl.training.run_directory import Warn
from driftrl.types import EpisodeRecord

NOT_INSTALLED = "Tracking by {} needs the extra 'track': pip install 'driftrl[track]'."


def scalars(record: EpisodeRecord) -> dict[str, float]:
    """Return the finite numbers of a record, named episode/COLUMN."""
    values = {name: getattr(record, name) for name in COLUMNS if name != "episode"}
    return {
        f"episode/{name}": float(value)
        for name, value in values.items()
        if isinstance(value, float | int) and math.isfinite(value)
    }


Write = Callable[[int, Mapping[str, float]], None]
"""Writes the numbers of an episode."""
Open = Callable[[Path, RunConfig], AbstractContextManager[Write]]
"""Opens a backend in a run's directory."""


@contextlib.contextmanager
def _tensorboard(directory: Path, config: RunConfig) -> Iterator[Write]:
    """Write event files in ``tensorboard/``.

    They are written synchronously: the usual writer hands its events to a thread, and
    after a full disk every further episode would wait for that thread forever.
    """
    del config  # the directory's name tells the run
    protocol = importlib.import_module("tensorboardX.proto.event_pb2")
    summary = importlib.import_module("tensorboardX.proto.summary_pb2").Summary
    writer = importlib.import_module("tensorboardX.event_file_writer")
    folder = directory / "tensorboard"
    folder.mkdir(parents=True, exist_ok=True)
    # Two files of one second would have the same name but for the suffix.
    count = len(list(folder.glob("events*")))
    events = writer.EventsWriter(str(folder / "events"), f".{count:06d}")

    def add(step: int, **content: Any) -> None:
        event = protocol.Event(wall_time=time.time(), step=step, **content)
        events.write_event(event)
        events.flush()

    def write(episode: int, values: Mapping[str, float]) -> None:
        entries = [summary.Value(tag=tag, simple_value=v) for tag, v in values.items()]
        add(episode, summary=summary(value=entries))

    with contextlib.closing(events):
        # Hides what an interrupted run wrote.
        add(1, session_log=protocol.SessionLog(status=protocol.SessionLog.START))
        yield write


@contextlib.contextmanager
def _wandb(directory: Path, config: RunConfig) -> Iterator[Write]:
    """Write a run of Weights & Biases in ``wandb/``, offline unless WANDB_MODE is set.

    Its files share one id, so that they are uploaded as one run; of an episode that is
    in several the first counts.
    """
    wandb = importlib.import_module("wandb")
    path = directory / "wandb" / "id"
    path.parent.mkdir(exist_ok=True)
    if not path.exists():
        write_atomically(path, secrets.token_hex(4).encode())
    run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", "driftrl"),
        dir=str(directory),
        name=config.name,
        group=config.task,
        config=to_dict(config),
        id=path.read_text(),
        resume="allow",
        mode=os.environ.get("WANDB_MODE", "offline"),
        settings=wandb.Settings(silent=True, console="off", x_disable_stats=True),
    )
    try:
        yield lambda episode, values: run.log(dict(values), step=episode)
    finally:
        run.finish()


_TRACKERS: dict[str, tuple[str, Open]] = {
    "tensorboard": ("tensorboardX", _tensorboard),
    "wandb": ("wandb", _wandb),
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
    """Yield a function to call with every record; it does nothing without a name.

    The backend is opened at the first record, and is given those before it as well.
    Errors end the tracking, not the run: they are told once, by ``warn``.
    """
    if name is None:
        yield lambda record: None
        return
    require_tracker(name)
    backend, write, failed = contextlib.ExitStack(), None, False

    @contextlib.contextmanager
    def warned_once() -> Iterator[None]:
        nonlocal failed
        try:
            yield
        except Exception as error:
            reason = f"{type(error).__name__}: {error}".strip().rstrip(".")
            if not failed:
                warn(
                    f"Tracking by {name} has stopped ({reason}). The run goes on, and "
                    f"{RECORDS_FILE} has every episode."
                )
            failed = True

    def track(record: EpisodeRecord) -> None:
        nonlocal write
        if failed:
            return
        with warned_once():
            rows = [record]
            if write is None:
                earlier = read_records(directory / RECORDS_FILE)
                rows = [*earlier[: record.episode - 1], record]
                write = backend.enter_context(_TRACKERS[name][1](directory, config))
            for row in rows:
                write(row.episode, scalars(row))

    try:
        yield track
    finally:
        with warned_once():
            backend.close()
