"""The Slurm engine without Slurm: what it asks for, refuses and concludes."""

import json
import re
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driftrl.config.engine import EngineConfig, Resources, SlurmConfig
from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict, to_dict
from driftrl.engines import on_slurm, slurm_queue
from driftrl.engines.on_slurm import SlurmEngine, sbatch_parameters
from driftrl.engines.slurm_job import OneRun
from driftrl.envs.tasks import configure
from driftrl.errors import InputError

RUN = configure("pendulum", "sombrl", {"episodes": 2})


def test_what_sbatch_is_asked_for() -> None:
    asked = EngineConfig(
        Resources(cores=3, accelerators=2, memory_gb=1.5, minutes=1),
        slurm=SlurmConfig(partition="p", account="a"),
    )
    assert sbatch_parameters(asked, 1, "n") == {
        "job_name": "n",
        "time": 1,
        "cpus_per_task": 3,
        "mem": "1536M",
        "partition": "p",
        "account": "a",
        "gpus_per_node": 2,
        "signal_delay_s": 5,
        "array_parallelism": 1000,
        "srun_args": ["--cpus-per-task=3"],
        "additional_parameters": {"requeue": True},
    }
    bare = sbatch_parameters(EngineConfig(), None, "n")
    assert bare.keys().isdisjoint({"partition", "account", "gpus_per_node", "setup"})
    assert (bare["time"], bare["signal_delay_s"]) == (525_600, 60)


def test_what_a_site_needs_besides() -> None:
    extra = {"qos": "long", "gpus-per-node": "a100:1", "nice": 5, "exclusive": True}
    table = {"at_once": 7, "extra": extra, "setup": ["module load cuda", "set -e"]}
    asked = from_dict(EngineConfig, {"slurm": table})
    assert from_dict(EngineConfig, to_dict(asked)) == asked
    parameters = sbatch_parameters(asked, 1, "n")
    assert parameters["array_parallelism"] == 7
    assert parameters["setup"] == ["module load cuda", "set -e"]
    # As submitit spells its own, so that a type of accelerator replaces their number.
    assert parameters["additional_parameters"] == {
        "requeue": True,
        "qos": "long",
        "gpus_per_node": "a100:1",
        "nice": 5,
        "exclusive": True,
    }


