"""Which environments can be learned, and what is said of those that can't."""

from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from driftrl.envs.spaces import box_sizes
from driftrl.errors import InputError


class Made(gymnasium.Env[Any, Any]):
    """An environment of which only the spaces matter."""

    def __init__(self, observed: spaces.Space[Any], chosen: spaces.Space[Any]) -> None:
        self.observation_space = observed
        self.action_space = chosen


STATES = spaces.Box(-np.inf, np.inf, (3,))
ACTIONS = spaces.Box(-2.0, 2.0, (2,))


def test_boxes_are_counted() -> None:
    assert box_sizes(Made(STATES, ACTIONS)) == (3, 2)


@pytest.mark.parametrize(
    ("observed", "chosen", "sentence"),
    [
        (spaces.Dict({"a": STATES}), ACTIONS, "are a dict.*FlattenObservation"),
        (spaces.Discrete(4), ACTIONS, "Observations must be a Box"),
        (spaces.Box(0, 1, (2, 2)), ACTIONS, "Box of one axis.*FlattenObservation"),
        (STATES, spaces.Discrete(2), r"Actions must be a Box.*Discrete\(2\)"),
        (STATES, spaces.Box(-np.inf, 1.0, (1,)), "finite bounds.*RescaleAction"),
    ],
)
def test_other_spaces_are_refused_with_a_way_out(
    observed: spaces.Space[Any], chosen: spaces.Space[Any], sentence: str
) -> None:
    with pytest.raises(InputError, match=sentence):
        box_sizes(Made(observed, chosen))
