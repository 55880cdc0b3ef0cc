"""Frames of recorded runs: rows, problems, settings, J*, and what is left out."""

from pathlib import Path
from typing import Any

import polars
import pytest

import driftrl
from driftrl.analysis.load import read_results
from driftrl.analysis.panels import panels_of
from driftrl.errors import CorruptFile, InputError
from driftrl.records import COLUMNS
from factories import record, write_run

DRIFT = {"kind": "exponential", "rate": 0.1, "start": 5}
STUDY = 'task = "pendulum"\nmethods = ["sombrl", "sw-ombrl"]\nseeds = [0, 1]\n'


def write(
    study: Path, method: str, variant: str = "", seed: int = 0, **settings: Any
) -> Path:
    """Write a run with two episodes, θ = rate of the drift."""
    settings = {
        "task": "pendulum",
        "environment": {"sim_steps": 200, "start": "hanging"},
        "drift": DRIFT,
        **settings,
    }
    returns = settings.pop("returns", (-3.0, -2.0))
    rows = [
        record(n, theta=settings["drift"]["rate"], return_executed=value)
        for n, value in enumerate(returns, start=1)
    ]
    task = settings["task"].replace(":", ".")
    name = f"{task}-{method}-{variant}-{settings['drift']['rate']}-s{seed}"
    settings |= {"method": method, "variant": variant, "seed": seed}
    return write_run(study / name, rows, **settings)


def decays(rate: float) -> dict[str, Any]:
    return {"drift": {**DRIFT, "rate": rate}}


def problems(path: Path | list[Path]) -> dict[str, list[str]]:
    """Return the methods of each problem, in the order of the frame."""
    frame = driftrl.load(path, oracle="none")
    parts = frame.group_by("problem", maintain_order=True).agg("method")
    return {name: list(dict.fromkeys(methods)) for name, methods in parts.iter_rows()}


def test_a_row_per_episode_with_everything_known_about_it(tmp_path: Path) -> None:
    write(tmp_path, "sw-ombrl", "w=3", 4, forgetting={"window": 3, "kind": "window"})
    write(tmp_path, "sombrl", seed=4, forgetting={"kind": "keep_all"}, returns=[-9.0])
    frame = driftrl.load(tmp_path, oracle=lambda theta: -10 * theta)
    assert frame["method"].to_list() == ["sombrl", "sw-ombrl w=3", "sw-ombrl w=3"]
    assert frame["variant"].to_list() == ["", "w=3", "w=3"]
    assert set(frame["study"]) == {tmp_path.name} and set(frame["seed"]) == {4}
    assert set(frame["problem"]) == {"pendulum"}
    assert set(COLUMNS) < set(frame.columns)
    # J*(0.1) = −1, and returns −9; −3, −2.
    assert frame["optimal_return"].to_list() == [-1.0] * 3
    assert frame["regret"].to_list() == [8.0, 2.0, 1.0]
    assert frame["cumulative_regret"].to_list() == [8.0, 2.0, 3.0]
    assert frame["forgetting.window"].to_list() == [None, 3, 3]
    assert frame["forgetting.kind"].to_list() == ["keep_all", "window", "window"]
    settings = [name for name in frame.columns if "." in name]
    assert settings == ["forgetting.kind", "forgetting.window"]
    assert [Path(path).name for path in frame["directory"]] == frame["run"].to_list()


def test_settings_of_different_types_become_one_column(tmp_path: Path) -> None:
    for seed, (weight, drifts) in enumerate([(1, []), (0.5, [1]), (2.0, "x")]):
        write(tmp_path, "a", seed=seed, agent={"weight": weight, "extra": drifts})
    frame = driftrl.load(tmp_path, oracle="none").unique("seed", maintain_order=True)
    assert frame["agent.weight"].to_list() == [1.0, 0.5, 2.0]
    assert frame["agent.extra"].to_list() == ["[]", "[1]", "x"]


def test_the_evaluated_return_counts_where_there_is_one(tmp_path: Path) -> None:
    rows = [
        record(1, return_executed=-5.0, return_eval=-4.0),
        record(2, return_executed=-3.0, theta=float("nan")),
        record(3, return_executed=float("nan")),
    ]
    frame = driftrl.load(write_run(tmp_path / "run", rows), oracle="none")
    assert frame["achieved_return"].to_list() == [-4.0, -3.0, None]
    assert frame["theta"].to_list() == [2.0, None, 2.0]


# Problems.


def test_one_problem_is_named_by_its_task_and_keeps_variants(tmp_path: Path) -> None:
    write(tmp_path, "sw-ombrl", "w=10")
    write(tmp_path, "sw-ombrl", "w=2")
    assert problems(tmp_path) == {"pendulum": ["sw-ombrl w=2", "sw-ombrl w=10"]}


