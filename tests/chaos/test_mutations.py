"""Damaged files of every kind that is read: a sentence that names the file, or nothing.

A case is a random change of one file.  Whoever reads it must end in time and within
memory, by returning or by an error of the package; what a checksum protects must be as
it was written.
"""

import io
import json
import os
import random
import re
import resource
import shutil
import signal
import traceback
import warnings
import zipfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
import pytest

import driftrl
from driftrl.analysis import report
from driftrl.analysis.load import planned_names, read_results
from driftrl.config.toml import toml_text
from driftrl.engines.progress import read_progress
from driftrl.envs.tasks import configure
from driftrl.errors import DriftrlError
from driftrl.exported import (
    Model,
    Policy,
    PolicyError,
    load_model,
    load_policy,
    to_bytes,
)
from driftrl.memory.episodes import EpisodeMemory, load_episode
from driftrl.oracles.table import Optimum, StoredOracle, given_optimal_returns, render
from driftrl.records import load_run, read_records
from driftrl.robot.transport import read_token
from driftrl.training import loop
from driftrl.training.assembly import initial_state, make_agent, sizes_of
from driftrl.training.checkpoint import load_arrays
from driftrl.training.health import health
from driftrl.training.logs import read_log
from driftrl.training.run_directory import Pending, RunDirectory, read_config
from driftrl.training.study import read_study
from factories import TINY, ignore

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(1800)]
Row = Callable[[str, int, str], None]
SECONDS, MEMORY, CASES = 20, 2**30, 400
"""Time and memory that a reader may take, and changes of each kind of file."""
WRONG = [
    *(b"", b"null", b"true", b"nan", b"-1", b"0", b"1e999", b"{}", b"[]", b"[[1]]"),
    *(b'"x"', b'""', b"\xff", b"\0", b'{"a": 1}', b"-0.5", b"2147483648", b"9" * 19),
    *(b"9" * 5000, b"[" * 3000, b'"' + b"x" * 100_000 + b'"', b"../..", b"\r\n", b"'"),
]
TOKEN = re.compile(rb'"[^"\n]*"|[-+\w.]+')
SHAPES = [
    *(b"(1000000000000,)", b"(4000000000, 8)", b"(300000000,)", b"(-1,)", b"(0,)"),
    *(b"(1, 1)", b"()", b"(True,)", b"(%s)" % (b"1, " * 40), b"'x'", b"(%d,)" % 2**64),
]
TYPES = [
    b"|O",
    b"<U9",
    b"<c16",
    b"<f2",
    b"<M8[s]",
    b"|V8",
    b"<i8",
    b"|b1",
    b"?!",
    b"|S0",
]


# ---- changes -------------------------------------------------------------------------


def damaged(draw: random.Random, content: bytes) -> tuple[str, bytes]:
    """Return the name of a random change of a file's content, and what results."""
    a, b, c = sorted(draw.choices(range(len(content)), k=3))
    end = a + 1 + int(2 ** draw.uniform(0, 10))
    changes = {
        "bits flipped": lambda: flipped(draw, content),
        "cut off": lambda: content[:a],
        "block deleted": lambda: content[:a] + content[end:],
        "block doubled": lambda: content[:end] + content[a:],
        "blocks swapped": lambda: (
            content[:a] + content[b:c] + content[a:b] + content[c:]
        ),
    }
    if content.startswith(b"PK"):
        changes |= dict.fromkeys(("members", *"123"), lambda: rewritten(draw, content))
    else:
        (a, b), (c, d) = sorted(
            draw.choices([token.span() for token in TOKEN.finditer(content)], k=2)
        )
        swapped = content[:a] + content[c:d] + content[b:c] + content[a:b] + content[d:]
        changes["values swapped"] = lambda: swapped if b <= c else content
        wrong = content[:a] + draw.choice(WRONG) + content[b:]
        changes |= dict.fromkeys(("wrong value", "1"), lambda: wrong)
    name = draw.choice([*changes])
    return name, changes[name]()


def flipped(draw: random.Random, content: bytes) -> bytes:
    changed = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        changed[draw.randrange(len(content))] ^= 1 << draw.randrange(8)
    return bytes(changed)


