"""Reports and comparisons that ask no oracle."""

from pathlib import Path

import pytest
from tests.figures.test_own_machine import own_run, written

from driftrl.cli.main import main
from driftrl.cli.recorded import compare
from driftrl.oracles.values import OracleTable
from driftrl.records import Run
from driftrl.types import EpisodeRecord


def told(theta: float) -> Run:
    run = own_run("sombrl", 0, [1.0, 3.0], task="pendulum")
    rows = [EpisodeRecord(**{**vars(row), "theta": theta}) for row in run.records]
    return Run(run.directory, run.config, tuple(rows))


def untrained(*_: object, **__: object) -> OracleTable:
    raise AssertionError("no oracle was asked for")


def test_returns_alone_need_no_oracle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("driftrl.oracles.optimal_returns_of_runs", untrained)
    directory = written([told(2.0)], tmp_path)
    with pytest.raises(AssertionError, match="no oracle was asked for"):
        main(["report", str(directory)])
    assert main(["report", str(directory), "--returns"]) == 0
    assert "returns.png" in capsys.readouterr().out
    assert "J* was not asked for." in (directory / "report/report.html").read_text()


def test_where_two_parameters_drift_there_is_no_oracle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("driftrl.oracles.optimal_returns_of_runs", untrained)
    one = told(2.0)
    config = {**one.config, "extra_drifts": [{"parameter": "mass"}]}
    two = Run(one.directory, config, one.records)
    (study,) = compare(written([two], tmp_path)).studies
    assert not study.table.known
    assert study.table.provenance.endswith("where more than one parameter drifts.")
