"""Ask and tell with files: what is kept, what leaves no trace, what is refused."""

import math
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from jaxtyping import Array

from driftrl.agents.rollouts import TaskFunctions
from driftrl.config.deep import EnsembleAgentConfig, SACAgentConfig
from driftrl.config.run import RunConfig
from driftrl.config.toml import overridden, read_toml
from driftrl.envs.custom import custom_task
from driftrl.envs.drifting import environment_of
from driftrl.envs.tasks import configure
from driftrl.errors import EpisodeAborted, InputError
from driftrl.memory.forgetting import Since, Window
from driftrl.records import HEARTBEAT_LIMIT, is_running, read_records
from driftrl.training import run_directory
from driftrl.training.assembly import check_learns
from driftrl.training.checkpoint import load_arrays
from driftrl.training.loop import run, run_session
from driftrl.training.session import Session
from driftrl.types import EpisodeRecord
from factories import TINY_DEEP, ignore

STEPS = 8


def cart(method: str, agent: dict[str, Any]) -> RunConfig:
    task = custom_task("cart", observations=2, actions=1, steps=STEPS)
    window = {"kind": "window", "window": 2}
    return configure(
        task, method, {"episodes": 4, "forgetting": window, "agent": agent}
    )


@pytest.fixture
def config() -> RunConfig:
    """Without a model, which would only take time to compile."""
    parts = ("sac", "learning", "soft_reset")
    return cart("sac", {part: TINY_DEEP["agent"][part] for part in parts})


def live(session: Session, *, steps: int = STEPS) -> None:
    """Live through an episode of a cart that is pushed about."""
    session.begin_episode()
    x = np.array([1.0, 0.0])
    for step in range(steps):
        push = float(session.act(x)[0])
        x = np.array([x[0] + 0.1 * x[1], x[1] + 0.1 * push])
        session.observe(x, -(x[0] ** 2), truncated=step == STEPS - 1)


def learn_episode(session: Session, *, steps: int = STEPS, **budget: Any) -> None:
    """Live through an episode and learn from it."""
    live(session, steps=steps)
    session.end_episode()
    session.learn(**budget)


def rows(directory: Path) -> list[EpisodeRecord]:
    """Return the rows of a run; the time that an episode took is of no account."""
    return [
        replace(row, wall_s=0.0, theta=0.0)
        for row in read_records(directory / "episodes.jsonl")
    ]


def whole_run(config: RunConfig, directory: Path) -> list[EpisodeRecord]:
    with Session(config, directory, warn=ignore) as session:
        while session.number <= config.episodes:
            learn_episode(session)
    return rows(directory)


def test_an_aborted_episode_leaves_no_trace(config: RunConfig, tmp_path: Path) -> None:
    expected = whole_run(config, tmp_path / "quiet")
    with Session(config, tmp_path / "stopped", warn=ignore) as session:
        while session.number <= config.episodes:
            live(session, steps=3)
            session.abort_episode()
            learn_episode(session)
    assert rows(tmp_path / "stopped") == expected
    assert math.isnan(read_records(tmp_path / "stopped" / "episodes.jsonl")[0].theta)
    assert len(list((tmp_path / "stopped" / "memory").iterdir())) == config.episodes
    assert not (tmp_path / "stopped" / "pending").exists()


class Stopped(gymnasium.Wrapper[np.ndarray, np.ndarray, np.ndarray, np.ndarray]):
    """An environment that is stopped from outside, now and then."""

    def __init__(self, env: Any, often: int, note: str = "") -> None:
        super().__init__(env)
        self._often, self._steps, self._note = often, 0, note

    def step(self, action: np.ndarray) -> Any:
        self._steps += 1
        if self._steps % self._often == 0:
            aborted = EpisodeAborted("somebody stood in the way.")
            if self._note:
                aborted.add_note(self._note)
            raise aborted
        return self.env.step(action)


def test_a_stopped_episode_begins_again(tiny: RunConfig, tmp_path: Path) -> None:
    run(tiny, tmp_path / "quiet", warn=ignore)
    said: list[str] = []
    with Session(tiny, tmp_path / "stopped", warn=ignore) as session:
        env = Stopped(environment_of(tiny), often=11)
        run_session(session, env, warn=said.append)
    assert rows(tmp_path / "stopped") == rows(tmp_path / "quiet")
    assert said[0].startswith("Episode 2, attempt 1 of 20: somebody stood in the way")
    with Session(tiny, tmp_path / "never", warn=ignore) as session:
        for note in ("", "Ask them to leave."):
            env = Stopped(environment_of(tiny), often=2, note=note)
            with pytest.raises(InputError, match=f"20 times in a row.*{note}"):
                run_session(session, env, warn=ignore)


