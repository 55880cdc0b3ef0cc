"""The oracle of a task, as regret wants it: J*(θ) wherever θ was."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Literal

from driftrl.config.run import EnvironmentConfig
from driftrl.config.task import Task
from driftrl.config.toml import from_dict
from driftrl.envs.tasks import task_named
from driftrl.errors import InputError, require
from driftrl.oracles.best_shown import at_least_shown
from driftrl.oracles.sac_settings import SACOracleSettings, settings_for
from driftrl.oracles.sac_table import sac_table
from driftrl.oracles.table import Answer, Progress, pendulum_table
from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run

By = Literal["dp", "sac"]
"""Dynamic programming, where a plant has it, or soft actor-critic, for any task."""

DYNAMIC_PROGRAMMING = {"pendulum": pendulum_table}
"""By the name of the plant, whichever task it is part of."""


def oracle_of_task(
    task: str,
    thetas: Iterable[float],
    environment: EnvironmentConfig,
    progress: Progress | None = None,
    *,
    by: By | None = None,
    settings: SACOracleSettings | None = None,
) -> OracleTable:
    """Return J*(θ) of a task for each θ, computing what is not known yet.

    Args:
        task: Name of the task.
        thetas: Values of θ, in any order.
        environment: How the task's environment is set up; J* depends on it.
        progress: Told how much of what has to be computed is done.
        by: The method; by default ``method_of`` the task.
        settings: For ``by = "sac"``; by default those that suit the plant.
    """
    row = task_named(task)
    distinct = sorted(set(thetas))
    require(bool(distinct), "An oracle needs at least one value of θ, received none.")
    require(
        all(math.isfinite(theta) for theta in distinct),
        f"An oracle needs values of θ that are finite, received {distinct}.",
    )
    require(
        environment.start in row.starts,
        f"Task {task!r} has no start {environment.start!r}; it may be "
        f"{' or '.join(row.starts)}.",
    )
    by = by or method_of(row)
    if by == "sac":
        effort = settings or settings_for(row.plant)
        answers = sac_table(task, distinct, environment, effort, progress)
    else:
        answers = _tabulated(row)(distinct, environment, progress)
    # Values of θ that differ by rounding alone share their answer.
    optima = {answer.optimum.theta: answer.optimum for answer in answers}.values()
    return OracleTable(
        tuple(
            OracleValue(one.theta, one.value, one.error, one.spread) for one in optima
        ),
        _provenance(answers, by),
    )


def method_of(task: Task) -> By:
    """Return how J* of a task is found unless something else is asked for."""
    return "dp" if task.plant in DYNAMIC_PROGRAMMING else "sac"


def oracle_of_runs(
    runs: Sequence[Run],
    progress: Progress | None = None,
    *,
    shown: Sequence[Run] = (),
) -> OracleTable:
    """Return J*(θ) for every θ that recorded runs have met.

    The runs must share their task and their environment, for J* depends on both.  An
    oracle that was trained is no less than the best of them, and of the runs ``shown``
    on the same system, have achieved.
    """
    systems = {_system(run) for run in runs}
    further = sorted(
        {run.directory.name for run in runs if run.config.get("extra_drifts")}
    )
    require(
        not further,
        "An oracle knows systems in which θ alone drifts; in "
        f"{', '.join(further)} more parameters do, so no regret is known of it.",
    )
    require(
        len(systems) == 1,
        "An oracle is for runs of one task in one environment, received runs of "
        f"{len(systems)} kinds.",
    )
    task, environment = systems.pop()
    thetas = {record.theta for run in runs for record in run.records}
    table = oracle_of_task(task, thetas, environment, progress)
    row = task_named(task)
    if method_of(row) == "dp":
        return table
    seen = [run for run in (*runs, *shown) if _system(run) == (task, environment)]
    seen = [run for run in seen if not run.config.get("extra_drifts")]
    return at_least_shown(table, seen, more_is_better=row.is_monotone(environment))


def _system(run: Run) -> tuple[str, EnvironmentConfig]:
    return run.task, from_dict(EnvironmentConfig, run.config["environment"])


def _tabulated(task: Task) -> Callable[..., list[Answer]]:
    if task.plant not in DYNAMIC_PROGRAMMING:
        raise InputError(
            f"Task {task.name!r} has no oracle by dynamic programming, which is for "
            f"{', '.join(DYNAMIC_PROGRAMMING)} alone; there is one by SAC for any task."
        )
    return DYNAMIC_PROGRAMMING[task.plant]


def _provenance(answers: Sequence[Answer], by: By) -> str:
    """Say in a few sentences how the values were obtained."""
    methods = "; ".join(sorted({answer.optimum.method for answer in answers}))
    efforts = " and ".join(sorted({answer.optimum.grid for answer in answers}))
    error = {
        "dp": "the distance to the value of dynamic programming on "
        f"{efforts}, and of that to a coarser grid",
        "sac": f"how far the middle one of the trainings ({efforts}) or of the late "
        "evaluations stays behind, at least a fixed share, and between the θ of the "
        "grid half the difference of its neighbours more",
    }[by]
    counts = {
        source: sum(answer.source == source for answer in answers)
        for source in ("shipped", "cached", "computed", "interpolated")
    }
    kinds = ", ".join(f"{count} {source}" for source, count in counts.items() if count)
    return (
        "J*(θ) is the best return achieved on the true dynamics "
        f"(by {methods}). Its error is {error}. Values: {kinds}."
    )
