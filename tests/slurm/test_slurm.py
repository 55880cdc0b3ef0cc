"""The Slurm engine on a real Slurm: ended jobs go on, and no episode runs twice."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from driftrl.config.engine import EngineConfig, Resources, SlurmConfig
from driftrl.config.run import RunConfig
from driftrl.config.toml import toml_text
from driftrl.engines.launcher import episodes_done, run_all
from driftrl.engines.slurm import SlurmEngine
from driftrl.envs.tasks import configure
from driftrl.errors import InputError
from factories import TINY, rows_of, worker_of, write_hostile_files

pytestmark = [pytest.mark.slurm, pytest.mark.timeout(1200)]

EPISODES = 24  # so many that a job is still running when another comes for its place
SETTINGS: dict[str, Any] = {
    "episodes": EPISODES,
    "environment": TINY["environment"],
    "drift": TINY["drift"],
    "agent": TINY["agent"],
}
STUDY: dict[str, Any] = {
    "name": "s",
    "title": "t",
    "summary": "u",
    "task": "pendulum",
    "methods": ["sombrl", "r-ombrl", "sw-ombrl"],
    "seeds": [0, 1],
    "settings": {**SETTINGS, "forget_after": 3},
    "engine": {
        "resources": {"memory_gb": 1.5, "minutes": 10},
        "slurm": {"partition": "low"},
    },
}
CONFIG = EngineConfig(
    resources=Resources(memory_gb=1.5), slurm=SlurmConfig(partition="low")
)


def shell(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def wait_until(is_true: Callable[[], bool], seconds: float = 180) -> None:
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.2)


def jobs_of(study: str) -> dict[str, int]:
    """Return how often each job of a study was queued again, by its id."""
    text = shell("scontrol", "--oneliner", "show", "job")
    found = {}
    for line in text.splitlines():
        fields = dict(re.findall(r"(\w+)=(\S*)", line))
        if fields.get("JobName", "") == f"driftrl-{study}":
            array = f"{fields.get('ArrayJobId')}_{fields.get('ArrayTaskId')}"
            job = array if "ArrayJobId" in fields else fields["JobId"]
            found[job] = int(fields["Restarts"])
    return found


def running(out: Path) -> list[Path]:
    """Return the directories of the runs whose jobs have a place."""
    listed = shell("squeue", "--noheader", "--array", "-t", "R", "-o", "%i").split()
    noted = {
        json.loads(path.read_bytes())["id"]: path.parent
        for path in out.glob("*/job.json")
    }
    return [noted[job] for job in listed if job in noted]


def preempt(places: int = 1) -> None:
    """Have an urgent job take places, and wait for its end."""
    asked = ["--partition", "high", "--cpus-per-task", str(places), "--mem", "1M"]
    shell("sbatch", "--wait", *asked, "--output", "/dev/null", "--wrap", "sleep 1")


def stamps(out: Path) -> dict[Path, int]:
    """Return when each episode was written that counts already."""
    return {
        path: path.stat().st_mtime_ns
        for path in out.glob("*/memory/*.npz")
        if int(path.stem) <= episodes_done(path.parents[1])
    }


def driver(study: Path, out: Path, *options: str) -> "subprocess.Popen[bytes]":
    program = "import sys; from driftrl.cli.main import main; sys.exit(main())"
    command = [sys.executable, "-P", "-c", program, "study", str(study)]
    return subprocess.Popen([*command, "--out", str(out), *options])


def tiny(**changes: Any) -> RunConfig:
    return configure("pendulum", "sw-ombrl", {**SETTINGS, **changes})


@pytest.mark.kill
def test_a_study_with_preempted_jobs_and_a_killed_driver_equals_a_local_one(
    cluster: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_hostile_files(tmp_path)
    study, plain, slurm = (tmp_path / name for name in ("s.toml", "plain", "slurm"))
    study.write_text(toml_text(STUDY))
    assert driver(study, plain, "--workers", "2").wait() == 0
    first = driver(study, slurm, "--on", "slurm")
    try:
        wait_until(lambda: first.poll() is not None or _in_the_middle(slurm) != [], 400)
        assert first.poll() is None
    finally:
        first.kill()
        first.wait()
    disturbed, before = _in_the_middle(slurm)[0], stamps(slurm)
    preempt(places=2)
    assert driver(study, slurm, "--on", "slurm").wait() == 0

    jobs = jobs_of("slurm")
    assert len(jobs) == 6, "the second driver submitted none"
    assert set(jobs.values()) == {0, 1}
    assert jobs[json.loads((disturbed / "job.json").read_bytes())["id"]] == 1
    kept = [path for path in before if disturbed in path.parents]
    assert 2 <= len(kept) < EPISODES, "it was taken away in the middle"
    after = stamps(slurm)
    assert {path: after[path] for path in before} == before
    names = sorted(path.parent.name for path in plain.glob("*/episodes.jsonl"))
    assert len(names) == 6
    for name in names:
        assert rows_of(slurm / name) == rows_of(plain / name)
        assert len(rows_of(slurm / name)) == EPISODES
        noted = json.loads((slurm / name / "job.json").read_bytes())
        assert noted["engine"] == "slurm" and noted["state"] == "COMPLETED"
    assert list(tmp_path.glob("*.executed")) == []


def _in_the_middle(out: Path) -> list[Path]:
    return [place for place in running(out) if 2 <= episodes_done(place) < EPISODES / 3]


def test_further_options_and_setup_lines_reach_slurm(
    cluster: Path, tmp_path: Path
) -> None:
    out, prepared = tmp_path / "site", tmp_path / "prepared"
    slurm = SlurmConfig(
        partition="low",
        at_once=1,
        extra={"nice": 7, "comment": "its # $(touch it); touch it", "hold": True},
        setup=("X='before the run'", f"echo $X >> {prepared}"),
    )
    engine, shown = SlurmEngine(replace(CONFIG, slurm=slurm)), list[dict[str, str]]()

    def look(failures: object) -> None:
        if not shown:
            job = next(iter(jobs_of("site"))).partition("_")[0]
            text = shell("scontrol", "--oneliner", "show", "job", job)
            shown.append(dict(re.findall(r"(\w+)=(\S*)", text)))
            shell("scontrol", "release", job)

    runs = [tiny(seed=seed, episodes=1) for seed in range(2)]
    assert run_all(runs, out, engine, on_poll=look) == {}
    job = shown[0]
    assert (job["Nice"], job["ArrayTaskThrottle"]) == ("7", "1")
    assert job["Priority"] == "0", "it is held"
    assert job["Comment"] == "its"  # as far as a blank
    assert not list(tmp_path.rglob("it")) and not Path("it").exists()
    assert prepared.read_text() == "before the run\n" * 2


@pytest.mark.kill
def test_what_fails_what_is_lost_and_what_is_cancelled(
    cluster: Path, tmp_path: Path
) -> None:
    other, killed, cancelled = (tiny(seed=seed) for seed in range(3))
    (tmp_path / other.name).mkdir()
    (tmp_path / other.name / "config.toml").write_text(
        'task = "other"\nmethod = "sombrl"\n'
    )
    done: list[str] = []

    def disturb(failures: object) -> None:
        if "killed" not in done and episodes_done(tmp_path / killed.name):
            process = worker_of(tmp_path / killed.name)
            assert process is not None
            os.kill(process, signal.SIGKILL)
            done.append("killed")
        if "cancelled" not in done and episodes_done(tmp_path / cancelled.name):
            noted = (tmp_path / cancelled.name / "job.json").read_bytes()
            shell("scancel", json.loads(noted)["id"])
            done.append("cancelled")

    runs = [other, killed, cancelled]
    failures = run_all(runs, tmp_path, SlurmEngine(CONFIG), on_poll=disturb)
    assert sorted(done) == ["cancelled", "killed"]
    assert failures.keys() == {other.name, cancelled.name}
    assert "sombrl" in failures[other.name]
    assert "cancelled" in failures[cancelled.name]
    assert episodes_done(tmp_path / killed.name) == EPISODES
    # A second call takes on what can be finished, and only that.
    failures = run_all(runs, tmp_path, SlurmEngine(CONFIG))
    assert failures.keys() == {other.name}
    assert episodes_done(tmp_path / cancelled.name) == EPISODES


def test_a_job_preempted_with_a_time_of_grace_queues_again_by_itself(
    cluster: Path, tmp_path: Path
) -> None:
    out = tmp_path / "grace"
    engine = SlurmEngine(replace(CONFIG, slurm=SlurmConfig(partition="graceful")))
    before: dict[Path, int] = {}

    def disturb(failures: object) -> None:
        if not before and running(out) and episodes_done(out / tiny().name) >= 2:
            before.update(stamps(out))
            preempt(places=2)

    assert run_all([tiny()], out, engine, on_poll=disturb) == {}
    assert list(jobs_of("grace").values()) == [1]
    after = stamps(out)
    assert before and {path: after[path] for path in before} == before


def test_a_time_limit_queues_again_and_ctrl_c_leaves_the_job(
    cluster: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = tiny(episodes=100_000), tmp_path / "limit"
    states: set[str] = set()
    reached: list[int] = []
    before: dict[Path, int] = {}

    def look(failures: object) -> None:
        if (out / run.name / "job.json").exists():
            states.add(json.loads((out / run.name / "job.json").read_bytes())["state"])
        if list(jobs_of("limit").values()) == [1] and not reached:
            reached.append(episodes_done(out / run.name))
            before.update(stamps(out))
        if reached and episodes_done(out / run.name) >= reached[0] + 5:
            raise KeyboardInterrupt

    engine = SlurmEngine(replace(CONFIG, resources=Resources(1, 0, 1.5, minutes=1)))
    with pytest.raises(KeyboardInterrupt):
        run_all([run], out, engine, on_poll=look)
    # COMPLETING: for a moment, where Slurm clears a place before the job waits again.
    assert states - {"COMPLETING"} == {"PENDING", "RUNNING"}
    (job,) = jobs_of("limit")
    assert f"scancel {job}\n" in capsys.readouterr().out
    assert running(out) == [out / run.name]
    done = episodes_done(out / run.name)
    wait_until(lambda: episodes_done(out / run.name) > done)
    shell("scancel", job)
    wait_until(lambda: running(out) == [] and shell("squeue", "--noheader") == "")
    after = stamps(out)
    assert before and {path: after[path] for path in before} == before
    numbers = [row["episode"] for row in rows_of(out / run.name)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_refusals(cluster: Path, tmp_path: Path) -> None:
    for config in (
        EngineConfig(),  # there is no default partition
        EngineConfig(slurm=SlurmConfig(partition="lo")),
        replace(CONFIG, resources=Resources(memory_gb=1000)),
    ):
        with pytest.raises(InputError, match="refuses"):
            run_all([tiny()], tmp_path, SlurmEngine(config))
    assert tmp_path.name not in shell("squeue", "--noheader", "--format", "%j")
