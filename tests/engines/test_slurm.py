"""The Slurm engine without Slurm: what it asks for, refuses and concludes."""

import contextlib
import json
import os
import sys
import types
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driftrl.config.engine import EngineConfig
from driftrl.config.run import RunConfig
from driftrl.config.toml import from_dict, to_dict
from driftrl.engines import local
from driftrl.engines import slurm as slurm_engine
from driftrl.engines.slurm import RunInJob, SlurmEngine, sbatch_parameters
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from driftrl.plugins import SEARCH_VARIABLE

RUN = configure("pendulum", "sombrl", {"episodes": 2})


def test_what_sbatch_is_asked_for() -> None:
    extra = {"qos": "long", "gpus-per-node": "a100:1", "nice": 5, "exclusive": True}
    site = {"partition": "p", "account": "a", "at_once": 7, "extra": extra}
    needs = {"cores": 3, "accelerators": 2, "memory_gb": 1.5, "minutes": 1}
    slurm = {**site, "setup": ["module load cuda", "set -e"]}
    config = from_dict(EngineConfig, {"resources": needs, "slurm": slurm})
    assert from_dict(EngineConfig, to_dict(config)) == config
    assert sbatch_parameters(config, "n") == {
        "job_name": "n",
        "time": 1,
        "cpus_per_task": 3,
        "mem": "1536M",
        "partition": "p",
        "account": "a",
        "gpus_per_node": 2,
        "signal_delay_s": 5,
        "array_parallelism": 7,
        "setup": ["module load cuda", "set -e"],
        "srun_args": ["--cpus-per-task=3"],
        # As submitit spells its own, so that a type of GPU replaces their number.
        "additional_parameters": {
            "requeue": True,
            "qos": "long",
            "gpus_per_node": "a100:1",
            "nice": 5,
            "exclusive": True,
        },
    }
    bare = sbatch_parameters(EngineConfig(), "n")
    assert bare["partition"] is bare["account"] is bare["gpus_per_node"] is None
    assert (bare["signal_delay_s"], bare["array_parallelism"]) == (60, 1000)


@pytest.mark.parametrize(
    ("table", "value"),
    [
        ({"at_once": -1}, "-1"),
        ({"extra": {"q os": "a"}}, "'q os'"),
        ({"extra": {"qos\ntouch": "a"}}, r"'qos\\ntouch'"),
        ({"extra": {"qos": "a\ntouch b"}}, r"'a\\ntouch b'"),
        ({"extra": {"qos": ["a"]}}, r"\['a'\]"),
        ({"extra": {"cpus_per_task": 2}}, "'cpus_per_task'"),
        ({"setup": ["a\nb"]}, r"'a\\nb'"),
    ],
)
def test_options_that_sbatch_can_not_have(table: dict[str, Any], value: str) -> None:
    with pytest.raises(InputError, match=value):
        from_dict(EngineConfig, {"slurm": table}, "engine")


def test_a_machine_without_slurm(monkeypatch: pytest.MonkeyPatch, slurm: Any) -> None:
    slurm.answer("squeue", "echo 'squeue: error: no controller' >&2; exit 1")
    with pytest.raises(InputError, match="answer: no controller."):
        SlurmEngine(EngineConfig())
    (slurm.path / "squeue").unlink()
    monkeypatch.setenv("PATH", str(slurm.path))
    with pytest.raises(InputError, match="squeue"):
        SlurmEngine(EngineConfig())
    monkeypatch.setattr(slurm_engine, "find_spec", lambda name: None)
    with pytest.raises(InputError, match=r"driftrl\[slurm\]"):
        SlurmEngine(EngineConfig())


def engine_with(
    slurm: Any, monkeypatch: pytest.MonkeyPatch, listed: str
) -> tuple[SlurmEngine, list[Any]]:
    """Return an engine with this queue, and a list of what it will submit."""
    slurm.answer("squeue", f"printf '{listed}'")
    submitted: list[Any] = []

    def submit(folder: Path, parameters: dict, calls: list) -> list[str]:
        submitted.append((parameters, calls))
        return [f"9_{index}" for index in range(len(calls))]

    monkeypatch.setattr(slurm_engine, "_submit_array", submit)
    return SlurmEngine(EngineConfig(), ("--option",)), submitted


def directories(tmp_path: Path, *runs: RunConfig) -> list[tuple[RunConfig, Path]]:
    for run in runs:
        (tmp_path / "out" / run.name).mkdir(parents=True)
    return [(run, tmp_path / "out" / run.name) for run in runs]


