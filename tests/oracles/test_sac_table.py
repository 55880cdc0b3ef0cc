"""The grid of θ, the running maximum, interpolation, and the cache of trainings."""

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.config.deep import SACConfig
from driftrl.config.run import EnvironmentConfig
from driftrl.oracles import sac
from driftrl.oracles.lookup import oracle_of_runs
from driftrl.oracles.optimum import Optimum
from driftrl.oracles.sac_settings import SACOracleSettings
from driftrl.oracles.sac_table import (
    grid_for,
    interpolated,
    raised,
    sac_cache_file,
    sac_table,
)
from driftrl.presets.tasks import TASKS
from driftrl.records import load_run

TASK = "pendulum-decay"  # its nominal θ is 5, so the default grid is 0.5, 1, 1.5, …
ENVIRONMENT = EnvironmentConfig(sim_steps=20, action_repeat=5)
SETTINGS = SACOracleSettings(seeds=2)


def optimum(theta: float, value: float, error: float = 1.0) -> Optimum:
    return Optimum(theta, value, error, 2.0 * theta, "SAC", "2 seeds", {"seed 0": 1.0})


class Computer:
    """Stands in for training and notes what it was asked; J falls from θ = 2 on."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def __call__(
        self,
        task: str,
        theta: float,
        environment: EnvironmentConfig,
        settings: SACOracleSettings,
        trained: Callable[[], None],
    ) -> Optimum:
        self.asked.append(theta)
        for _ in range(settings.seeds):
            trained()
        return optimum(theta, -10.0 * abs(theta - 2.0))


@pytest.fixture
def computer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Computer:
    """Train nothing, and cache into an empty directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stand_in = Computer()
    monkeypatch.setattr(sac, "optimal_return", stand_in)
    return stand_in


@pytest.fixture
def not_monotone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TASKS, TASK, replace(TASKS[TASK], more_is_better=False))


@pytest.mark.parametrize(
    ("asked", "grid"),
    [
        ([1.3], [1.3]),
        ([5.0, 1.0, 2.0, 1.0], [1.0, 2.0, 5.0]),
        ([1.1, 1.3], [1.1, 1.3]),
        ([1.1, 1.2, 1.3], [1.0, 1.5]),
        ([1.0, 1.1, 1.2, 1.6, 1.7], [1.0, 1.5, 2.0]),
        ([1.5, 1.5 + 1e-12, 1.5 - 1e-12], [1.5 - 1e-12]),
        ([-0.1, -0.2, -0.3, 0.1], [-0.5, 0.0, 0.5]),
        ([4.6, 4.7, 4.8, 4.9, 5.0, 2.2], [2.0, 2.5, 4.5, 5.0]),
    ],
)
def test_as_few_values_are_trained_as_will_do(
    asked: list[float], grid: list[float]
) -> None:
    assert grid_for(asked, 0.5) == grid


def test_multiples_are_written_as_people_write_them() -> None:
    assert 3 * 0.1 != 0.3 and grid_for([0.22, 0.25, 0.28], 0.1) == [0.2, 0.3]


@given(st.lists(st.floats(-9, 9), min_size=1, max_size=30), st.floats(0.01, 3))
def test_the_grid_encloses_what_is_asked(asked: list[float], unit: float) -> None:
    grid = grid_for(asked, unit)
    assert grid == sorted(set(grid))
    assert grid[0] <= min(asked) + 1e-8 and max(asked) - 1e-8 <= grid[-1]
    assert len(grid) <= len(set(asked))


def test_the_running_maximum_admits_by_how_much_it_raised() -> None:
    raw = [optimum(3.0, -6.0), optimum(1.0, -9.0), optimum(2.0, -4.0, 1.5)]
    more = [*raw, optimum(4.0, -3.0), optimum(5.0, -3.5)]
    result = raised(more)
    assert [one.theta for one in result] == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert [one.value for one in result] == [-9.0, -4.0, -4.0, -3.0, -3.0]
    # Raised by 2; raised by 0.5, which is less than its own error.
    assert [one.error for one in result] == [1.0, 1.5, 2.0, 1.0, 1.0]
    assert [one.method for one in result] == [
        "SAC",
        "SAC",
        "SAC at a smaller θ",
        "SAC",
        "SAC at a smaller θ",
    ]


