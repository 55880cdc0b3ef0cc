"""What driftrl can act in: boxes of numbers, bounded where the agent chooses."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from driftrl.errors import InputError, require


def box_sizes(env: gymnasium.Env[Any, Any]) -> tuple[int, int]:
    """Return the numbers of states and actions of an environment that can be learned.

    Raises:
        InputError: Observations or actions are not vectors, or actions have no bounds.
    """
    observed, chosen = env.observation_space, env.action_space
    if isinstance(observed, spaces.Dict | spaces.Tuple):
        raise InputError(
            f"Observations are a {type(observed).__name__.lower()} and must be one "
            "vector; wrap the environment in gymnasium.wrappers.FlattenObservation."
        )
    if not isinstance(observed, spaces.Box) or len(observed.shape) != 1:
        raise InputError(
            f"Observations must be a Box of one axis, received {observed}; wrap the "
            "environment in gymnasium.wrappers.FlattenObservation."
        )
    if not isinstance(chosen, spaces.Box) or len(chosen.shape) != 1:
        raise InputError(
            f"Actions must be a Box of one axis, received {chosen}; driftrl commands "
            "real numbers, not choices."
        )
    bounds = np.concatenate([chosen.low, chosen.high])
    require(
        bool(np.isfinite(bounds).all()),
        f"Actions must have finite bounds, received {chosen}; wrap the environment in "
        "gymnasium.wrappers.RescaleAction or TransformAction with bounds.",
    )
    return observed.shape[0], chosen.shape[0]
