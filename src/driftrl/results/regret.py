"""Dynamic regret of recorded runs against an oracle, and what can be said of it.

The paper's regret compares each episode with the best policy for the dynamics of that
very episode::

    R_n = Σ_{i ≤ n} [ J*(θ_i) − J(π_i) ]

J* comes as a finished table; J(π_i) is the evaluation of the policy where the run made
one and the return of the executed episode otherwise.  Where no J* is known it is read
as 0: R_n is then minus the sum of returns, and differences of R_n are what they are.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from jaxtyping import Float

from driftrl.errors import require
from driftrl.oracles.values import OracleTable, OracleValue
from driftrl.records import Run, group_by_method
from driftrl.results import statistics
from driftrl.results.curves import first_changes, theta_is_known
from driftrl.results.late import AFTER_RESET, LAST_EPISODES, late_mean
from driftrl.results.problems import problems_of
from driftrl.results.variants import natural_key, sweep_point
from driftrl.types import EpisodeRecord

BASELINE = "sombrl"
"""The method that the others are compared with: it keeps all data."""
_TOLERANCE = 1e-9  # relative: rounding in a sum of rewards
_DEVIATIONS = 4.0  # one false alarm in 30 000 episodes of normally scattered returns


def achieved_returns(records: Sequence[EpisodeRecord]) -> Float[np.ndarray, " N"]:
    """J(π_n): the evaluated return where there is one, else the executed return."""
    returns = np.array([achieved_return(record) for record in records], dtype=float)
    broken = [n for n, value in enumerate(returns, start=1) if not np.isfinite(value)]
    require(not broken, f"Episodes {broken} have no finite return: no regret is known.")
    return returns


def achieved_return(record: EpisodeRecord) -> float:
    """J(π_n) of one episode, as in ``achieved_returns``."""
    if record.return_eval is not None:
        return record.return_eval
    return record.return_executed


def thetas_of(records: Sequence[EpisodeRecord]) -> Float[np.ndarray, " N"]:
    """θ_n of each episode."""
    return np.array([record.theta for record in records], dtype=float)


def optimal_returns(
    records: Sequence[EpisodeRecord], table: OracleTable
) -> Float[np.ndarray, " N"]:
    """J*(θ_n) of each episode."""
    return table.column("value", thetas_of(records))


def episode_regret(
    records: Sequence[EpisodeRecord], table: OracleTable
) -> Float[np.ndarray, " N"]:
    """J*(θ_n) − J(π_n) of each episode."""
    return optimal_returns(records, table) - achieved_returns(records)


def regret_curve(
    records: Sequence[EpisodeRecord], table: OracleTable
) -> Float[np.ndarray, " N"]:
    """Cumulative dynamic regret R_n = Σ_{i ≤ n} [J*(θ_i) − J(π_i)]."""
    return np.cumsum(episode_regret(records, table))


def relative_gaps(
    records: Sequence[EpisodeRecord], table: OracleTable
) -> Float[np.ndarray, " N"]:
    """(J*(θ_n) − J(π_n)) / |J*(θ_n)| of each episode; NaN where J* is zero."""
    optimal = optimal_returns(records, table)
    scale = np.where(optimal == 0, np.nan, np.abs(optimal))
    return (optimal - achieved_returns(records)) / scale


@dataclass(frozen=True)
class MethodRegret:
    """Cumulative regret of one method over its seeds."""

    method: str
    seeds: tuple[int, ...]
    curves: Float[np.ndarray, "K N"]
    """R_n of each seed, up to the episode that all its seeds have reached."""
    mean: Float[np.ndarray, " N"]
    stderr: Float[np.ndarray, " N"]
    final: statistics.Estimate
    """R_N at the episode N up to which the study is compared."""

    @cached_property
    def interval(self) -> statistics.Interval:
        """95 % percentile bootstrap interval of the mean; seconds for a long study."""
        return statistics.bootstrap_interval(self.curves)


@dataclass(frozen=True)
class PairedDifference:
    """A method minus the baseline, on the seeds that both ran: in R_n, if not said."""

    method: str
    baseline: str
    episode: int
    seeds: tuple[int, ...]
    estimate: statistics.Estimate


@dataclass(frozen=True)
class GapStatistics:
    """How far from the optimum a method is at the end, relative to |J*|."""

    method: str
    last: int
    """Number of episodes that were looked at."""
    after_reset: int
    """Number of episodes after a reset that were left out."""
    estimate: statistics.Estimate | None
    """Mean gap of each seed; None if no episode was left to look at."""


@dataclass(frozen=True)
class StudyRegret:
    """Everything that the figures and the report say, with what it was computed from.

    All methods are compared at one episode, the last that every run has reached, so
    that no run has to be left out; only runs without a single row are.
    """

    runs: tuple[Run, ...]
    """Runs with at least one row, the baseline's first."""
    not_started: tuple[Run, ...]
    table: OracleTable
    baseline: str
    episodes: int
    """N, the last episode that every run has reached."""
    methods: tuple[MethodRegret, ...]
    differences: tuple[PairedDifference, ...]
    """At episode N; empty if the baseline was not run."""
    differences_before_change: tuple[PairedDifference, ...]
    """At the last episode before θ first changes; empty if it never does."""
    gaps: tuple[GapStatistics, ...]
    """One a method, over all of the last episodes."""
    gaps_outside_resets: tuple[GapStatistics, ...]
    """One a method, without the episodes after a reset."""
    warnings: tuple[str, ...]
    problem: str = ""
    """What tells the problem from others of the study; empty if there is no other."""

    @property
    def task(self) -> str:
        """Name of the task that all runs share."""
        return self.runs[0].task

    def runs_of(self, method: str) -> list[Run]:
        """Return the runs of one method, seeds ascending."""
        return [run for run in self.runs if run.method == method]


