"""The pendulum: pure functions of (state, action, θ), and the environment.

State is (angle, speed), angle 0 upright and ±π hanging.  What drifts is θ, the torque
in N·m that the full action ±1 commands::

    τ      = θ · a
    ω'     = clip(ω + (3g/2l · sin φ + 3/(m l²) · τ) · dt, ±ω_max)
    φ'     = φ + ω' · dt
    r(φ,ω) = −(wrap(φ)² + 0.1 ω² + 0.001 τ²)        on the state before the step

The functions are what oracles plan with; the environment is Gymnasium's Pendulum-v1,
which they reproduce.
"""

import functools
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import gymnasium
import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float

from driftrl.config.run import EnvironmentConfig
from driftrl.envs.plant import Observation, Plant, StepResult
from driftrl.errors import at_least, require

GRAVITY = 10.0  # m/s², as in Pendulum-v1
MASS = 1.0  # kg
LENGTH = 1.0  # m
DT = 0.05  # s
MAX_SPEED = 8.0  # rad/s
HANGING = (jnp.pi, 0.0)

Scalar = Float[Array, ""]
Obs = Float[Array, " 3"]


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


def observe(state: PendulumState) -> Obs:
    """Return Gymnasium's observation (cos φ, sin φ, ω)."""
    return jnp.stack([jnp.cos(state.angle), jnp.sin(state.angle), state.speed])


def state_of(obs: Obs) -> PendulumState:
    """Invert ``observe``; the angle comes back in (−π, π]."""
    return PendulumState(jnp.arctan2(obs[1], obs[0]), obs[2])


@functools.cache
def decision_reward(
    repeat: int, theta: float
) -> Callable[[Obs, Float[Array, " 1"], Obs], Scalar]:
    """Return r(obs, action, next_obs), the reward of a decision held ``repeat`` steps.

    Between two decisions the cost is taken to run along a straight line: the sum over
    the held steps is ``repeat`` times the mean of its ends.  The learner does not know
    the drifting θ; the small cost of torque is charged at the given, nominal one.
    """

    def of_decision(obs: Obs, action: Float[Array, " 1"], next_obs: Obs) -> Scalar:
        torque = theta * action[0]
        before = reward(state_of(obs), torque)
        return 0.5 * repeat * (before + reward(state_of(next_obs), torque))

    return of_decision


class PendulumPlant(Plant):
    """Gymnasium's Pendulum-v1 whose full action ±1 commands the torque ±θ.

    An action may be held for several steps, whose rewards are summed; an episode may
    start hanging; the state may carry Gaussian process noise (the paper's x' = f(x, u)
    + w).  It never terminates.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": ["rgb_array", "human"],
        "render_fps": 20,  # as many steps as a second has
    }

    def __init__(
        self, config: EnvironmentConfig, render_mode: str | None = None
    ) -> None:
        self.render_mode = render_mode
        made = gymnasium.make("Pendulum-v1", render_mode=render_mode)
        self._inner: Any = made.unwrapped
        self._config = config
        bound = np.array([1.0, 1.0, MAX_SPEED])
        self.observation_space = spaces.Box(-bound, bound, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (1,), dtype=np.float64)
        self._theta = 0.0

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set ``torque``, that of the full action, in N·m."""
        require(
            [*values] == ["torque"],
            f"The pendulum has one parameter, 'torque'; received {[*values]}.",
        )
        at_least("The pendulum's torque θ", values["torque"], 0)
        self._theta = float(values["torque"])
        # Gymnasium clips at max_torque, so the limit must follow the commanded torque.
        self._inner.max_torque = self._theta

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode where ``environment.start`` says."""
        super().reset(seed=seed)
        if self._config.start == "hanging":
            state = np.array(HANGING)
        else:
            state = self.np_random.uniform([-np.pi, -1.0], [np.pi, 1.0])
        self._inner.reset(seed=0)  # Gymnasium's own start is replaced, not used.
        self._inner.state = state
        self._left = self._config.sim_steps
        return self._observe(), {}

    def step(self, action: np.ndarray) -> StepResult:
        """Hold ``action`` in [−1, 1] for ``action_repeat`` steps of the simulator."""
        torque = self._theta * np.clip(np.asarray(action, np.float64), -1.0, 1.0)
        total = 0.0
        for _ in range(self._config.action_repeat):
            _, reward, _, _, _ = self._inner.step(torque)
            total += float(reward)
        self._left -= self._config.action_repeat
        if self._config.noise_std > 0:
            noise = self.np_random.normal(0.0, self._config.noise_std, 2)
            angle, speed = self._inner.state + noise
            self._inner.state = np.array([angle, np.clip(speed, -MAX_SPEED, MAX_SPEED)])
        return self._observe(), total, False, self._left <= 0, {}

    def get_state(self) -> dict[str, np.ndarray]:
        """Return angle and speed."""
        return {"state": np.array(self._inner.state)}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Set angle and speed."""
        self._inner.state = np.array(state["state"])

    def _observe(self) -> Observation:
        angle, speed = self._inner.state
        return np.array([np.cos(angle), np.sin(angle), speed])
