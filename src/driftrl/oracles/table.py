"""J*(θ), the best expected return of an episode at θ, with its source and error.

The values come from, in this order: the user (a function or a CSV file), the files
shipped with driftrl, the user's cache, and a computation, which is cached.  Dynamic
programming computes each θ of the pendulum, from the hanging start without noise.  For
anything else SAC is trained on a grid of θ with linear interpolation in between, and J*
is at least the best return that a run has achieved.

In continuing operation J* of a segment is ρ*(θ) times its steps, ρ* the best average
reward of a step: 0 for a pendulum without noise, given by the user, or unknown.

Where θ drifts within episodes, J* depends on all values it takes: dynamic programming
computes it for each clock at which an episode began; elsewhere it is unknown.

Nothing here imports JAX until a value has to be computed.
"""

import json
import math
import os
import warnings
import zlib
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Literal

import numpy as np
import polars
from jaxtyping import Float

from driftrl.config.deep import LearningConfig, SACAgentConfig, SACConfig
from driftrl.config.run import EnvironmentConfig, RunConfig
from driftrl.config.task import REFERENCE_RATE
from driftrl.config.toml import from_dict
from driftrl.drift.schedules import value_at
from driftrl.envs.custom import is_custom
from driftrl.envs.tasks import task_named
from driftrl.errors import InputError, require
from driftrl.io import cache_directory, write_atomically
from driftrl.plugins import load_object
from driftrl.records import Run

REVISION = 2
"""Raised whenever the same question would get a different answer."""
SHIPPED = Path(__file__).with_name("shipped")
_ERRORS = {
    "dp": "the distance to the value of dynamic programming, plus the distance of that "
    "to the value on a coarser grid",
    "sac": "how far the median training or late evaluation is below the best, at least "
    "a tenth of J*, and half the difference of neighbours where it is interpolated",
}

By = Literal["dp", "sac"]
"""Dynamic programming, for the pendulum, or soft actor-critic, for any task."""
Source = Literal["shipped", "cached", "computed", "interpolated", "given"]
Progress = Callable[[int, int], None]
"""Called with the finished and the total number of computations."""
Oracle = Callable[[float], float] | str | Path
"""A user's J*: a function of θ, "module:function", or a CSV file (theta, value)."""
STORED = "stored"
"""In place of an oracle: what is stored, or else the best that runs have achieved."""


@dataclass(frozen=True)
class Optimum:
    """The best expected return at one θ, and how it was obtained."""

    theta: float
    """θ; where it drifts within the episode, the clock at which that began."""
    value: float
    """J*(θ): the best return that was achieved."""
    error: float
    """Largest believed difference between ``value`` and the true optimum."""
    std: float = 0.0
    """Standard deviation of the return of one episode, over starts and noise."""
    method: str = ""
    effort: str = ""
    """The finest grid of dynamic programming, or the trainings of SAC."""
    candidates: Mapping[str, float] = field(default_factory=dict)
    """Result of each method that was tried."""
    source: Source = "given"

    def __post_init__(self) -> None:
        numbers = (self.theta, self.value, self.error, self.std)
        require(
            all(map(math.isfinite, numbers)) and min(self.error, self.std) >= 0,
            "J*(θ) must be finite, with an error and a std of at least 0; received "
            f"(θ, J*, error, std) = {numbers}.",
        )


@dataclass(frozen=True)
class OracleTable:
    """J*(θ) for the values of θ that occur, ascending; empty if J* is unknown."""

    entries: tuple[Optimum, ...]
    provenance: str
    """How the values were obtained, or why there are none."""
    by_clock: bool = False
    """Whether θ drifts within episodes: then the clock takes the place of θ."""
    per_step: bool = False
    """Whether the values are ρ*(θ), of a step and not of an episode."""

    @cached_property
    def _by_key(self) -> dict[float, Optimum]:
        return {_key(entry.theta): entry for entry in self.entries}

    def lookup(self, theta: float) -> Optimum:
        """Return the entry of θ, which must be in the table."""
        if (optimum := self._by_key.get(_key(theta))) is None:
            raise InputError(f"The oracle has no J*(θ) for θ = {theta}.")
        return optimum

    def with_floor(
        self,
        thetas: Float[np.ndarray, " N"],
        returns: Float[np.ndarray, " N"],
        *,
        monotone: bool,
    ) -> "OracleTable":
        """Raise each value to the best return that runs have achieved.

        A training of limited length may stay behind the learners it is compared with,
        but what a policy achieves at θ is a lower bound of J*(θ).  If ``monotone``, so
        is every return achieved at a smaller θ.
        """
        keys, entries = np.array([_key(theta) for theta in thetas.tolist()]), []
        for key, entry in self._by_key.items():
            counts = keys <= key if monotone else keys == key
            floor = float(np.max(returns, where=counts, initial=-np.inf))
            if floor > entry.value:
                error = max(entry.error, floor - entry.value)
                entry = replace(entry, value=floor, error=error)
            entries.append(entry)
        note = "Where a run achieved more, J* is the best return of a run."
        return OracleTable(tuple(entries), f"{self.provenance} {note}")


