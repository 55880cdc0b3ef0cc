"""The command that runs a study."""

from pathlib import Path

import pytest

import driftrl
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
    ("settings", "value"),
    [
        ('[settings.agent]\nkind = "gp"\n', "'gp'"),
        (
            "forget_after = 1\n[settings.agent.learning]\nlearning_starts = 600\n",
            "500 transitions",
        ),
    ],
)
def test_a_study_whose_runs_could_not_begin_is_refused_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], settings: str, value: str
) -> None:
    study, out = tmp_path / "doomed.toml", tmp_path / "out"
    study.write_text(_STUDY + settings)
    assert main(["study", str(study), "--out", str(out)]) == 2
    message = capsys.readouterr().err
    assert message.replace("\n", " ").count(value) == 1
    assert str(study) in message.replace("\n", "")
    assert not out.exists()


@pytest.mark.parametrize(
    ("options", "flag", "engine"),
    [
        (["--address", "10.0.0.1:6379"], "--address", "ray"),
        (["--on", "ray", "--partition", "cpu"], "--partition", "slurm"),
        (["--account", "me"], "--account", "slurm"),
    ],
)
def test_an_option_of_another_engine_is_refused(
    capsys: pytest.CaptureFixture[str], options: list[str], flag: str, engine: str
) -> None:
    assert main(["study", "gp_pendulum", *options]) == 2
    assert f"{flag} needs --on {engine}" in capsys.readouterr().err


def test_a_changed_study_is_not_taken_for_the_one_that_was_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    study, out = tmp_path / "doomed.toml", tmp_path / "out"
    study.write_text(_STUDY)
    out.mkdir()
    (out / "study.toml").write_text("as it was")
    for run in read_study(study).runs():
        (out / run.name / "checkpoint").mkdir(parents=True)
        (out / run.name / "checkpoint" / "000002.npz").touch()
        table = to_dict(run) | {"versions": {"driftrl": driftrl.__version__}}
        (out / run.name / "config.toml").write_text(toml_text(table))
    study.write_text(f"{_STUDY}drift = {{ rate = 0.125 }}\n")
    assert main(["study", str(study), "--out", str(out)]) == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "drift.rate" in message and "0.005" in message and "0.125" in message
    assert (out / "study.toml").read_text() == "as it was"
    assert not (out / "halfcheetah-sombrl-s0" / "log.txt").exists()
