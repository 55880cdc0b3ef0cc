"""The oracle of a task, as regret wants it: J*(θ) wherever θ was."""

from collections.abc import Iterable, Sequence

from driftrl.config import EnvironmentConfig
from driftrl.errors import InputError, require
from driftrl.oracles.table import Answer, Progress, pendulum_table
from driftrl.regret import OracleTable, OracleValue
from driftrl.results.records import Run

ORACLES = {"pendulum": pendulum_table}


def oracle_of_task(
    task: str,
    thetas: Iterable[float],
    environment: EnvironmentConfig,
    progress: Progress | None = None,
) -> OracleTable:
    """Return J*(θ) of a task for each θ, computing what is not known yet."""
    if task not in ORACLES:
        raise InputError(
            f"Task {task!r} has no oracle; there is one for {', '.join(ORACLES)}."
        )
    distinct = sorted(set(thetas))
    require(bool(distinct), "An oracle needs at least one value of θ, received none.")
    answers = ORACLES[task](distinct, environment, progress)
    # Values of θ that differ by rounding alone share their answer.
    optima = {answer.optimum.theta: answer.optimum for answer in answers}.values()
    return OracleTable(
        tuple(
            OracleValue(one.theta, one.value, one.error, one.spread) for one in optima
        ),
        _provenance(answers),
    )


def oracle_of_runs(
    runs: Sequence[Run], progress: Progress | None = None
) -> OracleTable:
    """Return J*(θ) for every θ that recorded runs have met.

    The runs must share their task and their environment, for J* depends on both.
    """
    systems = {
        (run.task, EnvironmentConfig(**run.config["environment"])) for run in runs
    }
    require(
        len(systems) == 1,
        "An oracle is for runs of one task in one environment, received runs of "
        f"{len(systems)} kinds.",
    )
    task, environment = systems.pop()
    thetas = {record.theta for run in runs for record in run.records}
    return oracle_of_task(task, thetas, environment, progress)


def _provenance(answers: Sequence[Answer]) -> str:
    """Say in a few sentences how the values were obtained."""
    methods = sorted({answer.optimum.method for answer in answers})
    grids = sorted({answer.optimum.grid for answer in answers})
    counts = {
        source: sum(answer.source == source for answer in answers)
        for source in ("shipped", "cached", "computed")
    }
    kinds = ", ".join(f"{count} {source}" for source, count in counts.items() if count)
    return (
        "J*(θ) is the best return achieved on the true dynamics "
        f"(by {'; '.join(methods)}). Its error is the distance to the value of dynamic "
        f"programming on {' and '.join(grids)}, and of that to a coarser grid. "
        f"Values: {kinds}."
    )