# J* of a task, by files and computations.


@dataclass(frozen=True)
class SACOracleSettings:
    """The trainings behind one J*(θ), and the grid of θ on which they are made."""

    seeds: int = 3
    """Trainings at one θ; the best counts, the others enter its error."""
    steps: int = 12_000
    """Steps that a training collects."""
    updates: int = 5
    """Updates of SAC for every step."""
    random_steps: int = 600
    """Steps with random actions before learning starts."""
    evaluate_every: int = 200
    """Steps between two evaluations; the updates are made in between, at once."""
    episodes: int = 5
    """Episodes of an evaluation."""
    test_episodes: int = 30
    """Fresh episodes on which the best policy of a training is tested at the end."""
    least_error: float = 0.1
    """Smallest error as a share of |J*|: all trainings may miss the same, as on the
    pendulum, where they stay up to a tenth below the optimum."""
    spacing: float = 0.1
    """Distance of the grid's θ, as a share of the task's nominal one."""
    sac: SACConfig = field(
        default_factory=lambda: SACConfig(
            hidden=(64, 64),
            critic="residual",
            batch_size=128,
            learning_rate=1e-3,
            tau=0.01,
        )
    )

    def __str__(self) -> str:
        return f"{self.seeds} seeds × {self.steps} steps × {self.updates} updates"

    @property
    def evaluations(self) -> int:
        """Evaluations in one training."""
        return (self.steps - self.random_steps) // self.evaluate_every


_DP_MINUTES = 0.5  # of dynamic programming at one θ, at the reference rate
_ONLY_PENDULUM = (
    "θ drifts within episodes, for which J* is known on the pendulum alone, from the "
    "hanging start without noise."
)
_LONG = SACOracleSettings(
    seeds=1,
    steps=60_000,
    updates=1,
    random_steps=2_000,
    evaluate_every=2_000,
    episodes=2,
    test_episodes=5,
    spacing=0.2,
    sac=SACConfig(
        hidden=(128, 128), critic="residual", batch_size=128, learning_rate=1e-3
    ),
)


