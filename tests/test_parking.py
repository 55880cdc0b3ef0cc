"""The car's figure: which drives are shown, where cars stand, and what is seen."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import driftrl
from driftrl.errors import CorruptFile, InputError
from factories import record, script, write_run

experiment: Any = script("parking")
THETAS = [1.0, 1.0, 1.0, 0.5, 0.25]


def states(seed: int, episode: int, steps: int = 20) -> np.ndarray:
    """A drive that turns around on the way to the goal."""
    rng = np.random.default_rng([seed, episode])
    heading = np.linspace(np.pi, 0, steps + 1)
    x = np.linspace(1.5, 0.1 * rng.normal(), steps + 1)
    y = np.linspace(-1.0, 0.1 * rng.normal(), steps + 1)
    return np.stack([x, y, np.sin(heading), np.cos(heading)], axis=1)


def write_car(directory: Path, method: str, seed: int, total: float) -> Path:
    rows = [
        record(n, theta=theta, return_executed=total)
        for n, theta in enumerate(THETAS, start=1)
    ]
    name = f"rccar-{method}-s{seed}"
    run = write_run(directory / name, rows, task="rccar", method=method, seed=seed)
    (run / "memory").mkdir()
    for episode in range(1, 6):
        obs = states(seed, episode)
        path = run / "memory" / f"{episode:06d}.npz"
        np.savez(path, obs=obs[:-1], next_obs=obs[1:])
    return run


@pytest.fixture
def car(tmp_path: Path) -> Path:
    for method in ("sombrl", "sw-ombrl"):
        for seed, total in enumerate((5.0, 1.0, 3.0)):
            write_car(tmp_path / "car", method, seed, total)
    return tmp_path / "car"


def test_drives_are_those_before_the_change_and_the_last(car: Path) -> None:
    drives = experiment.read_drives(driftrl.load(car, oracle="none"))
    assert list(drives) == [
        *(("sombrl", 3), ("sw-ombrl", 3), ("sombrl", 5), ("sw-ombrl", 5))
    ]
    group = drives["sombrl", 3]
    assert [(drive.seed, drive.total) for drive in group] == [
        (0, 5.0),
        (1, 1.0),
        (2, 3.0),
    ]
    np.testing.assert_array_equal(group[1].obs, states(1, 3))
    assert experiment.median_drive(group).seed == 2
    assert experiment.median_drive(group[:2]).seed == 1  # of two, the lower


def test_other_tasks_and_published_records_have_none(car: Path, tmp_path: Path) -> None:
    other = write_run(tmp_path / "other", [record(1)])
    assert experiment.read_drives(driftrl.load(other, oracle="none")) == {}
    for path in (car / "rccar-sombrl-s0").rglob("*.npz"):
        path.unlink()
    assert experiment.read_drives(
        driftrl.load(car, oracle="none")
    )  # one of three is missing
    for path in car.rglob("*.npz"):
        path.unlink()
    with pytest.raises(InputError, match="memory"):
        experiment.parking(driftrl.load(car, oracle="none"))


def test_a_damaged_drive_is_said(car: Path) -> None:
    (car / "rccar-sombrl-s0" / "memory" / "000005.npz").write_bytes(b"oops")
    with pytest.raises(CorruptFile, match="000005"):
        experiment.read_drives(driftrl.load(car, oracle="none"))


def test_the_figure_has_returns_beside_drives(car: Path) -> None:
    frame = driftrl.load(car, oracle="none")
    axes: Any = experiment.parking(frame).axes
    theta, returns, *drives = axes
    np.testing.assert_array_equal(theta.patches[0].get_data().values, THETAS)
    lines = [one for one in returns.get_lines() if one.get_label() == "SOMBRL"]
    np.testing.assert_allclose(lines[0].get_ydata(), [3.0] * 5)
    assert len(drives) == 4
    median = states(2, 3)
    for cars in drives[0].patches[1:]:
        middle = cars.get_xy()[:-1].mean(axis=0)
        assert np.hypot(*(median[:, :2] - middle).T).min() < 0.1
    assert len(drives[0].patches) == 1 + len(experiment.car_places(median))


def test_cars_are_evenly_far_apart() -> None:
    straight = np.zeros((101, 4))
    straight[:, 0], straight[:, 3] = np.linspace(0, 3, 101), 1.0
    places = experiment.car_places(straight)
    assert (places[0], places[-1], len(places)) == (0, 100, 7)  # 3 m, one every 0.6 m
    np.testing.assert_allclose(np.diff(straight[places, 0]), 0.5, atol=0.031)


@given(st.integers(2, 60), st.integers(0, 1000))
def test_any_drive_has_a_car_at_both_ends(steps: int, seed: int) -> None:
    walk = np.cumsum(np.random.default_rng(seed).normal(size=(steps, 4)), axis=0)
    places = experiment.car_places(walk)
    assert places[0] == 0 and places[-1] == steps - 1 and len(places) <= 15


def test_the_view_has_starts_goal_and_median_drives() -> None:
    shown = experiment.Drive(0, np.array([[2.0, 0, 0, 1], [0, 1.0, 0, 1]]), 1.0)
    far = experiment.Drive(1, np.array([[2.0, -1.0, 0, 1], [50.0, 0, 0, 1]]), 2.0)
    (left, right), (low, high) = experiment.view([[shown, far]], 2.0)
    assert (low, high) == pytest.approx((-1.3, 1.3))
    assert (left, right) == pytest.approx((-1.6, 3.6))  # twice as wide as high


def test_the_script_writes_both_files(car: Path, tmp_path: Path) -> None:
    experiment.main([str(car), "--out", str(tmp_path / "out" / "car")])
    names = sorted(path.name for path in (tmp_path / "out").iterdir())
    assert names == ["car.pdf", "car.png"]
