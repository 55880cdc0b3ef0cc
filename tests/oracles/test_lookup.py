"""The oracle as regret asks for it."""

from pathlib import Path

import pytest

from driftrl.config import EnvironmentConfig
from driftrl.errors import InputError
from driftrl.oracles.lookup import oracle_of_runs, oracle_of_task
from driftrl.results.records import Run
from driftrl.types import EpisodeRecord

ENVIRONMENT = EnvironmentConfig(steps=200, action_repeat=5)


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


def test_random_starts_say_how_returns_scatter() -> None:
    environment = EnvironmentConfig(200, 5, "random")
    entry = oracle_of_task("pendulum", [2.0], environment).lookup(2.0)
    assert 50.0 < entry.spread < 100.0


def test_runs_of_different_environments_have_no_common_oracle() -> None:
    with pytest.raises(InputError, match="received runs of 2 kinds"):
        oracle_of_runs([run([1.0]), run([1.0], action_repeat=1)])


def test_a_task_without_an_oracle_is_refused() -> None:
    with pytest.raises(InputError, match="'cartpole' has no oracle.*pendulum"):
        oracle_of_task("cartpole", [1.0], ENVIRONMENT)


def test_an_oracle_needs_a_theta() -> None:
    with pytest.raises(InputError, match="at least one value of θ"):
        oracle_of_task("pendulum", [], ENVIRONMENT)