class StoredOracle:
    """J*(θ) of one task in one environment: files first, then a computation."""

    def __init__(
        self,
        task: str,
        environment: EnvironmentConfig,
        *,
        by: By | None = None,
        shipped: Path = SHIPPED,
        drifting: RunConfig | None = None,
    ) -> None:
        """Read what is stored; ``drifting`` is a run with drift within episodes."""
        row = task_named(task)
        deterministic = environment.start == "hanging" and environment.noise_std == 0
        has_dp = row.plant == "pendulum" and deterministic
        require(
            has_dp or by != "dp",
            f"Task {task!r} has no oracle by dynamic programming; use SAC.",
        )
        self.task, self.environment = task, environment
        self.by: By = by or ("dp" if has_dp else "sac")
        self.settings = SACOracleSettings() if row.plant == "pendulum" else _LONG
        # More torque, gear or throttle can't hurt: actions may be smaller instead, for
        # which every reward charges less.
        self.monotone = environment.parameter == row.environment.parameter
        self._spacing = self.settings.spacing * (abs(row.nominal) or 1.0)
        usual = asdict(EnvironmentConfig())
        changed = [
            f"-{name}={value}"
            for name, value in asdict(environment).items()
            if value != usual[name]
        ]
        if drifting is not None:
            drift = repr((drifting.drift, drifting.drift_every))
            changed.append(f"-drift={zlib.crc32(drift.encode()):08x}")
        self._drifting = drifting
        name = row.plant if self.by == "dp" else task
        file = f"{self.by}-{name}{''.join(changed)}.json"
        self.cache_file = cache_directory() / "oracles" / file
        cached = _read_file(self.cache_file, "cached")
        self.stored = cached | _read_file(shipped / file, "shipped")

    def missing(self, thetas: Iterable[float]) -> list[float]:
        """Return the θ at which J* has to be computed."""
        return [one for one in self._grid(thetas) if _key(one) not in self.stored]

    def table(
        self, thetas: Iterable[float], progress: Progress | None = None
    ) -> OracleTable:
        """Return J* at each θ after computing what is missing."""
        thetas = _distinct(thetas)
        computed = self._compute(self.missing(thetas), progress)
        known = self.stored | {_key(one.theta): one for one in computed}
        # What else is stored must not change the answer.
        optima = [known[_key(theta)] for theta in self._grid(thetas)]
        if self.by == "sac" and self.monotone:
            optima = _running_maximum(optima)
        entries = tuple(_interpolated(optima, theta) for theta in thetas)
        by_clock = self._drifting is not None
        return OracleTable(entries, self._provenance(entries), by_clock)

    def expected_minutes(self, values: int, rate: float) -> float:
        """Return the minutes that so many values take on a core of a ``product_rate``.

        See ``driftrl.training.speed``.
        """
        from driftrl.training.speed import learning_minutes

        if self.by == "dp":
            return values * _DP_MINUTES * REFERENCE_RATE / rate
        settings, sizes = self.settings, task_named(self.task).sizes(self.environment)
        learning = LearningConfig(model_updates=settings.updates, policy_updates=1)
        agent, steps = SACAgentConfig(settings.sac, learning), settings.steps
        return learning_minutes(agent, sizes, values * settings.seeds * steps, rate)

    def _grid(self, thetas: Iterable[float]) -> list[float]:
        """Return the θ at which J* is computed in order to know it at ``thetas``."""
        return _distinct(thetas) if self.by == "dp" else grid_for(thetas, self._spacing)

    def _compute(
        self, thetas: Sequence[float], progress: Progress | None
    ) -> Iterator[Optimum]:
        for done, theta in enumerate(thetas):
            if progress is not None:
                progress(done, len(thetas))
            # Imported here: known values are answered without JAX.
            if self.by == "dp":
                from driftrl.oracles import pendulum

                path = self._path(theta)
                optimum = pendulum.optimal_return(path, self.environment)
                optimum = replace(optimum, theta=theta)
            else:
                from driftrl.oracles import sac

                optimum = sac.optimal_return(
                    self.task, theta, self.environment, self.settings
                )
            self._keep(optimum)
            yield replace(optimum, source="computed")
        if thetas and progress is not None:
            progress(len(thetas), len(thetas))

    def _path(self, theta: float) -> float | Float[np.ndarray, " D"]:
        """Return θ, or of an episode that begins at a clock θ at each of its steps."""
        if (run := self._drifting) is None:
            return theta
        steps = range(int(theta), int(theta) + self.environment.steps)
        return np.array([value_at(run.drift, t - t % run.drift_every) for t in steps])

    def _keep(self, optimum: Optimum) -> None:
        """Add a value to the cache; a cache that cannot be written only costs time."""
        # Read again: another process may have added to the file in the meantime.
        optima = _read_file(self.cache_file, "cached") | {_key(optimum.theta): optimum}
        try:
            os.makedirs(self.cache_file.parent, exist_ok=True)
            write_atomically(self.cache_file, render(optima.values()))
        except OSError as error:
            message = f"J*({optimum.theta:g}) was not cached in {self.cache_file}: "
            warnings.warn(f"{message}{error}.", stacklevel=2)

    def _provenance(self, optima: Sequence[Optimum]) -> str:
        methods = "; ".join(sorted({one.method for one in optima}))
        efforts = " and ".join(sorted({one.effort for one in optima}))
        sources = [one.source for one in optima]
        counts = ", ".join(f"{sources.count(one)} {one}" for one in sorted({*sources}))
        return (
            f"J*(θ) is the best return achieved on the true dynamics (by {methods}; "
            f"{efforts}). Its error is {_ERRORS[self.by]}. Values: {counts}."
        )


def render(optima: Iterable[Optimum]) -> bytes:
    """Return the content of a file of optima: JSON, a line for each θ, ascending."""
    rows = []
    for one in sorted(optima, key=lambda one: one.theta):
        row = asdict(one)
        del row["source"]
        rows.append(json.dumps(row, ensure_ascii=False))
    lines = ",\n".join(rows)
    return f'{{"revision": {REVISION}, "values": [\n{lines}\n]}}\n'.encode()


def _key(theta: float) -> float:
    """Return what is the same for θ before and after a trip through a file."""
    return round(theta, 9)


