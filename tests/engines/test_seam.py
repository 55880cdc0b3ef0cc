"""What every engine can rely on: restarts, hanging runs, what is left alone."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import pytest

from driftrl.config.engine import EngineConfig, RayConfig, Resources
from driftrl.config.run import RunConfig
from driftrl.engines import local, seam
from driftrl.engines.local import LocalEngine
from driftrl.engines.seam import Ended, Failure, Job, Status, last_words, run_all
from driftrl.errors import InputError
from driftrl.training import checkpoint
from driftrl.training.study import read_study

RUNS = [RunConfig("pendulum", "sombrl", seed=seed, episodes=3) for seed in (0, 1)]


@dataclass
class Script:
    """A job that does one thing each time it is asked: live, finish, fail, get lost."""

    name: str
    directory: Path
    acts: list[str]
    is_running: bool = True
    stopped: bool = False

    def ended(self) -> Ended | None:
        act = self.acts.pop(0) if self.acts else "wait"
        self.is_running = act != "queue"
        if act in ("wait", "queue"):
            return None
        if act == "episode":
            done = seam.episodes_done(self.directory)
            place = self.directory / "checkpoint" / f"{done + 1:06d}"
            place.mkdir(parents=True)
            return None
        if act == "finish":
            return Ended()
        failure = Failure(self.name, 1, act, self.directory / "log.txt")
        return Ended(failure, is_lost=act == "lost")

    def stop(self) -> None:
        self.stopped = True


@dataclass
class ScriptedEngine:
    """Plays a script for each start of each seed."""

    scripts: dict[int, list[list[str]]]
    most_at_once: int = 10
    restarts_lost: bool = True
    started: list[int] = field(default_factory=list)
    jobs: list[Script] = field(default_factory=list)
    left: list[Job] = field(default_factory=list)
    closed: bool = False

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        self.started += [config.seed for config, _ in runs]
        jobs = [
            Script(config.name, place, self.scripts[config.seed].pop(0))
            for config, place in runs
        ]
        self.jobs += jobs
        return jobs

    def leave(self, jobs: Sequence[Job]) -> None:
        self.left += jobs

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.closed = True


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which every wait takes a minute."""
    now = [0.0]
    monkeypatch.setattr(seam.time, "sleep", lambda _: now.__setitem__(0, now[0] + 60))
    monkeypatch.setattr(seam.time, "monotonic", lambda: now[0])


