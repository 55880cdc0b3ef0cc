"""J*(θ) where it is known already: nothing is computed, trained or loaded for it."""

import math
from collections.abc import Iterable
from functools import cache

from driftrl.config.run import EnvironmentConfig
from driftrl.config.task import Task
from driftrl.envs.tasks import task_named
from driftrl.oracles.lookup import method_of
from driftrl.oracles.optimum import Optimum
from driftrl.oracles.sac_settings import settings_for
from driftrl.oracles.sac_table import grid_for, interpolated, raised, trained_values
from driftrl.oracles.table import cache_file, cached, find, shipped_tables

_ROUNDING = 1e-9  # of the distance of two θ on a grid


def known_optimum(
    task: str, theta: float, environment: EnvironmentConfig
) -> float | None:
    """Return J*(θ) from the shipped or cached tables; None if it is in neither.

    Between two neighbours on the grid of a trained oracle it is interpolated, as a
    report would do.  The tables are read once.
    """
    row = task_named(task)
    if not math.isfinite(theta):
        return None
    optima = _known(task, environment)
    exact = find(optima, theta)
    if exact is not None:
        return exact.value
    if method_of(row) == "dp":
        return None
    unit = _unit(row) * (1.0 + _ROUNDING)
    below = [one for one in optima if theta - unit <= one.theta < theta]
    above = [one for one in optima if theta < one.theta <= theta + unit]
    if not (below and above):
        return None
    nearest = max(below, key=lambda one: one.theta)
    next_one = min(above, key=lambda one: one.theta)
    if next_one.theta - nearest.theta > unit:
        return None
    return interpolated(nearest, next_one, theta).value


def trainings_missing(
    task: str, thetas: Iterable[float], environment: EnvironmentConfig
) -> int:
    """Return how many trainings of SAC J* would take at these θ; 0 if none does."""
    row = task_named(task)
    if method_of(row) == "dp":
        return 0
    held = _trained(row, environment)
    grid = grid_for(sorted(set(thetas)), _unit(row))
    missing = [theta for theta in grid if find(held, theta) is None]
    return len(missing) * settings_for(row.plant).seeds


@cache
def _known(task: str, environment: EnvironmentConfig) -> tuple[Optimum, ...]:
    row = task_named(task)
    if method_of(row) == "dp":
        shipped = shipped_tables().get(environment, [])
        return (*shipped, *cached(cache_file(environment), environment))
    held = _trained(row, environment)
    return tuple(raised(held) if row.is_monotone(environment) else held)


def _trained(row: Task, environment: EnvironmentConfig) -> list[Optimum]:
    return trained_values(row.name, environment, settings_for(row.plant))


def _unit(row: Task) -> float:
    return settings_for(row.plant).spacing * (abs(row.nominal) or 1.0)