def _read_file(path: Path, source: Source) -> dict[float, Optimum]:
    """Return the values in a file; none if it is missing, damaged or outdated."""
    try:
        document = json.loads(path.read_bytes())
        rows = document["values"] if document["revision"] == REVISION else ()
        return {_key(row["theta"]): Optimum(**row, source=source) for row in rows}
    except (OSError, InputError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def grid_for(thetas: Iterable[float], spacing: float) -> list[float]:
    """Return the θ to train at: multiples of ``spacing`` around the given θ.

    If these are more than the θ themselves, return the θ themselves.
    """
    thetas = _distinct(thetas)
    around: set[int] = set()
    for theta in thetas:
        nearest = round(theta / spacing)
        if _key(nearest * spacing) == _key(theta):
            around.add(nearest)
        else:
            below = math.floor(theta / spacing)
            around |= {below, below + 1}
    if len(thetas) <= len(around):
        return thetas
    # Twelve digits, so that 6 · 0.2 is 1.2 and not 1.2000000000000002.
    return [float(f"{number * spacing:.12g}") for number in sorted(around)]


def _running_maximum(optima: Iterable[Optimum]) -> list[Optimum]:
    """Raise values to those at smaller θ; by how much a value was too low is its error.

    For trained J*, where more θ cannot hurt.
    """
    raised: list[Optimum] = []
    for one in optima:
        if raised and raised[-1].value > one.value:
            before = raised[-1]
            error = max(one.error, before.error, before.value - one.value)
            method = f"{one.method} at a smaller θ"
            one = replace(one, value=before.value, error=error, method=method)
        raised.append(one)
    return raised


def _distinct(thetas: Iterable[float]) -> list[float]:
    """Return θ in ascending order; of those that differ by rounding, the first."""
    descending = sorted(map(float, thetas), reverse=True)
    require(
        bool(descending) and all(map(math.isfinite, descending)),
        f"An oracle needs at least one θ, and finite ones; received {descending}.",
    )
    return sorted({_key(theta): theta for theta in descending}.values())


def _interpolated(optima: Sequence[Optimum], theta: float) -> Optimum:
    """Return J*(θ) between ascending neighbours, or the entry of θ.

    The error adds half the difference of the neighbours, the most by which the middle
    can be off where J* is monotone.
    """
    index = bisect_left(optima, _key(theta), key=lambda one: _key(one.theta))
    high = optima[index]
    if _key(high.theta) == _key(theta):
        return high
    low = optima[index - 1]
    share = (theta - low.theta) / (high.theta - low.theta)
    return Optimum(
        theta=theta,
        value=(1.0 - share) * low.value + share * high.value,
        error=max(low.error, high.error) + 0.5 * abs(high.value - low.value),
        std=(1.0 - share) * low.std + share * high.std,
        method=f"{high.method}, interpolated",
        effort=high.effort,
        source="interpolated",
    )


# J* of runs, and a user's J*.


def optimal_returns_of_runs(
    runs: Sequence[Run],
    *,
    oracle: Oracle | None = None,
    others: Sequence[Run] = (),
    progress: Progress | None = None,
) -> OracleTable:
    """Return J*(θ) for every θ in the records of runs of one task and environment.

    The table is empty, and says why, where J* cannot be known: θ was not recorded, more
    than one parameter drifts, or a custom environment has no ``oracle``.  With the
    oracle "stored" nothing is computed.  Of ``others`` those on the same system count
    for the floor.
    """
    thetas, _ = _achieved(runs)
    if not np.isfinite(thetas).all():
        return OracleTable((), "θ was not recorded, so there is no J*(θ).")
    if any(run.config.get("extra_drifts") for run in runs):
        reason = "There is no oracle where more than one parameter drifts."
        return OracleTable((), reason)
    continuing = any(run.config.get("continuing") for run in runs)
    if oracle not in (None, STORED):
        table = given_optimal_returns(oracle, thetas.tolist())
        return replace(table, per_step=continuing)
    systems = {_system_of(run) for run in runs}
    require(len(systems) == 1, f"One oracle cannot serve {len(systems)} environments.")
    (system,) = systems
    if isinstance(system, str):
        return OracleTable((), system)
    if continuing:
        return _best_rates(*system, thetas)
    stored = StoredOracle(*system)
    if runs[0].config.get("drift_every"):
        if stored.by != "dp":
            return OracleTable((), _ONLY_PENDULUM)
        names = ("task", "method", "environment", "drift", "clock", "drift_every")
        known = {name: value for name, value in runs[0].config.items() if name in names}
        stored = StoredOracle(*system, drifting=from_dict(RunConfig, known))
        lengths = [[row.steps for row in run.records] for run in runs]
        thetas = np.concatenate([np.cumsum([0.0, *steps])[:-1] for steps in lengths])
    if oracle == STORED and stored.missing(thetas):
        table = _not_computed(runs)
    else:
        table = stored.table(thetas, progress)
        if stored.by == "dp":
            return table
    same_system = [
        run
        for run in others
        if _system_of(run) == system and not run.config.get("extra_drifts")
    ]
    achieved = _achieved([*runs, *same_system])
    return table.with_floor(*achieved, monotone=stored.monotone)


def _not_computed(runs: Sequence[Run]) -> OracleTable:
    """Return the least return of all at every θ; what was achieved is to raise it."""
    thetas, returns = _achieved(runs)
    if runs[0].config.get("drift_every"):  # no return is that of one θ
        thetas = thetas[:0]
    worst = float(np.min(returns))
    entries = (Optimum(theta, worst, 0.0) for theta in sorted({*thetas.tolist()}))
    return OracleTable(tuple(entries), "J*(θ) was not computed.")


def _best_rates(
    task: str, environment: EnvironmentConfig, thetas: Float[np.ndarray, " N"]
) -> OracleTable:
    """Return ρ*(θ) where it is known without a computation."""
    is_quiet = task_named(task).plant == "pendulum" and environment.noise_std == 0
    if not is_quiet or thetas.min() <= 0:
        return OracleTable(
            (),
            "ρ*(θ) is not known for this machine in continuing operation; name it: a "
            "function of θ, 'module:function' or a CSV file with the columns theta and "
            "value, the best average reward of a step.",
        )
    reason = "at rest upright, where any torque brings it in the end"
    entries = (Optimum(theta, 0.0, 0.0, method=reason) for theta in _distinct(thetas))
    text = f"ρ*(θ), the best average reward of a step, is 0: {reason}."
    return OracleTable(tuple(entries), text, per_step=True)


def _system_of(run: Run) -> tuple[str, EnvironmentConfig] | str:
    """Return task and environment of a run, or why there is no oracle for them."""
    if is_custom(run.task):
        return (
            "A custom environment has no built-in oracle; name one: a function of θ, "
            "'module:function' or a CSV file with the columns theta and value."
        )
    try:
        environment = run.config.get("environment", {})
        return run.task, from_dict(EnvironmentConfig, environment)
    except InputError as error:
        return f"J* is not known for this environment: {error}"


def _achieved(runs: Sequence[Run]) -> tuple[np.ndarray, np.ndarray]:
    """Return θ and J(π) of every episode of runs."""
    records = [record for run in runs for record in run.records]
    returns = [
        one.return_executed if one.return_eval is None else one.return_eval
        for one in records
    ]
    return np.array([one.theta for one in records]), np.array(returns)


def given_optimal_returns(oracle: Oracle, thetas: Iterable[float]) -> OracleTable:
    """Return J*(θ) for each θ from a user's function or CSV file."""
    thetas = sorted({float(theta) for theta in thetas})
    is_file = isinstance(oracle, str) and (":" not in oracle or Path(oracle).is_file())
    if is_file or isinstance(oracle, Path):
        name = str(oracle)
        values = _interpolate_csv(Path(name), thetas)
    else:
        function = load_object(oracle) if isinstance(oracle, str) else oracle
        require(callable(function), f"The oracle {oracle!r} is not a function of θ.")
        name = getattr(function, "__name__", repr(function))
        try:
            values = [float(function(theta)) for theta in thetas]
        except Exception as error:  # a user's function may fail in any way
            raise InputError(f"The oracle {name} failed: {error!r}.") from error
    entries = [
        Optimum(theta, value, 0.0, method=name)
        for theta, value in zip(thetas, values, strict=True)
    ]
    return OracleTable(tuple(entries), f"J*(θ) is given by {name}.")


def _interpolate_csv(path: Path, thetas: Sequence[float]) -> list[float]:
    """Return J* at each θ from a CSV file with the columns theta and value."""
    schema = polars.Schema({"theta": polars.Float64, "value": polars.Float64})
    try:
        rows = polars.read_csv(path, columns=[*schema], schema_overrides=schema)
    except (OSError, polars.exceptions.PolarsError) as error:
        raise InputError(
            f"{path} must be a CSV file with numbers in the columns theta and value: "
            f"{str(error).splitlines()[0][:200]}."
        ) from error
    known, values = rows.sort("theta").to_numpy().T
    require(
        len(known) > 0
        and bool(np.isfinite([known, values]).all() and (np.diff(known) > 0).all()),
        f"{path} must have at least one row, finite numbers, and each θ once.",
    )
    first, last = _key(known[0]), _key(known[-1])
    outside = [theta for theta in thetas if not first <= _key(theta) <= last]
    require(
        not outside,
        f"{path} has J*(θ) from θ = {known[0]:g} to {known[-1]:g}; it is needed at "
        f"{', '.join(f'{theta:g}' for theta in outside[:5])}. Add rows.",
    )
    return np.interp(thetas, known, values).tolist()
