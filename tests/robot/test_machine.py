"""Gymnasium environments as machines, and the thread that calls them."""

from typing import Any

import gymnasium
import numpy as np
import pytest

from driftrl.envs.drifting import make_env
from driftrl.errors import InputError
from driftrl.robot.machine import Machine
from driftrl.robot.protocol import Begin


def test_a_task_is_a_machine() -> None:
    env = make_env("pendulum")
    machine = Machine(make_env("pendulum"), name="pendulum", steps=40, theta_known=True)
    assert (machine.observation_size, machine.action_size) == (3, 1)
    obs, info = env.reset(seed=4, options={"episode": 12, "steps": 7})
    sample = machine.reset(Begin(12, 7, 4))
    assert np.array_equal(sample.obs, obs) and sample.theta == info["theta"]
    obs, reward, *_, info = env.step(np.array([0.3]))
    sample = machine.step(np.array([0.3]))
    assert np.array_equal(sample.obs, obs)
    assert (sample.reward, sample.theta) == (reward, info["theta"])
    machine.halt()
    machine.close()


def test_theta_is_known_and_the_switch_thrown_if_there_are_any() -> None:
    thrown: list[bool] = []
    halt = lambda: thrown.append(True)
    machine = Machine(make_env("pendulum"), name="mine", steps=40, halt=halt)
    assert machine.reset(Begin(1, 0, None)).theta is None
    machine.halt()
    assert thrown == [True]


class Odd(gymnasium.Env[Any, Any]):
    def __init__(self, observed: gymnasium.Space, chosen: gymnasium.Space) -> None:
        self.observation_space, self.action_space = observed, chosen


VECTOR = gymnasium.spaces.Box(-1.0, 1.0, (2,))


@pytest.mark.parametrize(
    ("observed", "chosen"),
    [
        (gymnasium.spaces.Discrete(3), VECTOR),
        (VECTOR, gymnasium.spaces.Discrete(3)),
        (gymnasium.spaces.Box(-1.0, 1.0, (2, 2)), VECTOR),
        (VECTOR, gymnasium.spaces.Box(-2.0, 2.0, (2,))),
    ],
)
def test_other_environments_are_refused(
    observed: gymnasium.Space, chosen: gymnasium.Space
) -> None:
    with pytest.raises(InputError):
        Machine(Odd(observed, chosen), name="odd", steps=5)
