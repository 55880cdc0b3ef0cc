"""A log becomes a run: what is read, refused, learned, and gone on with."""

import importlib.util
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from driftrl.cli.main import main
from driftrl.config.toml import toml_text
from driftrl.envs.custom import GymPlant
from driftrl.errors import InputError
from driftrl.records import read_records
from driftrl.theory.audit import audit
from driftrl.training.checkpoint import load_arrays
from driftrl.training.logs import Logged, _cut, import_log, read_log
from driftrl.training.session import Session
from factories import TINY_DEEP, Stop, ignore, rows_of

COLUMNS: dict[str, Any] = {"obs": ["x", "v"], "action": ["volts"], "reward": "r"}
AGENT = {part: TINY_DEEP["agent"][part] for part in ("sac", "learning", "soft_reset")}
SETTINGS: dict[str, Any] = {
    "agent": AGENT,
    "forgetting": {"kind": "window", "window": 4},
}
LENGTHS = (6, 8, 3, 8, 7)


def write_log(path: Path, lengths: tuple[int, ...] = LENGTHS) -> Path:
    """Write a cart's log, pushed by 0 to 10 V; its last rows have no action."""
    rng, lines = np.random.default_rng(0), ["day, x, v, volts, r"]
    for day, steps in enumerate(lengths):
        x, v = rng.normal(size=2)
        for volts in rng.uniform(0.0, 10.0, steps):
            lines.append(f"{day},{x},{v},{volts},{-x * x}")
            x, v = x + 0.1 * v, v + 0.02 * (volts - 5.0)
        lines.append(f"{day},{x},{v},,")
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write_log(tmp_path / "log.csv")


@pytest.fixture
def log(path: Path) -> list[Logged]:
    return read_log(path, **COLUMNS, episode="day")


def imported(log: list[Logged], out: Path, **changes: Any) -> None:
    options: dict[str, Any] = {"method": "sac", "settings": SETTINGS, "warn": ignore}
    import_log(log, out, **{"bounds": ((0.0,), (10.0,)), **options, **changes})


def test_episodes_of_unequal_lengths(log: list[Logged]) -> None:
    assert tuple(len(part.rewards) for part in log) == LENGTHS == (6, 8, 3, 8, 7)
    first = log[0]
    assert first.obs.shape == (7, 2) and first.actions.shape == (6, 1)
    np.testing.assert_allclose(first.rewards, -(first.obs[:-1, 0] ** 2))
    cut = [part for one in log for part in _cut(one, 5)]
    assert [len(part.rewards) for part in cut] == [5, 1, 5, 3, 3, 5, 3, 5, 2]
    np.testing.assert_array_equal(cut[0].obs[-1], cut[1].obs[0])


def test_without_episodes_a_log_is_one_or_ends_where_it_terminated(path: Path) -> None:
    lines = path.read_text().splitlines()[1:]
    full = [line for line in lines if not line.endswith(",")]
    flags = ["true" if row in (9, 20) else "false" for row in range(len(full))]
    rows = [f"{line},{flag}" for line, flag in zip(full, flags, strict=True)]
    path.write_text("\n".join(["day,x,v,volts,r,fell", *rows]))
    (whole,) = read_log(path, **COLUMNS)
    assert len(whole.rewards) == len(full) - 1 and not whole.terminated
    log = read_log(path, **COLUMNS, terminated="fell")
    parts = [part for one in log for part in _cut(one, 6)]
    # Only the piece in which the task ended is terminated.
    assert [(len(part.rewards), part.terminated) for part in parts] == [
        (6, False),
        (3, True),
        (6, False),
        (4, True),
        (6, False),
        (4, False),
    ]


@pytest.mark.parametrize(("cell", "shown"), [("off", "'off'"), ("nan", "'nan'")])
def test_what_is_no_number(path: Path, cell: str, shown: str) -> None:
    lines = path.read_text().splitlines()
    day, x, _, volts, reward = lines[11].split(",")  # the fourth moment of day 1
    lines[11] = ",".join([day, x, cell, volts, reward])
    path.write_text("\n".join(lines))
    with pytest.raises(InputError) as refused:
        read_log(path, **COLUMNS, episode="day")
    message = str(refused.value)
    assert shown in message and "Line 12 " in message and "'v'" in message
    parts = read_log(path, **COLUMNS, episode="day", skip_gaps=True)
    assert [len(part.rewards) for part in parts] == [6, 2, 4, 3, 8, 7]


def test_a_missing_column_and_a_missing_file(path: Path) -> None:
    with pytest.raises(InputError, match="'volt'.*'volts'"):
        read_log(path, **{**COLUMNS, "action": ["volt"]})
    with pytest.raises(InputError, match="nowhere.csv"):
        read_log(path.parent / "nowhere.csv", **COLUMNS)
    with pytest.raises(InputError, match="--reward"):
        read_log(path, obs=["x"], action=["volts"])
    path.write_text("x,v,volts,r\n1,2,3,4\n")
    with pytest.raises(InputError, match="no two rows"):
        read_log(path, **COLUMNS)


def test_a_decimal_comma(path: Path, log: list[Logged]) -> None:
    path.write_text(path.read_text().replace(",", ";").replace(".", ","))
    european = read_log(path, **COLUMNS, episode="day", separator=";")
    for one, other in zip(european, log, strict=True):
        np.testing.assert_array_equal(one.obs, other.obs)


