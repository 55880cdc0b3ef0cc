"""The oracle as regret asks for it."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from driftrl.config.run import EnvironmentConfig
from driftrl.errors import InputError
from driftrl.oracles import sac
from driftrl.oracles.lookup import By, method_of, oracle_of_runs, oracle_of_task
from driftrl.oracles.optimum import Optimum
from driftrl.oracles.sac import Training, conclude
from driftrl.oracles.sac_settings import SACOracleSettings
from driftrl.presets.tasks import TASKS
from driftrl.records import Run
from driftrl.types import EpisodeRecord

ENVIRONMENT = EnvironmentConfig(sim_steps=200, action_repeat=5)


def run(thetas: list[float], **environment: object) -> Run:
    settings = {"steps": 200, "action_repeat": 5, "start": "hanging", "noise_std": 0.0}
    config = {"task": "pendulum", "environment": {**settings, **environment}}
    records = tuple(
        EpisodeRecord(
            episode=n,
            theta=theta,
            steps=40,
            return_executed=-500.0,
            return_eval=None,
            terminated=False,
            first_retained=1,
            transitions=0,
            optimism=1.0,
            model_error=None,
            coverage=None,
            epistemic_std=None,
            wall_s=1.0,
        )
        for n, theta in enumerate(thetas, start=1)
    )
    return Run(Path("nowhere"), config, records)


def test_the_oracle_of_runs_knows_every_theta_they_met() -> None:
    oracle = oracle_of_runs([run([2.0, 2.0, 1.0]), run([5.0])])
    assert [entry.theta for entry in oracle.entries] == [1.0, 2.0, 5.0]
    values = [entry.value for entry in oracle.entries]
    assert values == pytest.approx([-588.155, -301.850, -99.767], abs=0.01)
    assert "3 shipped" in oracle.provenance
    assert "720 angles × 481 speeds × 21 actions" in oracle.provenance


def test_a_schedule_that_creeps_to_its_limit_has_an_oracle() -> None:
    thetas = [1.0, 1.0 + 1e-12, 1.0 + 3e-10, 1.0 + 6e-10]
    oracle = oracle_of_task("pendulum", thetas, ENVIRONMENT)
    assert [entry.theta for entry in oracle.entries] == [1.0]
    assert all(oracle.lookup(theta).theta == 1.0 for theta in thetas)


@pytest.mark.slow
def test_random_starts_say_how_returns_scatter() -> None:
    environment = EnvironmentConfig(200, 5, "random")
    entry = oracle_of_task("pendulum", [2.0], environment).lookup(2.0)
    assert 50.0 < entry.spread < 100.0


def test_runs_of_different_environments_have_no_common_oracle() -> None:
    with pytest.raises(InputError, match="received runs of 2 kinds"):
        oracle_of_runs([run([1.0]), run([1.0], action_repeat=1)])


def test_an_unknown_task_is_refused() -> None:
    with pytest.raises(InputError, match="Unknown task 'pendlum'. Did you mean"):
        oracle_of_task("pendlum", [1.0], ENVIRONMENT)


@pytest.mark.parametrize("by", ["dp", "sac", None])
@pytest.mark.parametrize("theta", [float("nan"), float("inf")])
def test_a_theta_that_is_not_finite_is_refused(by: By | None, theta: float) -> None:
    with pytest.raises(InputError, match="values of θ that are finite, received"):
        oracle_of_task("pendulum", [1.0, theta], ENVIRONMENT, by=by)


def test_a_start_that_the_task_does_not_have_is_refused() -> None:
    environment = EnvironmentConfig(200, 5, "falling")
    with pytest.raises(InputError, match="no start 'falling'.*hanging or random"):
        oracle_of_task("pendulum", [1.0], environment, by="sac")


def test_one_plant_has_one_oracle_whatever_the_task() -> None:
    environment = EnvironmentConfig(200, 1)
    of_tasks = [
        oracle_of_task(task, [1.0, 2.0, 5.0], environment)
        for task in ("pendulum", "pendulum-decay")
    ]
    assert of_tasks[0] == of_tasks[1]
    values = [entry.value for entry in of_tasks[1].entries]
    assert values == pytest.approx([-580.85, -295.3, -99.6], abs=0.05)


def fake_training(
    task: str,
    theta: float,
    environment: EnvironmentConfig,
    settings: SACOracleSettings,
    trained: Callable[[], None],
) -> Optimum:
    return conclude(theta, [Training((-8.0, -6.0 / theta), (-6.0 / theta,))], settings)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(sac, "optimal_return", fake_training)


@pytest.mark.usefixtures("trained")
def test_sac_answers_where_it_is_asked() -> None:
    oracle = oracle_of_task("pendulum", [3.0, 2.0, 1.0], ENVIRONMENT, by="sac")
    assert [entry.theta for entry in oracle.entries] == [1.0, 2.0, 3.0]
    assert [entry.value for entry in oracle.entries] == [-6.0, -3.0, -2.0]
    # Half the distance to −8, the other late evaluation.
    assert [entry.error for entry in oracle.entries] == [1.0, 2.5, 3.0]
    assert "(by SAC)" in oracle.provenance
    assert "trainings (3 seeds × " in oracle.provenance
    assert oracle.provenance.endswith("Values: 3 computed.")


@pytest.mark.usefixtures("trained")
def test_many_values_are_interpolated_and_it_says_so() -> None:
    thetas = [1.0, 1.05, 1.1, 1.15, 1.2]
    oracle = oracle_of_task("pendulum", thetas, ENVIRONMENT, by="sac")
    assert oracle.lookup(1.05).value == pytest.approx(-0.75 * 6.0 - 0.25 * 5.0)
    assert oracle.lookup(1.05).error == pytest.approx(1.5 + 0.5)
    assert "(by SAC; SAC, interpolated)" in oracle.provenance
    assert oracle.provenance.endswith("Values: 2 computed, 3 interpolated.")


@pytest.fixture
def other_plant(monkeypatch: pytest.MonkeyPatch) -> None:
    row = replace(TASKS["pendulum"], plant="windmill")
    monkeypatch.setitem(TASKS, "pendulum", row)


@pytest.mark.usefixtures("trained", "other_plant")
def test_where_there_is_no_dynamic_programming_sac_answers_regret_too() -> None:
    assert method_of(TASKS["pendulum"]) == "sac"
    assert method_of(TASKS["pendulum-decay"]) == "dp"
    oracle = oracle_of_runs([run([2.0, 1.0]), run([1.0])])
    assert [entry.value for entry in oracle.entries] == [-6.0, -3.0]
    with pytest.raises(InputError, match="no oracle by dynamic programming.*by SAC"):
        oracle_of_task("pendulum", [1.0], ENVIRONMENT, by="dp")


def test_an_oracle_needs_a_theta() -> None:
    with pytest.raises(InputError, match="at least one value of θ"):
        oracle_of_task("pendulum", [], ENVIRONMENT)
