"""The learner's side: patience, and what a session makes of a robot."""

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from driftrl.errors import EpisodeAborted, InputError, RobotUnavailable
from driftrl.robot.client import RemoteEnv
from driftrl.robot.controller import Controller
from driftrl.robot.machine import Sample
from driftrl.robot.protocol import Malformed
from driftrl.robot.safety import Limits
from driftrl.robot.server import Robot
from driftrl.robot.timing import Timing
from factories import free_address

Serve = Callable[..., Any]
LONG: dict[str, Any] = {"away": 20.0, "silence": 20.0}


def test_a_robot_that_is_away_is_waited_for_so_long() -> None:
    address = free_address()
    began = time.monotonic()
    said: list[str] = []
    with pytest.raises(RobotUnavailable, match=address):
        RemoteEnv(address, away=0.5, silence=0.1, warn=said.append)
    assert time.monotonic() - began >= 0.5
    assert len(said) == 1 and address in said[0]


def test_a_robot_that_has_a_learner_is_waited_for_too(serve: Serve) -> None:
    address, said = serve().address, []
    first = RemoteEnv(address, **LONG)
    with pytest.raises(RobotUnavailable):
        RemoteEnv(address, away=0.1, silence=5.0, warn=said.append)
    assert len(said) == 1 and address in said[0]
    first.close()


def test_steps_need_an_episode_and_actions_their_shape(serve: Serve) -> None:
    served = serve()
    env = RemoteEnv(served.address, **LONG)
    with pytest.raises(InputError, match="reset"):
        env.step(np.zeros(1))
    env.reset(seed=1)
    with pytest.raises(InputError, match=r"\(1,\)"):
        env.step(np.zeros(2))
    with pytest.raises(Malformed, match="values"):
        env.step(np.array([np.nan]))
    assert served.stopped()["code"] == "aborted"
    with pytest.raises(InputError, match="reset"):
        env.step(np.zeros(1))
    env.close()
    env.close()


def test_silence_ends_the_episode_and_the_connection(serve: Serve) -> None:
    served = serve(Timing(period=0.01, real_time=False, patience=0.5))
    gate = threading.Event()

    def hang(step: int, sample: Sample) -> Sample:
        if step == 2:
            gate.wait(20)
        return sample

    served.machine.disturb = hang
    env = RemoteEnv(served.address, away=20.0, silence=0.2)
    env.reset(seed=1)
    env.step(np.zeros(1))
    with pytest.raises(EpisodeAborted, match=r"0\.2"):
        env.step(np.zeros(1))
    gate.set()
    served.machine.disturb = lambda step, sample: sample
    # It has hung up: until it comes back, the robot is free for others.
    RemoteEnv(served.address, **LONG).close()
    env.reset(seed=1)
    for _ in range(6):
        env.step(np.zeros(1))
    assert served.machine.places == [served.machine.places[0]] * 2
    env.close()


def test_another_robot_at_the_same_address(point_mass: Any) -> None:
    address = free_address()
    env: RemoteEnv | None = None
    for steps in (6, 7):
        drive = Controller(
            point_mass.Point(steps),
            Limits(stop=(0.0,), observation_size=2),
            Timing(real_time=False, patience=20.0),
        )
        robot = Robot(drive, address)
        thread = threading.Thread(target=robot.serve)
        thread.start()
        try:
            if env is None:
                env = RemoteEnv(address, away=20.0, silence=0.5)
                env.reset(seed=1)
            else:
                for _ in range(2):
                    with pytest.raises(InputError, match=address):
                        env.reset(seed=1)
        finally:
            robot.end()
            thread.join(timeout=10)
    assert env is not None
    env.close()


def learn(env: Any, episodes: int) -> tuple[list[np.ndarray], int]:
    """Run a small learner: its policy depends on all that it has lived through."""
    memory: list[np.ndarray] = []
    aborted = 0
    while len(memory) < episodes:
        number = len(memory) + 1
        gain = 0.1 + float(np.tanh(sum(np.abs(rows).sum() for rows in memory)))
        noise = np.random.default_rng([7, number])
        rows = []
        try:
            place = {"episode": number, "steps": 6 * (number - 1)}
            obs, _ = env.reset(seed=100 + number, options=place)
            over = False
            while not over:
                action = np.clip(-gain * obs[:1] + noise.normal(size=1), -1, 1)
                obs, reward, terminated, truncated, _ = env.step(action)
                rows.append(np.concatenate([action, obs, [reward]]))
                over = terminated or truncated
        except EpisodeAborted:
            aborted += 1
            continue
        memory.append(np.array(rows))
    return memory, aborted


def test_a_run_with_faults_has_the_records_of_one_without(serve: Serve) -> None:
    def flawed(step: int, sample: Sample) -> Sample:
        nonlocal trouble
        trouble += step > 0
        return Sample(sample.obs * np.nan) if trouble in (3, 11, 13) else sample

    trouble = 0
    records = []
    for disturb in (None, flawed):
        served = serve()
        if disturb is not None:
            served.machine.disturb = disturb
        env = RemoteEnv(served.address, **LONG)
        memory, aborted = learn(env, 4)
        assert aborted == env.aborted == (0 if disturb is None else 3)
        records.append(np.concatenate(memory))
        env.close()
    assert np.array_equal(records[0], records[1])
