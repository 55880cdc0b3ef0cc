"""``driftrl theory`` on runs that were written by hand."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.factories import record

from driftrl.cli.main import main
from driftrl.config.toml import to_dict, toml_text
from driftrl.envs.tasks import configure
from driftrl.memory.episodes import save_episode
from driftrl.records import RecordWriter, load_run
from driftrl.theory.run_data import observation_size
from driftrl.types import Episode

MakeRun = Callable[..., Path]
PROBLEM = ["--episodes", "30", "--steps", "40", "--gain", "265"]


def pendulum_episode(draw: np.random.Generator, theta: float) -> Episode:
    """Return random steps of something like a pendulum with a motor of strength θ."""
    angle, speed = draw.uniform(-3, 3, (2, 15))
    action = draw.uniform(-1, 1, (15, 1))
    faster = speed + 0.75 * np.sin(angle) + 0.15 * theta * action[:, 0]
    further = angle + 0.05 * faster
    obs, after = (
        np.stack([np.cos(a), np.sin(a), s], axis=1)
        for a, s in ((angle, speed), (further, faster))
    )
    return Episode(obs, action, -np.arange(15.0), after, False)


@pytest.fixture
def make_run(tmp_path: Path) -> MakeRun:
    """Write a run whose motor weakens at episode 8, where the coverage breaks."""

    def make(
        name: str = "run",
        coverages: tuple[float | None, ...] = (None, *[0.96] * 6, 0.3, 0.4, 0.95),
        *,
        memory: bool = True,
        method: str = "sombrl",
        variant: str = "",
    ) -> Path:
        directory = tmp_path / name
        directory.mkdir(parents=True)
        settings = {"episodes": len(coverages), "variant": variant}
        config = configure("pendulum", method, settings)
        (directory / "config.toml").write_text(toml_text(to_dict(config)))
        draw = np.random.default_rng(0)
        with RecordWriter(directory / "episodes.jsonl") as writer:
            for number, coverage in enumerate(coverages, start=1):
                theta = 2.0 if number < 8 else 0.5
                if memory:
                    episode = pendulum_episode(draw, theta)
                    save_episode(directory / "memory", number, episode)
                known = coverage is not None
                row = record(
                    number,
                    theta=theta,
                    steps=15,
                    model_error=(0.01 if theta == 2.0 else 0.2) if known else None,
                    coverage=coverage,
                    epistemic_std=0.02 if known else None,
                )
                writer.append(row)
        return directory

    return make


def answer(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["theory", *map(str, arguments)]) == 0
    return capsys.readouterr().out


def test_choose(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["choose", *PROBLEM, "--variation", "21"]
    assert "H = w = 3" in answer(capsys, *asked)
    document = json.loads(answer(capsys, *asked, "--json"))
    assert (document["span"], document["steps"]) == (3, 40)
    assert document["gain"] == pytest.approx(265.0)
    assert document["informed"] == pytest.approx(2.784, abs=1e-3)
    assert len(document["terms"]["drift"]) == 30
    assert "P_N = unknown" in answer(capsys, "choose", *PROBLEM)


def test_choose_estimates_from_a_run(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run()
    document = json.loads(answer(capsys, "choose", "--run", run, "--json"))
    estimated = document["estimated"]
    assert (estimated["episodes"], estimated["steps"]) == (10, 15)
    assert (estimated["outputs"], estimated["dimension"]) == (3, 4)
    assert document["variation"] == estimated["variation"] > 0
    assert estimated["reward_max"] == 14.0
    asked = ["choose", "--run", run, "--episodes", "19", "--json"]
    longer = json.loads(answer(capsys, *asked))
    assert longer["variation"] == pytest.approx(2 * estimated["variation"])
    assert longer["gain"] > document["gain"]


def test_recommend(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run()
    document = json.loads(answer(capsys, "recommend", run, "--json"))
    assert [one["span"] for one in document["scores"]] == [1, 2, 3, 4, 5, 7, 9]
    assert f"{document['scores'][0]['error']:.4f}" in answer(capsys, "recommend", run)
    fewer = json.loads(answer(capsys, "recommend", run, "--last", "6", "--json"))
    assert fewer["tested"] == 5


def test_audit_of_a_run_needs_only_records(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(memory=False)
    document = json.loads(answer(capsys, "audit", run, "--json"))
    assert document["broken"] == 2
    # ‖σ‖ = 0.02 over the pendulum's three observations.
    assert document["sigma"] == pytest.approx(0.02 / math.sqrt(3))
    assert document["summary"][0] in answer(capsys, "audit", run)


def test_audit_of_a_study(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run("study/a")
    make_run("study/b", (None, None))
    printed = answer(capsys, "audit", tmp_path / "study")
    assert "2 of 9" in printed
    document = json.loads(answer(capsys, "audit", tmp_path / "study", "--json"))
    assert sum("reason" in one for one in document) == 1 < len(document)


def test_observation_size_of_a_custom_environment(make_run: MakeRun) -> None:
    run = load_run(make_run(memory=False))
    custom = {"task": "shop.press:make", "environment": {"observations": 7}}
    assert observation_size(replace(run, config=run.config | custom)) == 7
    assert observation_size(run) == 3


def test_bad_input_exits_with_status_2(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare, one = make_run("bare", memory=False), make_run("one", (None,))
    blind = make_run("blind", (None, None, None))
    for arguments in (
        ["choose", "--variation", 1],
        ["choose", "--run", "nowhere"],
        ["choose", "--run", one],
        ["recommend", bare],
        ["recommend", blind],
        ["recommend", blind, "--last", 3],
        ["recommend", tmp_path],
        ["audit", blind],
        ["audit", tmp_path / "nowhere"],
    ):
        assert main(["theory", *map(str, arguments)]) == 2, arguments
        out, err = capsys.readouterr()
        assert out == "" and err and "Traceback" not in err
