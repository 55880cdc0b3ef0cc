"""driftrl controls systems whose dynamics change while it learns them.

The agent at episode n learns from episodes m(n) … n−1 alone; every method is one choice
of m(n).  Importing this package is cheap: what is slow to load waits until it is used.
"""

import importlib
from typing import Any

from driftrl.envs.tasks import register

__version__ = "0.2.0.dev0"

register()

_FORGETTING = (
    *("Adaptive", "Doubling", "Event", "Evidence", "ForgettingRule"),
    *("Hindsight", "KeepAll", "Reset", "Window"),
)
# Where the public names live; they are imported, with JAX, when they are first used.
_HOMES = {
    **dict.fromkeys(_FORGETTING, "driftrl.memory.forgetting"),
    "RunConfig": "driftrl.config.run",
    "Session": "driftrl.training.session",
    "TaskFunctions": "driftrl.agents.rollouts",
    "compare": "driftrl.analysis.compare",
    "configure": "driftrl.envs.tasks",
    "custom_task": "driftrl.envs.custom",
    "freeze": "driftrl.envs.drifting",
    **dict.fromkeys(("import_log", "read_log"), "driftrl.training.logs"),
    "load": "driftrl.analysis.load",
    "make_env": "driftrl.envs.drifting",
    "plot": "driftrl.analysis.plots",
    "regret": "driftrl.analysis.regret",
    "report": "driftrl.analysis.report",
    "run": "driftrl.training.loop",
    "train": "driftrl.training.train",
}
__all__ = [*_HOMES]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"driftrl has no {name!r}; it has {', '.join(_HOMES)}.")
    module = importlib.import_module(_HOMES[name])
    return module if name == "plot" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_HOMES])
