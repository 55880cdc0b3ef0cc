"""J*(θ) of any task by SAC: trained on a grid of θ, cached, interpolated in between.

A training takes a minute or more, so a schedule with many θ is not trained at each of
them: the grid has the spacing of ``SACOracleSettings``, and J* is interpolated
linearly.  What is asked for is trained itself where that is no more work.

What was trained is held in files, one for each task, environment and settings: those of
the published studies came with the package, others are in the user's cache.  What
follows from them (``raised``, ``interpolated``) is computed anew for every question, so
that the answer depends on the question alone.
"""

import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from driftrl.config.run import EnvironmentConfig
from driftrl.envs.tasks import task_named
from driftrl.oracles.optimum import Optimum
from driftrl.oracles.sac_settings import SACOracleSettings
from driftrl.oracles.table import (
    Answer,
    Progress,
    Source,
    cache_file,
    cached,
    find,
    keep,
    same,
)

REVISION = 1  # raised whenever the same question would get a different answer
_SHIPPED = Path(__file__).with_name("trained")


def sac_table(
    task: str,
    thetas: Iterable[float],
    environment: EnvironmentConfig,
    settings: SACOracleSettings,
    progress: Progress | None = None,
) -> list[Answer]:
    """Return J*(θ) for each θ, in the order given: trained, cached or interpolated.

    ``progress(done, total)`` is told how many of the trainings to make are done.
    """
    thetas = [float(theta) for theta in thetas]
    row = task_named(task)
    grid = grid_for(thetas, settings.spacing * (abs(row.nominal) or 1.0))
    shipped, own = _held(task, environment, settings)
    known = [*shipped, *own]
    missing = [theta for theta in grid if find(known, theta) is None]
    computed = _compute(task, missing, environment, settings, progress)
    optima = [one for theta in grid if (one := find([*known, *computed], theta))]
    if row.is_monotone(environment):
        optima = raised(optima)
    sources: dict[Source, list[float]] = {
        "computed": missing,
        "shipped": [one.theta for one in shipped],
        "cached": grid,
    }
    return [_answer(optima, theta, sources) for theta in thetas]


def sac_cache_file(
    task: str, environment: EnvironmentConfig, settings: SACOracleSettings
) -> Path:
    """Return where the trained values of one task and these settings are kept."""
    described = json.dumps([REVISION, asdict(settings)], sort_keys=True)
    digest = hashlib.sha256(described.encode()).hexdigest()[:16]
    return cache_file(environment, f"sac-{task}-{digest}")


def trained_values(
    task: str, environment: EnvironmentConfig, settings: SACOracleSettings
) -> list[Optimum]:
    """Return the values that are held already: shipped ones, and the user's own."""
    shipped, own = _held(task, environment, settings)
    return [*shipped, *own]


def _held(
    task: str, environment: EnvironmentConfig, settings: SACOracleSettings
) -> tuple[list[Optimum], list[Optimum]]:
    path = sac_cache_file(task, environment, settings)
    return cached(_SHIPPED / path.name, environment), cached(path, environment)


def grid_for(thetas: Sequence[float], unit: float) -> list[float]:
    """Return the θ to train at, in ascending order.

    They are the multiples of ``unit`` next to those that are asked for; or these
    themselves, where they are no more.
    """
    asked: list[float] = []
    around: set[int] = set()
    for theta in sorted(thetas):
        if not asked or not same(asked[-1], theta):
            asked.append(theta)
        nearest = round(theta / unit)
        on_grid = same(nearest * unit, theta)
        below = nearest if on_grid else math.floor(theta / unit)
        around |= {below, below if on_grid else below + 1}
    if len(asked) <= len(around):
        return asked
    # Twelve digits: a multiple is written as people write it, 1.2 and not 1.2000…02.
    return [float(f"{number * unit:.12g}") for number in sorted(around)]


def raised(optima: Sequence[Optimum]) -> list[Optimum]:
    """Return the running maximum of J* over ascending θ.

    For tasks where a larger θ can't hurt: what was achieved at a smaller θ could have
    been achieved.  A value that had to be raised was off by as much, and says so.
    """
    result: list[Optimum] = []
    for one in sorted(optima, key=lambda one: one.theta):
        if result and result[-1].value > one.value:
            before = result[-1]
            error = max(one.error, before.error, before.value - one.value)
            method = f"{one.method} at a smaller θ"
            one = replace(one, value=before.value, error=error, method=method)
        result.append(one)
    return result


def interpolated(below: Optimum, above: Optimum, theta: float) -> Optimum:
    """Return J*(θ) on the straight line between two neighbours on the grid.

    The error is the larger of theirs and half the difference of their values: what the
    middle is off by, at most, where J* is monotone.
    """
    share = (theta - below.theta) / (above.theta - below.theta)
    half = 0.5 * abs(above.value - below.value)
    return Optimum(
        theta=theta,
        value=(1.0 - share) * below.value + share * above.value,
        error=max(below.error, above.error) + half,
        spread=(1.0 - share) * below.spread + share * above.spread,
        method=f"{above.method}, interpolated",
        grid=above.grid,
        found={f"θ = {one.theta:g}": one.value for one in (below, above)},
    )


def _answer(
    optima: Sequence[Optimum], theta: float, sources: Mapping[Source, Sequence[float]]
) -> Answer:
    """Return J*(θ), found in the first of the sources that holds it."""
    known = find(optima, theta)
    if known is not None:
        return next(
            Answer(known, source)
            for source, held in sources.items()
            if any(same(known.theta, other) for other in held)
        )
    below = max((one for one in optima if one.theta < theta), key=lambda one: one.theta)
    above = min((one for one in optima if one.theta > theta), key=lambda one: one.theta)
    return Answer(interpolated(below, above, theta), "interpolated")


def _compute(
    task: str,
    thetas: Sequence[float],
    environment: EnvironmentConfig,
    settings: SACOracleSettings,
    progress: Progress | None,
) -> list[Optimum]:
    if not thetas:
        return []
    # Only here: what is known is answered without loading JAX.
    from driftrl.oracles import sac

    path = sac_cache_file(task, environment, settings)
    about = {"task": task, "settings": asdict(settings), "sac revision": REVISION}
    done, total = 0, len(thetas) * settings.seeds

    def trained() -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done, total)

    if progress is not None:
        progress(0, total)
    optima = []
    for theta in thetas:
        optimum = sac.optimal_return(task, theta, environment, settings, trained)
        keep(path, environment, optimum, about)
        optima.append(optimum)
    return optima
