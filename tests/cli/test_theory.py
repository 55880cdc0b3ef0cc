"""``driftrl theory`` as a user meets it, on runs that were written by hand."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftrl.cli.main import main
from driftrl.cli.run_data import observations_of
from driftrl.config.toml import to_dict, toml_text
from driftrl.envs.tasks import configure
from driftrl.memory.episodes import save_episode
from driftrl.records import RecordWriter, load_run
from driftrl.types import Episode, EpisodeRecord

MakeRun = Callable[..., Path]
PROBLEM = ["--episodes", "30", "--dimension", "4", "--steps", "40", "--gain", "265"]


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
                writer.append(record(number, coverage, theta))
        return directory

    return make


def record(number: int, coverage: float | None, theta: float) -> EpisodeRecord:
    known = coverage is not None
    return EpisodeRecord(
        episode=number,
        theta=theta,
        steps=15,
        return_executed=-1.0,
        return_eval=None,
        terminated=False,
        first_retained=1,
        transitions=15 * (number - 1),
        optimism=1.0,
        model_error=(0.01 if theta == 2.0 else 0.2) if known else None,
        coverage=coverage,
        epistemic_std=0.02 if known else None,
        wall_s=1.0,
    )


def answer(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    assert main(["theory", *arguments]) == 0
    return capsys.readouterr().out


def test_overview_and_unknown_question(capsys: pytest.CaptureFixture[str]) -> None:
    assert all(name in answer(capsys) for name in ("choose", "recommend", "audit"))
    assert main(["theory", "chose"]) == 2
    assert "Did you mean 'choose'?" in capsys.readouterr().err


@pytest.mark.parametrize("question", ["choose", "recommend", "audit"])
def test_every_question_has_help(
    question: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["theory", question, "--help"])
    assert ended.value.code == 0
    assert f"driftrl theory {question}" in capsys.readouterr().out


def test_choose_draws_the_trade_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "figures" / "tradeoff.png"
    said = answer(capsys, "choose", *PROBLEM, "--variation", "21", "--out", str(out))
    assert "N = 30, T = 40, P_N = 21, γ_N = 265" in said
    assert "Recommended: H = w = 3." in said and f"drawn in {out}" in said
    assert out.read_bytes().startswith(b"\x89PNG")
    # Bars of 48 signs for four times the minimum, cut where they are longer.
    lines = {line.split()[0]: line for line in said.splitlines() if "░" in line}
    assert lines["3"].endswith("1.00  ← smallest") and "…" in lines["28"]
    assert lines["3"].count("█") == 9 and lines["3"].count("░") == 3


def test_choose_draws_a_sweep_beside_the_bound(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    alone, beside = tmp_path / "alone.png", tmp_path / "beside.png"
    asked = ["choose", *PROBLEM, "--variation", "21", "--out"]
    answer(capsys, *asked, str(alone))
    for window in (2, 7):
        name = f"study/{window}"
        make_run(name, memory=False, method="sw-ombrl", variant=f"w={window}")
    answer(capsys, *asked, str(beside), "--sweep", str(tmp_path / "study"))
    assert beside.read_bytes() != alone.read_bytes()
    run = str(make_run("study2/plain", memory=False).parent)
    assert main(["theory", *asked, str(beside), "--sweep", run]) == 2
    assert "study2 has no sweep of H or w" in capsys.readouterr().err


def test_choose_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["choose", *PROBLEM, "--variation", "21", "--json"]
    document = json.loads(answer(capsys, *asked))
    assert (document["H"], document["w"], document["gain"]) == (3, 3, 265.0)
    assert document["order_with_gain_of_all"] == pytest.approx(2.784, abs=1e-3)
    assert len(document["curve"]["drift"]) == 30
    assert document["with_constants"]["bound"] > document["with_constants"]["most"]


def test_choose_without_variation_or_gain(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["choose", "--episodes", "9", "--dimension", "1", "--steps", "5"]
    said = answer(capsys, *asked, "--length-scale", "2")
    assert "P_N = unknown" in said and "Recommended: H = w = " in said
    assert "With --variation, or a run, the bound can weigh" in said
    # Points beyond the greedy thousand follow the known rate.
    long = ["choose", "--episodes", "30", "--dimension", "1", "--steps", "50"]
    assert "T = 50" in answer(capsys, *long, "--variation", "0")


def test_choose_measures_a_run(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(make_run())
    document = json.loads(answer(capsys, "choose", "--run", run, "--json"))
    measured = document["measured"]
    assert (measured["episodes"], measured["steps"]) == (10, 15)
    assert (measured["outputs"], measured["dimension"]) == (3, 4)
    assert document["variation"] == measured["variation"] > 0
    assert document["setting"]["reward_max"] == measured["reward_max"] == 14.0
    asked = ["choose", "--run", run, "--episodes", "19", "--json"]
    longer = json.loads(answer(capsys, *asked))
    assert longer["variation"] == pytest.approx(2 * measured["variation"])
    assert longer["gain"] > document["gain"]
    assert "measured on the run" in answer(capsys, "choose", "--run", run)


REFUSALS = [
    (["--variation", "1"], "needs --episodes, --dimension, --steps, or a run"),
    ([*PROBLEM, "--delta", "1.5"], "δ must lie strictly between 0 and 1, received 1.5"),
    ([*PROBLEM, "--delta", "0"], "δ must lie strictly between 0 and 1, received 0.0"),
    ([*PROBLEM, "--kernel", "periodic"], "gain is known for the kernel 'periodic'"),
    ([*PROBLEM, "--episodes", "1"], "N of at least 2 episodes, received 1"),
    ([*PROBLEM, "--variation", "-2"], "P_N must be a number of at least 0"),
    ([*PROBLEM, "--dimension", "0"], "--dimension must be a number of at least 1"),
    ([*PROBLEM, "--noise", "0"], "The noise σ must be positive, received 0.0"),
    ([*PROBLEM, "--steps", "0"], "steps T of an episode must be a number of at least"),
    ([*PROBLEM, "--gain", "-1"], "--gain must be a number of at least 0"),
    ([*PROBLEM, "--out", "a.png"], "a trade-off to draw only with --variation"),
    (
        [*PROBLEM, "--variation", "1", "--out", "a.pdf"],
        "--out must be a file ending in .png, received a.pdf",
    ),
    ([*PROBLEM, "--sweep", "a"], "needs a file to draw into (--out)"),
    (["--run", "nowhere"], "There is no directory nowhere."),
    (["--run", "."], "is not the directory of a run: it has no config"),
]


@pytest.mark.parametrize(("arguments", "sentence"), REFUSALS)
def test_choose_refuses(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["theory", "choose", *arguments]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err and captured.out == ""


def test_choose_needs_two_episodes(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["theory", "choose", "--run", str(make_run("one", (None,)))]) == 2
    assert "holds 1 episodes; 2 are the fewest" in capsys.readouterr().err


def test_recommend_prints_the_evidence(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(make_run())
    said = answer(capsys, "recommend", run)
    assert "of the newest 10 episodes 9 were foretold" in said
    assert "9 (all)" in said and "← recommended" in said
    document = json.loads(answer(capsys, "recommend", run, "--json"))
    assert [one["span"] for one in document["scores"]] == [1, 2, 3, 4, 5, 7, 9]
    assert f"{document['scores'][0]['error']:.4f}" in said
    assert document["drift"]["older"] > document["drift"]["newer"]
    fewer = json.loads(answer(capsys, "recommend", run, "--last", "6", "--json"))
    assert fewer["tested"] == 5


def test_recommend_refuses(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bare = make_run("bare", memory=False)
    short = make_run("short", (None, 0.9, 0.9))
    for arguments, sentence in (
        ([str(bare)], "has no memory/, only records"),
        ([str(short)], "from at least 4 episodes, found 3"),
        ([str(short), "--last", "3"], "--last must be a number of at least 4"),
        ([str(tmp_path)], "is not the directory of a run: it has no config.toml"),
    ):
        assert main(["theory", "recommend", *arguments]) == 2
        assert sentence in capsys.readouterr().err


def test_audit_of_one_run(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    run = str(make_run())
    said = answer(capsys, "audit", run)
    assert "Episodes 8 to 9: coverage fell to 30%, the error rose from 0.01" in said
    assert "at θ = 2; this one ran at 0.5: the data were stale." in said
    document = json.loads(answer(capsys, "audit", run, "--json"))
    assert document["breaks"][0]["first"] == 8
    assert document["sentences"][0] in said
    assert [one["broken"] for one in document["judged"]].count(True) == 2
    # ‖σ‖ = 0.02 over the pendulum's three numbers.
    assert document["sharpness"] == pytest.approx(0.02 / math.sqrt(3))


def test_audit_needs_records_alone(
    make_run: MakeRun, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(
        answer(capsys, "audit", str(make_run(memory=False)), "--json")
    )
    assert document["sharpness"] == pytest.approx(0.02 / math.sqrt(3))


def test_size_of_a_machine_of_ones_own(make_run: MakeRun) -> None:
    """Its task can't be made to ask it, and its configuration need not be readable."""
    run = load_run(make_run(memory=False))
    own = {"task": "shop.press:make", "environment": {"observations": 7}, "old": 1}
    assert observations_of(replace(run, config=run.config | own)) == 7
    assert observations_of(replace(run, config=run.config | {"old": 1})) == 3


def test_audit_of_a_study_has_a_line_a_run(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    make_run("study/a")
    make_run("study/b", (None, None))
    said = answer(capsys, "audit", str(tmp_path / "study"))
    assert "2 of 9" in said and "30% at 8" in said
    assert "None of the 2 recorded episodes has a coverage" in said
    document = json.loads(answer(capsys, "audit", str(tmp_path / "study"), "--json"))
    (blind,) = (one for one in document if "reason" in one)
    (seeing,) = (one for one in document if "reason" not in one)
    assert seeing["breaks"] and "no uncertainty to audit" in blind["reason"]


def test_audit_refuses(
    make_run: MakeRun, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    blind = make_run("blind", (None, None, None))
    empty = tmp_path / "empty"
    empty.mkdir()
    for directory, sentence in (
        (blind, "None of the 3 recorded episodes has a coverage and an epistemic σ"),
        (empty, "is empty."),
        (tmp_path / "nowhere", "There is no directory"),
    ):
        assert main(["theory", "audit", str(directory)]) == 2
        assert sentence in capsys.readouterr().err