def test_a_run_begins_with_what_the_log_taught(
    log: list[Logged], tmp_path: Path
) -> None:
    imported(log, tmp_path / "run")
    rows = read_records(tmp_path / "run" / "episodes.jsonl")
    assert tuple(row.steps for row in rows) == LENGTHS
    for row, part in zip(rows, log, strict=True):
        assert row.return_executed == pytest.approx(part.rewards.sum())
    said: list[str] = []
    with Session.resume(tmp_path / "run", warn=said.append) as session:
        assert session.number == 6 and session.policy.trained  # pyright: ignore[reportAttributeAccessIssue]
        assert session.config.environment.low == (0.0,)
        stored = session.memory.episode(2)
        np.testing.assert_allclose(stored.actions, log[1].actions / 5.0 - 1, 1e-6)
        session.begin_episode()
        session.act(np.array([0.1, 0.0]))
        assert said == []
        session.observe(np.array([0.1, 57.3]), 0.0)  # in degrees
        assert len(said) == 1 and "57.3" in said[0]
        session.act(np.array([0.1, 57.3]))
        assert len(said) == 1


@pytest.mark.parametrize("when", ["episode", "step"])
def test_an_import_that_was_stopped_goes_on(
    log: list[Logged], tmp_path: Path, when: str
) -> None:
    agent = {**AGENT, "learning": {**AGENT["learning"], "when": when}}
    options: dict[str, Any] = {"settings": {**SETTINGS, "agent": agent}}
    if when == "episode":
        options["updates"] = 9
    imported(log, tmp_path / "whole", **options)

    def stop(row: Any, episodes: int) -> None:
        if row.episode == 2:
            raise Stop

    cut = tmp_path / "cut"
    with pytest.raises(Stop):
        imported(log, cut, on_episode=stop, **options)
    with Session.resume(cut, warn=ignore) as session:  # killed before it learned
        obs, actions, rewards, _ = log[2]
        session.add_episode(obs, actions / 5.0 - 1.0, rewards)
    imported(log, cut, **options)
    imported(log, cut, **options)  # nothing more to do
    assert rows_of(cut) == rows_of(tmp_path / "whole")
    first, second = (
        load_arrays(directory / "checkpoint", len(LENGTHS))
        for directory in (cut, tmp_path / "whole")
    )
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)
    with pytest.raises(InputError, match="5 episodes"):
        moved = [one._replace(obs=one.obs + 1.0) for one in log]
        imported(moved, cut, **options)


def test_bounds_and_sizes_are_compared_with_the_log(
    log: list[Logged], tmp_path: Path
) -> None:
    for bounds, value in ((((0.0,), (5.0,)), "5"), (((1.0,), (1.0,)), r"\[1.0\]")):
        with pytest.raises(InputError, match=value):
            imported(log, tmp_path / "none", bounds=bounds)
    with pytest.raises(InputError, match="3 observations"):
        imported(log, tmp_path / "none", task="pendulum", method=None)
    with pytest.raises(InputError, match="beyond its bounds -1 to 1"):
        import_log(log, tmp_path / "none", task="robot:press")
    assert not (tmp_path / "none").exists()


def test_a_log_alone_is_analysed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, run = write_log(tmp_path / "log.csv", (8,) * 20), tmp_path / "run"
    (tmp_path / "tiny.toml").write_text(toml_text({"agent": TINY_DEEP["agent"]}))
    names = ["--obs", "x,v", "--action", "volts", "--reward", "r", "--episode", "day"]
    settings = ["--config", str(tmp_path / "tiny.toml"), "--out", str(run)]
    assert main(["import", str(path), *names, *settings]) == 0
    printed = capsys.readouterr().out
    assert "160 transitions" in printed and "MB" in printed
    rows = read_records(run / "episodes.jsonl")
    assert len(audit(rows, 2).predicted) == 19  # learning begins with 8 transitions
    for command in (["theory", "audit"], ["theory", "recommend"], ["health"]):
        assert main([*command, str(run)]) == 0
    assert "too early" not in capsys.readouterr().out


def test_what_was_applied_is_recorded(log: list[Logged], tmp_path: Path) -> None:
    imported(log, tmp_path / "run")
    with Session.resume(tmp_path / "run", warn=ignore) as session:
        session.begin_episode()
        for _ in range(2):
            session.act(np.zeros(2))
            with pytest.raises(InputError, match=r"12\.0"):
                session.observe(np.zeros(2), 0.0, action=np.array([12.0]))
            session.observe(np.zeros(2), 0.0, action=np.array([0.25]))
        episode = session.end_episode()
    assert episode.actions.tolist() == [[0.25], [0.25]]


def test_an_environment_says_what_it_applied() -> None:
    class Saturated(gymnasium.Wrapper[Any, Any, Any, Any]):
        def step(self, action: np.ndarray) -> Any:
            applied = np.clip(action, -1.0, 1.0)
            return *self.env.step(applied)[:4], {"applied_action": applied}

    env = Saturated(gymnasium.make("Pendulum-v1"))
    from driftrl.envs.custom import task_of

    plant = GymPlant(env, task_of("pendulum:own", env).environment)
    plant.reset(seed=0)
    # −1 and 1 command −2 and 2.
    assert plant.step(np.array([0.9]))[4]["applied"] == pytest.approx([0.5])
    assert plant.step(np.array([0.1]))[4]["applied"] == pytest.approx([0.1])


def test_minari(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if importlib.util.find_spec("minari") is None:
        monkeypatch.setitem(sys.modules, "minari", None)
        with pytest.raises(InputError, match=r"driftrl\[minari\]"):
            read_log("minari:mine/cart-v0")
        return
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    import minari  # pyright: ignore[reportMissingImports]

    env = minari.DataCollector(gymnasium.make("Pendulum-v1", max_episode_steps=7))
    for seed in range(3):
        env.reset(seed=seed)
        while not env.step(env.action_space.sample())[3]:
            pass
    env.create_dataset("mine/pendulum-v0")
    log = read_log("minari:mine/pendulum-v0")
    assert [one.obs.shape for one in log] == [(8, 3)] * 3
    assert not any(one.terminated for one in log)
