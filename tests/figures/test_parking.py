"""The figure of the parking car: which drives, which cars, and when there is none."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.patches import Polygon

from driftrl.figures import write
from driftrl.figures.parking import (
    car_places,
    drives_of,
    parking_figure,
    parking_words,
    shown_episodes,
    view,
)
from driftrl.figures.style import INK
from driftrl.figures.write import write_report
from driftrl.memory.episodes import save_episode
from driftrl.oracles.values import NO_ORACLE, OracleTable, OracleValue
from driftrl.records import Run
from driftrl.results.comparison import Comparison
from driftrl.results.regret import StudyRegret, compare_methods
from driftrl.results.trajectories import Trajectory
from driftrl.types import Episode, EpisodeRecord

METHODS = {"sombrl": "SOMBRL", "r-ombrl": "R-OMBRL"}
THETAS = [1.0, 1.0, 1.0, 0.5, 0.25, 0.25]
TABLE = OracleTable(
    tuple(OracleValue(theta, 100 * theta, 1.0) for theta in (1.0, 0.5, 0.25)), "by hand"
)
RETURNS = {0: 10.0, 1: 30.0, 2: 20.0}
"""Of the last episode, by seed: that of seed 2 is the median."""


def arc(seed: int, episode: int) -> np.ndarray:
    """Return the states of a car that slides to the goal on half an ellipse."""
    angles = np.linspace(np.pi, 0.0, 41)
    x, y = (1 + 0.1 * seed) * np.sin(angles), (np.cos(angles) - 1) / 2
    heading = angles + 0.1 * episode * np.sin(angles)
    rest = np.zeros((41, 9))
    return np.column_stack([x, y, np.sin(heading), np.cos(heading), rest])


def save(run: Run, number: int, states: np.ndarray) -> None:
    count = len(states) - 1
    actions, rewards = np.zeros((count, 2)), np.zeros(count)
    episode = Episode(states[:-1], actions, rewards, states[1:], False)
    save_episode(run.directory / "memory", number, episode)


def car_run(
    directory: Path, method: str, seed: int, thetas: list[float] = THETAS
) -> Run:
    rows = [
        EpisodeRecord(
            episode=n,
            theta=theta,
            steps=40,
            # In the episode before the change the order of the seeds is another.
            return_executed=RETURNS[seed] if n != 3 else RETURNS[(seed + 1) % 3],
            return_eval=40 * THETAS[n - 1] + seed,
            terminated=False,
            first_retained=1,
            transitions=40 * (n - 1),
            optimism=0.05,
            model_error=None,
            coverage=None,
            epistemic_std=None,
            wall_s=1.0,
        )
        for n, theta in enumerate(thetas, start=1)
    ]
    config = {"task": "rccar", "method": method, "seed": seed, "episodes": 6}
    run = Run(directory / f"rccar-{method}-s{seed}", config, tuple(rows))
    for n in range(1, len(rows) + 1):
        save(run, n, arc(seed, n))
    return run


def make_study(directory: Path, table: OracleTable = TABLE) -> StudyRegret:
    runs = [car_run(directory, method, seed) for method in METHODS for seed in RETURNS]
    return compare_methods(runs, table)


@pytest.fixture(scope="module")
def parked(tmp_path_factory: pytest.TempPathFactory) -> StudyRegret:
    return make_study(tmp_path_factory.mktemp("cars"))


def drive(*places: tuple[float, float, float], total: float = 0.0) -> Trajectory:
    """Return a drive through poses: x, y and heading."""
    poses = np.array(places)
    states = [*poses[:, :2].T, np.sin(poses[:, 2]), np.cos(poses[:, 2])]
    return Trajectory(0, np.column_stack(states), total)


def test_the_last_episodes_before_the_change_and_of_all(parked: StudyRegret) -> None:
    assert shown_episodes(parked) == [3, 6]
    _, caption = parking_words(parked)
    assert "and the dotted line marks where θ begins to change. Right" in caption
    assert "in the last before θ began to change. Cars" in caption
    assert list(drives_of(parked)) == [
        *(("sombrl", 3), ("r-ombrl", 3), ("sombrl", 6), ("r-ombrl", 6))
    ]
    drives = drives_of(parked)["r-ombrl", 6]
    assert [one.seed for one in drives] == [0, 1, 2]
    np.testing.assert_array_equal(drives[1].obs, arc(seed=1, episode=6))


def test_one_row_where_theta_does_not_change_or_is_not_known(tmp_path: Path) -> None:
    early = [car_run(tmp_path, "sombrl", 0, THETAS[:2])]
    assert shown_episodes(compare_methods(early, TABLE)) == [2]
    _, caption = parking_words(compare_methods(early, TABLE))
    assert "to either side. Right" in caption and "in the last episode. Cars" in caption
    # One run has passed the change, and another is not yet where the first was then.
    apart = [*early, car_run(tmp_path, "r-ombrl", 0)]
    assert shown_episodes(compare_methods(apart, TABLE)) == [2]
    silent = [car_run(tmp_path, "sombrl", 0, [float("nan")] * 4)]
    study = compare_methods(silent, NO_ORACLE)
    assert shown_episodes(study) == [4]
    returns, car = parking_figure(study).axes
    assert (returns.get_ylabel(), car.get_ylabel()) == (
        r"Return $J(\pi_n)$",
        "Episode 4",
    )


def test_no_drives_of_another_task_or_of_published_records(tmp_path: Path) -> None:
    study = make_study(tmp_path)
    other = [
        dataclasses.replace(run, config={**run.config, "task": "hopper"})
        for run in study.runs
    ]
    assert drives_of(dataclasses.replace(study, runs=tuple(other))) == {}
    for run in study.runs_of("r-ombrl")[1:]:
        (run.directory / "memory" / "000006.npz").unlink()
    assert [one.seed for one in drives_of(study)["r-ombrl", 6]] == [0]
    (study.runs_of("r-ombrl")[0].directory / "memory" / "000006.npz").unlink()
    assert drives_of(study) == {}


def test_cars_are_evenly_far_apart_from_start_to_end() -> None:
    # 1.5 m in steps of a quarter: 2 + ⌊1.5 / 0.6⌋ = 4 cars, half a metre apart.
    straight = drive(*((0.25 * n, 0.0, 0.0) for n in range(7)))
    assert car_places(straight.obs).tolist() == [0, 2, 4, 6]
    # On the spot: 0.2 m a radian, so that 2π, past the jump of the angle, are 1.26 m.
    turning = drive(*((1.0, 0.0, np.pi * n / 3) for n in range(7)))
    assert car_places(turning.obs).tolist() == [0, 2, 4, 6]
    still = drive(*[(1.0, 2.0, 0.5)] * 5)
    assert car_places(still.obs).tolist() == [0, 4]
    far = drive(*((float(n), 0.0, 0.0) for n in range(101)))
    assert len(car_places(far.obs)) == 14


@given(
    st.lists(st.tuples(*[st.floats(-3, 3)] * 3), min_size=2, max_size=30, unique=True)
)
def test_any_drive_has_a_car_at_its_start_and_at_its_end(
    poses: list[tuple[float, float, float]],
) -> None:
    places = car_places(drive(*poses).obs)
    assert (places[0], places[-1]) == (0, len(poses) - 1)
    assert 2 <= len(places) <= 14
    assert (np.diff(places) > 0).all()


def test_the_view_has_the_median_drives_the_starts_and_the_goal() -> None:
    shown = drive((2.0, -1.0, 0.0), (1.0, -0.5, 0.0), total=2.0)
    lost = drive((2.5, -1.0, 0.0), (50.0, 9.0, 0.0), total=1.0)
    lucky = drive((2.0, -1.0, 0.0), (0.0, 0.0, 0.0), total=3.0)
    # From the goal at 0 to the start at 2.5, and 0.3 m around: 3.1 m by 1.6 m.
    horizontal, vertical = view([[shown, lost, lucky]], shape=3.1 / 1.6)
    np.testing.assert_allclose([horizontal, vertical], [(-0.3, 2.8), (-1.3, 0.3)])
    # A square is as high as that is wide, and has the same middle.
    horizontal, vertical = view([[shown, lost, lucky]], shape=1.0)
    np.testing.assert_allclose([horizontal, vertical], [(-0.3, 2.8), (-2.05, 1.05)])


def test_the_figure_has_returns_beside_the_drives_of_each_method(
    parked: StudyRegret,
) -> None:
    figure = parking_figure(parked)
    strip, returns, *cars = figure.axes
    np.testing.assert_array_equal(strip.patches[0].get_data().values, THETAS)  # type: ignore[attr-defined]
    lines = {line.get_label(): line for line in returns.lines}
    # Evaluated returns, of which the mean of three seeds is that of the second.
    expected = [40 * theta + 1 for theta in THETAS]
    np.testing.assert_allclose(np.asarray(lines["R-OMBRL"].get_ydata()), expected)
    for axes in (strip, returns):
        assert [3.5, 3.5] in [list(line.get_xdata()) for line in axes.lines]  # type: ignore[call-overload]
    assert [axes.get_title() for axes in cars] == [*METHODS.values(), "", ""]
    assert [axes.get_ylabel() for axes in cars] == ["Episode 3", "", "Episode 6", ""]
    assert len({(axes.get_xlim(), axes.get_ylim()) for axes in cars}) == 1
    (legend,) = figure.legends
    names = [text.get_text() for text in legend.get_texts()]
    assert names == [*METHODS.values(), "J*(θ), optimum"]
    figure.draw_without_rendering()


def test_cars_stand_along_the_drive_with_the_median_return(
    parked: StudyRegret,
) -> None:
    cars = parking_figure(parked).axes[2:]
    # Seed 2 at the end; before the change returns are 30, 20 and 10: seed 1.
    for axes, median, episode in zip(cars, (1, 1, 2, 2), (3, 3, 6, 6), strict=True):
        states = arc(median, episode)
        ways = [line for line in axes.lines if np.shape(line.get_xydata()) == (41, 2)]
        assert len(ways) == 3
        (way,) = [line for line in ways if line.get_color() == INK]
        np.testing.assert_array_equal(way.get_xydata(), states[:, :2])
        bodies = [one.get_xy()[:5] for one in axes.patches if isinstance(one, Polygon)]
        goal, *bodies = bodies
        places = car_places(states)
        assert len(bodies) == len(places)
        np.testing.assert_allclose(goal[2], (0.275, 0.0))  # its nose points along x
        for body, place in zip(bodies, places, strict=True):
            x, y, sin, cos = states[place, :4]
            nose, rear = body[2], body[[0, 4]].mean(axis=0)
            np.testing.assert_allclose((nose + rear) / 2, (x, y), atol=1e-12)
            np.testing.assert_allclose((nose - rear) / 0.44, (cos, sin), atol=1e-12)


def test_a_report_has_it_as_files_and_on_the_page(
    tmp_path: Path, parked: StudyRegret, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write, "FIGURES", {})  # other tests draw them
    monkeypatch.setattr(write, "aggregate_figure", lambda _: None)
    paths = write_report(Comparison((parked,)), tmp_path / "with", "Parking", "")
    names = ["parking.png", "parking.pdf", "report.html"]
    assert [path.name for path in paths] == names
    page = paths[-1].read_text()
    assert page.count("<img ") == 1
    assert "Cars stand along the drive with the median return" in page
    published = [
        dataclasses.replace(run, directory=tmp_path / run.directory.name)
        for run in parked.runs
    ]
    study = dataclasses.replace(parked, runs=tuple(published))
    paths = write_report(Comparison((study,)), tmp_path / "without", "Parking", "")
    assert [path.name for path in paths] == ["report.html"]
    assert "<img " not in paths[-1].read_text()
