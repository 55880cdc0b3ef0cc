"""Kills and full disks at the N-th file operation: no record is lost or different."""

import importlib
import json
import multiprocessing
import random
import signal
import subprocess
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driftrl.config.toml import merged, toml_text
from driftrl.records import RECORDS_FILE, read_records
from driftrl.training.checkpoint import saved_checkpoints
from driftrl.types import EpisodeRecord
from factories import TINY, TINY_DEEP, free_address

Row = Callable[[str, int, str], None]
pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]
DRIFTRL = [sys.executable, "-P", "-m", "driftrl"]
STRIKES = {"gp": 50, "deep": 50, "continuing": 40, "background": 30, "robot": 30}
STRIKES |= {"study": 20}
"""Kills of each kind of run; and four times as many as full disks."""
EPISODES = 8
SPAN = 90
"""Operations until a strike, at most; an episode takes about 30."""
STEPWISE = {"agent": {"learning": {"when": "step"}}}
DEEP = merged(TINY_DEEP, {"episodes": EPISODES})
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "gp": ("pendulum", merged(TINY, {"episodes": EPISODES})),
    "deep": ("pendulum-decay", merged(DEEP, STEPWISE)),
    "continuing": ("pendulum-decay", {**DEEP, "continuing": True}),
    "background": ("pendulum-decay", {**DEEP, "continuing": True, "background": True}),
    "robot": ("pendulum-decay", {**DEEP, "evaluation": {"episodes": 0}}),
    "study": ("pendulum", merged(TINY, {"episodes": EPISODES})),
}


@contextmanager
def command(kind: str, directory: Path) -> Iterator[Callable[[Path], list[str]]]:
    """Yield what returns the command for a directory; a robot is served meanwhile."""
    task, settings = KINDS[kind]
    file = directory / "settings.toml"
    words = ["run", task, "--method", "sw-ombrl", "--resume", "--quiet"]
    if kind == "study":
        plan = {"name": "s", "title": "", "summary": "", "task": task}
        plan |= {"methods": ["sw-ombrl"], "seeds": [0, 1], "settings": settings}
        file.write_text(toml_text(plan))
        yield lambda out: ["study", str(file), "--workers", "2", "--out", str(out)]
        return
    file.write_text(toml_text(settings))
    words += ["--config", str(file)]
    if kind != "robot":
        yield lambda out: [*words, "--out", str(out)]
        return
    address = free_address()
    served = ["robot", task, "--address", address, "--config", str(file)]
    served += ["--no-real-time", "--period", "0.01"]
    with (directory / "robot.txt").open("w") as log:
        robot = subprocess.Popen([*DRIFTRL, *served], stdout=log, stderr=log)
        try:
            yield lambda out: [*words, "--robot", address, "--out", str(out)]
        finally:
            robot.terminate()
            robot.wait()


def launch(
    words: list[str], fault: Mapping[str, Any], printed: Path
) -> tuple[int, str]:
    """Run a command under a fault; return its status and what it printed."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["chaos.inject.launched"])
    function = importlib.import_module("chaos.inject.launched").run
    text = json.dumps(fault) if fault else ""
    process = server.Process(target=function, args=(words, text, printed))
    process.start()
    process.join(timeout=300)
    assert process.exitcode is not None, "it hangs"
    return process.exitcode, printed.read_text()


def rows(out: Path) -> dict[str, list[EpisodeRecord]]:
    """Return the complete rows of every run without the seconds that they took."""
    found = {path.parent: read_records(path) for path in out.rglob(RECORDS_FILE)}
    return {
        str(path.relative_to(out)): [replace(row, wall_s=0.0) for row in records]
        for path, records in found.items()
    }


def saved(out: Path) -> Counter[str]:
    """Return how many episodes of every run count: those with a checkpoint."""
    paths = [path for path in out.rglob("checkpoint") if path.is_dir()]
    done = {path: max(saved_checkpoints(path), default=0) for path in paths}
    return Counter({str(path.parent.relative_to(out)): done[path] for path in paths})


def learned(out: Path) -> dict[str, int]:
    """Return the checksums of the checkpoints that are there."""
    paths = out.rglob("checkpoint/*.npz")
    return {str(p.relative_to(out)): zlib.crc32(p.read_bytes()) for p in paths}


def check_ending(fault: str, in_worker: bool, status: int, text: str) -> None:
    """A killed process says nothing; one whose disk is full says so in a sentence."""
    assert "Traceback" not in text and "Exception ignored" not in text, text
    if fault == "kill":
        # A study starts a killed worker again, three times in a row.
        assert status in ((0, 1) if in_worker else (-signal.SIGKILL,)), (status, text)
        return
    assert status == 1 and "No space left" in text, (status, text)
    assert "Free some space, then" in text and "Error" not in text, text


def struck_until_done(
    kind: str, fault: str, wanted: int, seed: int, directory: Path
) -> Counter[str]:
    """Strike runs until there were enough strikes; return where these were."""
    draw, struck = random.Random(f"{seed}/{kind}/{fault}"), Counter[str]()
    log, printed, finished = directory / "strikes.txt", directory / "printed.txt", 0
    with command(kind, directory) as words:
        status, text = launch(words(directory / "whole"), {}, printed)
        assert status == 0, text
        whole, state = rows(directory / "whole"), learned(directory / "whole")
        while struck.total() < wanted:
            out, before, is_over = directory / f"{fault}-{finished}", Counter(), False
            while not is_over:
                log.write_text("")
                in_worker = kind == "study" and draw.random() < 0.5
                span = SPAN if kind != "study" or in_worker else SPAN // 10
                chaos = {
                    "fault": fault,
                    "at": draw.randint(1, span),
                    "worker": in_worker,
                }
                chaos |= {"under": str(out), "log": str(log)}
                is_enough = struck.total() >= wanted
                status, text = launch(words(out), {} if is_enough else chaos, printed)
                strikes = log.read_text().splitlines()
                struck.update(strike.split()[0] for strike in strikes)
                text += "".join(path.read_text() for path in out.rglob("log.txt"))
                print(f"{out.name}: {chaos}: {status} {strikes}\n{text}")
                is_over = not strikes
                # A file that is found damaged was not replaced in one step.
                assert "damaged" not in text and "can't be read" not in text
                if strikes:
                    check_ending(fault, in_worker, status, text)
                now = saved(out)
                for name, recorded in rows(out).items():
                    assert before[name] <= now[name] <= len(recorded)
                    assert recorded == whole[name][: len(recorded)]
                before = now
            assert (status, rows(out), learned(out)) == (0, whole, state)
            assert list(out.rglob("*.tmp")) == []
            finished += 1
    return struck


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fault", ["kill", "full"])
def test_no_record_is_lost(
    fault: str,
    kind: str,
    seed: int,
    scale: float,
    row: Row,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[1]))  # of the server
    wanted = round(scale * STRIKES[kind] / (1 if fault == "kill" else 4))
    struck = struck_until_done(kind, fault, wanted, seed, tmp_path)
    where = ", ".join(f"{count} at {name}" for name, count in struck.most_common())
    row(f"{fault} {kind}", struck.total(), f"records equal; {where}")
