"""Trackers: what they are told, once each, and that no run depends on them."""

import contextlib
import json
import os
import struct
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from driftrl import tracking
from driftrl.cli.main import main
from driftrl.config.run import RunConfig
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.records import RecordWriter
from driftrl.tracking import require_tracker, scalars
from factories import record

CONFIG = configure("pendulum", "sombrl", {})


class Fake:
    """A backend that remembers, and fails when it is told to."""

    def __init__(self, *, fails_at: int = 0) -> None:
        self.fails_at = fails_at
        self.written: list[int] = []
        self.closed = 0

    def write(self, episode: int, values: Mapping[str, float]) -> None:
        if episode == self.fails_at:
            raise OSError(28, "No space left on device")
        assert values["episode/transitions"] == 40 * (episode - 1)
        self.written.append(episode)

    def __enter__(self) -> Any:
        return self.write

    def __exit__(self, *_: object) -> None:
        self.closed += 1


Live = Callable[..., contextlib.ExitStack]


@pytest.fixture
def live(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Live:
    """Live through episodes as a run does: the row first, then who observes it."""

    def through(
        fake: Fake, first: int, last: int, said: list[str] | None = None
    ) -> contextlib.ExitStack:
        def opening(place: Path, config: RunConfig) -> Any:
            assert (place, config) == (tmp_path, CONFIG)
            return fake

        warn = ([] if said is None else said).append
        monkeypatch.setitem(tracking._TRACKERS, "fake", ("json", opening))
        stack = contextlib.ExitStack()
        tracker = stack.enter_context(
            tracking.tracking("fake", tmp_path, CONFIG, warn=warn)
        )
        with RecordWriter(tmp_path / "episodes.jsonl") as rows:
            for number in range(first, last + 1):
                rows.append(record(number))
                tracker(record(number))
        return stack

    return through


def test_what_is_not_known_is_left_out() -> None:
    told = scalars(record(2, theta=float("nan"), terminated=True, q=1.5))
    assert told == {
        "episode/return_executed": -1.0,
        "episode/terminated": 1.0,
        "episode/optimism": 1.0,
        "episode/q": 1.5,
        "episode/soft_reset": 0.0,
        "episode/change_alarm": 0.0,
        "episode/steps": 40.0,
        "episode/first_retained": 1.0,
        "episode/transitions": 40.0,
        "episode/wall_s": 0.5,
    }


def test_a_resumed_run_writes_its_earlier_episodes_again(live: Live) -> None:
    first, second = Fake(), Fake()
    killed = live(first, 1, 3)  # not closed yet
    live(second, 4, 5).close()
    assert (first.written, second.written) == ([1, 2, 3], [1, 2, 3, 4, 5])
    assert (first.closed, second.closed) == (0, 1)
    killed.close()


def test_a_failure_is_told_once_and_the_run_goes_on(live: Live) -> None:
    fake, said = Fake(fails_at=3), []
    live(fake, 1, 6, said).close()
    assert fake.written == [1, 2] and fake.closed == 1
    assert len(said) == 1 and "OSError: [Errno 28]" in said[0]


def test_trackers_that_can_not_be_had(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="wand"):
        require_tracker("wand")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"driftrl\[track"):
        require_tracker("wandb")


SCRIPT = """
import os, signal, sys
from pathlib import Path
from driftrl.envs.tasks import configure
from driftrl.records import RecordWriter
from driftrl.tracking import tracking
from driftrl.types import EpisodeRecord

place, name, first, last, end = sys.argv[1:]
config = configure("pendulum", "sombrl", {})
rows = RecordWriter(Path(place) / "episodes.jsonl")
with tracking(name, Path(place), config, warn=print) as tracker:
    for n in range(int(first), int(last) + 1):
        known = (n, 2 / n, 40, -100.0 * n, None, False, 1, 40, 1.0)
        row = EpisodeRecord(*known, None, None, None, 3.5)
        rows.append(row)
        tracker(row)
    if end == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
"""


def track(directory: Path, name: str, first: int, last: int, end: str) -> str:
    """Track episodes in a process of its own, without a network if that can be had."""
    alone = ["unshare", "-rn"]
    try:
        alone = alone if subprocess.run([*alone, "true"]).returncode == 0 else []
    except FileNotFoundError:
        alone = []
    words = [str(directory), name, str(first), str(last), end]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment.pop("WANDB_MODE", None)
    done = subprocess.run(
        [*alone, sys.executable, "-c", SCRIPT, *words],
        env=environment,
        capture_output=True,
        timeout=100,
    )
    assert done.returncode == (-9 if end == "kill" else 0), done.stderr.decode()
    return done.stdout.decode()


