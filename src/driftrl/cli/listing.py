"""``driftrl list``: what there is to choose from."""

import os
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.config_file import to_dict
from driftrl.drift.schedules import SCHEDULES, Exponential
from driftrl.envs.task import REFERENCE_RATE, Task
from driftrl.envs.tasks import METHODS, TASKS
from driftrl.training.process import prepare
from driftrl.training.study import read_study, shipped_studies


@dataclass(frozen=True)
class Arguments:
    """What to list, and how."""

    what: Annotated[
        Literal["tasks", "methods", "schedules", "parameters", "studies"],
        tyro.conf.Positional,
    ]
    """Which of the registries."""
    json: bool = False
    """Print one JSON document instead of a table."""


def main(argv: list[str]) -> int:
    """List tasks, methods, schedules, parameters or studies."""
    summary = (
        "List the tasks, methods, schedules, studies, or the parameters of a MuJoCo "
        "task that can drift (environment.parameter)."
    )
    arguments = parse(Arguments, argv, "list", summary)
    rows = _LISTINGS[arguments.what]()
    if arguments.json:
        print_json(rows)
        return 0
    columns = [name for name in rows[0] if name != "notes"]
    print_table(columns, [[row[name] for name in columns] for row in rows])
    if arguments.what == "tasks":
        print(
            "\nepisodes × decisions, at most; H and w in episodes, or in transitions "
            "where the schedule counts decisions.\nThe time is of one run on one core "
            "with these settings. What was chosen where the paper is silent:\n"
            "driftrl list tasks --json"
        )
    return 0


def _tasks() -> list[dict[str, Any]]:
    prepare(os.environ)
    from driftrl.training.speed import product_rate

    slower = REFERENCE_RATE / product_rate()
    return [
        {
            "name": task.name,
            "what": task.summary,
            "θ": task.drifts,
            "schedule": _drift(task),
            "seen, done": f"{task.state_size}, {task.action_size}",
            "episodes": f"{task.episodes} × {task.environment.decisions}",
            "H, w": f"{_amount(task.reset_period)}, {_amount(task.window)}",
            "time here": _duration(60 * slower * task.minutes),
            "notes": task.notes,
        }
        for task in TASKS.values()
    ]


def _drift(task: Task) -> str:
    """Say in a few words how θ drifts."""
    drift = task.drift
    if not isinstance(drift, Exponential):
        return _settings(drift)
    unit = "" if task.clock == "episodes" else f" {task.clock}"
    return (
        f"{drift.theta_max:g} → {drift.theta_min:g}, a = {drift.rate:g} after "
        f"{_amount(drift.start)}{unit}"
    )


def _amount(size: int) -> str:
    for unit, letter in ((1_000_000, "M"), (1000, "k")):
        if size and size % unit == 0:
            return f"{size // unit}{letter}"
    return f"{size}"


def _duration(seconds: float) -> str:
    """Say roughly how long a run takes, on one core."""
    hours = seconds / 3600
    return f"{hours:.0f} h" if hours >= 2 else f"{max(1, round(seconds / 60))} min"


def _parameters() -> list[dict[str, Any]]:
    from driftrl.envs.parameters import PARAMETERS

    return [
        {
            "name": row.name,
            "of one": ""
            if row.target == "none"
            else f"{row.name}:{row.target.upper()}",
            "what": row.summary,
            "nominal": row.nominal,
        }
        for row in PARAMETERS.values()
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
    "parameters": _parameters,
    "studies": _studies,
}
