"""The RC car as a plant: late commands, noisy sight, and a picture from above.

Beside the physics of ``driftrl.envs.rccar`` it has what lies between a learner and the
car on the floor: 30 commands a second that arrive three later, a camera that measures
pose and speed with noise, and commands still under way that only the learner knows.
"""

import math
from collections import deque
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from gymnasium import spaces
from jaxtyping import Array, Float

from driftrl.config.run import EnvironmentConfig
from driftrl.envs import rccar
from driftrl.envs.delays import Signals
from driftrl.envs.plant import Observation, Plant, StepResult
from driftrl.envs.rccar import CarParameters, CarState, Number
from driftrl.envs.rccar_drawing import Frame, draw
from driftrl.errors import require, unknown_name

NOMINAL_THETA = {"throttle": 1.0, "action_delay": 3.0, "observation_noise": 1.0}
"""What may drift: a factor, steps of 1/30 s (rounded), and a factor."""
NOISE_STD = 0.1 * np.exp([-4.5, -4.5, -4.0, -2.5, -2.5, -1.0])
"""Of x, y, heading, v_x, v_y and yaw rate, before the heading becomes sin and cos."""
REMEMBERED = 3  # commands that are part of an observation
STARTS = ("away", "anywhere")

_START_POSITION = 0.1  # m, to either side
_START_HEADING = 0.1 * np.pi  # rad, to either side
_START_VELOCITY = np.array([0.005, 0.005, 0.02])  # m/s, m/s, rad/s; standard deviation
_PARKED = (0.05, 0.2, 0.5)  # m, rad, and m/s and rad/s in one norm


