"""The command that runs a study."""

from pathlib import Path

import pytest

from driftrl.cli.main import main
from driftrl.config.toml import to_dict, toml_text
from driftrl.training.study import read_study

_STUDY = """
name = "doomed"
title = "t"
summary = "s"
task = "halfcheetah"
methods = ["sombrl", "sw-ombrl"]
seeds = [0, 1]

[settings]
episodes = 2
"""


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ('[settings.agent]\nkind = "gp"\n', "agent.kind = 'gp' plans with a known"),
        (
            "forget_after = 1\n[settings.agent.learning]\nleast_transitions = 600\n",
            "This run would never learn: it retains at most 500 transitions",
        ),
    ],
)
def test_a_study_whose_runs_could_not_begin_is_refused_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, sentence: str
) -> None:
    study, out = tmp_path / "doomed.toml", tmp_path / "out"
    study.write_text(_STUDY + settings)
    assert main(["study", str(study), "--out", str(out)]) == 2
    said = capsys.readouterr().err
    assert sentence in said.replace("\n", " ")
    assert str(study) in said.replace("\n", "")
    assert said.count("plans with") + said.count("would never") == 1
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--address", "10.0.0.1:6379"], "--address goes with --on ray"),
        (["--on", "ray", "--partition", "cpu"], "--partition goes with --on slurm"),
        (["--account", "me"], "--account goes with --on slurm"),
    ],
)
def test_an_option_of_another_engine_is_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], sentence: str
) -> None:
    assert main(["study", "gp_pendulum", *options]) == 2
    assert sentence in capsys.readouterr().err


def test_a_changed_study_is_not_taken_for_the_one_that_was_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = tmp_path / "doomed.toml", tmp_path / "out"
    study.write_text(_STUDY)
    (out / "study.toml").parent.mkdir()
    (out / "study.toml").write_text("as it was")
    for run in read_study(study).runs():
        (out / run.name / "checkpoint" / "000002").mkdir(parents=True)
        (out / run.name / "config.toml").write_text(toml_text(to_dict(run)))
    study.write_text(f"{_STUDY}drift = {{ rate = 0.125 }}\n")
    assert main(["study", str(study), "--out", str(out)]) == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "halfcheetah-sombrl-s0 holds a different run: drift.rate is 0.005" in said
    assert "0.125 here" in said
    assert (out / "study.toml").read_text() == "as it was"
    assert not (out / "halfcheetah-sombrl-s0" / "log.txt").exists()