def events_in(directory: Path) -> list[tuple[int, dict[str, float]]]:
    """Read event files back: frames of a length, its sum, an event, and its sum."""
    protocol = pytest.importorskip("tensorboardX.proto.event_pb2")
    found = []
    for path in sorted((directory / "tensorboard").glob("events*")):
        content, at = path.read_bytes(), 0
        while at < len(content):
            (size,) = struct.unpack_from("<Q", content, at)
            event = protocol.Event.FromString(content[at + 12 : at + 12 + size])
            at += size + 16
            values = {value.tag: value.simple_value for value in event.summary.value}
            found += [(event.step, values)] if values else []
    return found


def wandb_history(directory: Path) -> Iterator[dict[str, Any]]:
    """Read what Weights & Biases has on the disk: a log of records in blocks."""
    protocol = pytest.importorskip("wandb.proto.wandb_internal_pb2")
    block = 32768
    for path in sorted((directory / "wandb").glob("offline-run-*/*.wandb")):
        content, at, parts = path.read_bytes(), 7, b""
        while at + 7 <= len(content):
            if block - at % block < 7:  # no room for a head: the next block
                at += block - at % block
                continue
            _, size, kind = struct.unpack_from("<IHB", content, at)
            parts += content[at + 7 : at + 7 + size]
            at += 7 + size
            if kind not in (1, 4):  # neither whole nor the last part
                continue
            history, parts = protocol.Record.FromString(parts).history, b""
            if history.item:
                yield {
                    item.key or "/".join(item.nested_key): json.loads(item.value_json)
                    for item in history.item
                }


@pytest.mark.track
def test_tensorboard_reads_what_was_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    track(tmp_path, "tensorboard", 1, 3, "kill")
    track(tmp_path, "tensorboard", 4, 5, "close")
    events = events_in(tmp_path)
    assert [step for step, _ in events] == [1, 2, 3, 1, 2, 3, 4, 5]
    assert events[6][1] == {
        "episode/return_executed": -400.0,
        "episode/terminated": 0.0,
        "episode/theta": 0.5,
        "episode/optimism": 1.0,
        "episode/soft_reset": 0.0,
        "episode/steps": 40.0,
        "episode/first_retained": 1.0,
        "episode/transitions": 40.0,
        "episode/wall_s": 3.5,
    }


@pytest.mark.track
def test_tensorboard_that_can_not_be_written(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    (tmp_path / "tensorboard").write_text("a file is in the way")
    said = track(tmp_path, "tensorboard", 1, 3, "close")
    assert said.count("Tracking by tensorboard has stopped (") == 1
    rows = (tmp_path / "episodes.jsonl").read_text().splitlines()
    assert len(rows) == 3


@pytest.mark.track
@pytest.mark.timeout(300)
def test_wandb_offline_without_a_network(tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    for first, last, end in ((1, 2, "close"), (3, 4, "kill"), (5, 6, "close")):
        assert track(tmp_path, "wandb", first, last, end) == ""
    history = list(wandb_history(tmp_path))
    assert [row["_step"] for row in history[-6:]] == [1, 2, 3, 4, 5, 6]
    assert history[1]["episode/return_executed"] == -200
    assert history[1]["episode/theta"] == 1
    places = [path.name for path in (tmp_path / "wandb").glob("offline-run-*")]
    assert len({name.rpartition("-")[2] for name in places}) == 1  # one run


@pytest.mark.track
def test_a_run_is_tracked_and_goes_on_where_it_stopped(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    small = {
        "--environment.sim_steps": 20,
        "--agent.planner.samples": 8,
        "--agent.planner.elites": 2,
        "--agent.planner.iterations": 1,
        "--agent.planner.horizon": 2,
        "--agent.model.fit-steps": 1,
    }
    words = [str(word) for pair in small.items() for word in pair]
    out = tmp_path / "run"
    run = ["run", "pendulum", "--out", str(out), "--quiet", *words]
    assert main([*run, "--episodes", "2"]) == 0
    kept = (out / "config.toml").read_text()
    again = [*run, "--episodes", "2", "--resume", "--track", "tensorboard"]
    assert main(again) == 0
    assert (out / "config.toml").read_text() == kept  # no part of what the run is
    assert main([*run, "--episodes", "4", "--resume", "--track", "tensorboard"]) == 0
    lines = (out / "episodes.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    told = events_in(out)[-4:]
    assert [step for step, _ in told] == [1, 2, 3, 4]
    for row, (_, values) in zip(rows, told, strict=True):
        assert values["episode/return_executed"] == pytest.approx(
            row["return_executed"]
        )
        assert values["episode/theta"] == pytest.approx(row["theta"])
