"""A live robot: what it does when all is well, and on each fault."""

from collections.abc import Callable
from types import ModuleType
from typing import Any

import msgpack
import numpy as np
import pytest

from driftrl.errors import EpisodeAborted
from driftrl.robot.client import RemoteEnv
from driftrl.robot.machine import Sample
from driftrl.robot.protocol import (
    Abort,
    Action,
    Alive,
    Begin,
    Message,
    Observation,
    Preparing,
    Stopped,
)
from driftrl.robot.safety import Bound
from driftrl.robot.timing import Timing
from driftrl.training.learner import Learner
from driftrl.training.loop import collect

Serve = Callable[..., Any]
Connect = Callable[..., RemoteEnv]
Knock = Callable[[str], Any]
STOP = -0.25
COMMANDS = [np.array([0.8 * np.sin(k + 1.0)]) for k in range(6)]


def test_an_episode_is_what_it_is_without_the_wire(
    serve: Serve, connect: Connect, point_mass: ModuleType
) -> None:
    served = serve()
    env, twin = connect(served.address), point_mass.Point()
    assert (env.robot.name, env.robot.steps, env.robot.theta_known) == (
        "point",
        6,
        True,
    )
    for episode in (1, 2):
        options = {"episode": episode, "steps": 6 * (episode - 1)}
        obs, info = env.reset(seed=9, options=options)
        expected = twin.reset(Begin(episode, 6 * (episode - 1), 9))
        assert np.array_equal(obs, expected.obs) and info["theta"] == 1 / episode
        for k, action in enumerate(COMMANDS):
            obs, reward, terminated, truncated, info = env.step(action)
            expected = twin.step(action)
            assert np.array_equal(obs, expected.obs) and reward == expected.reward
            assert (terminated, truncated) == (False, k == 5)
            assert np.array_equal(info["applied"], action)
            assert env.theta == 1 / episode
    served.wait(lambda: served.controller.counts["finished"] == 2)
    assert served.machine.places == twin.places
    assert env.thinking.count == len(served.controller.answers) == 12
    # Each of them is brought to rest, and nothing else was ever in force.
    rest = [a for a in served.machine.actions if a != STOP]
    assert rest == [float(a[0]) for a in COMMANDS] * 2
    served.wait(lambda: served.machine.actions[-1] == STOP)
    assert served.stops() == []


def test_clocks_advance_unless_an_episode_was_aborted(
    serve: Serve, connect: Connect
) -> None:
    served = serve()
    env = connect(served.address)
    env.reset(seed=1)
    env.step(COMMANDS[0])
    env.reset(seed=1)
    assert served.stopped()["code"] == "aborted"
    for action in COMMANDS:
        env.step(action)
    env.reset(seed=2)
    assert served.machine.places == [Begin(1, 0, 1), Begin(1, 0, 1), Begin(2, 6, 2)]


def test_the_clock_is_kept(serve: Serve, connect: Connect) -> None:
    """At least one of a few episodes is undisturbed, and lasts its six periods."""
    served = serve(Timing(period=0.05))
    env = connect(served.address)
    for _ in range(20):
        try:
            env.reset(seed=1)
            for action in COMMANDS:
                env.step(action)
            break
        except EpisodeAborted:
            continue
    finished = lambda: [e for e in served.events if e["event"] == "finished"]
    served.wait(lambda: len(finished()) == 1)
    seconds = finished()[0]["seconds"]
    assert 6 * 0.05 <= seconds < 6.5 * 0.05 + 0.05


# ---- faults of the machine ----------------------------------------------------------


def disturbed(at: int, obs: list[float]) -> Callable[[int, Sample], Sample]:
    def disturb(step: int, sample: Sample) -> Sample:
        return Sample(np.array(obs)) if step == at else sample

    return disturb


def broken(step: int, sample: Sample) -> Sample:
    if step == 3:
        raise RuntimeError("the cable came off")
    return sample


FAULTS = [
    ("observation", disturbed(3, [0.0, np.nan]), {}),
    ("observation", disturbed(3, [0.0, 0.0, 0.0]), {}),
    (
        "range",
        disturbed(3, [0.0, 50.0]),
        {"sensors": (Bound(0, -9.0, 9.0), Bound(1, -9.0, 9.0))},
    ),
    ("bounds", disturbed(3, [4.0, 0.0]), {"bounds": (Bound(0, -3.0, 3.0),)}),
    ("machine", broken, {}),
]


@pytest.mark.parametrize(("code", "disturb", "limits"), FAULTS)
def test_wrong_observations_stop_the_machine(
    serve: Serve, connect: Connect, code: str, disturb: Any, limits: dict[str, Any]
) -> None:
    served = serve(**limits)
    served.machine.disturb = disturb
    env = connect(served.address)
    env.reset(seed=1, options={"episode": 4})
    env.step(np.array([0.5]))
    env.step(np.array([0.6]))
    with pytest.raises(EpisodeAborted, match="after 3 actions"):
        env.step(np.array([0.7]))
    stop = served.stopped()
    assert (stop["episode"], stop["step"], stop["code"]) == (4, 3, code)
    assert served.machine.actions[:4] == [0.5, 0.6, 0.7, STOP]
    assert served.machine.halts == 1
    # It stays safe until the same episode is begun again, which then goes well.
    served.machine.disturb = lambda step, sample: sample
    env.reset(seed=1, options={"episode": 4})
    for action in COMMANDS:
        env.step(action)
    served.wait(lambda: served.controller.counts["finished"] == 1)
    assert served.controller.counts[code] == 1 and env.aborted == 1


def test_a_bad_start_stops_the_machine(serve: Serve, connect: Connect) -> None:
    served = serve()
    served.machine.disturb = disturbed(0, [np.nan, 0.0])
    env = connect(served.address)
    with pytest.raises(EpisodeAborted, match="0"):
        env.reset(seed=1)
    assert served.stopped()["code"] == "observation"