@pytest.mark.parametrize("lived", [1, 3])
def test_an_episode_survives_until_it_is_learned(
    config: RunConfig, tmp_path: Path, lived: int
) -> None:
    """The power fails between the end of an episode and the end of learning."""
    expected = whole_run(config, tmp_path / "quiet")
    with Session(config, tmp_path / "cut", warn=ignore) as session:
        for number in range(1, lived + 1):
            live(session)
            session.end_episode(theta=0.25)
            if number < lived:
                session.learn()
    with Session.resume(tmp_path / "cut", warn=ignore) as session:
        assert session.number == lived
        assert session.unlearned is not None and len(session.unlearned) == STEPS
        with pytest.raises(InputError, match=r"not learned from yet: learn\(\) comes"):
            session.begin_episode()
        assert session.learn().theta == 0.25
        while session.number <= config.episodes:
            learn_episode(session)
    assert rows(tmp_path / "cut") == expected


def updates_of(session: Session) -> int:
    if session.number == 1:
        return 0
    arrays = load_arrays(session.directory / "checkpoint", session.number - 1)
    return int(arrays["policy.updates"])


def test_learning_has_a_budget(config: RunConfig, tmp_path: Path) -> None:
    assert isinstance(config.agent, SACAgentConfig)
    each = config.agent.learning.policy_updates
    with Session(config, tmp_path, warn=ignore) as session:
        done = []
        budgets: list[dict[str, Any]] = [
            {},
            {"updates": 5},
            {"updates": 0},
            {"seconds": 0.05},
        ]
        for budget in budgets:
            before = updates_of(session)
            learn_episode(session, **budget)
            done.append((updates_of(session) - before) // each)
    worth = STEPS * config.agent.learning.model_updates
    assert done[:3] == [worth, 5, 0]
    assert done[3] > 0 and done[3] % 20 == 0


def test_forgetting_by_hand(config: RunConfig, tmp_path: Path) -> None:
    config = replace(config, episodes=6, forgetting=Window(4))
    with Session(config, tmp_path, warn=ignore) as session:
        for number in range(1, 6):
            if number == 4:
                session.force_reset()
            learn_episode(session)
    assert [row.first_retained for row in rows(tmp_path)] == [1, 1, 1, 1, 4]
    stored = read_toml(tmp_path / "config.toml")
    assert stored["forgetting"]["first"] == 4
    assert stored["changes"][0]["from_episode"] == 4
    assert len(list((tmp_path / "memory").iterdir())) == 5
    with Session.resume(tmp_path, warn=ignore) as session:
        assert session.config.forgetting == Since(4, Window(4))
        assert session.first_retained == 4
        session.set_forgetting(Window(1))
        learn_episode(session)
        assert session.first_retained == 6
        session.set_forgetting(Window(9))  # reads again what was released, in learn()
        assert session.first_retained == 6
        session.close()
    with Session.resume(tmp_path, warn=ignore) as session:
        assert session.first_retained == 6  # what π_7 was learned from
        learn_episode(session)
        assert session.first_retained == 4
    stored = read_toml(tmp_path / "config.toml")
    window = {"kind": "window", "window": 9, "unit": "episodes"}
    assert stored["forgetting"] == {"kind": "since", "first": 4, "rule": window}
    assert [change["what"] for change in stored["changes"]] == [
        [
            "forgetting from window (window 4, unit 'episodes') to since (first 4, "
            "rule window (window 4, unit 'episodes'))"
        ],
        ["forgetting.rule.window from 4 to 1"],
        ["forgetting.rule.window from 1 to 9"],
    ]


def test_a_rule_that_holds_too_little_is_warned_of_and_the_old_one_stays(
    config: RunConfig, tmp_path: Path
) -> None:
    config = overridden(config, {"agent": {"learning": {"learning_starts": 16}}})
    said: list[str] = []
    with Session(config, tmp_path, warn=said.append) as session:
        session.set_forgetting(Window(1))
        assert session.config.forgetting == session.forgetting == Window(2)
        assert len(said) == 1 and "at most 8 transitions" in said[0]
        session.set_forgetting(Window(3))
        assert session.forgetting == Window(3) and len(said) == 1


def test_a_second_reset_by_hand_records_what_was_learned_from(
    config: RunConfig, tmp_path: Path
) -> None:
    config = replace(config, forgetting=Window(9))
    with Session(config, tmp_path, warn=ignore) as session:
        for number in range(1, 6):
            if number in (2, 4):
                session.force_reset()
            learn_episode(session)
    # π_4 was learned from episodes 2 and 3; episode 1 stays forgotten.
    assert [row.first_retained for row in rows(tmp_path)] == [1, 1, 2, 2, 4]


def test_what_was_learned_within_a_pending_episode_is_learned_again(
    config: RunConfig, tmp_path: Path
) -> None:
    config = overridden(config, {"agent": {"learning": {"when": "step"}}})
    expected = whole_run(config, tmp_path / "whole")
    for _ in range(config.episodes):
        with Session(config, tmp_path / "cut", resume=True, warn=ignore) as session:
            if session.unlearned is not None:
                session.learn()
            live(session)
            session.end_episode()
    with Session.resume(tmp_path / "cut", warn=ignore) as session:
        with pytest.raises(InputError, match="seconds"):
            session.learn(seconds=1.0)
        session.close()
    with Session.resume(tmp_path / "cut", warn=ignore) as session:
        session.learn()
    assert rows(tmp_path / "cut") == expected
    first, second = (
        load_arrays(tmp_path / name / "checkpoint", config.episodes)
        for name in ("whole", "cut")
    )
    for name, array in first.items():
        np.testing.assert_array_equal(array, second[name], err_msg=name)


def test_a_run_that_can_never_learn_is_refused(
    config: RunConfig, tmp_path: Path
) -> None:
    config = overridden(config, {"agent": {"learning": {"learning_starts": 17}}})
    with pytest.raises(InputError, match="at most 16 transitions in episodes of 8 st"):
        Session(config, tmp_path / "none")
    assert not (tmp_path / "none").exists()
    # Within an episode its own steps count as well.
    check_learns(overridden(config, {"agent": {"learning": {"when": "step"}}}))


def test_a_window_that_is_never_enough_is_told(
    config: RunConfig, tmp_path: Path
) -> None:
    """Nobody knew that the machine would stop so soon."""
    said: list[str] = []
    with Session(config, tmp_path, warn=said.append) as session:
        for number in range(1, 5):
            learn_episode(session, steps=3)
            assert len(said) == (number >= 3)
    assert said[0].startswith(
        "Nothing was learned from the episodes 1 to 2, and the oldest are forgotten "
        "now: they have 6 transitions, and learning begins with 8 "
    )


def rich(obs: Array, action: Array, next_obs: Array) -> Array:
    return 7.0 + 0.0 * next_obs[0]


def over(obs: Array, action: Array, next_obs: Array) -> Array:
    return next_obs[0] > 3.0


def test_reward_and_end_may_be_known(tmp_path: Path) -> None:
    config = cart("sw-ombrl", TINY_DEEP["agent"])
    functions = TaskFunctions(termination=over, reward=rich)
    with Session(config, tmp_path, functions=functions, warn=ignore) as session:
        agent = session.config.agent
        assert isinstance(agent, EnsembleAgentConfig)
        assert agent.imagination.reward == agent.imagination.termination == "known"
        learn_episode(session)
    with pytest.raises(InputError, match="= 'known' needs"):
        Session.resume(tmp_path, warn=ignore)


def test_wrong_order_is_a_sentence(config: RunConfig, tmp_path: Path) -> None:
    with Session(config, tmp_path, warn=ignore) as session:
        with pytest.raises(InputError, match="episode 1 has not ended"):
            session.learn()
        with pytest.raises(InputError, match="must be a vector of 2 numbers"):
            session.begin_episode()
            session.act(np.zeros(3))
        with pytest.raises(InputError, match="Another process is running"):
            Session(config, tmp_path, resume=True, warn=ignore)
        with pytest.raises(InputError, match="Episode 1 is running: end_episode"):
            session.begin_episode()
        session.abort_episode()
        live(session)
        with pytest.raises(InputError, match="Episode 1 was terminated or truncated"):
            session.act(np.zeros(2))
        session.end_episode()
        with pytest.raises(InputError, match="can't be discarded any more"):
            session.abort_episode()
        wrong: list[dict[str, Any]] = [{"updates": 1, "seconds": 1.0}, {"updates": -1}]
        for budget in wrong:
            with pytest.raises(InputError):
                session.learn(**budget)
        session.learn()
        session.begin_episode()
        for _ in range(STEPS):
            session.act(np.zeros(2))
            session.observe(np.zeros(2), 0.0)
        with pytest.raises(InputError, match="has had all its 8 steps"):
            session.act(np.zeros(2))
    closed = (session.begin_episode, session.end_episode, session.learn)
    for late in (*closed, session.force_reset):
        with pytest.raises(InputError, match="session is closed: Session.resume"):
            late()
    with pytest.raises(InputError, match="resume=True"):
        Session(config, tmp_path, warn=ignore)
    with pytest.raises(InputError, match="nowhere"):
        Session.resume(tmp_path / "nowhere")


def test_a_run_is_running_while_its_heartbeat_is_young(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_directory, "_BEAT_SECONDS", 0.01)
    beat, long_ago = tmp_path / "heartbeat", time.time() - HEARTBEAT_LIMIT - 1
    with Session(config, tmp_path):
        assert is_running(tmp_path)
        os.utime(beat, (long_ago, long_ago))
        deadline = time.monotonic() + 10
        while not is_running(tmp_path) and time.monotonic() < deadline:
            time.sleep(0.01)
        assert is_running(tmp_path)
    assert not is_running(tmp_path)
    beat.touch()
    os.utime(beat, (long_ago, long_ago))
    assert not is_running(tmp_path)


def test_learning_that_was_interrupted_can_be_repeated(
    config: RunConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C in a notebook, then learn() again: the episode is taken in once."""
    expected = whole_run(config, tmp_path / "whole")
    with Session(config, tmp_path / "cut", warn=ignore) as session:
        learn_episode(session)
        live(session)
        session.end_episode()

        def interrupt(*_: Any, **__: Any) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patched:
            patched.setattr(session._agent, "learn", interrupt)
            with pytest.raises(KeyboardInterrupt):
                session.learn()
        session.learn()
        while session.number <= config.episodes:
            learn_episode(session)
    assert rows(tmp_path / "cut") == expected
