"""The RC car: pure functions of (state, action, θ, parameters), and the environment.

The model is the published one of a car that drifts: a bicycle with Pacejka tyres where
it drives forwards, and without slip where it doesn't.  In the frame of the car, with
δ = steering · δ_max and d = θ · throttle, the drive is

    F_x = c_m1 d − c_m2² v_x

Forwards, tyres slip by α and push sideways::

    α_f  = δ − atan((ω l_f + v_y) / v_x)       F_f = d_f g sin(c_f atan(b_f α_f))
    α_r  = atan((ω l_r − v_y) / v_x)           F_r = d_r g sin(c_r atan(b_r α_r))
    v_x' = (F_x − F_f sin δ) / m + v_y ω
    v_y' = (F_r + F_f cos δ) / m − v_x ω
    ω'   = (F_f l_f cos δ − F_r l_r) / I

and otherwise, with β = atan(tan δ / (l_f + l_r)), v_y and ω follow the wheels::

    v_x' = F_x cos β / m      v_y' = (v_x sin β l_r − v_y) / τ
                              ω'   = (v_x sin β − ω) / τ

The weight of the first is w = clip((v_x − u²) / (l² + 1e-6), 0, 1): nearly a switch at
v_x = 0.  β is as published although its units don't agree: fully turned, ω is 0.92 v_x
in reverse, where wheels of such a car would make it 2.28 v_x.

It differs from the published simulator in two respects.  The integrator is the
classical Runge-Kutta method, of fourth order; theirs is of first order.  And τ is their
1/90 s whatever the sub-step.  Nine sub-steps make an error that the car's sensors can't
see in a step; three don't.  Below 0.03 m/s the tyres are too stiff for either, and the
car may chatter, by less than 0.01 m/s.
"""

import functools
import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float

from driftrl.config.run import EnvironmentConfig
from driftrl.envs.plant import Observation, Plant, Signals, StepResult
from driftrl.errors import at_least, require, unknown_name

DT = 1.0 / 30.0  # s, from one command to the next
SUBSTEPS = 9  # of the integrator, in DT
RELAXATION = 1.0 / 90.0  # s, the τ of the module's docstring
GRAVITY = 9.81  # m/s²

GOAL = (0.0, 0.0, 0.0)  # m, m, rad
START = (1.42, -1.04, float(np.pi))  # 1.76 m away, facing the other way
ARENA = ((-1.4, 2.8), (-2.6, 1.5))  # m, of x and of y

PARKED_WITHIN = 0.1  # the D up to which the reward is full
MARGIN = 2.0  # the D − PARKED_WITHIN at which a tenth of it is left
ACTION_COST = 0.005

Scalar = Float[Array, ""]
Number = Scalar | float
Obs = Float[Array, " S"]
Action = Float[Array, " 2"]


class CarState(NamedTuple):
    """Pose and velocity in the frame of the world: m, rad, m/s, rad/s."""

    x: Number
    y: Number
    heading: Number
    v_x: Number
    v_y: Number
    yaw_rate: Number


class CarParameters(NamedTuple):
    """The car by the symbols of the module's docstring, as its owners identified it."""

    m: Number = 1.65  # kg
    l_f: Number = 0.13  # m, from the centre of mass to the front axle
    l_r: Number = 0.17  # m, and to the rear axle
    b_f: Number = 2.75
    b_r: Number = 5.0
    c_f: Number = 1.45
    c_r: Number = 1.3
    d_f: Number = 0.4  # kg: the front tyres push with at most d_f g
    d_r: Number = 0.3
    inertia: Number = 0.06  # kg m², I
    c_m1: Number = 8.2  # N, of the full throttle
    c_m2: Number = 1.25  # its square brakes, in N s/m
    steering_limit: Number = 0.6  # rad, δ_max
    blend_width: Number = 0.001  # l, whose square is a speed in m/s
    blend_start: Number = 0.017  # u, likewise


NOMINAL = CarParameters()


def wrap(angle: Number) -> Scalar:
    """Map an angle into [−π, π]."""
    return jnp.arctan2(jnp.sin(angle), jnp.cos(angle))


def turned(x: Number, y: Number, angle: Number) -> tuple[Scalar, Scalar]:
    """Rotate a vector by an angle, counterclockwise."""
    cos, sin = jnp.cos(angle), jnp.sin(angle)
    return x * cos - y * sin, x * sin + y * cos


