"""J*(θ) from files, computation, interpolation, users and runs; `driftrl oracle`."""

import json
import math
import tarfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.factories import record

from driftrl.cli.main import main
from driftrl.config.run import EnvironmentConfig
from driftrl.drift.schedules import Cyclic
from driftrl.errors import InputError
from driftrl.oracles import pendulum, sac, table
from driftrl.oracles.table import (
    Optimum,
    OracleTable,
    SACOracleSettings,
    StoredOracle,
    given_optimal_returns,
    grid_for,
    optimal_returns_of_runs,
    render,
)
from driftrl.presets.tasks import TASKS
from driftrl.records import Run, load_run

HANGING_5 = EnvironmentConfig(sim_steps=200, action_repeat=5)
OTHER = EnvironmentConfig(sim_steps=20, action_repeat=5)
HOPPER = TASKS["hopper"].environment
RECORDS = Path(__file__).parents[2] / "docs" / "records"


class Computer:
    """Replaces both computations and notes the θ it was asked for."""

    def __init__(self) -> None:
        self.asked: list[float] = []
        self.fails_at = math.nan

    def by_dp(self, theta: float, environment: EnvironmentConfig) -> Optimum:
        if theta == self.fails_at:
            raise KeyboardInterrupt
        self.asked.append(theta)
        return Optimum(theta, -10.0 * theta, 0.5, 0.0, "iCEM", "a grid", {"iCEM": -1.0})

    def by_sac(
        self,
        task: str,
        theta: float,
        environment: EnvironmentConfig,
        settings: SACOracleSettings,
    ) -> Optimum:
        self.asked.append(theta)
        # 0 at θ = 2, lower elsewhere: not monotone.
        value = -10.0 * abs(theta - 2.0)
        return Optimum(theta, value, 1.0, 0.5, "SAC", str(settings))


