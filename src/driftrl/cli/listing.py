"""``driftrl list``: what there is to choose from."""

from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.config_file import to_dict
from driftrl.drift.schedules import SCHEDULES
from driftrl.envs.tasks import METHODS, TASKS
from driftrl.training.study import read_study, shipped_studies


@dataclass(frozen=True)
class Arguments:
    """What to list, and how."""

    what: Annotated[
        Literal["tasks", "methods", "schedules", "studies"], tyro.conf.Positional
    ]
    """Which of the registries."""
    json: bool = False
    """Print one JSON document instead of a table."""


def main(argv: list[str]) -> int:
    """List tasks, methods, schedules or studies."""
    summary = "List the tasks, methods, schedules or studies that there are."
    arguments = parse(Arguments, argv, "list", summary)
    rows = _LISTINGS[arguments.what]()
    if arguments.json:
        print_json(rows)
    else:
        print_table(list(rows[0]), [list(row.values()) for row in rows])
    return 0


def _tasks() -> list[dict[str, Any]]:
    return [
        {
            "name": task.name,
            "what": task.summary,
            "drifts": task.drifts,
            "schedule": _settings(task.drift),
            "states": task.state_size,
            "actions": task.action_size,
            "episodes": task.episodes,
            "H": task.reset_period,
            "w": task.window,
        }
        for task in TASKS.values()
    ]


def _methods() -> list[dict[str, Any]]:
    return [
        {"name": method.name, "label": method.label, "what": method.summary}
        for method in METHODS.values()
    ]


def _schedules() -> list[dict[str, Any]]:
    return [
        {
            "name": kind,
            "what": (schedule.__doc__ or "").splitlines()[0],
            "settings": ", ".join(field.name for field in fields(schedule)),
        }
        for kind, schedule in SCHEDULES.items()
    ]


def _studies() -> list[dict[str, Any]]:
    studies = [(path, read_study(path)) for path in shipped_studies().values()]
    return [
        {
            "name": study.name,
            "runs": len(study.runs()),
            "what": study.title,
            "file": str(path),
        }
        for path, study in studies
    ]


def _settings(schedule: Any) -> str:
    row = to_dict(schedule)
    kind = row.pop("kind")
    return f"{kind}({', '.join(f'{name}={value}' for name, value in row.items())})"


_LISTINGS = {
    "tasks": _tasks,
    "methods": _methods,
    "schedules": _schedules,
    "studies": _studies,
}
