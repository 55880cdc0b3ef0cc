"""The engine that runs the seeds of a configuration in one process."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from driftrl.cli import study
from driftrl.config import RunConfig
from driftrl.engines import seam, together
from driftrl.engines.seam import Ended, Engine, Job, run_all
from driftrl.engines.together import GroupJob, TogetherEngine, together_engine
from driftrl.engines.together_worker import verdict
from driftrl.envs.tasks import configure
from driftrl.errors import CorruptFile, InputError

# Stands in for the worker: notes what it was given, then does what its script says.
STAND_IN = """
import os, pathlib, sys, time
report, *places = sys.argv[1:]
texts = sys.stdin.read().split(chr(0))
seeds = [line for text in texts for line in text.splitlines() if "seed" in line]
pathlib.Path(places[0], "given").write_text(" ".join(places) + "|" + "; ".join(seeds))
def tell(number, status):
    os.write(int(report), f"{number} {status}\\n".encode())
def say(number, words):
    with open(os.path.join(places[number], "log.txt"), "a") as log:
        print(words, file=log)
def wait(name):
    while not os.path.exists(os.path.join(os.path.dirname(places[0]), name)):
        time.sleep(0.01)
"""

Play = Callable[[str], TogetherEngine]


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Iterator[Play]:
    """Return the engine with one worker, which plays a script."""
    engine = TogetherEngine(1)

    def prepared(script: str) -> TogetherEngine:
        def command(directories: Sequence[Path], report: int) -> list[str]:
            words = [str(report), *map(str, directories)]
            return [sys.executable, "-c", STAND_IN + script, *words]

        monkeypatch.setattr(together, "worker_command", command)
        return engine

    with engine:
        yield prepared


def runs(out: Path, method: str, *seeds: int) -> list[tuple[RunConfig, Path]]:
    found = []
    for seed in seeds:
        config = RunConfig("pendulum", method, seed=seed, episodes=3)
        (out / config.name).mkdir(exist_ok=True)
        found.append((config, out / config.name))
    return found


def end_of(job: Job) -> Ended:
    return ended_within(lambda: job.ended())


def ended_within(ask: Callable[[], Any], seconds: float = 60.0) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if (found := ask()) is not None:
            return found
        time.sleep(0.01)
    raise AssertionError("it did not end")


def test_it_is_an_engine() -> None:
    assert isinstance(TogetherEngine(1), Engine)


def test_a_process_gets_the_seeds_of_one_kind_and_groups_take_turns(
    tmp_path: Path, play: Play
) -> None:
    engine = play("wait('go')\nfor number in range(len(places)): tell(number, 0)")
    (first, *_) = one = runs(tmp_path, "sombrl", 0, 1)
    (second, *_) = other = runs(tmp_path, "sw-ombrl", 0, 1)
    # As a study hands them in: seed by seed.
    jobs = engine.start([one[0], other[0], one[1], other[1]])
    assert [job.is_running for job in jobs] == [False] * 4
    assert [job.ended() for job in jobs] == [None] * 4
    assert [job.is_running for job in jobs] == [True, False, True, False]
    (tmp_path / "go").touch()
    assert [end_of(job) for job in (jobs[0], jobs[2])] == [Ended(), Ended()]
    assert [end_of(job) for job in (jobs[1], jobs[3])] == [Ended(), Ended()]
    for group, place in ((one, first[1]), (other, second[1])):
        given, told = (place / "given").read_text().split("|")
        assert given == " ".join(str(directory) for _, directory in group)
        assert told == "seed = 0; seed = 1"


def test_each_run_of_a_process_ends_by_itself(tmp_path: Path, play: Play) -> None:
    engine = play("say(1, 'It is broken.'); tell(1, 2); wait('go'); tell(0, 0)")
    fine, broken = engine.start(runs(tmp_path, "sombrl", 0, 1))
    fine.ended()
    failure = end_of(broken).failure
    assert failure is not None and (failure.status, failure.reason) == (
        2,
        "It is broken.",
    )
    assert failure.log == tmp_path / "pendulum-sombrl-s1" / "log.txt"
    assert fine.ended() is None and fine.is_running
    (tmp_path / "go").touch()
    assert end_of(fine) == Ended()


@pytest.mark.parametrize(
    ("script", "status", "reason"),
    [
        ("os.kill(os.getpid(), 9)", -9, "Killed by signal 9."),
        ("print('No memory.'); sys.exit(3)", 3, "No memory."),
        ("print('It forgot to tell.')", 1, "It forgot to tell."),
    ],
)
def test_of_what_nobody_has_told_the_process_tells(
    tmp_path: Path, play: Play, script: str, status: int, reason: str
) -> None:
    jobs = play(f"tell(0, 0); {script}").start(runs(tmp_path, "sombrl", 0, 1))
    jobs[0].ended()
    ended = end_of(jobs[1])
    assert ended.failure is not None and not ended.is_lost
    assert (ended.failure.status, ended.failure.reason) == (status, reason)
    assert ended.failure.log == tmp_path / "pendulum-sombrl-s1" / "log.txt"
    assert end_of(jobs[0]) == Ended()


def test_a_run_that_hangs_is_stopped_and_the_others_begin_again_without_it(
    tmp_path: Path, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process hangs; the second one, of two runs, ends well."""
    engine = play(
        "if len(places) == 3: time.sleep(600)\n"
        "for number in range(len(places)): tell(number, 0)"
    )
    configs = [config for config, _ in runs(tmp_path, "sombrl", 0, 1, 2)]
    groups: list[int] = []
    launch = together.Group.launch

    def counted(group: together.Group) -> None:
        groups.append(len(group.members))
        launch(group)

    monkeypatch.setattr(together.Group, "launch", counted)
    monkeypatch.setattr(seam, "_POLL_SECONDS", 0.05)
    (failure,) = run_all(
        configs, tmp_path, engine, patience_minutes=1 / 60, on_status=lambda _: None
    )
    assert failure.name == configs[0].name and "No episode ended" in failure.reason
    assert groups == [3, 2]