def rewritten(draw: random.Random, content: bytes) -> bytes:
    """Return an archive of NumPy with sound checksums and an unsound member."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    name, other = draw.choices([*members], k=2)
    old, is_packed = members.pop(name), draw.random() < 0.2
    shape, kind = draw.choice(SHAPES), b"'descr': '%s'" % draw.choice(TYPES)
    members |= draw.choice(
        [
            {},
            {name: members.get(other, old), other: old},
            {name: flipped(draw, old)},
            {name: re.sub(rb"\([\d, ]*\)(?=, })", shape, old, count=1)},
            {name: re.sub(rb"'descr': '[^']*'", kind, old, count=1)},
            {name: old + bytes(3 * 10**7)},
        ]
    )
    result, packed = io.BytesIO(), zipfile.ZIP_DEFLATED if is_packed else 0
    with zipfile.ZipFile(result, "w", packed) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return result.getvalue()


# ---- readers -------------------------------------------------------------------------

CONFIG = configure("pendulum", "sw-ombrl", {**TINY, "continuing": True})
AGENT, SIZES = make_agent(CONFIG), sizes_of(CONFIG)
LOGGED: dict[str, Any] = {"obs": ["x", "v"], "action": ["u"], "reward": "r"}
STUDY = {"name": "s", "title": "t", "summary": "", "task": "pendulum", "seeds": [0, 1]}
Read = Callable[[Path], Any]


def opened(run: Path) -> Any:
    files = RunDirectory(run, CONFIG, resume=True, warn=ignore)
    return closing(files)


def resumed(path: Path) -> None:
    """Take up everything in a run, as a session does."""
    with opened(path) as files:
        memory = EpisodeMemory(*SIZES, AGENT.precision)
        files.restore(initial_state(AGENT, CONFIG), memory)
        files.load_pending(len(memory) + 1)
        files.load_logged_range(SIZES[0])
        memory.since(1)


def analysed(run: Path) -> None:
    """Read a run as the commands do that only look at it."""
    driftrl.regret(read_results(run, oracle=lambda theta: 0.0 * theta).frame)
    health(load_run(run).records)
    read_progress(run.parent)


def pending(run: Path) -> list[bytes]:
    with opened(run) as files:
        ended = files.load_pending(6)
    return [] if ended is None else [content(vars(ended.episode))]


def content(parts: Any) -> bytes:
    """Return arrays and values by name as bytes, to compare them."""
    values = {name: np.asarray(value) for name, value in parts.items()}
    return repr(
        [(n, a.shape, a.dtype, a.tobytes()) for n, a in values.items()]
    ).encode()


def rows(run: Path) -> list[Any]:
    return [replace(row, wall_s=0.0) for row in read_records(run / "episodes.jsonl")]


def oracle(run: Path) -> StoredOracle:
    return StoredOracle("pendulum", CONFIG.environment, shipped=run.parent, by="sac")


ORACLE = f"{oracle(Path('run')).cache_file.name}"
# Where a file is, who reads it, given the directory of the run, and what a checksum
# protects: as it was written, or an initial part of that.
KINDS: dict[str, tuple[str, list[Read], Read | None]] = {
    "config": ("run/config.toml", [read_config, resumed, analysed], None),
    "study": (
        "study.toml",
        [
            lambda run: read_study(run.parent / "study.toml"),
            lambda run: planned_names(run.parent),
            lambda run: report._source("study", run.parent),
        ],
        None,
    ),
    "records": ("run/episodes.jsonl", [resumed, analysed], rows),
    "checkpoint": (
        "run/checkpoint/000005.npz",
        [resumed],
        lambda run: [content(load_arrays(run / "checkpoint", 5))],
    ),
    "memory": (
        "run/memory/000005.npz",
        [resumed],
        lambda run: [content(vars(load_episode(run / "memory", 5)))],
    ),
    "pending episode": ("run/pending/000006.npz", [resumed], pending),
    "pending machine": ("run/pending/machine.npz", [resumed], pending),
    "pending events": ("run/pending/events.json", [resumed], pending),
    "pending theta": ("run/pending/theta.json", [resumed], pending),
    "events": ("run/events.jsonl", [resumed], None),
    "range of a log": ("run/log.json", [resumed], None),
    "job": ("run/job.json", [analysed], None),
    "oracle table": (ORACLE, [lambda run: oracle(run).missing([1.0, 2.0])], None),
    "oracle CSV": (
        "oracle.csv",
        [lambda run: given_optimal_returns(run.parent / "oracle.csv", [1.0, 2.0])],
        None,
    ),
    "policy": (
        "policy.npz",
        [],
        lambda run: [to_bytes(load_policy(run.parent / "policy.npz"))],
    ),
    "model": (
        "model.npz",
        [],
        lambda run: [to_bytes(load_model(run.parent / "model.npz"))],
    ),
    "log CSV": (
        "log.csv",
        [
            lambda run: read_log(run.parent / "log.csv", **LOGGED, episode="e"),
            lambda run: read_log(run.parent / "log.csv", **LOGGED, skip_gaps=True),
        ],
        None,
    ),
    "token": ("token", [lambda run: read_token(run.parent / "token")], None),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a file of every kind, each of them sound."""
    study = tmp_path_factory.mktemp("sound")
    run, draw = study / "run", np.random.default_rng(0)
    loop.run(CONFIG, run, warn=ignore)
    with opened(run) as opened_run:
        last = load_episode(run / "memory", 5)
        ended = Pending(last, 2.0, {"obs": last.obs}, [{"segment": 6, "event": "fell"}])
        opened_run.save_pending(6, ended)
        opened_run.save_logged_range(np.array([[-1.0] * 3, [1.0] * 3]))
    (run / "events.jsonl").write_text(
        '{"segment": 1, "step": 4, "event": "fell"}\n' * 3
    )
    job = {"engine": "slurm", "id": "17", "state": "RUNNING"}
    (run / "job.json").write_text(json.dumps(job))
    plan = {**STUDY, "methods": ["sombrl", "sw-ombrl"], "settings": TINY}
    variants = [{"name": "w", "methods": ["sw-ombrl"], "settings": {"episodes": 3}}]
    (study / "study.toml").write_text(toml_text({**plan, "variants": variants}))
    optima = [Optimum(float(n), -100.0 / n, 0.5, method="sac") for n in range(1, 9)]
    (study / ORACLE).write_bytes(render(optima))
    lines = [f"{n},{-100.0 / n}" for n in range(1, 9)]
    (study / "oracle.csv").write_text("\n".join(["theta,value", *lines]) + "\n")
    (w, v), b = draw.normal(size=(2, 4, 4)), np.zeros(4)
    learned = Policy("wheel", 7, (w, v), (b, b), b - 1.0, b + 1.0)
    (study / "policy.npz").write_bytes(to_bytes(learned))
    layers, biases = (draw.normal(size=(2, 4, 8)), draw.normal(size=(2, 8, 8)))
    model = Model("w", 7, (layers, biases), (np.zeros((2, 8)),) * 2, np.ones(4))
    (study / "model.npz").write_bytes(to_bytes(model))
    lines = [
        f"{n // 7},{a:.4f},{b:.4f},0.5,-1"
        for n, (a, b) in enumerate(draw.normal(size=(40, 2)))
    ]
    (study / "log.csv").write_text("\n".join(["e,x,v,u,r", *lines]) + "\n")
    (study / "token").write_text("0123456789abcdef" * 2)
    return study