@pytest.mark.parametrize(
    ("table", "sentence"),
    [
        ({"at_once": -1}, "engine.slurm.at_once must be a number of at least 0"),
        ({"extra": {"q os": "a"}}, "has the key 'q os'. Keys are the long names"),
        ({"extra": {"qos\ntouch": "a"}}, r"has the key 'qos\\ntouch'"),
        ({"extra": {"--qos": "a"}}, "has the key '--qos'"),
        ({"extra": {"": "a"}}, "has the key ''"),
        ({"extra": {"qos": "a\ntouch b"}}, r"extra.qos must be .* received 'a\\nto"),
        ({"extra": {"qos": "a\rb"}}, "extra.qos must be a number, true, or a text of"),
        ({"extra": {"qos": ""}}, "extra.qos must be .* received ''"),
        ({"extra": {"qos": False}}, "extra.qos must be .* received False"),
        ({"extra": {"qos": ["a"]}}, r"extra.qos must be .* received \['a'\]"),
        ({"extra": {"mem": "2G"}}, "can't set 'mem'; engine.resources.memory_gb does"),
        ({"extra": {"cpus_per_task": 2}}, "'cpus_per_task'; engine.resources.cores"),
        ({"extra": {"array": "0-9%2"}}, "can't set 'array'; engine.slurm.at_once does"),
        ({"extra": {"Open_Mode": "a"}}, "'Open_Mode': how driftrl follows its jobs"),
        ({"setup": ["a", " "]}, "setup must be lines of shell, one a text; .*' '"),
        ({"setup": ["a\nb"]}, "setup must be lines of shell"),
        ({"setup": "a"}, "engine.slurm.setup must be a list"),
        ({"setup": [1]}, "engine.slurm.setup must be a text, received 1"),
    ],
)
def test_what_is_no_option_of_sbatch(table: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        from_dict(EngineConfig, {"slurm": table}, "engine")


def test_a_machine_without_slurm(monkeypatch: pytest.MonkeyPatch, slurm: Any) -> None:
    (slurm.place / "sbatch").unlink()
    monkeypatch.setenv("PATH", str(slurm.place))
    with pytest.raises(InputError, match="This machine has no sbatch. Studies go to"):
        SlurmEngine(EngineConfig())


def test_slurm_without_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(on_slurm, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"pip install 'driftrl\[slurm\]'"):
        SlurmEngine(EngineConfig())


def test_a_cluster_that_does_not_answer(slurm: Any) -> None:
    slurm.answer("sinfo", "echo 'sinfo: error: no controller' >&2; exit 1")
    with pytest.raises(InputError, match="Slurm does not answer: no controller."):
        SlurmEngine(EngineConfig())


def engine_with(
    slurm: Any, monkeypatch: pytest.MonkeyPatch, listed: str
) -> tuple[SlurmEngine, list[Any]]:
    """Return an engine whose queue is as said, and what it will have submitted."""
    slurm.answer("squeue", f"printf '{listed}'")
    submitted: list[Any] = []

    def submit(folder: Path, parameters: dict, tasks: tuple) -> list[str]:
        submitted.append((parameters, tasks))
        return [f"9_{index}" for index in range(len(tasks[0]))]

    monkeypatch.setattr(on_slurm, "_submitted", submit)
    return SlurmEngine(EngineConfig(), ("--option",)), submitted


def directories(tmp_path: Path, *runs: RunConfig) -> list[tuple[RunConfig, Path]]:
    for run in runs:
        (tmp_path / "out" / run.name).mkdir(parents=True)
    return [(run, tmp_path / "out" / run.name) for run in runs]


def test_jobs_under_way_are_found_and_only_the_others_submitted(
    slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [replace(RUN, seed=seed) for seed in range(5)]
    pairs = directories(tmp_path, *runs)
    folder = tmp_path / "out" / ".slurm"
    folder.mkdir()
    names = [run.name for run in runs[:4]]
    (folder / "driftrl-out-a.json").write_text(json.dumps(names))
    (folder / "7_3.status").write_text("2")  # has failed, Slurm will know in a moment
    listed = (
        "7_0 RUNNING driftrl-out-a\\n7_1 PENDING driftrl-out-a\\n"
        "7_2 TIMEOUT driftrl-out-a\\n7_3 COMPLETING driftrl-out-a\\n"
        "8_4 RUNNING driftrl-other-b\\n"
    )
    monkeypatch.setattr(slurm_queue, "_ASK_SECONDS", 60.0)
    engine, submitted = engine_with(slurm, monkeypatch, listed)
    jobs: Any = engine.start(pairs)
    assert [job.id for job in jobs] == ["7_0", "7_1", "9_0", "9_1", "9_2"]
    assert [job.is_running for job in jobs[:2]] == [True, False]
    assert jobs[2].ended() is None, "Slurm was not asked since it was submitted"
    ((parameters, tasks),) = submitted
    commands, configs, logs, folders = tasks
    assert commands[0][-2:] == [str(pairs[2][1]), "--option"]
    assert [f"seed = {seed}\n" in configs[i] for i, seed in enumerate((2, 3, 4))] == [
        True
    ] * 3
    assert logs[0] == str(pairs[2][1] / "log.txt") and set(folders) == {str(folder)}
    named = folder / f"{parameters['job_name']}.json"
    assert json.loads(named.read_bytes()) == [run.name for run in runs[2:]]


def test_those_who_leave_are_told_how_to_cancel(
    slurm: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pairs = directories(tmp_path, *(replace(RUN, seed=seed) for seed in range(3)))
    engine, _ = engine_with(slurm, monkeypatch, "")
    with engine:
        jobs = engine.start(pairs)
        engine.leave([])
        engine.leave(jobs)
    told = "3 jobs left to Slurm; to cancel: scancel '9_[0-2]'\n"
    assert capsys.readouterr().out == told
    jobs[1].stop()
    assert slurm.calls("scancel") == ["9_1"]
    assert json.loads((pairs[1][1] / "job.json").read_bytes()) == {
        "engine": "slurm",
        "id": "9_1",
        "state": "CANCELLED",
    }


@pytest.mark.parametrize(
    ("state", "status", "episodes", "sentence", "is_lost"),
    [
        ("RUNNING", "0", 2, None, False),
        ("COMPLETING", "2", 0, "the last words", False),
        ("FAILED", "-9", 1, "Killed by signal 9.", True),
        ("OUT_OF_MEMORY", "-9", 1, "more memory than the 2 GB of engine.res", False),
        ("OUT_OF_MEMORY", "begun", 1, "more memory than the 2 GB", False),
        ("CANCELLED", "begun", 1, "Job 9_0 was cancelled in Slurm.", False),
        ("CANCELLED", "", 0, "Job 9_0 was cancelled in Slurm.", False),
        ("TIMEOUT", "begun", 1, "took job 9_0 away \\(TIMEOUT\\)", True),
        ("NODE_FAIL", "begun", 1, "took job 9_0 away \\(NODE_FAIL\\)", True),
        ("NODE_FAIL", "begun", 2, None, False),
        ("PREEMPTED", "", 0, "took job 9_0 away \\(PREEMPTED\\)", True),
        ("FAILED", "begun", 1, "took job 9_0 away \\(FAILED\\)", True),
        ("FAILED", "", 0, "Job 9_0 could not start: no such module", False),
        ("", "begun", 1, "took job 9_0 away \\(and forgot it\\)", True),
        ("", "", 2, None, False),
    ],
)
def test_how_jobs_end(
    slurm: Any,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    status: str,
    episodes: int,
    sentence: str | None,
    is_lost: bool,
) -> None:
    ((run, directory),) = directories(slurm.place.parent, RUN)
    engine, _ = engine_with(slurm, monkeypatch, "")
    (job,) = engine.start([(run, directory)])
    slurm.answer("squeue", f"echo '9_0 {state} n'" if state else "true")
    folder = slurm.place.parent / "out" / ".slurm"
    if status:
        (folder / "9_0.status").write_text(status)
    (folder / "9_0_0_log.err").write_text("error\nno such module\n")
    (directory / "log.txt").write_text("first\nthe last words\n")
    (directory / "checkpoint" / f"{episodes:06d}").mkdir(parents=True)
    ended = job.ended()
    assert ended is not None and ended.is_lost == is_lost
    if sentence is None:
        assert ended.failure is None
    else:
        assert ended.failure is not None and ended.failure.log.name == "log.txt"
        assert re.search(sentence, ended.failure.reason)


@pytest.mark.parametrize(
    ("state", "status"), [("PENDING", ""), ("RUNNING", "begun"), ("RUNNING", "-9")]
)
def test_jobs_that_go_on_are_noted(
    slurm: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    status: str,
) -> None:
    ((run, directory),) = directories(tmp_path, RUN)
    engine, _ = engine_with(slurm, monkeypatch, "")
    (job,) = engine.start([(run, directory)])
    slurm.answer("squeue", f"echo '9_0 {state} n'")
    if status:
        (tmp_path / "out" / ".slurm" / "9_0.status").write_text(status)
    assert job.ended() is None
    noted = json.loads((directory / "job.json").read_bytes())
    assert noted["state"] == ("FAILED" if status == "-9" else state)


def test_sbatch_that_refuses(
    slurm: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    class Refused(RuntimeError):
        pass

    class Executor:
        def __init__(self, folder: Path, max_num_timeout: int) -> None:
            pass

        def update_parameters(self, **parameters: Any) -> None:
            assert parameters["time"] == 10

        def map_array(self, task: OneRun, *arguments: list[Any]) -> None:
            print("sbatch: error: printed as well", file=sys.stderr)
            raise Refused("sbatch: error: Invalid account\n")

    errors = types.ModuleType("submitit.core.utils")
    errors.__dict__.update(FailedJobError=Refused, FailedSubmissionError=Refused)
    monkeypatch.setitem(sys.modules, "submitit.core", types.ModuleType("core"))
    monkeypatch.setitem(sys.modules, "submitit.core.utils", errors)
    sys.modules["submitit"].__dict__["SlurmExecutor"] = Executor
    with pytest.raises(InputError, match="^Slurm refuses the jobs: Invalid account.$"):
        SlurmEngine(EngineConfig()).start(directories(tmp_path, RUN))
    assert capsys.readouterr().err == ""