def test_leaving_kills_what_runs_and_starts_no_more(tmp_path: Path, play: Play) -> None:
    engine = play("time.sleep(600)")
    jobs = [
        *engine.start(runs(tmp_path, "sombrl", 0, 1)),
        *engine.start(runs(tmp_path, "sw-ombrl", 0)),
    ]
    assert [job.ended() for job in jobs] == [None] * 3
    first = jobs[0]
    assert isinstance(first, GroupJob) and first.is_running
    engine.leave(jobs)
    assert not any(job.is_running for job in jobs)
    lost = jobs[1].ended()
    assert lost is not None and lost.is_lost and lost.failure is not None
    assert lost.failure.reason == (
        "It shared a program with pendulum-sombrl-s0, which was stopped."
    )
    assert jobs[2].ended() is None and not jobs[2].is_running


def test_runs_that_can_not_share_are_refused_before_anything_begins() -> None:
    fine = configure("pendulum-decay", "sombrl", {})
    wrong = configure("pendulum", "sombrl", {})
    assert isinstance(together_engine([fine], 2), TogetherEngine)
    with pytest.raises(InputError, match="pendulum-sombrl-s0 can't share a program"):
        together_engine([fine, wrong], 2)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("pendulum_decay_rates --on ray", "goes with --on local alone"),
        ("pendulum_decay_rates --track tensorboard", "and not with --track"),
        ("pendulum_decay_rates --preset paper", "sombrl-a=0.025-s0 can't .* 'step'"),
        ("calibration_under_drift", "knows neither --preset nor --together"),
    ],
)
def test_the_command_refuses_what_does_not_go_together(
    words: str, sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        study.main([*words.split(), "--together"])


def test_the_command_hands_a_study_to_the_engine(
    tmp_path: Path, play: Play, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = play("for number in range(len(places)): tell(number, 0)")
    monkeypatch.setattr(study, "together_engine", lambda runs, workers: engine)
    path = tmp_path / "small.toml"
    path.write_text(
        "name = 's'\ntitle = 't'\nsummary = ''\ntask = 'pendulum-decay'\n"
        "methods = ['sombrl', 'sw-ombrl']\nseeds = [0, 1, 2]\n"
    )
    assert study.main([str(path), "--together", "--out", str(tmp_path)]) == 0
    assert [len(group.members) for group in engine._groups] == [3, 3]


def test_a_worker_ends_with_whoever_started_it() -> None:
    script = "from driftrl.training.process import end_with; import time; end_with(-1)"
    done = subprocess.run(
        [sys.executable, "-c", f"{script}; time.sleep(60)"], check=False, timeout=50
    )
    assert done.returncode == 1


def test_what_a_worker_says_of_an_error() -> None:
    assert verdict(InputError("No such task.")) == (2, "No such task.")
    assert verdict(CorruptFile("Torn.")) == (1, "Torn.")
    assert verdict(OSError("disk full")) == (1, "OSError: disk full")
    status, words = verdict(ZeroDivisionError("by zero"))
    assert status == 1 and words.endswith("ZeroDivisionError: by zero")


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_study_in_one_process_finishes_and_is_resumed(tmp_path: Path) -> None:
    """With the real worker; one run is refused, and the process is killed once."""
    settings: dict[str, Any] = {
        "episodes": 6,
        "environment": {"steps": 10},
        "forgetting": {"kind": "window", "window": 2},
        "agent": {
            "sac": {"hidden": [8], "batch": 8, "critic": "plain"},
            "learning": {"policy_updates": 1, "least_transitions": 8},
        },
    }
    three = [
        configure("pendulum-decay", "sac", {**settings, "seed": seed})
        for seed in (0, 1, 2)
    ]
    wrong = tmp_path / three[0].name
    wrong.mkdir()
    (wrong / "config.toml").write_text('task = "other"\nmethod = "sombrl"\n')
    engine = together_engine(three, 1)
    killed = False

    def kill_once(status: seam.Status) -> None:
        nonlocal killed
        process = engine._groups[0].process
        if status.episodes_done >= 4 and not killed and process is not None:
            killed = True
            os.kill(process.pid, signal.SIGKILL)

    failures = run_all(three, tmp_path, engine, on_status=kill_once)
    assert killed and len(failures) == 3
    by_name = {failure.name: failure.reason for failure in failures}
    assert "holds a different run" in by_name[three[0].name]
    assert by_name[three[1].name] == "Killed by signal 9."
    (refused,) = run_all(
        three, tmp_path, together_engine(three, 1), on_status=lambda _: None
    )
    assert refused.name == three[0].name and refused.status == 2
    assert [seam.episodes_done(tmp_path / run.name) for run in three] == [0, 6, 6]