def test_running_jobs_are_found_and_only_the_others_submitted(
    slurm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = [replace(RUN, seed=seed) for seed in range(5)]
    pairs = directories(tmp_path, *runs)
    for number, (_, directory) in enumerate(pairs[:4]):
        slurm_engine._write_note(directory, f"7_{number}", "PENDING")
    # It has failed, which Slurm does not know yet.
    slurm_engine._write_note(pairs[3][1], "7_3", "FAILED", status=2)
    listed = "7_0 RUNNING\\n7_1 PENDING\\n7_2 TIMEOUT\\n7_3 COMPLETING\\n8_4 RUNNING\\n"
    monkeypatch.setattr(slurm_engine, "_ASK_SECONDS", 60.0)
    monkeypatch.setenv(SEARCH_VARIABLE, "/mine")
    engine, submitted = engine_with(slurm, monkeypatch, listed)
    jobs: Any = engine.start(pairs)
    assert [job.id for job in jobs] == ["7_0", "7_1", "9_0", "9_1", "9_2"]
    assert [job.is_running for job in jobs[:2]] == [True, False]
    assert jobs[2].ended() is None, "Slurm was not asked since it was submitted"
    ((_, calls),) = submitted
    for (run, place), call in zip(pairs[2:], calls, strict=True):
        assert call["directory"] == str(place)
        assert f"seed = {run.seed}\n" in call["config"]
        assert call["options"] == ("--option",)
        assert call["environment"][SEARCH_VARIABLE] == "/mine"
    noted = [json.loads((place / "job.json").read_bytes()) for _, place in pairs]
    assert [note["id"] for note in noted] == [job.id for job in jobs]


@pytest.mark.parametrize(
    ("state", "note", "episodes", "reason", "is_lost"),
    [
        ("RUNNING", {"status": 0}, 2, "", False),
        ("COMPLETING", {"status": 2}, 0, "the last line", False),
        ("FAILED", {"status": -9}, 1, "signal 9", True),
        ("OUT_OF_MEMORY", {"status": -9}, 1, "memory_gb = 2", False),
        ("CANCELLED", {"begun": True}, 1, "cancelled", False),
        ("TIMEOUT", {"begun": True}, 1, "timeout", True),
        ("NODE_FAIL", {"begun": True}, 2, "", False),
        ("FAILED", {"begun": True}, 1, "failed", True),
        ("FAILED", {}, 0, "no such module", False),
        ("", {"begun": True}, 1, "forgot", True),
        ("", {}, 2, "", False),
    ],
)
def test_how_jobs_end(
    slurm: Any,
    monkeypatch: pytest.MonkeyPatch,
    state: str,
    note: dict[str, Any],
    episodes: int,
    reason: str,
    is_lost: bool,
) -> None:
    ((run, directory),) = directories(slurm.path.parent, RUN)
    engine, _ = engine_with(slurm, monkeypatch, "")
    (job,) = engine.start([(run, directory)])
    slurm.answer("squeue", f"echo '9_0 {state}'" if state else "true")
    folder = directory.parent / ".slurm"
    folder.mkdir()
    slurm_engine._write_note(directory, "9_0", "RUNNING", **note)
    (folder / "9_0_0_log.err").write_text("error\nno such module\n")
    (directory / "log.txt").write_text("first\nthe last line\n")
    (directory / "checkpoint" / f"{episodes:06d}").mkdir(parents=True)
    ended = job.ended()
    assert ended is not None and ended.is_lost == is_lost
    assert reason in ended.reason and bool(ended.reason) == bool(reason)


class Job:
    """The inside of a job whose worker is a Python program."""

    def __init__(self, tmp_path: Path, patch: pytest.MonkeyPatch, program: str) -> None:
        self.directory = tmp_path / "out" / "run"
        self.directory.mkdir(parents=True)
        command = [sys.executable, "-c", program]
        patch.setattr(local, "worker_command", lambda *_: command)
        patch.setenv("SLURM_ARRAY_JOB_ID", "7")
        patch.setenv("SLURM_ARRAY_TASK_ID", "3")
        again = types.ModuleType("submitit.helpers")
        again.__dict__["DelayedSubmission"] = lambda *arguments: arguments
        patch.setitem(sys.modules, "submitit.helpers", again)
        self.call = {
            "directory": str(self.directory),
            "config": "config",
            "options": (),
            "environment": {"X": "1"},
        }

    def files(self) -> tuple[str, int | None, str]:
        """Return the log, the status, and the state that ``watch`` sees."""
        note = json.loads((self.directory / "job.json").read_bytes())
        log = (self.directory / "log.txt").read_text()
        return log, note.get("status"), note["state"]


@pytest.mark.parametrize(
    ("program", "log", "status"),
    [
        ("import os; print(input(), os.environ['X'])", "config 1\n", 0),
        ("raise SystemExit(2)", "", 2),
        ("import os; os.kill(os.getpid(), 9)", "", -9),
    ],
)
def test_what_a_job_reports(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, program: str, log: str, status: int
) -> None:
    job = Job(tmp_path, monkeypatch, program)
    with pytest.raises(SystemExit) if status else contextlib.nullcontext():
        RunInJob()(job.call)
    assert job.files() == (log, status, "FAILED" if status else "COMPLETED")


def test_time_limits_without_an_episode_end_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = Job(tmp_path, monkeypatch, "")
    run = RunInJob()
    run(job.call)
    assert run.checkpoint(job.call)[1:] == (job.call, 1)
    assert run.checkpoint(job.call, 1)[-1] == 2 and job.files()[2] == "PENDING"
    os.makedirs(job.directory / "checkpoint" / "000004")
    assert run.checkpoint(job.call, 2)[-1] == 0
    run(job.call)
    assert run.checkpoint(job.call, 2) is None
    log, status, state = job.files()
    assert "engine.resources.minutes" in log and (status, state) == (1, "FAILED")