def tyre_forces(
    body: CarState, delta: Scalar, p: CarParameters
) -> tuple[Scalar, Scalar]:
    """Return F_f and F_r, in N, of a state whose velocity is in the car's frame."""
    ahead = body.v_x + 1e-6
    slip_f = delta - jnp.arctan((body.yaw_rate * p.l_f + body.v_y) / ahead)
    slip_r = jnp.arctan((body.yaw_rate * p.l_r - body.v_y) / ahead)
    front = p.d_f * GRAVITY * jnp.sin(p.c_f * jnp.arctan(p.b_f * slip_f))
    rear = p.d_r * GRAVITY * jnp.sin(p.c_r * jnp.arctan(p.b_r * slip_r))
    return front, rear


def _rates(body: CarState, delta: Scalar, drive: Scalar, p: CarParameters) -> CarState:
    """Return the time derivative of a state whose velocity is in the car's frame."""
    v_x, v_y, omega = body.v_x, body.v_y, body.yaw_rate
    force = p.c_m1 * drive - p.c_m2**2 * v_x
    front, rear = tyre_forces(body, delta, p)
    slipping = (
        (force - front * jnp.sin(delta)) / p.m + v_y * omega,
        (rear + front * jnp.cos(delta)) / p.m - v_x * omega,
        (front * p.l_f * jnp.cos(delta) - rear * p.l_r) / p.inertia,
    )
    beta = jnp.arctan(jnp.tan(delta) / (p.l_f + p.l_r))
    rolling = (
        force * jnp.cos(beta) / p.m,
        (v_x * jnp.sin(beta) * p.l_r - v_y) / RELAXATION,
        (v_x * jnp.sin(beta) - omega) / RELAXATION,
    )
    weight = (v_x - p.blend_start**2) / (p.blend_width**2 + 1e-6)
    weight = jnp.clip(weight, 0.0, 1.0)
    blended = (
        weight * a + (1.0 - weight) * b for a, b in zip(slipping, rolling, strict=True)
    )
    return CarState(*turned(v_x, v_y, body.heading), omega, *blended)


def _moved(body: CarState, time: float, rates: CarState) -> CarState:
    return jax.tree.map(lambda value, rate: value + time * rate, body, rates)


def runge_kutta(
    rates: Callable[[CarState], CarState], state: CarState, time: float
) -> CarState:
    """Advance by one step of the classical fourth-order method."""
    k_1 = rates(state)
    k_2 = rates(_moved(state, 0.5 * time, k_1))
    k_3 = rates(_moved(state, 0.5 * time, k_2))
    k_4 = rates(_moved(state, time, k_3))
    return jax.tree.map(
        lambda value, a, b, c, d: value + time / 6.0 * (a + 2.0 * b + 2.0 * c + d),
        *(state, k_1, k_2, k_3, k_4),
    )


def step(
    state: CarState,
    action: Action,
    throttle: Number,
    parameters: CarParameters = NOMINAL,
    substeps: int = SUBSTEPS,
) -> CarState:
    """Advance by DT under an action that arrives at the car: no delay, no noise.

    The action is steering and throttle, clipped to [−1, 1]; ``throttle`` is θ.
    """
    steering, command = jnp.clip(action, -1.0, 1.0)
    delta, drive = steering * parameters.steering_limit, throttle * command
    body = CarState(
        *(state.x, state.y, state.heading),
        *turned(state.v_x, state.v_y, -state.heading),
        state.yaw_rate,
    )

    def advance(carried: CarState, _: None) -> tuple[CarState, None]:
        rates = lambda one: _rates(one, delta, drive, parameters)
        return runge_kutta(rates, carried, DT / substeps), None

    dtype = jnp.result_type(action)
    body = jax.tree.map(lambda value: jnp.asarray(value, dtype), body)
    body, _ = jax.lax.scan(advance, body, None, length=substeps)
    return CarState(
        *(body.x, body.y, wrap(body.heading)),
        *turned(body.v_x, body.v_y, body.heading),
        body.yaw_rate,
    )


