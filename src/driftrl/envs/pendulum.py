"""The pendulum as pure functions of (state, action, θ): the twin of Gymnasium's.

State is (angle, speed), angle 0 upright and ±π hanging.  What drifts is θ, the torque
in N·m that the full action ±1 commands::

    τ      = θ · a
    ω'     = clip(ω + (3g/2l · sin φ + 3/(m l²) · τ) · dt, ±ω_max)
    φ'     = φ + ω' · dt
    r(φ,ω) = −(wrap(φ)² + 0.1 ω² + 0.001 τ²)        on the state before the step

Drift is an argument here, never an attribute.
"""

import functools
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

GRAVITY = 10.0  # m/s², as in Pendulum-v1
MASS = 1.0  # kg
LENGTH = 1.0  # m
DT = 0.05  # s
MAX_SPEED = 8.0  # rad/s
HANGING = (jnp.pi, 0.0)

Scalar = Float[Array, ""]


class PendulumState(NamedTuple):
    """Angle in rad (0 upright) and angular speed in rad/s."""

    angle: Scalar
    speed: Scalar


def wrap(angle: Scalar) -> Scalar:
    """Map an angle into [−π, π)."""
    return (angle + jnp.pi) % (2.0 * jnp.pi) - jnp.pi


def reward(state: PendulumState, torque: Scalar) -> Scalar:
    """Return r of the module's docstring: minus the cost of being away from upright."""
    return -(wrap(state.angle) ** 2 + 0.1 * state.speed**2 + 0.001 * torque**2)


def step(
    state: PendulumState, action: Scalar, theta: Scalar
) -> tuple[PendulumState, Scalar]:
    """Advance by one time step DT under torque θ·action; return state and reward."""
    torque = theta * jnp.clip(action, -1.0, 1.0)
    gravity = 3.0 * GRAVITY / (2.0 * LENGTH) * jnp.sin(state.angle)
    drive = 3.0 / (MASS * LENGTH**2) * torque
    speed = jnp.clip(state.speed + (gravity + drive) * DT, -MAX_SPEED, MAX_SPEED)
    return PendulumState(state.angle + speed * DT, speed), reward(state, torque)


def repeated_step(
    state: PendulumState, action: Scalar, theta: Scalar, repeat: int
) -> tuple[PendulumState, Scalar]:
    """Hold ``action`` for ``repeat`` time steps; return the state and summed reward."""

    def body(carried: PendulumState, _: None) -> tuple[PendulumState, Scalar]:
        return step(carried, action, theta)

    state, rewards = jax.lax.scan(body, state, None, length=repeat)
    return state, rewards.sum()


def observe(state: PendulumState) -> Float[Array, " 3"]:
    """Return Gymnasium's observation (cos φ, sin φ, ω)."""
    return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.speed])


def state_of(obs: Float[Array, " 3"]) -> PendulumState:
    """Invert ``observe``; the angle comes back in (−π, π]."""
    return PendulumState(jnp.arctan2(obs[1], obs[0]), obs[2])


@functools.cache
def decision_reward(
    repeat: int, theta: float
) -> Callable[[Float[Array, " 3"], Float[Array, " 1"], Float[Array, " 3"]], Scalar]:
    """Return r(obs, action, next_obs), the reward of a decision held ``repeat`` steps.

    Between two decisions the cost is taken to run along a straight line: the sum over
    the held steps is ``repeat`` times the mean of its ends.  The learner does not know
    the drifting θ; the small cost of torque is charged at the given, nominal one.
    """

    def of_decision(
        obs: Float[Array, " 3"],
        action: Float[Array, " 1"],
        next_obs: Float[Array, " 3"],
    ) -> Scalar:
        torque = theta * action[0]
        before, after = (
            reward(state_of(obs), torque),
            reward(state_of(next_obs), torque),
        )
        return 0.5 * repeat * (before + after)

    return of_decision
