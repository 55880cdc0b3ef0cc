"""The registry of plants: every machine that a task may be about.

MuJoCo is imported when one of its machines is built, and no sooner.
"""

from collections.abc import Callable

from jaxtyping import Array

from driftrl.config.run import EnvironmentConfig
from driftrl.config.task import Task
from driftrl.envs import pendulum, rccar
from driftrl.envs.custom import GymPlant, is_custom, made
from driftrl.envs.pendulum_plant import PendulumPlant
from driftrl.envs.plant import Plant
from driftrl.envs.rccar_plant import RCCarPlant
from driftrl.errors import InputError
from driftrl.presets.tasks import MUJOCO_TASKS

Make = Callable[[EnvironmentConfig, str | None], Plant]
Reward = Callable[[Array, Array, Array], Array]
Condition = Callable[[Array, Array, Array], Array]
"""(obs, action, next_obs) ↦ whether the task ends in next_obs."""


def _mujoco(task: Task) -> Make:
    def make(config: EnvironmentConfig, render_mode: str | None) -> Plant:
        from driftrl.envs.mujoco_plant import MujocoPlant

        return MujocoPlant(task, config, render_mode)

    return make


PLANTS: dict[str, Make] = {
    "pendulum": PendulumPlant,
    "rccar": RCCarPlant,
    **{task.plant: _mujoco(task) for task in MUJOCO_TASKS},
}
_REWARDS: dict[str, Callable[[int, float], Reward]] = {
    "pendulum": pendulum.decision_reward,
    "rccar": rccar.decision_reward,
}


def make_plant(
    task: Task, environment: EnvironmentConfig, render_mode: str | None = None
) -> Plant:
    """Build the machine of a task."""
    if is_custom(task.name):
        return GymPlant(made(task.name), environment)
    if task.plant not in PLANTS:
        raise InputError(f"Task {task.name!r} has no environment in this installation.")
    task.check_machine(environment)
    return PLANTS[task.plant](environment, render_mode)


def known_reward(task: Task, environment: EnvironmentConfig) -> Reward | None:
    """Return the reward of one decision as a learner may know it; None if it can't."""
    if task.plant not in _REWARDS:
        return None
    return _REWARDS[task.plant](environment.action_repeat, task.nominal)


def known_end(task: Task, environment: EnvironmentConfig) -> Condition | None:
    """Return when an episode of a task ends before its time; None if it never does."""
    if not (task.may_end and environment.terminates):
        return None
    from driftrl.envs.termination import ENDS

    return ENDS.get(task.plant)