@pytest.fixture
def computer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Computer:
    """Compute nothing, and cache into an empty directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    computer = Computer()
    monkeypatch.setattr(pendulum, "optimal_return", computer.by_dp)
    monkeypatch.setattr(sac, "optimal_return", computer.by_sac)
    return computer


def sources(table: OracleTable) -> list[str]:
    return [entry.source for entry in table.entries]


def values(table: OracleTable) -> list[float]:
    return [entry.value for entry in table.entries]


# ---- files ---------------------------------------------------------------------------


def test_shipped_values_need_no_computation(computer: Computer) -> None:
    found = StoredOracle("pendulum", HANGING_5).table([5.0, 1.0, 2.0, 5.0])
    assert [entry.theta for entry in found.entries] == [1.0, 2.0, 5.0]
    assert values(found) == pytest.approx([-588.155, -301.850, -99.767], abs=0.01)
    assert set(sources(found)) == {"shipped"} and computer.asked == []


def test_shipped_values_are_precise_and_grow_with_the_torque() -> None:
    for repeat in (1, 5):
        optima = StoredOracle(
            "pendulum", EnvironmentConfig(200, repeat)
        ).stored.values()
        # The others were computed for a study, on the default grid.
        optima = [one for one in optima if one.effort.startswith("720 angles")]
        assert len(optima) > 60
        value = np.array([one.value for one in optima])
        error = np.array([one.error for one in optima])
        # Near θ = 1.12, 1.47 and 2.12, where one swing fewer suffices, J* jumps and
        # the grid smears it.
        assert np.all(error < 0.1 * np.abs(value))
        assert np.median(error / np.abs(value)) < 0.01
        assert np.all(np.diff(value) > -1e-3)


@pytest.mark.parametrize(
    ("theta", "finest"), [(1.0, -579.3896), (2.0, -294.9453), (5.0, -99.6416)]
)
def test_shipped_values_agree_with_a_much_finer_grid(
    theta: float, finest: float
) -> None:
    # V on 2880 angles × 1921 speeds (720 × 961 at θ = 5, where it has converged).
    one = StoredOracle("pendulum", EnvironmentConfig(200, 1)).table([theta]).entries[0]
    assert abs(one.value - finest) <= one.error < 0.01 * abs(one.value)


@pytest.mark.parametrize(
    "study", ["gp_pendulum_growth", "mujoco_decay_rates", "mujoco_environments"]
)
def test_published_studies_need_no_computation(
    study: str, computer: Computer, tmp_path: Path
) -> None:
    with tarfile.open(RECORDS / f"{study}.tar.gz") as packed:
        packed.extractall(tmp_path, filter="data")
    runs = [load_run(path.parent) for path in tmp_path.rglob("*-s0/episodes.jsonl")]
    for task in {run.task for run in runs}:
        optimal_returns_of_runs([run for run in runs if run.task == task])
    assert computer.asked == []


def test_values_are_computed_once_and_then_cached(computer: Computer) -> None:
    progress: list[tuple[int, int]] = []
    first = StoredOracle("pendulum", OTHER).table(
        [1.0, 2.0], lambda *now: progress.append(now)
    )
    assert progress == [(0, 2), (1, 2), (2, 2)]
    assert sources(first) == ["computed", "computed"]
    second = StoredOracle("pendulum", OTHER).table([2.0, 3.0])
    assert computer.asked == [1.0, 2.0, 3.0]
    assert sources(second) == ["cached", "computed"]
    assert replace(second.entries[0], source="computed") == first.entries[1]


def test_other_systems_and_settings_do_not_share_values(computer: Computer) -> None:
    questions = [
        StoredOracle("pendulum", OTHER),
        StoredOracle("pendulum", replace(OTHER, start="random")),
        StoredOracle("pendulum", OTHER, by="sac"),
        StoredOracle("pendulum-decay", OTHER, by="sac"),
        StoredOracle("hopper", HOPPER),
    ]
    assert len({oracle.cache_file for oracle in questions}) == len(questions)


@pytest.mark.parametrize("damage", [b"\xff", b'{"revision": 0, "values": []}'])
def test_damaged_or_outdated_cache_is_computed_again(
    computer: Computer, damage: bytes
) -> None:
    StoredOracle("pendulum", OTHER).table([1.0])
    StoredOracle("pendulum", OTHER).cache_file.write_bytes(damage)
    assert sources(StoredOracle("pendulum", OTHER).table([1.0])) == ["computed"]
    assert sources(StoredOracle("pendulum", OTHER).table([1.0])) == ["cached"]


def test_cache_that_cannot_be_written_only_warns(
    computer: Computer, tmp_path: Path
) -> None:
    (tmp_path / "driftrl").write_text("a file where the directory should be")
    with pytest.warns(UserWarning):
        assert values(StoredOracle("pendulum", OTHER).table([1.0])) == [-10.0]


def test_interrupted_computation_keeps_finished_values(computer: Computer) -> None:
    computer.fails_at = 2.0
    with pytest.raises(KeyboardInterrupt):
        StoredOracle("pendulum", OTHER).table([1.0, 2.0])
    computer.fails_at = math.nan
    found = StoredOracle("pendulum", OTHER).table([1.0, 2.0])
    assert sources(found) == ["cached", "computed"]


# ---- SAC: a grid, interpolation, the running maximum ---------------------------------


@pytest.mark.parametrize(
    ("thetas", "grid"),
    [
        ([0.25, 0.31, 0.38, 0.55], [0.2, 0.4, 0.6]),
        ([0.25, 0.55], [0.25, 0.55]),
        ([1.0, 1.0 + 1e-12, 1.05], [1.0, 1.05]),
        ([0.61, 0.62, 0.63, 0.8, 1.2], [0.6, 0.8, 1.2]),
    ],
)
def test_grid_surrounds_the_thetas(thetas: list[float], grid: list[float]) -> None:
    assert grid_for(thetas, 0.2) == grid


def by_sac(thetas: list[float]) -> OracleTable:
    return StoredOracle("pendulum", OTHER, by="sac").table(thetas)


def test_values_between_grid_points_are_interpolated(computer: Computer) -> None:
    thetas = [1.0, 1.05, 1.1, 1.15, 1.2]  # the grid is 1.0, 1.2
    found = by_sac(thetas)
    assert computer.asked == [1.0, 1.2]
    assert found.lookup(1.05).value == pytest.approx(-0.75 * 10 - 0.25 * 8)
    assert found.lookup(1.05).error == pytest.approx(1.0 + 0.5 * 2)
    assert found.lookup(1.05).std == 0.5
    assert sources(found).count("interpolated") == 3


def test_monotone_values_never_fall(computer: Computer) -> None:
    found = by_sac([1.0, 2.0, 3.0])
    assert values(found) == [-10.0, 0.0, 0.0]
    assert [entry.error for entry in found.entries] == [1.0, 1.0, 10.0]
    # The raw value is cached: without θ = 2 in the question nothing raises θ = 3.
    again = by_sac([1.0, 3.0])
    assert values(again) == [-10.0, -10.0] and computer.asked == [1.0, 2.0, 3.0]


def test_a_gap_in_the_grid_is_missing(computer: Computer) -> None:
    path = StoredOracle("hopper", HOPPER).cache_file
    path.parent.mkdir(parents=True)
    path.write_bytes(render(Optimum(one, 1.0, 1.0) for one in (0.2, 0.6, 0.8, 1.0)))
    thetas = [0.25 + 0.01 * step for step in range(60)]  # a grid of 0.2, 0.4 … 1
    assert StoredOracle("hopper", HOPPER).missing(thetas) == [0.4]


# ---- runs: the empirical floor, and where there is no oracle -------------------------

TABLE = OracleTable(
    (Optimum(0.5, 10.0, 1.0), Optimum(0.75, 20.0, 2.0), Optimum(1.0, 30.0, 3.0, 0.5)),
    "By SAC.",
)


def test_floor_is_the_best_return_at_this_theta_or_a_smaller_one() -> None:
    thetas, returns = np.array([1.0, 0.75, 0.6]), np.array([28.0, 24.0, 26.0])
    found = TABLE.with_floor(thetas, returns, monotone=True)
    # 26 was achieved at 0.6: it counts at 0.75, not at 0.5.
    assert values(found) == [10.0, 26.0, 30.0]
    assert [entry.error for entry in found.entries] == [1.0, 6.0, 3.0]
    found = TABLE.with_floor(thetas + 1e-12, returns, monotone=False)
    assert values(found) == [10.0, 24.0, 30.0]


def run(
    thetas: list[float],
    returns: float = -500.0,
    task: str = "pendulum",
    **changes: object,
) -> Run:
    environment = {"sim_steps": 20, "action_repeat": 5, "start": "hanging"}
    config = {"task": task, "environment": environment, **changes}
    records = [
        record(n, theta=theta, return_executed=0.0, return_eval=returns)
        for n, theta in enumerate(thetas, start=1)
    ]
    return Run(Path("nowhere"), config, tuple(records))


def test_trained_oracle_is_at_least_what_runs_achieved(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(
        TASKS, "pendulum", replace(TASKS["pendulum"], plant="halfcheetah")
    )
    other = run([1.0], returns=-4.0)
    elsewhere = run([1.0], returns=99.0, extra_drifts=[{"parameter": "mass"}])
    unreadable = run([1.0], returns=99.0, environment={"wings": 2})
    others = [other, elsewhere, unreadable]
    found = optimal_returns_of_runs([run([1.0, 2.0])], others=others)
    assert values(found) == [-4.0, 0.0]
    with pytest.raises(InputError):
        StoredOracle("pendulum", OTHER, by="dp")


def test_nothing_is_computed_where_only_what_is_stored_counts(
    computer: Computer,
) -> None:
    """What was achieved at θ, or at a smaller one, takes the place of J*(θ)."""
    runs = [
        run([theta], returns, "hopper", environment={"parameter": "gear"})
        for theta, returns in ((1.0, -4.0), (0.5, -6.0), (2.0, -9.0))
    ]
    found = optimal_returns_of_runs(runs, oracle="stored")
    assert values(found) == [-6.0, -4.0, -4.0] and "not computed" in found.provenance
    cyclic = {"drift": {"kind": "cyclic"}, "drift_every": 1, "clock": "steps"}
    within = [run([1.0], method="sombrl", **cyclic)]
    assert optimal_returns_of_runs(within, oracle="stored").entries == ()
    assert computer.asked == []


def test_drift_within_episodes_has_an_optimum_for_every_clock(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """J* depends on the whole path: where it goes up or down has one mean θ."""
    paths: list[list[float]] = []

    def by_path(path: np.ndarray, environment: EnvironmentConfig) -> Optimum:
        paths.append(path.tolist())
        return Optimum(float(path.mean()), float(-path[0]), 0.5, 0.0)

    monkeypatch.setattr(pendulum, "optimal_return", by_path)
    cyclic = {"kind": "cyclic", "start": 0, "period": 8}
    moving = {"drift": cyclic, "clock": "steps", "drift_every": 2}
    environment = {"sim_steps": 20, "action_repeat": 5}
    rows = [record(n, steps=4, theta=1.5) for n in (1, 2, 3)]
    settings = {"task": "pendulum", "method": "sombrl", "environment": environment}
    recorded = Run(Path("a"), {**settings, **moving}, tuple(rows))
    found = optimal_returns_of_runs([recorded])
    schedule = Cyclic(start=0, period=8)
    assert found.by_clock and [one.theta for one in found.entries] == [0.0, 4.0, 8.0]
    assert paths == [[schedule(t + k) for k in (0, 0, 2, 2)] for t in (0, 4, 8)]
    assert values(found) == [-2.0, -1.0, -2.0]
    assert sources(optimal_returns_of_runs([recorded])) == ["cached"] * 3
    # A plain θ of 4 is another question, and so is the path of another schedule.
    assert StoredOracle("pendulum", OTHER).missing([4.0]) == [4.0]
    other = Run(Path("a"), {**recorded.config, "drift_every": 1}, tuple(rows))
    assert sources(optimal_returns_of_runs([other])) == ["computed"] * 3
    noisy = {**environment, "noise_std": 0.1}
    unknown = Run(Path("a"), {**recorded.config, "environment": noisy}, tuple(rows))
    assert optimal_returns_of_runs([unknown]).entries == ()


def test_a_continuing_run_has_the_best_rate_of_a_step() -> None:
    """Not J* of an episode, which begins at a reset."""
    rows = [record(n, steps=4, theta=2.0) for n in (1, 2)]
    settings = {"task": "pendulum", "method": "sombrl", "continuing": True}
    quiet = Run(Path("a"), {**settings, "environment": {}}, tuple(rows))
    found = optimal_returns_of_runs([quiet])
    assert found.per_step and values(found) == [0.0]
    given = optimal_returns_of_runs([quiet], oracle=lambda theta: -theta)
    assert given.per_step and values(given) == [-2.0]
    noisy = {**settings, "environment": {"noise_std": 0.1}}
    for unknown in (noisy, {**settings, "task": "halfcheetah"}):
        found = optimal_returns_of_runs([Run(Path("a"), unknown, tuple(rows))])
        assert found.entries == () and "ρ*" in found.provenance


def test_runs_of_different_systems_have_no_common_oracle() -> None:
    with pytest.raises(InputError):
        optimal_returns_of_runs([run([1.0]), run([1.0], environment={})])


@pytest.mark.parametrize(
    "unknown",
    [
        run([math.nan]),
        run([1.0], task="gym:CartPole-v1"),
        run([1.0], extra_drifts=[{"parameter": "mass"}]),
        run([1.0], environment={"wings": 2}),
    ],
)
def test_table_without_oracle_is_empty_and_says_why(unknown: Run) -> None:
    found = optimal_returns_of_runs([unknown])
    assert not found.entries and found.provenance


# ---- a user's J* ---------------------------------------------------------------------


def test_csv_is_interpolated_within_its_range(tmp_path: Path) -> None:
    path = tmp_path / "best.csv"
    path.write_text("theta,value\n2,-4\n1,-10\n")
    found = given_optimal_returns(str(path), [1.0, 1.25, 2.0])
    assert values(found) == [-10.0, -8.5, -4.0]
    assert values(given_optimal_returns(path, [2.0])) == [-4.0]
    with pytest.raises(InputError, match="needed at 2.5"):
        given_optimal_returns(path, [2.5])


@pytest.mark.parametrize(
    "content",
    ["", "theta,reward\n1,2\n", "theta,value\n1,nan\n", "theta,value\n1,0\n1,0\n"],
)
def test_bad_csv_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "best.csv"
    path.write_text(content)
    with pytest.raises(InputError, match="best.csv"):
        given_optimal_returns(path, [1.0])


@pytest.mark.parametrize(
    "oracle",
    [
        "no_such_module:best",
        "tests.oracles.test_table:RECORDS",
        "missing.csv",
        lambda theta: 1 / 0,
    ],
)
def test_bad_oracle_is_refused(oracle: table.Oracle) -> None:
    with pytest.raises(InputError):
        given_optimal_returns(oracle, [1.0])


# ---- bad questions, and the command --------------------------------------------------


@pytest.mark.parametrize("thetas", [[], [math.nan], [1.0, math.inf]])
def test_thetas_must_be_finite(thetas: list[float]) -> None:
    with pytest.raises(InputError):
        StoredOracle("pendulum", OTHER).table(thetas)


def test_lookup_of_an_unknown_theta_is_refused() -> None:
    assert TABLE.lookup(0.75 + 1e-10).value == 20.0
    with pytest.raises(InputError, match="0.8"):
        TABLE.lookup(0.8)
    with pytest.raises(InputError):
        Optimum(1.0, 0.0, error=-0.1)


def test_command_prints_the_values(
    computer: Computer, capsys: pytest.CaptureFixture[str]
) -> None:
    words = "oracle pendulum --theta 1 --json"
    assert main([*words.split()]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["values"][0]["value"] == pytest.approx(-588.2, abs=0.05)
    words = "oracle pendulum-decay --by sac --theta 4 1"
    assert main([*words.split()]) == 0
    out, err = capsys.readouterr()
    rows = [line.split() for line in out.splitlines()[1:3]]
    assert rows[0] == ["4", "-10.00", "10.00", "computed"]
    assert rows[1] == ["1", "-10.00", "1.00", "computed"]
    assert "2 values of θ: about" in err.splitlines()[0]
    assert "0 of 2" in err and "2 of 2" in err
    assert main([*words.split()]) == 0  # they are cached now
    assert "about" not in capsys.readouterr().err