def compare_methods(
    runs: Iterable[Run],
    table: OracleTable,
    baseline: str | None = None,
    problem: str = "",
) -> StudyRegret:
    """Return the regret of every method on one problem and its comparison with one.

    Args:
        runs: Runs of one problem, finished or not.
        table: J*(θ) for every θ in the records.
        baseline: Method that the others are compared with; ``usual_baseline`` if None.
        problem: What tells the problem from others of the study.
    """
    runs = list(runs)
    started = [run for run in runs if run.records]
    require(bool(started), "No run has recorded an episode yet: there is no regret.")
    problems = [one.label for one in problems_of(runs)]
    require(
        len(problems) == 1,
        "Regret is compared on one problem at a time, received runs of "
        f"{len(problems)}: {'; '.join(problems)}.",
    )
    groups = group_by_method(started)
    baseline = baseline or usual_baseline(groups)
    names = sorted(groups, key=lambda name: (name != baseline, natural_key(name)))
    ordered = tuple(run for name in names for run in groups[name])
    episodes = min(len(run.records) for run in ordered)
    methods = tuple(_method_regret(groups[name], table, episodes) for name in names)
    stationary = _stationary_episodes(ordered) if theta_is_known(ordered) else 0
    return StudyRegret(
        runs=ordered,
        not_started=tuple(run for run in runs if not run.records),
        table=table,
        baseline=baseline,
        episodes=episodes,
        methods=methods,
        differences=paired_differences(methods, baseline, episodes),
        differences_before_change=(
            paired_differences(methods, baseline, stationary)
            if 0 < stationary < episodes
            else ()
        ),
        gaps=tuple(
            gap_statistics(groups[name], table, episodes=episodes) for name in names
        ),
        gaps_outside_resets=tuple(
            gap_statistics(
                groups[name], table, episodes=episodes, after_reset=AFTER_RESET
            )
            for name in names
        ),
        warnings=oracle_warnings(ordered, table),
        problem=problem,
    )


def usual_baseline(methods: Iterable[str]) -> str:
    """Return the method to compare with: ``BASELINE``, unless a sweep has its own.

    Where ``BASELINE`` was not run and just one variant sets what it sweeps to zero,
    that variant is the study without the thing that is studied.
    """
    methods = set(methods)
    points = {name: sweep_point(name) for name in methods}
    zeros = [name for name, point in points.items() if point and point.value == 0]
    return zeros[0] if BASELINE not in methods and len(zeros) == 1 else BASELINE


def _stationary_episodes(runs: Sequence[Run]) -> int:
    """Number of episodes before θ first changes in any run; 0 if it never does."""
    return min(first_changes(runs), default=1) - 1


def _method_regret(
    runs: Sequence[Run], table: OracleTable, episodes: int
) -> MethodRegret:
    length = min(len(run.records) for run in runs)
    curves = np.array([regret_curve(run.records[:length], table) for run in runs])
    return MethodRegret(
        method=runs[0].method,
        seeds=tuple(run.seed for run in runs),
        curves=curves,
        mean=statistics.mean(curves),
        stderr=statistics.standard_error(curves),
        final=statistics.estimate_mean(curves[:, episodes - 1]),
    )


