"""Continuing operation: no resets, segments, events, and exact resume."""

import contextlib
import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.wrappers import TimeLimit

from driftrl.cli.main import main
from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden
from driftrl.drift.schedules import Constant
from driftrl.envs.custom import custom_task
from driftrl.envs.drifting import ContinuingEnv, environment_of
from driftrl.envs.tasks import configure
from driftrl.errors import EnvironmentFault, InputError
from driftrl.memory.episodes import load_episode
from driftrl.presets.tasks import TASKS
from driftrl.training import loop
from driftrl.training.checkpoint import load_arrays
from driftrl.training.session import Session
from driftrl.types import EpisodeRecord
from factories import TINY_DEEP, Stop, ignore, rows_of
from rollout import moves

HERE = "tests.training.test_continuing"
SEGMENT = 6


class Drum(gymnasium.Env[np.ndarray, np.ndarray]):
    """Heats up and trips an interlock; counts its resets; is noisy."""

    resets = 0

    def __init__(self, stop: int | None = None) -> None:
        self.observation_space = spaces.Box(-10.0, 10.0, (2,), np.float32)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)
        self.stop, self.count = stop, 0
        self.heat = np.zeros(2)

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        super().reset(seed=seed)
        Drum.resets += 1
        self.heat = self.np_random.uniform(-0.1, 0.1, 2)
        return self.heat, {}

    def step(self, action: np.ndarray) -> Any:
        self.count += 1
        noise = 0.1 * self.np_random.standard_normal(2)
        self.heat = 0.9 * self.heat + 0.3 * float(action[0]) + noise
        tripped = bool(self.heat[0] > 0.5)
        late = self.count == self.stop
        info = {"event": "too hot"} if tripped else {}
        return self.heat, -float(self.heat[1] ** 2), tripped, late, info


class StoredDrum(Drum):
    """The same, and its state can be restored."""

    def get_state(self) -> dict[str, Any]:
        return {"heat": self.heat, "count": self.count}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        self.heat, self.count = np.array(state["heat"]), int(state["count"])


def limited() -> gymnasium.Env[Any, Any]:
    return TimeLimit(Drum(), 50)


def stopping() -> gymnasium.Env[Any, Any]:
    return Drum(stop=9)


def drum(name: str = "StoredDrum", **changes: Any) -> RunConfig:
    parts = ("sac", "learning", "soft_reset")
    agent = {part: TINY_DEEP["agent"][part] for part in parts}
    window = {"kind": "window", "window": 3}
    settings = {"episodes": 6, "agent": agent, "forgetting": window, **changes}
    task = custom_task(f"{HERE}:{name}", steps=SEGMENT)
    return configure(task, "sac", settings).in_segments(SEGMENT)


@pytest.fixture
def pendulum(tiny: RunConfig) -> RunConfig:
    return replace(tiny, episodes=4).in_segments()


def run(config: RunConfig, directory: Path, **options: Any) -> list[dict[str, Any]]:
    loop.run(config, directory, warn=ignore, **options)
    return rows_of(directory)


def interrupted(config: RunConfig, directory: Path) -> list[dict[str, Any]]:
    """Stop whenever a row is stored, and go on with a fresh environment."""

    def stop(row: EpisodeRecord) -> None:
        if row.episode < config.episodes - 1:
            raise Stop

    for _ in range(config.episodes):
        with contextlib.suppress(Stop):
            return run(config, directory, resume=True, on_episode=stop)
    raise AssertionError("it never ended")


def test_segments_are_one_trajectory(pendulum: RunConfig, tmp_path: Path) -> None:
    rows = run(pendulum, tmp_path)
    assert [row["steps"] for row in rows] == [8] * 4
    segments = [load_episode(tmp_path / "memory", n) for n in range(1, 5)]
    for before, after in pairwise(segments):
        np.testing.assert_array_equal(before.next_obs[-1], after.obs[0])
    hanging = np.array([-1.0, 0.0, 0.0])
    np.testing.assert_allclose(segments[0].obs[0], hanging, atol=1e-12)
    assert not np.allclose(segments[3].obs[0], hanging, atol=0.01)


@pytest.mark.parametrize("background", [False, True])
def test_a_resumed_run_equals_an_uninterrupted_one(
    pendulum: RunConfig, tmp_path: Path, background: bool
) -> None:
    config = replace(drum(), background=True) if background else pendulum
    whole = run(config, tmp_path / "whole")
    assert interrupted(config, tmp_path / "parts") == whole
    assert not (tmp_path / "parts" / "pending").exists()
    stored, again = (
        load_arrays(tmp_path / name / "checkpoint", config.episodes)
        for name in ("whole", "parts")
    )
    parts = ("plant.heat",) if background else ("plant.state", "carry.mean")
    assert {f"machine.{part}" for part in ("obs", *parts)} <= set(stored)
    for name, array in stored.items():
        np.testing.assert_array_equal(array, again[name], err_msg=name)
    # Made longer after its end, it goes on as if it had never ended.
    longer = replace(config, episodes=config.episodes + 2)
    assert run(longer, tmp_path / "parts", resume=True) == run(longer, tmp_path / "8")


