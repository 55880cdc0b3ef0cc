"""The plan of a figure: what it says before anything is started, and what follows."""

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
from driftrl.config.toml import read_toml, to_dict, toml_text
from driftrl.engines.launcher import Engine
from driftrl.errors import InputError
from driftrl.training.study import Study, find_study, read_study


class Called:
    """What was started and reported on, and where; nothing is run."""

    def __init__(self) -> None:
        self.studies: list[tuple[str, str, Path, int]] = []
        self.reports: list[tuple[Path, bool]] = []
        self.status = 0

    def run(self, study: Study, path: Path, out: Path, engine: Engine) -> int:
        assert path == find_study(study.name)
        self.studies.append((study.name, study.preset, out, engine.max_jobs))
        return self.status

    def report(self, directory: Path, *, returns_only: bool) -> None:
        self.reports.append((directory, returns_only))


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> Called:
    found = Called()
    monkeypatch.setattr(reproduce, "run_study", found.run)
    monkeypatch.setattr(reproduce, "write_and_tell", found.report)
    monkeypatch.setattr("driftrl.training.speed.product_rate", lambda: REFERENCE_RATE)
    # Networks would be made to know their size; tests/training has the real ones.
    monkeypatch.setattr("driftrl.training.speed.expected_bytes", lambda run: 1_000_000)
    return found


def ask(monkeypatch: pytest.MonkeyPatch, answer: Callable[[str], str]) -> None:
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("builtins.input", answer)


def test_figures_are_those_of_the_paper() -> None:
    tasks: dict[str, set[str]] = {name: set() for name in reproduce.FIGURES}
    for name, figure in reproduce.FIGURES.items():
        for study in map(read_toml, map(find_study, figure.studies)):
            variants = study.get("variants", [{}])
            tasks[name] |= {one.get("task", study["task"]) for one in variants}
    assert tasks == {
        "fig1": {"pendulum"},
        "fig2": {"pendulum-decay", "halfcheetah", "hopper"},
        "fig3": {
            *("double-pendulum", "ant", "walker2d"),
            "humanoid-standup",
            "humanoid",
        },
        "rccar": {"rccar"},
        "ablation": {"pendulum-decay"},
    }