# ---- the suite -----------------------------------------------------------------------


class Late(BaseException):
    """A reader took too long."""


@contextmanager
def bounded() -> Iterator[None]:
    """Limit the processor's time, and memory beyond what the process has."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Late

    pages = int(Path("/proc/self/statm").read_text().split()[0])
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    most = pages * resource.getpagesize() + MEMORY
    before = signal.signal(signal.SIGPROF, stop)
    resource.setrlimit(resource.RLIMIT_AS, (most, hard))
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
        signal.signal(signal.SIGPROF, before)


def problem_of(error: BaseException, file: str, run: Path) -> str:
    """Return what is wrong with how a reader failed; empty if nothing is."""
    text, cause = str(error), error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return f"takes more than {MEMORY >> 20} MB: {text}"
        cause = cause.__cause__ or cause.__context__
    if not isinstance(error, DriftrlError | PolicyError):
        frames = traceback.extract_tb(error.__traceback__)
        ours = [frame for frame in frames if "/driftrl/" in frame.filename][-1]
        name = Path(ours.filename).name
        return f"{type(error).__name__} in {name}:{ours.lineno}: {text[:100]!r}"
    if file not in text and str(run) not in text:
        return f"does not name the file: {text[:150]!r}"
    return "" if len(text) < 2000 else f"says {len(text)} letters: {text[:100]!r}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.usefixtures("unchecked_types")
def test_damage_is_refused_or_harmless(
    kind: str,
    files: Path,
    seed: int,
    scale: float,
    row: Row,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "fsync", ignore)
    name, readers, keeps = KINDS[kind]
    sound = keeps(files / "run") if keeps else []
    content = (files / name).read_bytes()
    copy, refused, problems = tmp_path / "study", 0, dict[str, str]()
    shutil.copytree(files, copy)
    for case in range(round(scale * CASES)):
        change, damage = damaged(random.Random(f"{seed}/{kind}/{case}"), content)
        was_refused = False
        for reader in filter(None, (*readers, keeps)):
            (copy / name).write_bytes(damage)
            problem = ""
            try:
                with bounded(), warnings.catch_warnings(action="ignore"):
                    result = reader(copy / "run")
                is_protected = reader is keeps and not change.startswith(
                    ("mem", *"123")
                )
                if is_protected and result != sound[: len(result)]:
                    problem = "damage goes unnoticed"
            except (Exception, Late) as error:
                was_refused = True
                problem = problem_of(error, Path(name).name, copy / "run")
            if problem:
                key = re.sub(r"\d+", "#", problem)[:60]
                problems.setdefault(key, f"case {case}, {change}: {problem}")
            if reader is resumed:  # writes
                shutil.rmtree(copy)
                shutil.copytree(files, copy)
        refused += was_refused
    count = round(scale * CASES)
    row(f"damaged {kind}", count, f"{refused} refused; {len(problems)} problems")
    assert not problems, f"--chaos-seed {seed}:\n" + "\n".join(problems.values())
