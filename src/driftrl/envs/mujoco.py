"""Machines of Gymnasium's MuJoCo suite (v5) as plants.

Physics, rewards and starts are Gymnasium's own.  Four things differ: the agent acts in
[−1, 1]; an action may be held for several steps of the environment; parameters can be
set from their nominal values; and an episode ends before its time only on demand.
"""

# MuJoCo comes without type stubs, and its C module shows its names only at run time.
# pyright: reportAttributeAccessIssue=false

from collections.abc import Callable, Mapping
from typing import Any

import gymnasium
import mujoco
import numpy as np
from gymnasium import spaces

from driftrl.config.run import EnvironmentConfig
from driftrl.config.task import Task
from driftrl.envs.parameters import BoundParameter, check_disjoint, parse_parameter
from driftrl.envs.plant import Observation, Plant, Signals, StepResult
from driftrl.errors import EnvironmentFault, at_least

_POSITIONS_AND_SPEEDS = {
    f"include_{part}_in_observation": False
    for part in ("cinert", "cvel", "qfrc_actuator", "cfrc_ext")
}
# What Gymnasium is asked to observe, by machine and variant; by default all it offers.
_OBSERVED: dict[tuple[str, str], dict[str, Any]] = {
    ("Ant", "paper"): {"include_cfrc_ext_in_observation": False},
    ("Humanoid", "joints"): _POSITIONS_AND_SPEEDS,
    ("HumanoidStandup", "joints"): _POSITIONS_AND_SPEEDS,
}
# After any of these MuJoCo resets the state and goes on.
_LOST = tuple(
    getattr(mujoco.mjtWarning, f"mjWARN_{name}")
    for name in ("BADQPOS", "BADQVEL", "BADQACC", "BADCTRL")
)


_INTEGRATED = int(mujoco.mjtState.mjSTATE_INTEGRATION)

# MuJoCo would log warnings to a file in the current directory; those that matter raise
# an error in ``MujocoPlant``.
mujoco.set_mju_user_warning(lambda message: None)


class MujocoPlant(Plant):
    """One machine of the suite."""

    def __init__(
        self, task: Task, config: EnvironmentConfig, render_mode: str | None = None
    ) -> None:
        observed = _OBSERVED.get((task.plant, config.observation), {})
        made = gymnasium.make(f"{task.plant}-v5", render_mode=render_mode, **observed)
        self._inner: Any = made.unwrapped
        self._task = task.name
        self._config = config
        self.metadata = self._inner.metadata
        self.render_mode = render_mode
        self.observation_space = made.observation_space
        bounds: Any = made.action_space
        self._centre = (bounds.high.astype(float) + bounds.low.astype(float)) / 2
        self._reach = (bounds.high.astype(float) - bounds.low.astype(float)) / 2
        self.action_space = spaces.Box(-1.0, 1.0, bounds.shape, dtype=np.float64)
        self._signals = Signals()
        self._parameters: dict[str, tuple[BoundParameter, Callable[[float], None]]] = {}

    def set_parameters(self, values: Mapping[str, float]) -> None:
        """Set parameters by the names of ``envs.parameters``."""
        for name, theta in values.items():
            if name not in self._parameters:
                self._parameters[name] = self._parameter(name)
            named, put = self._parameters[name]
            at_least(f"θ of {name!r} of task {self._task!r}", theta, named.row.least)
            put(float(theta))

    def _parameter(self, text: str) -> tuple[BoundParameter, Callable[[float], None]]:
        named = parse_parameter(text, self._inner.model, self._task)
        others = [other for other, _ in self._parameters.values()]
        check_disjoint([*others, named], self._task)
        if named.row.setter is not None:
            return named, named.row.setter(self._inner.model, named.index)
        whole = named.row.name.endswith("delay")

        def put(theta: float) -> None:
            setattr(self._signals, named.row.name, round(theta) if whole else theta)

        return named, put

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode as Gymnasium does, near the machine's rest."""
        super().reset(seed=seed)
        obs, _ = self._inner.reset(seed=seed)
        self._left = self._config.sim_steps
        self._time = self._inner.data.time
        size = self._centre.shape[0]
        return self._signals.reset(size, obs, self.np_random), {}

    def step(self, action: np.ndarray) -> StepResult:
        """Hold ``action`` in [−1, 1] for ``action_repeat`` steps."""
        # np.clip takes longer than all the rest here.
        clipped = np.minimum(np.maximum(action, -1.0), 1.0)
        arriving = self._signals.command(clipped)
        obs, total, ended = self._hold(self._centre + self._reach * arriving)
        over, now = ended or self._left <= 0, self._inner.data.time
        # MuJoCo resets an unstable simulation, and its clock with it.
        if over or now <= self._time:
            self._check()
        self._time = now
        observed = self._signals.observed(obs, self.np_random)
        return observed, total, ended, over and not ended, {}

    def _hold(self, control: np.ndarray) -> tuple[Observation, float, bool]:
        repeat, terminates = self._config.action_repeat, self._config.terminates
        total, held = 0.0, 0
        while True:
            obs, reward, failed, _, _ = self._inner.step(control)
            total += float(reward)
            held += 1
            ended = bool(failed) and terminates
            if ended or held == repeat:
                self._left -= held
                return obs, total, ended

    def _check(self) -> None:
        numbers = self._inner.data.warning.number
        if raised := [warning for warning in _LOST if numbers[warning]]:
            names = ", ".join(w.name.removeprefix("mjWARN_") for w in raised)
            raise EnvironmentFault(
                f"MuJoCo reports that the simulation of {self._task!r} became "
                f"unstable ({names})."
            )

    def get_state(self) -> dict[str, np.ndarray]:
        """Return everything that MuJoCo integrates, and what is on its way."""
        model, data = self._inner.model, self._inner.data
        physics = np.zeros(mujoco.mj_stateSize(model, _INTEGRATED))
        mujoco.mj_getState(model, data, physics, _INTEGRATED)
        return {"physics": physics, **self._signals.get_state()}

    def set_state(self, state: Mapping[str, np.ndarray]) -> None:
        """Set it, and compute what follows from it."""
        model, data = self._inner.model, self._inner.data
        mujoco.mj_setState(model, data, state["physics"], _INTEGRATED)
        mujoco.mj_forward(model, data)
        self._time = data.time
        self._signals.set_state(state)