def test_a_variant_that_is_a_problem_names_it_and_not_the_methods(
    tmp_path: Path,
) -> None:
    for method in ("sombrl", "sw-ombrl"):
        for rate in (0.1, 0.025):
            write(tmp_path, method, f"a={rate:g}", **decays(rate))
    methods = ["sombrl", "sw-ombrl"]
    assert problems(tmp_path) == {"a=0.025": methods, "a=0.1": methods}


def test_a_variant_of_several_problems_stays_with_the_method(tmp_path: Path) -> None:
    for rate in (10.0, 2.0):
        for window in (3, 5):
            write(tmp_path, "sw-ombrl", f"w={window}", **decays(rate))
    methods = ["sw-ombrl w=3", "sw-ombrl w=5"]
    assert problems(tmp_path) == {"rate = 2.0": methods, "rate = 10.0": methods}


def test_tasks_that_share_their_variants_are_named_before_them(tmp_path: Path) -> None:
    for task in ("hopper", "ant"):
        for rate in (0.1, 0.02):
            write(tmp_path, "a", f"a={rate}", task=task, **decays(rate))
    names = ["ant a=0.02", "ant a=0.1", "hopper a=0.02", "hopper a=0.1"]
    assert list(problems(tmp_path)) == names


@pytest.mark.parametrize(
    ("other", "labels"),
    [
        ({"task": "car"}, ["car", "pendulum"]),
        ({"clock": "steps"}, ["clock = steps", "no clock"]),
        (
            {"environment": {"sim_steps": 90, "start": "hanging"}},
            ["sim steps = 90", "sim steps = 200"],
        ),
        (
            {"drift": {**DRIFT, "rate": 1.0, "start": 7}},
            ["rate = 0.1, start = 5", "rate = 1.0, start = 7"],
        ),
    ],
)
def test_what_makes_a_problem(
    tmp_path: Path, other: dict[str, Any], labels: list[str]
) -> None:
    write(tmp_path, "a")
    write(tmp_path, "b", **other)
    assert list(problems(tmp_path)) == labels


# Several studies.


def test_studies_that_share_a_problem_are_told_apart_by_method(tmp_path: Path) -> None:
    old, new = tmp_path / "old", tmp_path / "new"
    write(old, "sombrl", returns=[-5.0])
    write(new, "sombrl", returns=[-1.0])
    write(new, "sombrl", "w=3", returns=[-2.0])
    frame = driftrl.load([old, new], oracle=lambda theta: 0.0)
    methods = ["sombrl old", "sombrl new", "sombrl new, w=3"]
    assert frame["method"].to_list() == methods
    table = driftrl.regret(frame)
    assert set(table["baseline"]) == {"sombrl old"}
    assert table["difference"].to_list() == [None, -4.0, -3.0]


def test_problems_of_one_study_keep_their_methods(tmp_path: Path) -> None:
    write(tmp_path / "old", "sombrl", **decays(1.0))
    write(tmp_path / "rates", "sombrl", "a=1", **decays(1.0))
    write(tmp_path / "rates", "sombrl", "a=2", **decays(2.0))
    assert problems([tmp_path / "old", tmp_path / "rates"]) == {
        "rate = 1.0": ["sombrl old", "sombrl rates"],
        "rate = 2.0": ["sombrl"],
    }


def test_directories_of_the_same_name_get_longer_ones(tmp_path: Path) -> None:
    paths = [tmp_path / part / "demo" for part in "ab"]
    for path in paths:
        write(path, "sombrl")
    frame = driftrl.load(paths, oracle="none")
    assert frame["study"].unique(maintain_order=True).to_list() == ["a/demo", "b/demo"]
    with pytest.raises(InputError):
        driftrl.load([paths[0], paths[0]])


# Damage.