def observe(state: CarState) -> Float[Array, " 7"]:
    """Return (x, y, sin, cos of the heading, v_x, v_y, yaw rate)."""
    sin, cos = jnp.sin(state.heading), jnp.cos(state.heading)
    return jnp.stack([state.x, state.y, sin, cos, state.v_x, state.v_y, state.yaw_rate])


def nearness(obs: Obs) -> Scalar:
    """Return the reward for the pose, in (0, 1]: a long tail around the goal.

    With D² = x² + y² + heading² (the goal is the origin)::

        1 / (1 + 9 (max(D − 0.1, 0) / 2)²)
    """
    squared = obs[0] ** 2 + obs[1] ** 2 + jnp.arctan2(obs[2], obs[3]) ** 2
    # A root at 0 would have no gradient.
    beyond = jnp.sqrt(jnp.maximum(squared, PARKED_WITHIN**2)) - PARKED_WITHIN
    return 1.0 / (1.0 + 9.0 * (beyond / MARGIN) ** 2)


def reward(obs: Obs, action: Action, next_obs: Obs) -> Scalar:
    """Return nearness(next_obs) − 0.005 ‖action‖², the action as it was commanded."""
    del obs
    return nearness(next_obs) - ACTION_COST * (action**2).sum()


def known_next_obs(obs: Obs, action: Action, next_obs: Obs) -> Obs:
    """Return the next observation with the commands that it will remember."""
    return jnp.concatenate([next_obs[:7], obs[9:], action])


@functools.cache
def decision_reward(repeat: int, theta: float) -> Callable[[Obs, Action, Obs], Scalar]:
    """Return r(obs, action, next_obs), the reward of a decision held ``repeat`` steps.

    Between two decisions nearness is taken to run along a straight line.  θ makes no
    difference: what is charged for is the command.
    """
    del theta

    def of_decision(obs: Obs, action: Action, next_obs: Obs) -> Scalar:
        missing = 0.5 * (repeat - 1) * (nearness(next_obs) - nearness(obs))
        return repeat * reward(obs, action, next_obs) - missing

    return of_decision


NOMINAL_THETA = {"throttle": 1.0, "action_delay": 3.0, "observation_noise": 1.0}
"""What may drift: a factor, steps of 1/30 s (rounded), and a factor."""
NOISE_STD = 0.1 * np.exp([-4.5, -4.5, -4.0, -2.5, -2.5, -1.0])
"""Of x, y, heading, v_x, v_y and yaw rate, before the heading becomes sin and cos."""
REMEMBERED = 3  # commands that are part of an observation

_START_SPREAD = np.array([0.1, 0.1, 0.1 * np.pi])  # m, m, rad; to either side
_START_VELOCITY = np.array([0.005, 0.005, 0.02])  # m/s, m/s, rad/s; standard deviation
_PARKED = (0.05, 0.2, 0.5)  # m, rad, and m/s and rad/s in one norm