@pytest.fixture
def checkpoints(monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints are directories with a number; what is in them does not matter."""
    monkeypatch.setattr(
        checkpoint,
        "saved_checkpoints",
        lambda place: [int(one.name) for one in place.glob("*")],
    )


def play(
    engine: ScriptedEngine,
    out: Path,
    patience: float = 60.0,
    on_status: Callable[[Status], None] = lambda _: None,
) -> tuple[Failure, ...]:
    return run_all(RUNS, out, engine, patience_minutes=patience, on_status=on_status)


DONE = ["episode", "episode", "episode", "finish"]


def test_status_counts_episodes_of_running_and_of_ended_runs(
    tmp_path: Path, checkpoints: None
) -> None:
    engine = ScriptedEngine({0: [[*DONE]], 1: [["episode", "broken"]]})
    seen: list[Status] = []
    (failure,) = play(engine, tmp_path, on_status=seen.append)
    assert [one.episodes_done for one in seen] == [2, 3, 4, 4]
    assert [len(one.running) for one in seen] == [2, 1, 1, 0]
    assert [one.runs_done for one in seen] == [0, 0, 0, 1]
    assert failure.reason == "broken" and seen[-1].failures == (failure,)
    assert engine.closed and not engine.left


def test_no_more_are_started_than_the_engine_takes(
    tmp_path: Path, checkpoints: None
) -> None:
    engine = ScriptedEngine({0: [[*DONE]], 1: [[*DONE]]}, most_at_once=1)
    running: list[int] = []
    assert (
        play(engine, tmp_path, on_status=lambda s: running.append(len(s.running))) == ()
    )
    assert max(running) == 1 and engine.started == [0, 1]


def test_a_lost_job_is_started_again_while_it_gets_on(
    tmp_path: Path, checkpoints: None
) -> None:
    losing = [["episode", "lost"]] * 2 + [["episode", "finish"]]
    engine = ScriptedEngine({0: [list(one) for one in losing], 1: [[*DONE]]})
    assert play(engine, tmp_path) == ()
    assert engine.started == [0, 1, 0, 0]


def test_a_job_that_is_lost_again_and_again_is_given_up(
    tmp_path: Path, checkpoints: None
) -> None:
    engine = ScriptedEngine({0: [["lost"] for _ in range(9)], 1: [[*DONE]]})
    (failure,) = play(engine, tmp_path)
    assert failure.reason == "lost" and engine.started.count(0) == 4


def test_where_lost_jobs_are_not_restarted_they_are_failures(
    tmp_path: Path, checkpoints: None
) -> None:
    engine = ScriptedEngine({0: [["lost"]], 1: [[*DONE]]}, restarts_lost=False)
    (failure,) = play(engine, tmp_path)
    assert failure.reason == "lost" and engine.started == [0, 1]


def test_a_job_that_hangs_is_stopped_and_one_that_queues_is_not(
    tmp_path: Path, checkpoints: None
) -> None:
    hanging = ["episode", *["wait"] * 50]
    queueing = [*["queue"] * 30, *["wait"] * 4, *DONE]
    engine = ScriptedEngine({0: [hanging], 1: [queueing]})
    (failure,) = play(engine, tmp_path, patience=5.0)
    assert failure.name == RUNS[0].name
    assert failure.reason == "No episode ended in 5 min, so it was stopped."
    assert [job.stopped for job in engine.jobs] == [True, False]
    # The episode at one minute, five minutes of patience, and the one that is too many.
    assert len(hanging) == 51 - 7


def test_leaving_hands_the_jobs_under_way_to_the_engine(
    tmp_path: Path, checkpoints: None
) -> None:
    engine = ScriptedEngine({0: [["wait"] * 9], 1: [["finish"]]})

    def interrupt(status: Status) -> None:
        if len(status.running) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(engine, tmp_path, on_status=interrupt)
    assert engine.left == [engine.jobs[0]] and engine.closed


def test_episodes_of_before_count_from_the_start_on(
    tmp_path: Path, checkpoints: None
) -> None:
    (tmp_path / RUNS[1].name / "checkpoint" / "000002").mkdir(parents=True)
    (tmp_path / RUNS[1].name / "episodes.jsonl").write_text("{}\n" * 2)
    engine = ScriptedEngine({0: [[*DONE]], 1: [["episode", "finish"]]}, most_at_once=1)
    seen: list[int] = []
    play(engine, tmp_path, on_status=lambda status: seen.append(status.episodes_done))
    assert seen == [3, 4, 5, 5, 6, 6]


def test_a_finished_run_whose_last_row_is_torn_is_gone_on_with(
    tmp_path: Path, checkpoints: None
) -> None:
    for run, rows in zip(RUNS, ("{}\n{}\n{}", "{}\n{}\n{}\n"), strict=True):
        (tmp_path / run.name / "checkpoint" / "000003").mkdir(parents=True)
        (tmp_path / run.name / "episodes.jsonl").write_text(rows)
    engine = ScriptedEngine({0: [["finish"]]})
    assert play(engine, tmp_path) == ()
    assert engine.started == [0]


def test_a_log_tells_why_its_run_was_stopped(tmp_path: Path, checkpoints: None) -> None:
    engine = ScriptedEngine({0: [["wait"] * 9], 1: [["broken"]]})
    play(engine, tmp_path, patience=2.0)
    hung, broken = (tmp_path / run.name / "log.txt" for run in RUNS)
    assert hung.read_text() == "No episode ended in 2 min, so it was stopped.\n"
    assert broken.read_text() == "broken\n"
    play(ScriptedEngine({0: [["finish"]], 1: [["broken"]]}), tmp_path)
    assert broken.read_text() == "broken\n"


def test_a_worker_that_reads_nothing_is_a_failed_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(local, "worker_command", lambda *_: ["false"])
    slow = local.subprocess.Popen

    def late(*arguments: Any, **settings: Any) -> Any:
        process = slow(*arguments, **settings)
        process.wait()  # so that its end of the pipe is closed
        return process

    monkeypatch.setattr(local.subprocess, "Popen", late)
    (failure, _) = run_all(RUNS, tmp_path, LocalEngine(1), on_status=lambda _: None)
    assert failure.status == 1 and failure.reason == "It printed nothing."


def test_last_words(tmp_path: Path) -> None:
    log = tmp_path / "log.txt"
    assert last_words(log) == "It printed nothing."
    log.write_text("Traceback\n  line\nValueError: no\n\n")
    assert last_words(log) == "ValueError: no"


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ("patience_minutes = 0", "patience_minutes must be positive, received 0"),
        ("resources = { cores = 0 }", "cores must be a number of at least 1"),
        ("resources = { memory_gb = -1 }", "memory_gb must be positive"),
        ("resources = { accelerators = -1 }", "accelerators must be a number of at"),
        ("resources = { minutes = -1 }", "minutes must be a number of at least 0"),
        (
            "slurm = { particion = 'x' }",
            "slurm.particion'. Did you mean 'engine.slurm.part",
        ),
    ],
)
def test_a_studys_engine_table_is_checked(
    tmp_path: Path, table: str, sentence: str
) -> None:
    path = tmp_path / "study.toml"
    study = "name='s'\ntitle='t'\nsummary=''\ntask='pendulum'\nmethods=['sombrl']\n"
    path.write_text(f"{study}seeds=[0]\n[engine]\nray = {{ address = 'auto' }}\n")
    assert read_study(path).engine == EngineConfig(Resources(), RayConfig("auto"))
    path.write_text(f"{study}seeds=[0]\n[engine]\n{table}\n")
    with pytest.raises(InputError, match=sentence):
        read_study(path)
