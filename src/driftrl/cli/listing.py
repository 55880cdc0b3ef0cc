"""``driftrl list``: tasks, methods, schedules, parameters, studies."""

import time
from dataclasses import dataclass, fields
from typing import Annotated, Any, Literal

import numpy as np
import tyro

from driftrl.cli.options import parse, print_json, print_table
from driftrl.config.task import REFERENCE_RATE
from driftrl.config.toml import to_dict
from driftrl.drift.schedules import SCHEDULES
from driftrl.presets.methods import METHODS
from driftrl.presets.tasks import TASKS

Row = dict[str, Any]


@dataclass(frozen=True)
class Arguments:
    """What to list, and how."""

    what: Annotated[
        Literal["tasks", "methods", "schedules", "parameters", "studies"],
        tyro.conf.Positional,
    ]
    """What to list."""
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
    notes = ""
    if arguments.what == "tasks":
        rows = [_shortened(row) for row in rows]
        notes = (
            "\nH and w count episodes, or transitions if the schedule counts steps.\n"
            "The time is roughly that of one run on one core of this machine.\n"
            "`driftrl list tasks --json` has notes on what the paper leaves open."
        )
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    if notes:
        print(notes)
    return 0


def _tasks() -> list[Row]:
    slower = REFERENCE_RATE / _product_rate()
    return [
        {
            "name": task.name,
            "what": task.summary,
            "theta": task.drifts,
            "schedule": to_dict(task.drift),
            "clock": task.clock,
            "observations": task.state_size,
            "actions": task.action_size,
            "episodes": task.episodes,
            "steps": task.environment.steps,
            "reset_period": task.reset_period,
            "window": task.window,
            "forgets_in": task.forgets_in,
            "minutes_here": round(slower * task.minutes, 1),
            "notes": task.notes,
        }
        for task in TASKS.values()
    ]


def _product_rate() -> float:
    """Return multiplications and additions a second of one core, roughly.

    ``driftrl.training.speed`` measures them as runs do, which takes seconds.
    """
    matrix = np.ones((64, 64), np.float32)  # larger ones are spread over the cores
    times = []
    for _ in range(100):
        started = time.perf_counter()
        np.matmul(matrix, matrix)
        times.append(time.perf_counter() - started)
    return 2 * 64**3 / min(times)


def _shortened(task: Row) -> Row:
    """Return the row of a task as it fits a terminal."""
    drift = dict(task["schedule"])
    kind = drift.pop("kind")
    schedule = f"{kind}: {', '.join(f'{key} = {drift[key]}' for key in drift)}"
    pace = {"exponential": "a = {rate:g}", "geometric": "× {ratio:.3g}"}.get(kind)
    if pace is not None:
        unit = "" if task["clock"] == "episodes" else f" {task['clock']}"
        schedule = (
            f"{drift['theta_max']:g} → {drift['theta_min']:g}, "
            f"{pace.format(**drift)} after {_amount(drift['start'])}{unit}"
        )
    minutes = task["minutes_here"]
    return {
        "name": task["name"],
        "what": task["what"],
        "θ": task["theta"],
        "schedule": schedule,
        "obs, act": f"{task['observations']}, {task['actions']}",
        "episodes": f"{task['episodes']} × {task['steps']}",
        "H, w": f"{_amount(task['reset_period'])}, {_amount(task['window'])}",
        "time": f"{minutes / 60:.0f} h"
        if minutes >= 120
        else f"{max(1, round(minutes))} min",
    }


def _amount(size: int) -> str:
    for unit, letter in ((1_000_000, "M"), (1000, "k")):
        if size and size % unit == 0:
            return f"{size // unit}{letter}"
    return f"{size}"


def _parameters() -> list[Row]:
    from driftrl.envs.parameters import PARAMETERS

    rows = []
    for row in PARAMETERS.values():
        of_one = "" if row.target == "none" else f"{row.name}:{row.target.upper()}"
        numbers = {"what": row.summary, "nominal": row.nominal}
        rows.append({"name": row.name, "of one": of_one, **numbers})
    return rows


def _methods() -> list[Row]:
    return [
        {"name": method.name, "label": method.label, "what": method.summary}
        for method in METHODS.values()
    ]


def _schedules() -> list[Row]:
    rows = []
    for kind, schedule in SCHEDULES.items():
        settings = ", ".join(field.name for field in fields(schedule))
        what = (schedule.__doc__ or "").splitlines()[0]
        rows.append({"name": kind, "what": what, "settings": settings})
    return rows


def _studies() -> list[Row]:
    from driftrl.training.study import read_study, shipped_studies

    rows = []
    for path in shipped_studies().values():
        study = read_study(path)
        row = {"name": study.name, "runs": len(study.runs()), "what": study.title}
        rows.append({**row, "file": str(path)})
    return rows


_LISTINGS = {
    "tasks": _tasks,
    "methods": _methods,
    "schedules": _schedules,
    "parameters": _parameters,
    "studies": _studies,
}