def test_without_a_terminal_the_plan_is_all(
    called: Called, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["reproduce", "fig1", "--out", str(tmp_path / "new"), "--workers", "3"]
    assert main(words) == 2
    captured = capsys.readouterr()
    assert "Nothing was started: there is no terminal" in captured.err
    assert "Add --yes" in captured.err
    # 15 runs of 0.3 minutes, three at once.
    assert "Together 1 min 30 s with 3 runs at once" in captured.out
    row = next(line for line in captured.out.splitlines() if "gp_pendulum" in line)
    assert row.split()[4:8] == ["15", "0", "450", "5"]
    assert "  1 min 30 s  15.0 MB  " in row
    assert "its oracle needs no training" in captured.out
    assert called.studies == [] and not (tmp_path / "new").exists()


def test_yes_runs_every_study_of_the_figure_and_reports(
    called: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def with_one_seed(path: Path, preset: str | None) -> Study:
        return replace(read_study(path, preset), seeds=(0,), methods=("sombrl",))

    monkeypatch.setattr(reproduce, "read_study", with_one_seed)
    called.status = 1
    words = ["reproduce", "fig2", "--yes", "--out", str(tmp_path), "--workers", "2"]
    assert main(words) == 1
    places = [
        tmp_path / f"{name}-laptop"
        for name in ("pendulum_decay_rates", "mujoco_decay_rates")
    ]
    assert called.studies == [
        ("pendulum_decay_rates", "laptop", places[0], 2),
        ("mujoco_decay_rates", "laptop", places[1], 2),
    ]
    assert called.reports == [(place, False) for place in places]


def test_the_car_is_reported_by_its_returns(called: Called, tmp_path: Path) -> None:
    words = ["reproduce", "rccar", "--yes", "--preset", "paper"]
    assert main([*words, "--out", str(tmp_path)]) == 0
    assert [name for name, *_ in called.studies] == ["rccar_parking"]
    assert called.reports == [(tmp_path / "rccar_parking", True)]


@pytest.mark.parametrize(("answer", "started"), [("y", 1), ("N", 0), ("", 0)])
def test_it_asks(
    answer: str,
    started: int,
    called: Called,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ask(monkeypatch, lambda question: answer)
    assert main(["reproduce", "fig1", "--out", str(tmp_path)]) == 0
    assert len(called.studies) == len(called.reports) == started
    assert ("Nothing was started." in capsys.readouterr().out) == (started == 0)


def test_no_answer_is_no(monkeypatch: pytest.MonkeyPatch) -> None:
    def end(question: str) -> str:
        raise EOFError

    ask(monkeypatch, end)
    assert reproduce._agreed() is False


def record_runs(place: Path, count: int, rows: int, seconds: float) -> None:
    """Write so many runs of the first figure, as far as so many episodes."""
    for run in read_study(find_study("gp_pendulum")).runs()[:count]:
        (place / run.name).mkdir(parents=True)
        (place / run.name / "config.toml").write_text(toml_text(to_dict(run)))
        lines = [{"episode": n, "wall_s": seconds} for n in range(1, rows + 1)]
        text = "".join(json.dumps(line) + "\n" for line in lines)
        (place / run.name / "episodes.jsonl").write_text(text)


def test_what_is_there_counts_and_sets_the_pace(
    called: Called, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_runs(tmp_path / "gp_pendulum", 5, 30, 2.0)
    assert main(["reproduce", "fig1", "--out", str(tmp_path), "--workers", "1"]) == 2
    out = capsys.readouterr().out
    assert "has one setting  15    5     450" in out
    assert "Together 10 min 0 s with 1 run at once" in out  # 10 × 30 × 2 s


def test_a_finished_figure_is_reported_without_a_question(
    called: Called, tmp_path: Path
) -> None:
    record_runs(tmp_path / "gp_pendulum", 15, 30, 2.0)
    assert main(["reproduce", "fig1", "--out", str(tmp_path)]) == 0
    assert len(called.reports) == 1


def test_a_closed_standard_input_is_no_terminal(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.stdin", None)
    with pytest.raises(InputError, match="Nothing was started: .* Add --yes."):
        reproduce._agreed()


def test_little_room_is_told_last_before_the_question(
    called: Called,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    usage: Any = SimpleNamespace(free=2e6)
    monkeypatch.setattr("driftrl.cli.reproduce.shutil.disk_usage", lambda path: usage)
    printed: list[str] = []

    def decline(question: str) -> str:
        printed.append(capsys.readouterr().out)
        return "n"

    ask(monkeypatch, decline)
    assert main(["reproduce", "fig1", "--out", str(tmp_path)]) == 0
    told = f"\nThere is not enough room: 2.0 MB are free in {tmp_path}, and 15.0 MB "
    assert printed[0].endswith(f"{told}are needed.\n")
    usage.free = 1e9
    assert main(["reproduce", "fig1", "--out", str(tmp_path)]) == 0
    assert "not enough room" not in printed[1]


def test_missing_oracles_are_told(
    called: Called, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    plan = reproduce._plan("rccar_parking", "paper", tmp_path, REFERENCE_RATE)
    # θ = 1, 0.63, 0.40 and 0.25, one training each.
    said = reproduce._oracle_in_words([plan], False)
    assert "for J*(θ) SAC is trained 4 times" in said
    assert "no oracle is trained" in reproduce._oracle_in_words([plan], True)


def test_side_by_side_is_at_least_the_longest() -> None:
    assert reproduce._at_once([30.0, 30.0, 30.0], 2) == 45.0
    assert reproduce._at_once([100.0, 1.0], 4) == 100.0
    assert reproduce._at_once([], 4) == 0.0


@pytest.mark.parametrize(
    ("count", "told"), [(999, "1 kB"), (1.5e6, "1.5 MB"), (71.3e9, "71.3 GB")]
)
def test_sizes_in_words(count: float, told: str) -> None:
    assert reproduce._size(count) == told