class RCCarPlant(Plant):
    """A car that must park, facing the other way at first, by drifting if it can.

    ======  ==============================================  =========
    action  what                                            unit
    ======  ==============================================  =========
    0       steering, left is positive                      of 0.6 rad
    1       throttle, negative brakes and reverses; × θ     of 8.2 N
    ======  ==============================================  =========

    ===========  =========================================  =========
    observation  what                                       unit
    ===========  =========================================  =========
    0, 1         position, the goal is (0, 0)               m
    2, 3         sine and cosine of the heading, goal 0     1
    4, 5         velocity in the frame of the world         m/s
    6            yaw rate                                   rad/s
    7 … 12       the last three commands, oldest first      action
    ===========  =========================================  =========

    Reward: 1/(1 + 9 (max(D − 0.1, 0)/2)²) − 0.005 ‖a‖² a step, where D² = x² + y² +
    heading² is measured (as on the floor, where nothing else is known) after the step,
    and a is the command as it was given: the same whatever θ, and before it arrives.

    Start "away": 1.42 ± 0.1, −1.04 ± 0.1 m, heading π ± 0.1 π; "anywhere": any pose of
    the arena.  Both nearly at rest, with no command under way.  An episode never ends
    before its time; ``info`` says whether the car is parked ("goal_reached") or has
    left the arena ("out_of_bounds").

    What drifts: "throttle", θ; "action_delay", steps of 1/30 s by which a command comes
    late, nominally 3; "observation_noise", a factor on its standard deviation.
    """

    metadata: dict[str, Any] = {  # noqa: RUF012 - as Gymnasium declares it
        "render_modes": ["rgb_array"],
        "render_fps": round(1.0 / rccar.DT),
    }

    def __init__(
        self, config: EnvironmentConfig, render_mode: str | None = None
    ) -> None:
        require(
            config.noise_std == 0,
            "The car has no process noise: environment.noise_std must be 0, received "
            f"{config.noise_std!r}. Noise on what is observed is the parameter "
            "'observation_noise'.",
        )
        if config.start not in STARTS:
            raise unknown_name("start of the car", config.start, STARTS)
        self.render_mode = render_mode
        self._config = config
        self._car = rccar.specimen(config.specimen)
        bound = np.array([np.inf, np.inf, 1.0, 1.0, *[np.inf] * 3, *[1.0] * 6])
        self.observation_space = spaces.Box(-bound, bound, dtype=np.float64)
        self.action_space = spaces.Box(-1.0, 1.0, (2,), dtype=np.float64)
        self._signals = Signals()
        self._trail: list[np.ndarray] = []
        self._steering = 0.0
        with jax.enable_x64(True):
            self._on_device = jax.tree.map(jnp.asarray, self._car)
        self.set_parameters({})
        # A control loop must not have to wait for the compiler.
        self._advance(np.zeros(6), np.zeros(2), np.zeros(2), np.zeros(6))

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set any of ``NOMINAL_THETA``; delays count from the next reset."""
        for name, value in values.items():
            require(
                name in NOMINAL_THETA,
                f"The car has no parameter {name!r}; it has "
                f"{', '.join(sorted(NOMINAL_THETA))}.",
            )
            require(
                math.isfinite(value) and value >= 0,
                f"The car's {name} must be a number of at least 0, received {value!r}.",
            )
        settled = {**NOMINAL_THETA, **values}
        self._signals.action_delay = round(settled["action_delay"])
        self._noise_std = settled["observation_noise"] * NOISE_STD
        with jax.enable_x64(True):
            self._theta = jnp.asarray(float(settled["throttle"]))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode where ``environment.start`` says."""
        super().reset(seed=seed)
        self._left = self._config.sim_steps
        self._state = np.concatenate([self._start_pose(), self._start_velocity()])
        self._signals.reset(2, self._state, self.np_random)
        self._remembered = deque([np.zeros(2)] * REMEMBERED, maxlen=REMEMBERED)
        self._steering = 0.0
        self._trail = [self._state]
        measured = self._state + self._noise()
        sight = [*measured[:2], np.sin(measured[2]), np.cos(measured[2]), *measured[3:]]
        return self._observed(np.array(sight)), self._flags()

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
            self._steering = float(arriving[0])
            if self.render_mode is not None:
                self._trail.append(self._state)
        self._left -= self._config.action_repeat
        self._remembered.append(commanded)
        return self._observed(sight), total, False, self._left <= 0, self._flags()

    def render(self) -> Frame | None:
        """Return the picture from above, if the render mode is "rgb_array"."""
        if self.render_mode is None:
            return None
        require(bool(self._trail), "There is no car to draw before the first reset.")
        return draw(np.array(self._trail), self._steering, self._car)

    def _advance(
        self,
        state: np.ndarray,
        arriving: np.ndarray,
        commanded: np.ndarray,
        noise: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray, float]:
        with jax.enable_x64(True):
            after, sight, reward = _measured_step(
                *(state, arriving, commanded, noise), self._theta, self._on_device
            )
        return np.asarray(after), np.asarray(sight), float(reward)

    def _start_pose(self) -> np.ndarray:
        rng = self.np_random
        if self._config.start == "anywhere":
            low, high = zip(*rccar.ARENA, (-np.pi, np.pi), strict=True)
            return rng.uniform(low, high)
        spread = np.array([_START_POSITION, _START_POSITION, _START_HEADING])
        return np.array(rccar.START) + rng.uniform(-spread, spread)

    def _start_velocity(self) -> np.ndarray:
        return _START_VELOCITY * self.np_random.standard_normal(3)

    def _noise(self) -> np.ndarray:
        return self._noise_std * self.np_random.standard_normal(6)

    def _observed(self, sight: np.ndarray) -> Observation:
        return np.concatenate([sight, *self._remembered])

    def _flags(self) -> dict[str, Any]:
        """Say where the car is, whatever was measured."""
        x, y, heading, *velocity = self._state.tolist()
        (left, right), (low, high) = rccar.ARENA
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
    """Return the state after a step, what is seen of it, and the reward."""
    after = jnp.stack(rccar.step(CarState(*state), arriving, theta, parameters))
    sight = rccar.observe(CarState(*(after + noise)))
    return after, sight, rccar.reward(sight, commanded, sight)
