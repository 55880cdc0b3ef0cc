"""``driftrl list``: tasks, methods, schedules, parameters, studies."""

from dataclasses import fields
from typing import Annotated, Any, Literal

import tyro

from driftrl.cli.options import print_json, print_table
from driftrl.cli.progress import duration
from driftrl.config.toml import to_dict
from driftrl.drift.schedules import SCHEDULES
from driftrl.presets.methods import METHODS
from driftrl.presets.tasks import TASKS

Row = dict[str, Any]
What = Literal["tasks", "methods", "schedules", "parameters", "studies"]


def main(what: Annotated[What, tyro.conf.Positional], *, json: bool = False) -> None:
    """List tasks, methods, schedules, studies, or parameters that can drift.

    Parameters are those of MuJoCo tasks (environment.parameter).

    Args:
        what: What to list.
        json: Print one JSON document instead of a table.
    """
    if json and what == "tasks":
        print_json([to_dict(task) for task in TASKS.values()])
        return
    rows = _LISTINGS[what]()
    if json:
        print_json(rows)
        return
    print_table(list(rows[0]), [list(row.values()) for row in rows])
    if what == "tasks":
        print(
            "\nH and w count episodes, or transitions if the schedule counts steps.\n"
            "The time is roughly that of one run on one core.\n"
            "`driftrl list tasks --json` has notes on what the paper leaves open."
        )


def _tasks() -> list[Row]:
    rows = []
    for task in TASKS.values():
        drift = to_dict(task.drift)
        ends = [drift.pop(key, "") for key in ("kind", "theta_max", "theta_min")]
        unit = " steps" if task.clock == "steps" else ""
        numbers = ", ".join(f"{key} {value:.4g}" for key, value in drift.items())
        rows.append(
            {
                "name": task.name,
                "what": task.summary,
                "θ": task.drifts,
                "schedule": f"{ends[0]}, {ends[1]} → {ends[2]}, {numbers}{unit}",
                "obs, act": f"{task.state_size}, {task.action_size}",
                "episodes": f"{task.episodes} × {task.environment.steps}",
                "H, w": f"{task.reset_period}, {task.window}",
                "time": duration(60 * task.minutes),
            }
        )
    return rows


def _parameters() -> list[Row]:
    from driftrl.envs.parameters import PARAMETERS

    rows = []
    for row in PARAMETERS.values():
        of_one = "" if row.target == "none" else f"{row.name}:{row.target.upper()}"
        names = {"name": row.name, "of one": of_one}
        rows.append({**names, "what": row.summary, "nominal": row.nominal})
    return rows


def _methods() -> list[Row]:
    return [
        {"name": m.name, "label": m.label, "what": m.summary} for m in METHODS.values()
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
