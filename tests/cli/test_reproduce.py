"""``driftrl reproduce``: the plan, the question, and what is started."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from driftrl.cli import reproduce
from driftrl.cli.main import main
from driftrl.config.task import REFERENCE_RATE
from driftrl.config.toml import to_dict, toml_text
from driftrl.training.study import Study, find_study, read_study


class Started:
    """The studies and reports that were started; nothing runs."""

    def __init__(self) -> None:
        self.studies: list[tuple[str, str, Path]] = []
        self.reports: list[tuple[Path, bool]] = []
        self.status = 0

    def run(self, study: Study, path: Path, out: Path, engine: Any) -> int:
        assert path == find_study(study.name)
        self.studies.append((study.name, study.preset, out))
        return self.status

    def report(self, directories: tuple[Path, ...], *, returns: bool) -> None:
        self.reports += [(path, returns) for path in directories]


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Started:
    found = Started()
    monkeypatch.setattr(reproduce, "run_study", found.run)
    monkeypatch.setattr("driftrl.cli.report.main", found.report)
    speed = "driftrl.training.speed"
    monkeypatch.setattr(f"{speed}.product_rate", lambda: REFERENCE_RATE)
    # The real one makes networks to know their size.
    monkeypatch.setattr(f"{speed}.expected_bytes", lambda run: 1_000_000)
    return found


def answer(monkeypatch: pytest.MonkeyPatch, reply: Callable[[str], str]) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", reply)


def test_without_a_terminal_only_the_plan_is_printed(
    started: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "fig1", "--out", str(tmp_path / "new"), "--workers", "3"]
    assert main(words) == 2
    captured = capsys.readouterr()
    assert "--yes" in captured.err
    row = next(line for line in captured.out.splitlines() if "gp_pendulum" in line)
    # 20 runs of 0.3 minutes, three at once.
    assert row.split()[2:9] == ["20", "0", "600", "2", "min", "0", "s"]
    assert "20.0 MB" in row
    assert started.studies == [] and not (tmp_path / "new").exists()


def test_yes_runs_every_study_of_the_figure_and_reports(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(path: Path, preset: str | None) -> Study:
        return replace(read_study(path, preset), seeds=(0,), methods=("sombrl",))

    monkeypatch.setattr(reproduce, "read_study", small)
    started.status = 1
    assert main(["reproduce", "fig2", "--yes", "--out", str(tmp_path)]) == 1
    names = ("pendulum_decay_rates", "mujoco_decay_rates")
    places = [tmp_path / f"{name}-laptop" for name in names]
    expected = [(n, "laptop", p) for n, p in zip(names, places, strict=True)]
    assert started.studies == expected
    assert started.reports == [(place, False) for place in places]


def test_the_car_is_reported_by_its_returns(started: Started, tmp_path: Path) -> None:
    words = ["reproduce", "rccar", "--yes", "--preset", "paper"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert started.reports == [(tmp_path / "rccar_parking", True)]


def end_of_file(question: str) -> str:
    raise EOFError


@pytest.mark.parametrize(
    ("reply", "count"), [(lambda _: "y", 1), (lambda _: "", 0), (end_of_file, 0)]
)
def test_it_asks(
    reply: Callable[[str], str],
    count: int,
    started: Started,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer(monkeypatch, reply)
    assert main(["reproduce", "fig1", "--out", str(tmp_path)]) == 0
    assert len(started.studies) == len(started.reports) == count


def record_runs(directory: Path, count: int, rows: int, seconds: float) -> None:
    """Write so many runs of the first figure, as far as so many episodes."""
    for run in read_study(find_study("gp_pendulum")).runs()[:count]:
        (directory / run.name).mkdir(parents=True)
        (directory / run.name / "config.toml").write_text(toml_text(to_dict(run)))
        lines = [{"episode": n, "wall_s": seconds} for n in range(1, rows + 1)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (directory / run.name / "episodes.jsonl").write_text(text)


def test_runs_that_are_there_count_and_set_the_pace(
    started: Started, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_runs(tmp_path / "gp_pendulum", 5, 30, 2.0)
    assert main(["reproduce", "fig1", "--out", str(tmp_path), "--workers", "1"]) == 2
    out = capsys.readouterr().out
    row = next(line for line in out.splitlines() if "gp_pendulum" in line)
    assert row.split()[2:9] == ["20", "5", "600", "15", "min", "0", "s"]  # 450 × 2 s
