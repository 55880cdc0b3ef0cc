"""What every engine can rely on: restarts, hanging runs, failures, shutdown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from driftrl.config.engine import EngineConfig, RayConfig, Resources
from driftrl.config.run import RunConfig
from driftrl.engines import launcher
from driftrl.engines.launcher import Ended, Failure, Job, Status, run_all
from driftrl.errors import InputError
from driftrl.training.study import read_study

RUNS = [RunConfig("pendulum", "sombrl", seed=seed, episodes=3) for seed in (0, 1)]
DONE = ["episode", "episode", "episode", "finish"]


@dataclass
class Script:
    """A job that does one thing each time it is polled."""

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
            done = launcher.episodes_done(self.directory)
            (self.directory / "checkpoint" / f"{done + 1:06d}").mkdir(parents=True)
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
    max_jobs: int = 10
    restarts_lost: bool = True
    started: list[int] = field(default_factory=list)
    jobs: list[Script] = field(default_factory=list)
    left: list[Job] = field(default_factory=list)
    closed: bool = False

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        self.started += [config.seed for config, _ in runs]
        jobs = [
            Script(config.name, directory, self.scripts[config.seed].pop(0))
            for config, directory in runs
        ]
        self.jobs += jobs
        return jobs

    def shutdown(self, jobs: Sequence[Job]) -> None:
        self.left += jobs
        self.closed = True


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which every poll takes a minute."""
    now = [0.0]
    sleep = lambda _: now.__setitem__(0, now[0] + 60)
    monkeypatch.setattr("driftrl.engines.launcher.time.sleep", sleep)
    monkeypatch.setattr("driftrl.engines.launcher.time.monotonic", lambda: now[0])


def play(
    engine: ScriptedEngine,
    out: Path,
    patience: float = 60.0,
    on_status: Callable[[Status], None] = lambda _: None,
) -> tuple[Failure, ...]:
    return run_all(RUNS, out, engine, patience_minutes=patience, on_status=on_status)


def test_status_counts_episodes_of_running_and_ended_runs(tmp_path: Path) -> None:
    engine = ScriptedEngine({0: [[*DONE]], 1: [["episode", "broken"]]})
    statuses: list[Status] = []
    (failure,) = play(engine, tmp_path, on_status=statuses.append)
    assert [status.episodes_done for status in statuses] == [2, 3, 4, 4]
    assert [len(status.running) for status in statuses] == [2, 1, 1, 0]
    assert [status.runs_done for status in statuses] == [0, 0, 0, 1]
    assert failure.reason == "broken" and statuses[-1].failures == (failure,)
    assert engine.closed and not engine.left


@pytest.mark.parametrize(
    ("script", "restarts", "starts", "fails"),
    [
        ([["episode", "lost"], ["episode", "lost"], ["finish"]], True, 3, False),
        ([["lost"]] * 9, True, 4, True),
        ([["lost"]], False, 1, True),
    ],
)
def test_lost_jobs_are_restarted_while_they_make_progress(
    tmp_path: Path, script: list[list[str]], restarts: bool, starts: int, fails: bool
) -> None:
    scripts = {0: [list(acts) for acts in script], 1: [[*DONE]]}
    engine = ScriptedEngine(scripts, restarts_lost=restarts)
    failures = play(engine, tmp_path)
    assert [failure.reason for failure in failures] == ["lost"] * fails
    assert engine.started.count(0) == starts


def test_a_hanging_job_is_stopped_and_a_queued_one_is_not(tmp_path: Path) -> None:
    hanging = ["episode", *["wait"] * 50]
    queued = [*["queue"] * 30, *["wait"] * 4, *DONE]
    engine = ScriptedEngine({0: [hanging], 1: [queued]})
    (failure,) = play(engine, tmp_path, patience=5.0)
    assert failure.name == RUNS[0].name and "5 min" in failure.reason
    assert [job.stopped for job in engine.jobs] == [True, False]
    # The episode at one minute, five minutes of patience, and one minute too many.
    assert len(hanging) == 51 - 7


def test_an_interrupt_hands_running_jobs_to_the_engine(tmp_path: Path) -> None:
    engine = ScriptedEngine({0: [["wait"] * 9], 1: [["finish"]]})

    def interrupt(status: Status) -> None:
        if len(status.running) == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(engine, tmp_path, on_status=interrupt)
    assert engine.left == [engine.jobs[0]] and engine.closed


def test_earlier_episodes_count_from_the_start(tmp_path: Path) -> None:
    (tmp_path / RUNS[1].name / "checkpoint" / "000002").mkdir(parents=True)
    (tmp_path / RUNS[1].name / "checkpoint" / ".000003.tmp").mkdir()
    (tmp_path / RUNS[1].name / "episodes.jsonl").write_text("{}\n" * 2)
    engine = ScriptedEngine({0: [[*DONE]], 1: [["episode", "finish"]]}, max_jobs=1)
    counts: list[int] = []
    play(engine, tmp_path, on_status=lambda status: counts.append(status.episodes_done))
    assert counts == [3, 4, 5, 5, 6, 6]


def test_a_finished_run_whose_last_row_is_torn_is_resumed(tmp_path: Path) -> None:
    for run, rows in zip(RUNS, ("{}\n{}\n{}", "{}\n{}\n{}\n"), strict=True):
        (tmp_path / run.name / "checkpoint" / "000003").mkdir(parents=True)
        (tmp_path / run.name / "episodes.jsonl").write_text(rows)
    engine = ScriptedEngine({0: [["finish"]]})
    assert play(engine, tmp_path) == ()
    assert engine.started == [0]


@pytest.mark.parametrize(
    ("table", "key"),
    [
        ("patience_minutes = 0", "patience_minutes"),
        ("resources = { cores = 0 }", "cores"),
        ("slurm = { particion = 'x' }", "engine.slurm.partition"),
        ("ray = { shared_disk = false }", "engine.ray.shared_disk"),
    ],
)
def test_a_studys_engine_table_is_checked(tmp_path: Path, table: str, key: str) -> None:
    path = tmp_path / "study.toml"
    study = "name='s'\ntitle='t'\nsummary=''\ntask='pendulum'\nmethods=['sombrl']\n"
    path.write_text(f"{study}seeds=[0]\n[engine]\nray = {{ address = 'auto' }}\n")
    assert read_study(path).engine == EngineConfig(Resources(), RayConfig("auto"))
    path.write_text(f"{study}seeds=[0]\n[engine]\n{table}\n")
    with pytest.raises(InputError, match=key):
        read_study(path)
