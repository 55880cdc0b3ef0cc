"""Gymnasium ids of the tasks, registered when driftrl is imported."""

import gymnasium

from driftrl.presets.tasks import TASKS


def register() -> None:
    """Register every task, so that ``gymnasium.make("driftrl/Pendulum-v0")`` works."""
    for task in TASKS.values():
        if task.gymnasium_id not in gymnasium.registry:
            gymnasium.register(
                id=task.gymnasium_id,
                entry_point="driftrl.envs.drifting:make_env",
                kwargs={"task": task.name},
            )