def test_a_complete_study_needs_no_notes(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    for method in ("sw-ombrl", "sombrl"):
        for seed in (1, 0):
            name = f"pendulum-{method}-s{seed}"
            write_run(tmp_path / name, [record()], method=method, seed=seed)
    results = read_results(tmp_path, oracle="none")
    assert results.notes == ()
    assert [run.seed for run in results.runs] == [0, 1, 0, 1]


def test_runs_without_settings_are_named(tmp_path: Path) -> None:
    (tmp_path / "study.toml").write_text(STUDY)
    write_run(tmp_path / "pendulum-sombrl-s0", [record()])
    place = write_run(tmp_path / "pendulum-sw-ombrl-s0", [record()])
    (place / "config.toml").unlink()
    (left_out,) = read_results(tmp_path, oracle="none").notes
    assert "pendulum-sw-ombrl-s0" in left_out
    with pytest.warns(UserWarning, match="pendulum-sw-ombrl"):
        frame = driftrl.load(tmp_path, oracle="none")
    assert set(frame["run"]) == {"pendulum-sombrl-s0"}


def test_damaged_runs_are_left_out(tmp_path: Path) -> None:
    write(tmp_path, "sombrl", seed=0)
    (write(tmp_path, "sombrl", seed=1) / "config.toml").write_text("task =")
    damaged = write(tmp_path, "sombrl", seed=2)
    (damaged / "episodes.jsonl").write_text("oops\n")
    torn = write(tmp_path, "sombrl", seed=3) / "episodes.jsonl"
    torn.write_text(torn.read_text() + '{"episode": 3')
    results = read_results(tmp_path, oracle="none")
    assert results.frame["seed"].to_list() == [0, 0, 3, 3]
    assert len(results.notes) == 2
    with pytest.raises(CorruptFile):
        driftrl.load(damaged)
    for path in tmp_path.glob("*/episodes.jsonl"):
        path.write_text("oops\n")
    with pytest.raises(InputError, match="Left out"):
        driftrl.load(tmp_path)


def test_problems_that_have_not_started_are_known(tmp_path: Path) -> None:
    write(tmp_path, "a", "a=1", **decays(1.0))
    write(tmp_path, "a", "a=2", returns=[], **decays(2.0))
    assert read_results(tmp_path, oracle="none").not_started == ("a=2",)
    with pytest.raises(InputError, match="has recorded an episode"):
        driftrl.load(next(tmp_path.glob("*2.0*")))


def test_runs_of_another_version_are_noted(tmp_path: Path) -> None:
    write(tmp_path, "a", versions={"driftrl": "9.9.9"})
    write(tmp_path, "b")
    (note,) = read_results(tmp_path, oracle="none").notes
    assert "9.9.9 (1 run)" in note


# J*(θ).


def unit_oracle(theta: float) -> float:
    return theta + 1


def test_an_oracle_from_a_function_a_path_or_a_file(tmp_path: Path) -> None:
    for rate in (0.1, 0.3):
        write(tmp_path / "study", "a", f"a={rate}", task="mine:Cart", **decays(rate))
    csv = tmp_path / "oracle.csv"
    csv.write_text("theta,value\n0.3,1.3\n0.1,1.1\n7,8\n")
    expected = polars.Series([1.1, 1.1, 1.3, 1.3])
    for oracle in (unit_oracle, f"{__name__}:unit_oracle", csv, str(csv)):
        frame = driftrl.load(tmp_path / "study", oracle=oracle)
        assert (frame["optimal_return"] - expected).abs().max() < 1e-12


def test_why_an_optimum_is_unknown(tmp_path: Path) -> None:
    write(tmp_path, "a", task="mine:Cart")
    write(tmp_path, "a", seed=1, extra_drifts=[{"parameter": "mass"}])
    write(tmp_path, "a", seed=2, environment={"wind": 2.0})
    results = read_results(tmp_path)
    assert results.frame["optimal_return"].null_count() == 6
    assert len(set(results.oracles.values())) == 3
    with pytest.raises(InputError, match="oracle="):
        driftrl.regret(results.frame)


def test_no_oracle_for_a_run_without_theta(tmp_path: Path) -> None:
    rows = [record(1, theta=float("nan"))]
    results = read_results(write_run(tmp_path / "run", rows), oracle=unit_oracle)
    assert results.frame["optimal_return"].to_list() == [None]


def test_regret_of_continuing_runs_is_that_of_the_average_reward(
    tmp_path: Path,
) -> None:
    """A segment that a fall has cut short is compared with as many steps."""
    rows = [
        record(1, steps=40, return_executed=-100.0, theta=2.0),
        record(2, steps=10, return_executed=-30.0, theta=3.0),
    ]
    write_run(tmp_path, rows, continuing=True)
    frame = driftrl.load(tmp_path, oracle=lambda theta: -0.5 * theta)
    assert frame["optimal_return"].to_list() == [-40.0, -15.0]
    assert frame["cumulative_regret"].to_list() == [60.0, 75.0]
    assert driftrl.load(tmp_path)["regret"].to_list() == [100.0, 30.0]
    figure = driftrl.plot.regret(frame)
    assert figure.get_supxlabel().startswith("Segment")
    assert panels_of(frame)["returns"].title == "Return of a segment"
    assert "all segments so far" in panels_of(frame)["regret"].caption
