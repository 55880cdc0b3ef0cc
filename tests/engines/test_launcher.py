"""What every engine can rely on: restarts, hanging runs, failures, shutdown."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from driftrl.config.run import RunConfig
from driftrl.engines import launcher
from driftrl.engines.launcher import Ended, Failures, Job, run_all

RUNS = [RunConfig("pendulum", "sombrl", seed=seed, episodes=3) for seed in (0, 1)]
DONE = ["episode", "episode", "episode", "finish"]


@dataclass
class Script:
    """A job that does one thing each time it is polled."""

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
        return Ended("" if act == "finish" else act, is_lost=act == "lost")

    def stop(self) -> None:
        self.stopped = True


@dataclass
class ScriptedEngine:
    """Plays a script for each start of each seed."""

    scripts: dict[int, list[list[str]]]
    max_jobs: int = 10
    started: list[int] = field(default_factory=list)
    jobs: list[Script] = field(default_factory=list)
    left: list[Job] = field(default_factory=list)
    closed: bool = False

    def start(self, runs: Sequence[tuple[RunConfig, Path]]) -> Sequence[Job]:
        self.started += [config.seed for config, _ in runs]
        jobs = [
            Script(directory, self.scripts[config.seed].pop(0))
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
    on_poll: Callable[[Failures], None] = lambda _: None,
) -> Failures:
    return run_all(RUNS, out, engine, patience_minutes=patience, on_poll=on_poll)


def test_a_failed_run_is_reported_and_the_other_goes_on(tmp_path: Path) -> None:
    engine = ScriptedEngine({0: [[*DONE]], 1: [["episode", "broken"]]})
    counts: list[int] = []
    failures = play(engine, tmp_path, on_poll=lambda f: counts.append(len(f)))
    assert counts == [0, 1, 1, 1]
    assert failures == {RUNS[1].name: "broken"}
    assert (tmp_path / RUNS[1].name / "log.txt").read_text() == "broken\n"
    assert engine.closed and not engine.left


@pytest.mark.parametrize(
    ("script", "starts", "fails"),
    [
        ([["episode", "lost"], ["episode", "lost"], ["finish"]], 3, False),
        ([["lost"]] * 9, 4, True),
    ],
)
def test_lost_jobs_are_restarted_while_they_make_progress(
    tmp_path: Path, script: list[list[str]], starts: int, fails: bool
) -> None:
    engine = ScriptedEngine({0: [list(acts) for acts in script], 1: [[*DONE]]})
    failures = play(engine, tmp_path)
    assert [*failures.values()] == ["lost"] * fails
    assert engine.started.count(0) == starts


def test_a_hanging_job_is_stopped_and_a_queued_one_is_not(tmp_path: Path) -> None:
    hanging = ["episode", *["wait"] * 50]
    queued = [*["queue"] * 30, *["wait"] * 4, *DONE]
    engine = ScriptedEngine({0: [hanging], 1: [queued]})
    ((name, reason),) = play(engine, tmp_path, patience=5.0).items()
    assert name == RUNS[0].name and "5 min" in reason
    assert [job.stopped for job in engine.jobs] == [True, False]
    # The episode at one minute, five minutes of patience, and one minute too many.
    assert len(hanging) == 51 - 7


def test_an_interrupt_hands_running_jobs_to_the_engine(tmp_path: Path) -> None:
    engine = ScriptedEngine({0: [["wait"] * 9], 1: [["finish"]]})

    def interrupt(failures: Failures) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        play(engine, tmp_path, on_poll=interrupt)
    assert engine.left == [engine.jobs[0]] and engine.closed


def test_a_finished_run_whose_last_row_is_torn_is_resumed(tmp_path: Path) -> None:
    for run, rows in zip(RUNS, ("{}\n{}\n{}", "{}\n{}\n{}\n"), strict=True):
        (tmp_path / run.name / "checkpoint" / "000003").mkdir(parents=True)
        (tmp_path / run.name / "episodes.jsonl").write_text(rows)
    engine = ScriptedEngine({0: [["finish"]]})
    assert play(engine, tmp_path) == {}
    assert engine.started == [0]


def test_published_records_without_checkpoints_count_as_finished(
    tmp_path: Path,
) -> None:
    for run, rows in zip(RUNS, ("{}\n{}\n{}\n", "{}\n{}\n"), strict=True):
        (tmp_path / run.name).mkdir()
        (tmp_path / run.name / "episodes.jsonl").write_text(rows)
    engine = ScriptedEngine({1: [["finish"]]})
    assert play(engine, tmp_path) == {}
    assert engine.started == [1]