def paired_differences(
    methods: Sequence[MethodRegret], baseline: str, episode: int
) -> tuple[PairedDifference, ...]:
    """Compare R_n with the baseline's on the shared seeds; negative is better.

    A method that shares no seed with the baseline has no entry.
    """
    reference = next((one for one in methods if one.method == baseline), None)
    if reference is None:
        return ()
    differences = []
    for one in methods:
        shared = sorted(set(one.seeds) & set(reference.seeds))
        if one is reference or not shared:
            continue
        values = statistics.paired_difference(
            one.curves[[one.seeds.index(seed) for seed in shared], episode - 1],
            reference.curves[
                [reference.seeds.index(seed) for seed in shared], episode - 1
            ],
        )
        estimate = statistics.estimate_mean(values)
        differences.append(
            PairedDifference(one.method, baseline, episode, tuple(shared), estimate)
        )
    return tuple(differences)


def gap_statistics(
    runs: Sequence[Run],
    table: OracleTable,
    *,
    episodes: int,
    last: int = LAST_EPISODES,
    after_reset: int = 0,
) -> GapStatistics:
    """Return the mean relative gap over the last episodes up to ``episodes``.

    See ``late_mean`` for the episodes that are left out.
    """
    estimate = late_mean(
        [run.records[:episodes] for run in runs],
        lambda records: relative_gaps(records, table),
        last=last,
        after_reset=after_reset,
    )
    return GapStatistics(runs[0].method, min(last, episodes), after_reset, estimate)


def oracle_warnings(runs: Sequence[Run], table: OracleTable) -> tuple[str, ...]:
    """Return a sentence for each sign that the oracle is not an optimum.

    No policy can beat the optimum beyond the oracle's stated error and, where returns
    are random, beyond four standard deviations of their noise: neither in one episode
    (one sentence for each θ, about the run that exceeds it most) nor summed (one for
    each run).  Where nothing is known there are none.
    """
    if not table.known:
        return ()
    worst: dict[float, tuple[float, str]] = {}
    for run in runs:
        excess = -episode_regret(run.records, table)
        allowed = _allowances(run, table)[0]
        for index in np.flatnonzero(excess > allowed):
            entry = table.lookup(run.records[index].theta)
            if excess[index] > worst.get(entry.theta, (0.0, ""))[0]:
                sentence = _single_warning(run, run.records[index], entry)
                worst[entry.theta] = (float(excess[index]), sentence)
    singles = [sentence for _, sentence in sorted(worst.values(), reverse=True)]
    summed = [_summed_warning(run, table) for run in runs]
    return (*singles, *(sentence for sentence in summed if sentence))


def _allowances(run: Run, table: OracleTable) -> tuple[np.ndarray, np.ndarray]:
    """By how much J may exceed J* in each episode, and in sum up to each episode."""
    thetas = thetas_of(run.records)
    # Rounding in a sum of rewards is not a better policy.
    rounding = _TOLERANCE * np.abs(table.column("value", thetas))
    error = table.column("error", thetas) + rounding
    std = table.column("std", thetas)
    summed_noise = _DEVIATIONS * np.sqrt(np.cumsum(std**2))
    return error + _DEVIATIONS * std, np.cumsum(error) + summed_noise


def _single_warning(run: Run, record: EpisodeRecord, entry: OracleValue) -> str:
    achieved = achieved_return(record)
    return (
        f"The oracle is not an optimum at θ = {entry.theta:g}: {run.label} achieved "
        f"{achieved:.6g} in episode {record.episode}, {achieved - entry.value:.3g} "
        f"more than J*(θ) = {entry.value:.6g}, whose stated error is {entry.error:.3g}."
    )


def _summed_warning(run: Run, table: OracleTable) -> str | None:
    curve = regret_curve(run.records, table)
    allowed = _allowances(run, table)[1]
    lowest = int(np.argmin(curve + allowed))
    if curve[lowest] >= -allowed[lowest]:
        return None
    theta = run.records[lowest].theta
    return (
        f"The oracle is not an optimum up to θ = {theta:g}: the regret of {run.label} "
        f"sums to {curve[lowest]:.3g} by episode {lowest + 1}, below zero by more than "
        f"the {allowed[lowest]:.3g} that the oracle's errors and noise allow."
    )
