"""Known optima, in files: shipped with the package, or cached by the user.

All files are JSON of one form (``render``): for each environment its values of θ with
J*(θ), error and what every method found.  ``pendulum_table`` computes and caches a θ
that is in none of them.  It interpolates nothing: dynamic programming is quick, and J*
has jumps in its slope where another swing becomes necessary.
"""

import json
import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import driftrl
from driftrl.config.run import EnvironmentConfig
from driftrl.config.toml import from_dict
from driftrl.errors import CorruptFile, InputError
from driftrl.io import write_atomically
from driftrl.oracles.optimum import Optimum
from driftrl.training.process import cache_directory

REVISION = 1  # raised whenever the same question would get a different answer
SHIPPED = Path(__file__).with_name("pendulum.json")
SAME_THETA = 1e-9  # relative above 1, absolute below, as in ``OracleTable``

Tables = dict[EnvironmentConfig, list[Optimum]]
Progress = Callable[[int, int], None]
Source = Literal["shipped", "cached", "computed", "interpolated"]


@dataclass(frozen=True)
class Answer:
    """An optimum and where it was found."""

    optimum: Optimum
    source: Source


def same(first: float, second: float) -> bool:
    """Say whether two θ are one, but for rounding."""
    return abs(first - second) <= SAME_THETA * max(1.0, abs(second))


def find(optima: Iterable[Optimum], theta: float) -> Optimum | None:
    """Return the entry of θ, or None."""
    return next((optimum for optimum in optima if same(optimum.theta, theta)), None)


def render(tables: Tables, about: Mapping[str, Any]) -> bytes:
    """Return the content of a file of tables, its values in the order of θ.

    ``about`` is written in front of the tables, for people to read.
    """
    rows = [
        {
            "environment": asdict(environment),
            "values": [
                asdict(one) for one in sorted(optima, key=lambda one: one.theta)
            ],
        }
        for environment, optima in tables.items()
    ]
    document = {
        **about,
        "driftrl": driftrl.__version__,
        "revision": REVISION,
        "tables": rows,
    }
    return (json.dumps(document, indent=1, ensure_ascii=False) + "\n").encode()


def parse(content: bytes) -> Tables:
    """Invert ``render``; tables of another revision are worth nothing.

    Raises:
        CorruptFile: The content is not a file of tables.
    """
    try:
        document = json.loads(content)
        if document["revision"] != REVISION:
            return {}
        return {
            from_dict(EnvironmentConfig, table["environment"]): [
                _optimum(row) for row in table["values"]
            ]
            for table in document["tables"]
        }
    # A damaged file can break in any of these ways, and they all mean the same.
    except (InputError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptFile(
            f"This is not a table of optimal returns: {error}."
        ) from error


def _optimum(row: Mapping[str, Any]) -> Optimum:
    optimum = Optimum(
        theta=float(row["theta"]),
        value=float(row["value"]),
        error=float(row["error"]),
        spread=float(row["spread"]),
        method=str(row["method"]),
        grid=str(row["grid"]),
        found={str(name): float(value) for name, value in row["found"].items()},
    )
    numbers = (optimum.theta, optimum.value, optimum.error, optimum.spread)
    if not all(math.isfinite(number) for number in numbers):
        raise ValueError(f"{numbers} are not all finite")
    return optimum


def shipped_tables() -> Tables:
    """Return the tables that came with the package."""
    return parse(SHIPPED.read_bytes())


def cache_file(environment: EnvironmentConfig, oracle: str = "pendulum") -> Path:
    """Return where the values of one environment are kept for this user.

    Only what differs from the defaults is in its name, so that the files of before are
    found when an environment can be told more.
    """
    usual = asdict(EnvironmentConfig())
    told = asdict(environment).items()
    parts = [f"{name}={value}" for name, value in told if value != usual[name]]
    return cache_directory() / "oracles" / f"{'-'.join([oracle, *parts])}.json"


def cached(path: Path, environment: EnvironmentConfig) -> list[Optimum]:
    """Return what is cached; a file that is missing or damaged holds nothing."""
    try:
        return parse(path.read_bytes()).get(environment, [])
    except (OSError, CorruptFile):
        return []


def keep(
    path: Path,
    environment: EnvironmentConfig,
    optimum: Optimum,
    about: Mapping[str, Any],
) -> None:
    """Add one value to a cache; a cache that can't be written only costs time."""
    # Read again: another process may have added to the file in the meantime.
    others = [one for one in cached(path, environment) if one.theta != optimum.theta]
    try:
        os.makedirs(path.parent, exist_ok=True)
        write_atomically(path, render({environment: [*others, optimum]}, about))
    except OSError as error:
        message = f"J*({optimum.theta:g}) could not be cached in {path}: {error}."
        warnings.warn(message, stacklevel=2)


def pendulum_table(
    thetas: Iterable[float],
    environment: EnvironmentConfig,
    progress: Progress | None = None,
) -> list[Answer]:
    """Return J*(θ) for each θ, in the order given: shipped, cached, or computed now.

    ``progress(done, total)`` is told how many of those to compute are done.
    """
    thetas = [float(theta) for theta in thetas]
    shipped = shipped_tables().get(environment, [])
    held = cached(cache_file(environment), environment)
    missing: list[float] = []
    for theta in thetas:
        known = (*(one.theta for one in (*shipped, *held)), *missing)
        if not any(same(other, theta) for other in known):
            missing.append(theta)
    computed = _compute(missing, environment, progress)
    sources: dict[Source, list[Optimum]] = {
        "shipped": shipped,
        "cached": held,
        "computed": computed,
    }
    return [
        next(
            Answer(optimum, source)
            for source, optima in sources.items()
            if (optimum := find(optima, theta)) is not None
        )
        for theta in thetas
    ]


def _compute(
    thetas: list[float], environment: EnvironmentConfig, progress: Progress | None
) -> list[Optimum]:
    if not thetas:
        return []
    # Only here: what is known is answered without loading JAX.
    from driftrl.oracles.pendulum import optimal_return

    progress = progress or (lambda done, total: None)
    progress(0, len(thetas))
    optima = []
    for done, theta in enumerate(thetas, start=1):
        optimum = optimal_return(theta, environment)
        keep(cache_file(environment), environment, optimum, {})
        optima.append(optimum)
        progress(done, len(thetas))
    return optima
