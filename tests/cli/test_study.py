"""The command that runs a study."""

from pathlib import Path

import pytest

from driftrl.cli.main import main

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