class RCCarPlant(Plant):
    """A car that must park, facing the other way at first, by drifting if it can.

    Actions are steering (left is positive, of 0.6 rad) and throttle (negative brakes
    and reverses, × θ, of 8.2 N).  Observations::

        0 … 6     ``observe``, measured with noise: m, 1, m/s, rad/s
        7 … 12    the last three commands, oldest first

    The ``reward`` of a step is of the pose that is measured after it (as on the floor,
    where nothing else is known) and of the command as it was given.

    It starts around ``START``, nearly at rest.  An episode never ends before its time;
    ``info`` says whether the car is parked ("goal_reached") or has left the arena
    ("out_of_bounds").
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": ["rgb_array"],
        "render_fps": round(1.0 / DT),
    }

    def __init__(
        self, config: EnvironmentConfig, render_mode: str | None = None
    ) -> None:
        self.render_mode = render_mode
        self._config = config
        bound = np.array([np.inf, np.inf, 1.0, 1.0, *[np.inf] * 3, *[1.0] * 6])
        self.observation_space = spaces.Box(-bound, bound, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), dtype=np.float64)
        self._signals = Signals()
        with jax.enable_x64(True):
            self._on_device = jax.tree.map(jnp.asarray, NOMINAL)
        self.set_parameters({})
        # A control loop must not have to wait for the compiler.
        self._advance(np.zeros(6), np.zeros(2), np.zeros(2), np.zeros(6))

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set any of ``NOMINAL_THETA``."""
        for name, value in values.items():
            if name not in NOMINAL_THETA:
                raise unknown_name("parameter of the car", name, NOMINAL_THETA)
            at_least(f"The car's {name}", value, 0)
        settled = {**NOMINAL_THETA, **values}
        self._signals.action_delay = round(settled["action_delay"])
        self._noise_std = settled["observation_noise"] * NOISE_STD
        with jax.enable_x64(True):
            self._theta = jnp.asarray(float(settled["throttle"]))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed)
        self._left = self._config.sim_steps
        pose = START + self.np_random.uniform(-_START_SPREAD, _START_SPREAD)
        velocity = _START_VELOCITY * self.np_random.standard_normal(3)
        self._state = np.concatenate([pose, velocity])
        self._signals.reset(2, self._state, self.np_random)
        self._remembered = deque([np.zeros(2)] * REMEMBERED, maxlen=REMEMBERED)
        self._trail = [self._state]
        x, y, heading, *velocity = self._state + self._noise()
        sight = np.array([x, y, np.sin(heading), np.cos(heading), *velocity])
        return np.concatenate([sight, *self._remembered]), self._flags()

    def step(self, action: np.ndarray) -> StepResult:
        """Hold ``action`` in [−1, 1] for ``action_repeat`` steps of 1/30 s."""
        action = np.asarray(action, np.float64)
        require(
            action.shape == (2,) and bool(np.isfinite(action).all()),
            "An action of the car is two numbers, steering and throttle, in [−1, 1]; "
            f"received {action.tolist()!r}.",
        )
        commanded = np.minimum(np.maximum(action, -1.0), 1.0)
        total, sight = 0.0, np.empty(0)
        for _ in range(self._config.action_repeat):
            arriving = self._signals.command(commanded)
            self._state, sight, reward = self._advance(
                self._state, arriving, commanded, self._noise()
            )
            total += reward
            if self.render_mode is not None:
                self._trail.append(self._state)
        self._left -= self._config.action_repeat
        self._remembered.append(commanded)
        obs = np.concatenate([sight, *self._remembered])
        return obs, total, False, self._left <= 0, self._flags()

    def get_state(self) -> dict[str, np.ndarray]:
        """Return pose and velocity, and the commands on their way and remembered."""
        remembered = np.array(self._remembered)
        signals = self._signals.get_state()
        return {"state": self._state, "remembered": remembered, **signals}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Set them."""
        self._state = np.array(state["state"])
        self._remembered = deque(state["remembered"], maxlen=REMEMBERED)
        self._signals.set_state(state)

    def render(self) -> Any:
        """Return the picture from above, if the render mode is "rgb_array"."""
        if self.render_mode is None:
            return None
        from driftrl.envs.rccar_drawing import draw

        return draw(np.array(self._trail))

    def _advance(self, *arrays: np.ndarray) -> tuple[np.ndarray, np.ndarray, float]:
        """Step from (state, arriving and given command, noise) to (state, obs, r)."""
        with jax.enable_x64(True):
            after, sight, reward = _measured_step(*arrays, self._theta, self._on_device)
        return np.asarray(after), np.asarray(sight), float(reward)

    def _noise(self) -> np.ndarray:
        return self._noise_std * self.np_random.standard_normal(6)

    def _flags(self) -> dict[str, Any]:
        """Say where the car is, whatever was measured."""
        x, y, heading, *velocity = self._state.tolist()
        (left, right), (low, high) = ARENA
        near, aligned, slow = _PARKED
        return {
            "goal_reached": math.hypot(x, y) < near
            and abs(math.remainder(heading, math.tau)) < aligned
            and math.hypot(*velocity) < slow,
            "out_of_bounds": not (left <= x <= right and low <= y <= high),
        }


@jax.jit
def _measured_step(
    state: Float[Array, " 6"],
    arriving: Float[Array, " 2"],
    commanded: Float[Array, " 2"],
    noise: Float[Array, " 6"],
    theta: Number,
    parameters: CarParameters,
) -> tuple[Float[Array, " 6"], Float[Array, " 7"], Float[Array, ""]]:
    """Return the state after a step, its observation, and the reward."""
    after = jnp.stack(step(CarState(*state), arriving, theta, parameters))
    sight = observe(CarState(*(after + noise)))
    return after, sight, reward(sight, commanded, sight)