def test_theta_that_is_no_number_stops_the_machine(
    serve: Serve, connect: Connect
) -> None:
    served = serve()
    served.machine.disturb = lambda step, sample: Sample(sample.obs, theta=np.nan)
    env = connect(served.address)
    with pytest.raises(EpisodeAborted, match="theta"):
        env.reset(seed=1)


def test_a_machine_that_hangs_is_stopped(serve: Serve, connect: Connect) -> None:
    """Its switch is thrown in time, and it gets the stop action when it is back."""
    served = serve(Timing(period=0.2))

    def hang(step: int, sample: Sample) -> Sample:
        if step == 2:
            served.wait(lambda: served.machine.halts > 0)
        return sample

    served.machine.disturb = hang
    env = connect(served.address)
    env.reset(seed=1)
    with pytest.raises(EpisodeAborted, match="observation"):
        for _ in range(3):
            env.step(np.array([0.5]))
    stop = served.stopped()
    assert (stop["code"], stop["step"]) == ("stale", 2)
    assert stop["periods"] <= 2
    served.wait(lambda: served.machine.actions == [0.5, 0.5, STOP])


# ---- faults of the learner ----------------------------------------------------------


def test_an_answer_that_comes_too_late(serve: Serve, connect: Connect) -> None:
    """The action in force lasted less than two periods before the stop action came."""
    served = serve(Timing(period=0.2))
    env = connect(served.address)
    env.reset(seed=1)
    env.step(np.array([0.5]))
    served.stopped()
    # The learner has sent two actions by then; what counts is what the robot did.
    with pytest.raises(EpisodeAborted, match="after 1 action:"):
        env.step(np.array([0.9]))
    stop = served.stopped()
    assert (stop["code"], stop["step"]) == ("deadline", 1)
    assert stop["periods"] <= 2
    served.wait(lambda: served.controller.counts["late actions"] == 1)
    assert 0.9 not in served.machine.actions
    assert served.machine.actions[:2] == [0.5, STOP]
    assert len(served.stops()) == 1


def test_actions_are_clipped_and_limited(serve: Serve, connect: Connect) -> None:
    served = serve(rate=0.5)
    env = connect(served.address)
    env.reset(seed=1)
    applied = [env.step(np.array([u]))[4]["applied"][0] for u in (9.0, 9.0, 0.6, -1.0)]
    # From the stop action −0.25: +0.5, +0.5, then freely, then −0.5.
    assert applied == [0.25, 0.75, 0.6, pytest.approx(0.1)]
    assert served.machine.actions[:4] == applied
    assert served.controller.counts["limited"] == 3
    env.abort()
    served.stopped()
    # The stop action itself is not limited.
    assert served.machine.actions[4] == STOP


def test_a_learner_records_what_was_applied(serve: Serve, connect: Connect) -> None:
    served = serve(rate=0.5)
    recorded: list[float] = []

    class Pushing(Learner):
        def __init__(self) -> None:
            pass

        def begin_episode(self) -> int:
            return 1

        def act(self, obs: np.ndarray) -> np.ndarray:
            return np.ones(1)

        def observe(self, *outcome: Any, action: Any = None) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
            recorded.extend(action)

    collect(Pushing(), connect(served.address), seed=1)
    assert recorded == [0.25, 0.75, 1.0, 1.0, 1.0, 1.0]
    assert served.machine.actions[:6] == recorded


@pytest.mark.parametrize(
    ("said", "code"),
    [
        (b"nonsense", "malformed"),
        (Action(1, 0, (0.1, 0.2)), "malformed"),
        (Action(1, 1, (0.1,)), "malformed"),
        (
            msgpack.packb(
                {"type": "action", "episode": 1, "step": 0, "values": [np.inf]}
            ),
            "malformed",
        ),
        (Alive(), "malformed"),
        (Abort(1), "aborted"),
    ],
)
def test_what_a_learner_may_not_say(
    serve: Serve, knock: Knock, said: Message | bytes, code: str
) -> None:
    served = serve()
    peer = knock(served.address)
    peer.begin()
    peer.send(said)
    stopped = peer.next(Stopped)
    assert (stopped.episode, stopped.step, stopped.code) == (1, 0, code)
    assert served.machine.actions[0] == STOP
    # Safe, and deaf to actions, until a new beginning.
    peer.send(Action(1, 0, (0.5,)))
    served.wait(lambda: served.controller.counts["late actions"] == 1)
    assert set(served.machine.actions) == {STOP}
    peer.send(Begin(1, 0, 5))
    peer.next(Preparing)
    assert peer.next(Observation).step == 0


def test_late_and_repeated_words_do_no_harm(serve: Serve, knock: Knock) -> None:
    served = serve()
    peer = knock(served.address)
    peer.begin(episode=3)
    peer.send(Abort(2))
    peer.send(Action(2, 5, (0.9,)))
    peer.send(Action(3, 0, (0.1,)))
    assert peer.next().step == 1
    peer.send(Action(3, 0, (0.9,)))
    peer.send(Action(3, 1, (0.2,)))
    assert peer.next().applied == (0.2,)
    assert served.machine.actions == [0.1, 0.2]
    assert served.controller.counts["late actions"] == 2


def test_an_action_before_its_observation(serve: Serve, knock: Knock) -> None:
    served = serve(Timing(period=0.3))
    peer = knock(served.address)
    peer.begin()
    peer.send(Action(1, 0, (0.1,)))
    peer.send(Action(1, 1, (0.2,)))
    assert peer.next(Stopped).code == "malformed"
    assert served.machine.actions == [0.1, STOP]