def test_a_raised_value_inherits_the_doubt() -> None:
    second = raised([optimum(1.0, -4.0, 3.0), optimum(2.0, -5.0, 0.5)])[1]
    assert (second.value, second.error) == (-4.0, 3.0)


@pytest.mark.parametrize("downhill", [1.0, -1.0])
def test_in_between_it_is_a_straight_line_with_half_the_step_in_doubt(
    downhill: float,
) -> None:
    below, above = optimum(1.0, downhill * 20.0, 0.5), optimum(3.0, 0.0, 2.0)
    between = interpolated(below, above, 1.5)
    assert (between.theta, between.value) == (1.5, downhill * 15.0)
    assert between.error == 2.0 + 10.0
    assert between.spread == 0.75 * 2.0 + 0.25 * 6.0
    assert between.found == {"θ = 1": downhill * 20.0, "θ = 3": 0.0}


def test_answers_come_in_the_order_asked(computer: Computer) -> None:
    asked = [1.6, 1.0, 1.2, 1.5, 1.4, 1.9]
    told: list[tuple[int, int]] = []
    answers = sac_table(
        TASK, asked, ENVIRONMENT, SETTINGS, lambda *now: told.append(now)
    )
    assert computer.asked == [1.0, 1.5, 2.0]
    assert told == [(done, 6) for done in range(7)]
    assert [one.optimum.theta for one in answers] == asked
    assert [one.optimum.value for one in answers] == pytest.approx(
        [-4.0, -10.0, -8.0, -5.0, -6.0, -1.0]
    )
    assert [one.optimum.error for one in answers] == pytest.approx(
        [1.0 + 2.5, 1.0, 1.0 + 2.5, 1.0, 1.0 + 2.5, 1.0 + 2.5]
    )
    sources = ["interpolated", "computed", "interpolated", "computed"]
    assert [one.source for one in answers] == [*sources, "interpolated", "interpolated"]


def test_more_is_better_where_the_task_says_so(computer: Computer) -> None:
    answers = sac_table(TASK, [1.0, 2.0, 3.0], ENVIRONMENT, SETTINGS)
    assert [one.optimum.value for one in answers] == [-10.0, 0.0, 0.0]
    assert [one.optimum.error for one in answers] == [1.0, 1.0, 10.0]


@pytest.mark.usefixtures("not_monotone")
def test_more_may_be_worse_elsewhere(computer: Computer) -> None:
    answers = sac_table(TASK, [1.0, 2.0, 3.0], ENVIRONMENT, SETTINGS)
    assert [one.optimum.value for one in answers] == [-10.0, 0.0, -10.0]
    assert [one.optimum.error for one in answers] == [1.0, 1.0, 1.0]


def test_what_was_trained_is_not_trained_again(computer: Computer) -> None:
    first = sac_table(TASK, [2.0, 3.0], ENVIRONMENT, SETTINGS)
    told: list[tuple[int, int]] = []
    second = sac_table(
        TASK, [3.0, 1.0], ENVIRONMENT, SETTINGS, lambda *now: told.append(now)
    )
    assert computer.asked == [2.0, 3.0, 1.0]
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert [one.source for one in first] == ["computed", "computed"]
    assert [one.source for one in second] == ["cached", "computed"]
    # The raw value is kept: without θ = 2 in the question nothing raises θ = 3.
    assert [one.optimum.value for one in (*first, *second)] == [0, 0, -10, -10]


