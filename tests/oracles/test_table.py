"""The shipped table, the cache of computed values, and the command that builds them."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from driftrl.config.run import EnvironmentConfig
from driftrl.errors import CorruptFile, InputError
from driftrl.oracles import build_table, pendulum, table
from driftrl.oracles.dynamic_programming import Grid
from driftrl.oracles.optimum import Optimum
from driftrl.oracles.table import cache_file, find, parse, pendulum_table, render
from driftrl.presets.tasks import TASKS

OTHER = EnvironmentConfig(sim_steps=20, action_repeat=5)
HANGING_5 = EnvironmentConfig(sim_steps=200, action_repeat=5)


def optimum(theta: float) -> Optimum:
    found = {"value, fine grid": -9.0, "iCEM": -10.0 * theta}
    return Optimum(theta, -10.0 * theta, 0.5, 0.0, "iCEM", "a grid", found)


class Computer:
    """Stands in for the computation and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def __call__(
        self, theta: float, environment: EnvironmentConfig, grid: Grid | None = None
    ) -> Optimum:
        self.asked.append(theta)
        return optimum(theta)


@pytest.fixture
def computer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Computer:
    """Compute nothing, and cache into an empty directory."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    stand_in = Computer()
    monkeypatch.setattr(pendulum, "optimal_return", stand_in)
    return stand_in


def test_what_is_written_is_read_back() -> None:
    tables = {OTHER: [optimum(1.0), optimum(2.5)], HANGING_5: [optimum(0.1 + 0.2)]}
    assert parse(render(tables, {"about": "a test"})) == tables


def test_values_are_written_in_the_order_of_theta() -> None:
    back = parse(render({OTHER: [optimum(2.0), optimum(1.0)]}, {}))
    assert [one.theta for one in back[OTHER]] == [1.0, 2.0]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"\xff\xfe",
        b'{"revision": 1}',
        b'{"revision": 1, "tables": [{"environment": {"sim_steps": 3}}]}',
        b'{"revision": 1, "tables": [{"environment": {"wings": 3}, "values": []}]}',
        render({OTHER: [replace(optimum(1.0), value=float("nan"))]}, {}),
        render({OTHER: [optimum(1.0)]}, {})[:-40],
    ],
)
def test_damage_is_noticed(content: bytes) -> None:
    with pytest.raises(CorruptFile, match="not a table of optimal returns"):
        parse(content)


def test_an_older_revision_is_worth_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    content = render({OTHER: [optimum(1.0)]}, {})
    monkeypatch.setattr(table, "REVISION", 2)
    assert parse(content) == {}


def test_theta_matches_within_1e_9_and_not_beyond() -> None:
    optima = [optimum(0.5), optimum(1.0), optimum(4.0)]
    assert find(optima, 0.5 - 9e-10) is optima[0]
    assert find(optima, 0.5 + 2e-9) is None
    assert find(optima, 4.0 + 3e-9) is optima[2]
    assert find(optima, 4.0 + 5e-9) is None


def test_thetas_that_differ_by_rounding_are_computed_once(computer: Computer) -> None:
    thetas = [1.0 + math.exp(-k) for k in range(18, 40)]
    answers = pendulum_table(thetas, OTHER)
    assert len(answers) == len(thetas)
    assert len(computer.asked) < len(thetas)
    assert all(
        table.same(one.optimum.theta, t) for one, t in zip(answers, thetas, strict=True)
    )
    gaps = np.diff(sorted(computer.asked))
    assert np.all(gaps > 1e-9)


def test_shipped_values_need_no_computation(computer: Computer) -> None:
    answers = pendulum_table([5.0, 0.5, 5.0], HANGING_5, lambda *_: pytest.fail())
    assert [answer.optimum.theta for answer in answers] == [5.0, 0.5, 5.0]
    assert {answer.source for answer in answers} == {"shipped"}
    assert computer.asked == []


def test_other_values_are_computed_once_and_then_cached(computer: Computer) -> None:
    told: list[tuple[int, int]] = []
    first = pendulum_table(
        [1.0, 2.0, 1.0], OTHER, lambda done, total: told.append((done, total))
    )
    assert computer.asked == [1.0, 2.0]
    assert told == [(0, 2), (1, 2), (2, 2)]
    assert [answer.source for answer in first] == ["computed"] * 3
    second = pendulum_table([2.0, 3.0], OTHER)
    assert computer.asked == [1.0, 2.0, 3.0]
    assert [answer.source for answer in second] == ["cached", "computed"]
    assert [answer.optimum for answer in second] == [optimum(2.0), optimum(3.0)]


def test_environments_do_not_share_their_values(computer: Computer) -> None:
    others = [
        OTHER,
        replace(OTHER, start="random"),
        replace(OTHER, noise_std=0.1),
        replace(OTHER, action_repeat=4),
        replace(OTHER, sim_steps=40),
    ]
    assert len({cache_file(environment) for environment in others}) == len(others)
    for environment in others:
        assert pendulum_table([1.0], environment)[0].source == "computed"
        assert pendulum_table([1.0], environment)[0].source == "cached"


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00" * 100])
def test_a_damaged_cache_is_computed_again(computer: Computer, damage: bytes) -> None:
    pendulum_table([1.0], OTHER)
    cache_file(OTHER).write_bytes(damage)
    assert pendulum_table([1.0], OTHER)[0].source == "computed"
    assert pendulum_table([1.0], OTHER)[0].source == "cached"


def test_a_cache_that_cannot_be_written_only_warns(
    computer: Computer, tmp_path: Path
) -> None:
    (tmp_path / "driftrl").write_text("a file where the directory should be")
    with pytest.warns(UserWarning, match="could not be cached"):
        answers = pendulum_table([1.0], OTHER)
    assert answers[0].optimum == optimum(1.0)


@pytest.fixture(scope="module")
def shipped() -> table.Tables:
    return table.shipped_tables()


def test_what_ships_is_complete(shipped: table.Tables) -> None:
    """The pendulum study finds all it needs; other values are computed when asked."""
    studied = [TASKS["pendulum"].drift(n) for n in range(1, 31)]
    held = shipped[EnvironmentConfig(200, 5, "hanging")]
    for theta in (*build_table.DEFAULT_THETAS, *studied):
        assert find(held, theta)
    fast = shipped[EnvironmentConfig(200, 1, "hanging")]
    assert all(find(fast, theta) for theta in (1.0, 2.0, 5.0))


def test_what_ships_is_precise_and_grows_with_the_torque(
    shipped: table.Tables,
) -> None:
    for environment, optima in shipped.items():
        values = np.array([one.value for one in optima])
        errors = np.array([one.error for one in optima])
        # Where one swing less begins to do (θ = 1.12, 1.47, 2.12), a grid smears the
        # jump of J*, and its distance to what was achieved is the stated error.
        assert np.all(errors < 0.1 * np.abs(values))
        assert np.mean(errors < 0.05 * np.abs(values)) > 0.97
        assert np.median(errors / np.abs(values)) < 0.01
        slack = 1e-3 if environment.start == "hanging" else errors[1:] + errors[:-1]
        assert np.all(np.diff(values) > -slack)


@pytest.mark.parametrize(
    ("theta", "finest"), [(1.0, -579.3896), (2.0, -294.9453), (5.0, -99.6416)]
)
def test_what_ships_is_within_one_percent_of_a_far_finer_grid(
    shipped: table.Tables, theta: float, finest: float
) -> None:
    # V on 2880 angles × 1921 speeds (720 × 961 at θ = 5, where it has converged).
    one = find(shipped[EnvironmentConfig(200, 1, "hanging")], theta)
    assert one is not None
    assert abs(one.value - finest) < 0.01 * abs(finest)
    assert abs(one.value - finest) <= one.error
    assert one.error < 0.01 * abs(one.value)


def test_what_ships_says_where_it_comes_from() -> None:
    document = json.loads(table.SHIPPED.read_bytes())
    assert len(document["commands"]) == len(document["tables"])
    for command in document["commands"]:
        assert command.startswith("python -m driftrl.oracles.build_table --steps 200")


@pytest.fixture
def few_thetas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_table, "DEFAULT_THETAS", (1.0, 2.0))
    # The command sets the process up for JAX, which a test must not.
    monkeypatch.setattr(build_table, "prepare", lambda environment: None)


@pytest.mark.usefixtures("few_thetas")
def test_the_command_builds_adds_and_repeats_nothing(
    computer: Computer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.json"
    words = ["--out", str(out), "--action-repeat", "5", "--start", "hanging"]
    assert build_table.main(words) == 0
    assert computer.asked == [1.0, 2.0]
    assert build_table.main([*words, "--theta", "1.5", "2.0"]) == 0
    assert computer.asked == [1.0, 2.0, 1.5]
    optima = parse(out.read_bytes())[HANGING_5]
    assert [one.theta for one in optima] == [1.0, 1.5, 2.0]
    assert json.loads(out.read_bytes())["commands"] == [
        "python -m driftrl.oracles.build_table --steps 200 --action-repeat 5 "
        "--start hanging --theta 1.5"
    ]
    printed = capsys.readouterr().err.splitlines()
    assert printed[0].startswith("hanging, repeat 5, 1/2: J*(1) = -10.000 ± 0.500")


@pytest.mark.usefixtures("few_thetas")
def test_an_interrupted_command_keeps_what_it_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def interrupted(theta: float, *_: object) -> Optimum:
        if theta == 2.0:
            raise KeyboardInterrupt
        return optimum(theta)

    monkeypatch.setattr(pendulum, "optimal_return", interrupted)
    out = tmp_path / "out.json"
    with pytest.raises(KeyboardInterrupt):
        build_table.build(out, HANGING_5, (1.0, 2.0))
    assert [one.theta for one in parse(out.read_bytes())[HANGING_5]] == [1.0]
    assert os.listdir(tmp_path) == ["out.json"]


@pytest.mark.usefixtures("few_thetas")
def test_the_command_refuses_what_the_environment_refuses(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--out", str(tmp_path / "out.json"), "--action-repeat", "7"]
    assert build_table.main(words) == InputError.exit_status
    assert "not a multiple" in capsys.readouterr().err


def test_rounding_never_claims_more() -> None:
    exact = replace(optimum(1.0), value=-99.64162250760113, error=0.0123456789)
    short = build_table.rounded(exact)
    assert short.value <= exact.value
    assert short.error >= exact.error + (exact.value - short.value)
    assert short.value == pytest.approx(exact.value, abs=2e-6)
