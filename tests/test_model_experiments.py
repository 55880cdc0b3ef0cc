"""Models on a common test set, the car's throttle, and what other data would do."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from driftrl.envs.rccar import DT, NOMINAL
from driftrl.envs.tasks import configure
from driftrl.export import export_model
from driftrl.exported import Model
from driftrl.records import load_run, load_runs
from driftrl.training.loop import run
from driftrl.training.run_directory import read_config
from factories import TINY_DEEP, script

common: Any = script("common_test_set")
car: Any = script("car_models")


def make_study(directory: Path, task: str, episodes: int, **changes: Any) -> Path:
    agent = {"agent": {**TINY_DEEP["agent"], "optimism": {"rule": "constant"}}}
    for method in ("sombrl", "sw-ombrl"):
        settings = {**changes, **agent, "episodes": episodes}
        config = configure(task, method, settings)
        run(config, directory / config.name)
    return directory


def test_models_predict_the_same_transitions(tmp_path: Path) -> None:
    """The error is that of the exported models, which NumPy evaluates."""
    environment = {"sim_steps": 10, "noise_std": 0.01}
    study = make_study(tmp_path, "pendulum-decay", 3, environment=environment)
    common.main([str(study), "--episodes", "2"])
    content = (study / common.FILE).read_bytes()
    rows = json.loads(content)
    assert [(row["method"], row["transitions"]) for row in rows] == [
        ("sombrl", 40),
        ("sw-ombrl", 40),
    ]
    runs = load_runs(study)
    theta = runs[0].records[-1].theta
    driven = []
    for one in runs:
        config = read_config(one.directory)
        policy, _ = common.newest_policy(one.directory, config)
        driven += [common.drive(policy, config, theta, number) for number in (0, 1)]
    assert not np.array_equal(driven[0].obs, driven[1].obs)
    pool = common.joined(driven)
    spread = (pool.next_obs - pool.obs).std(axis=0)
    for one, row in zip(runs, rows, strict=True):
        model = export_model(one.directory, tmp_path / "model.npz")
        error = pool.next_obs - model(pool.obs, pool.actions).next_obs
        expected = np.sqrt(np.mean((error / spread) ** 2))
        assert row["model_error"] == pytest.approx(expected, rel=1e-4)
        assert row["theta"] == theta
    common.main([str(study), "--episodes", "2"])
    assert (study / common.FILE).read_bytes() == content


def still_car(sin: float, cos: float) -> np.ndarray:
    state = np.zeros((2, 13))
    state[:, 2:4] = sin, cos
    return state


def test_the_true_response_is_that_of_a_straight_start() -> None:
    """From rest v(t) = (θ·c·c_m1/c_m2²)(1 − e^(−t·c_m2²/m)), in any direction."""
    rate = NOMINAL.c_m2**2 / NOMINAL.m
    for command, theta in ((1.0, 1.0), (0.25, 1.0), (1.0, 0.25)):
        gain = theta * command * NOMINAL.c_m1 / NOMINAL.c_m2**2
        speed = gain * (1.0 - np.exp(-rate * DT))
        found = car.true_response(still_car(0.6, -0.8), command, theta)
        assert found == pytest.approx(speed / DT, rel=1e-4)


def test_the_expected_response_is_the_model_s_slope_by_the_oldest_throttle() -> None:
    weight = np.zeros((2, 15, 14))
    weight[:, 8, 4], weight[:, 8, 5] = 0.03, 0.04  # m/s of v_x and v_y
    weight[:, 14, 4] = 9.0  # of the throttle that is only now commanded
    weight[:, 4, 4] = -0.5
    layers = (weight,), (np.zeros((2, 14)),)
    model = Model("rccar", 1, *layers, np.ones(14), noise=np.ones(14))
    actions = np.random.default_rng(0).uniform(-1, 1, (2, 2))
    for (sin, cos), along in (((0.0, 1.0), 0.03), ((1.0, 0.0), 0.04)):
        states = still_car(sin, cos)
        states[:, 4:9] = 0.7
        found = car.expected_response(model, states, actions, 0.5)
        assert found == pytest.approx(0.5 * along / DT)


def test_other_data_train_other_policies(tmp_path: Path) -> None:
    drift = {"start": 3, "ratio": 0.5}
    environment = {"sim_steps": 12}
    study = make_study(tmp_path, "rccar", 6, drift=drift, environment=environment)
    common_words = ["--updates", "3", "--episodes", "2"]
    car.main([str(study), "--offline", *common_words])
    rows = json.loads((study / "offline.json").read_text())
    assert len(rows) == 2 * 4 and {row["problem"] for row in rows} == {"rccar"}
    counts = {row["policy"]: row["transitions"] for row in rows}
    assert counts == {
        "fresh, all": 6 * 12,
        "fresh, since the change": 3 * 12,  # episodes 4, 5 and 6
        "fresh, last four": 4 * 12,
        "the run's own": 6 * 12,
    }
    assert len({row["return"] for row in rows[:4]}) == 4
    # Trained again on the same data, a policy is the same.
    one = load_run(study / "rccar-sombrl-s0")
    again = car.offline(one, updates=3, episodes=2)
    assert again == rows[:4]
    car.main([str(study)])
    found = json.loads((study / "throttle_response.json").read_text())
    assert len(found) == 2 * 2
    for row in found:
        strong = row["expected, m/s²"] / row["expected, of the strong car's"]
        # The throttle of the last episode is (1/2)³ = 1/8, but at least a quarter.
        assert row["true, m/s²"] / strong == pytest.approx(0.25, abs=0.02)