def test_what_is_known_needs_no_training_and_no_progress(computer: Computer) -> None:
    before = sac_table(TASK, [1.0, 2.0], ENVIRONMENT, SETTINGS)
    after = sac_table(TASK, [1.0, 2.0], ENVIRONMENT, SETTINGS, lambda *_: pytest.fail())
    assert [one.optimum for one in after] == [one.optimum for one in before]
    assert computer.asked == [1.0, 2.0]


def test_what_is_shipped_comes_before_the_cache(
    computer: Computer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sac_table(TASK, [1.0], ENVIRONMENT, SETTINGS)
    path = sac_cache_file(TASK, ENVIRONMENT, SETTINGS)
    (tmp_path / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr("driftrl.oracles.sac_table._SHIPPED", tmp_path)
    answers = sac_table(TASK, [1.0, 2.0, 1.0], ENVIRONMENT, SETTINGS)
    assert [one.source for one in answers] == ["shipped", "computed", "shipped"]
    answers = sac_table(TASK, [2.0], ENVIRONMENT, SETTINGS)
    assert [one.source for one in answers] == ["cached"]
    assert computer.asked == [1.0, 2.0]


@pytest.mark.parametrize("study", ["mujoco_decay_rates", "mujoco_environments"])
def test_the_published_studies_need_no_training(
    study: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "empty"))
    records = Path(__file__).parents[2] / "docs" / "records" / f"{study}.tar.gz"
    with tarfile.open(records) as packed:
        packed.extractall(tmp_path, filter="data")
    runs = [load_run(path.parent) for path in tmp_path.rglob("episodes.jsonl")]
    assert len(runs) >= 18
    for task in {run.task for run in runs}:
        of_task = [run for run in runs if run.task == task]
        oracle_of_runs(of_task, lambda *_: pytest.fail("it would be trained"))


def test_other_questions_do_not_share_their_values(computer: Computer) -> None:
    questions = [
        (TASK, ENVIRONMENT, SETTINGS),
        ("pendulum", ENVIRONMENT, SETTINGS),
        (TASK, replace(ENVIRONMENT, start="random"), SETTINGS),
        (TASK, replace(ENVIRONMENT, noise_std=0.1), SETTINGS),
        (TASK, ENVIRONMENT, replace(SETTINGS, seeds=3)),
        (TASK, ENVIRONMENT, replace(SETTINGS, late=0.25)),
        (TASK, ENVIRONMENT, replace(SETTINGS, sac=SACConfig(discount=0.98))),
    ]
    assert len({sac_cache_file(*question) for question in questions}) == len(questions)
    for task, environment, settings in questions:
        for source in ("computed", "cached"):
            answer = sac_table(task, [1.0], environment, settings)[0]
            assert answer.source == source


def test_the_cache_says_what_it_holds(computer: Computer) -> None:
    sac_table(TASK, [1.0], ENVIRONMENT, SETTINGS)
    document = json.loads(sac_cache_file(TASK, ENVIRONMENT, SETTINGS).read_bytes())
    assert document["task"] == TASK
    assert document["settings"]["seeds"] == 2
    assert document["settings"]["sac"]["hidden"] == [64, 64]


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00" * 100])
def test_a_damaged_cache_is_trained_again(computer: Computer, damage: bytes) -> None:
    sac_table(TASK, [1.0], ENVIRONMENT, SETTINGS)
    sac_cache_file(TASK, ENVIRONMENT, SETTINGS).write_bytes(damage)
    for source in ("computed", "cached"):
        assert sac_table(TASK, [1.0], ENVIRONMENT, SETTINGS)[0].source == source


def test_an_interrupted_grid_keeps_what_it_had(
    computer: Computer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(task: str, theta: float, *rest: object) -> Optimum:
        if theta == 2.0:
            raise KeyboardInterrupt
        return optimum(theta, -1.0)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(sac, "optimal_return", interrupted)
        sac_table(TASK, [1.0, 2.0], ENVIRONMENT, SETTINGS)
    sac_table(TASK, [1.0, 2.0], ENVIRONMENT, SETTINGS)
    assert computer.asked == [2.0]