def test_in_the_background_a_policy_acts_a_segment_later(tmp_path: Path) -> None:
    config = drum(recovery="policy")
    beside = run(replace(config, background=True), tmp_path / "beside")
    between = run(config, tmp_path / "between")
    # Segment n acts by what was learned before segment n − 1.
    assert [row["transitions"] for row in between] == [0, 6, 12, 18, 18, 18]
    assert [row["transitions"] for row in beside] == [0, 0, 6, 12, 18, 18]
    retained = [row["first_retained"] for row in between]
    assert [row["first_retained"] for row in beside] == [1, *retained[:-1]]
    assert [row["temperature"] for row in beside[:3]] == [None] * 3  # not yet trained
    assert between[2]["temperature"] is not None


def test_a_fall_is_an_event_with_a_cost(tmp_path: Path) -> None:
    config = replace(drum(episodes=12), event_cost=5.0)
    whole = run(config, tmp_path / "whole")
    assert interrupted(config, tmp_path / "parts") == whole
    events = [
        [json.loads(line) for line in (path / "events.jsonl").read_text().splitlines()]
        for path in (tmp_path / "whole", tmp_path / "parts")
    ]
    assert events[0] == events[1] and events[0]
    fallen = [row for row in whole if row["terminated"]]
    assert [one["segment"] for one in events[0]] == [row["episode"] for row in fallen]
    for event in events[0]:
        assert (event["event"], event["recovery"]) == ("too hot", "operator")
        episode = load_episode(tmp_path / "whole" / "memory", event["segment"])
        assert len(episode) == event["step"]
        expected = -(episode.next_obs[-1, 1] ** 2) - 5.0
        assert episode.rewards[-1] == pytest.approx(expected, rel=1e-5)
        if event["segment"] < 12:
            after = load_episode(tmp_path / "whole" / "memory", event["segment"] + 1)
            assert np.abs(after.obs[0]).max() <= 0.1  # where a reset starts


def test_a_policy_that_recovers_by_itself_is_not_interrupted(tmp_path: Path) -> None:
    Drum.resets = 0
    config = replace(drum(episodes=12), event_cost=5.0, recovery="policy")
    rows = run(config, tmp_path)
    assert Drum.resets == 1
    assert all(row["steps"] == SEGMENT and not row["terminated"] for row in rows)
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) > 0


@pytest.mark.parametrize("name", ["halfcheetah", "humanoid", "rccar", "pendulum"])
def test_a_plant_goes_on_from_its_state_bit_for_bit(name: str) -> None:
    task = TASKS[name]
    changes = {"drift": Constant(task.nominal), "clock": "episodes"}
    config = configure(name, changes=changes).in_segments(7)
    actions, place = moves(14, task.action_size), {"episode": 2, "steps": 7}
    env = environment_of(config)
    env.reset(seed=3)
    for action in actions[:7]:
        env.step(action)
    assert isinstance(env, ContinuingEnv)
    machine = env.machine
    env.reset(seed=5, options=place)
    first = [env.step(action) for action in actions[7:]]
    other = environment_of(config)
    assert isinstance(other, ContinuingEnv)
    other.restore(machine)
    other.reset(seed=5, options=place)
    second = [other.step(action) for action in actions[7:]]
    for (obs, reward, *_), (again, earned, *_) in zip(first, second, strict=True):
        np.testing.assert_array_equal(obs, again)
        assert reward == earned and not np.isnan(reward)
    assert [row[3] for row in first] == [False] * 6 + [True]


def test_bad_input(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="after 50 steps"):
        run(drum("limited"), tmp_path / "limited")
    with pytest.raises(EnvironmentFault, match="after 9 steps"):
        run(drum("stopping"), tmp_path / "stopping")
    short = overridden(drum(), {"agent": {"learning": {"learning_starts": 20}}})
    with pytest.raises(InputError, match="at most 18 transitions"):
        Session(short, tmp_path / "short", continuing=True, segment=SEGMENT)
    said: list[str] = []
    loop.run(drum("Drum", episodes=1), tmp_path / "forgetful", warn=said.append)
    assert [line for line in said if "get_state" in line]
    assert main(["run", "pendulum", "--segment", "0"]) == 2
    with pytest.raises(InputError, match="continuing"):
        replace(drum(), background=True, continuing=False)
    with pytest.raises(InputError, match="'step'"):
        overridden(
            drum(), {"background": True, "agent": {"learning": {"when": "step"}}}
        )


def test_a_session_by_hand_in_segments(tmp_path: Path) -> None:
    """Of a machine whose state nobody restores: it is where it is."""
    config = replace(drum(), continuing=False)
    with Session(config, tmp_path, continuing=True, segment=4, warn=ignore) as session:
        assert session.config.environment.steps == 4
        x = np.zeros(2)
        for n in range(1, 5):
            session.begin_episode()
            for step in range(4):
                x = 0.9 * x + 0.1 * session.act(x)
                session.observe(x, -float(x @ x), truncated=step == 3)
            session.end_episode(machine={"x": x}, events=[{"segment": n}])
            if n < 4:
                session.learn()
    with Session.resume(tmp_path, warn=ignore) as session:
        assert session.number == 4 and session.unlearned is not None
        np.testing.assert_array_equal(session.machine["x"], x)
    (tmp_path / "pending" / "machine.npz").write_bytes(b"PK")
    said: list[str] = []
    with Session.resume(tmp_path, warn=said.append) as session:
        assert session.number == 4 and session.unlearned is None and len(said) == 1
    assert len((tmp_path / "events.jsonl").read_text().splitlines()) == 3
