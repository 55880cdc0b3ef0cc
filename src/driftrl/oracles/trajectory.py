"""Episodes of the pendulum, as the oracle's methods hand them to each other."""

from typing import NamedTuple

from jaxtyping import Array, Float

from driftrl.envs.pendulum import PendulumState


class Trajectory(NamedTuple):
    """Actions, the states in which they were taken, and the return they achieved.

    With the states, not the actions alone: near upright the pendulum is unstable, and
    the same actions replayed blindly would drop it after some seconds, by rounding.
    """

    actions: Float[Array, "*B D"]
    states: PendulumState
    """Angles and speeds, each of the shape of ``actions``."""
    value: Float[Array, "*B"]
