"""Dynamic regret per problem and method, from the frame that ``driftrl.load`` returns.

The regret compares each episode with the best policy for the dynamics of that episode::

    R_n = Σ_{i ≤ n} [ J*(θ_i) − J(π_i) ]

J(π_i) is the evaluated return where the run evaluated its policy, and the return of the
executed episode otherwise.  All methods of a problem are compared at the last episode N
that every run has reached, and paired by seed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars
from jaxtyping import Float

from driftrl.analysis.statistics import Estimate, Interval, estimate_mean, mean
from driftrl.analysis.style import default_baseline, natural_key
from driftrl.errors import InputError, require

LAST_EPISODES = 10
"""Episodes at the end over which final performance is measured."""
AFTER_RESET = 2
"""Episodes after a reset that ``…_outside_resets`` leaves out."""
_ROUNDING = 1e-9  # relative, in a sum of rewards
_DEVIATIONS = 4.0  # one false alarm in 30,000 episodes with normal returns


@dataclass(frozen=True)
class MethodSummary:
    """The runs of one method on one problem; J* is read as 0 where it is unknown."""

    method: str
    seeds: tuple[int, ...]
    curves: Float[np.ndarray, "K N"]
    """R_n of each seed, up to the last episode that all its seeds have reached."""
    score: Estimate
    """What a method is judged by: R_N, or the mean achieved return of episodes 1 … N
    where J* is unknown."""
    late: Estimate | None
    """Mean of (J* − J) / |J*| over the last episodes, None if J* is 0; where J* is
    unknown, their mean return."""
    late_outside_resets: Estimate | None
    minutes: float
    """Mean wall time of a run."""
    difference: Estimate | None = None
    """Of the score to the baseline's, on the seeds that both ran; None if there are
    none."""
    difference_before_onset: Estimate | None = None
    """In R_n at the last episode before θ first changes."""


@dataclass(frozen=True)
class ProblemSummary:
    """All methods on one problem."""

    problem: str
    task: str
    baseline: str
    episodes: int
    """N, the last episode that every run has reached."""
    onset: int | None
    """First episode with a new θ after it was constant; None if unknown or never."""
    is_known: bool
    """Whether J* is known in every episode."""
    frame: polars.DataFrame
    """The rows of the problem."""
    methods: tuple[MethodSummary, ...]
    """The baseline first."""
    warnings: tuple[str, ...]
    """Signs that J* is not an optimum."""


def regret(frame: polars.DataFrame, *, baseline: str | None = None) -> polars.DataFrame:
    """Return the regret of each method on each problem, one row per pair.

    Problems without J* are left out; if there is no other, that is an ``InputError``.

    Args:
        frame: From ``driftrl.load``.
        baseline: Method to compare with; by default sombrl.

    Returns:
        problem, method, seeds (their number), episodes N, and of R_N the mean
        (``regret``), its standard_error and 95 % t interval (low, high) and bootstrap
        interval; the parts of R_N before and after the onset of the drift;
        ``difference`` to the baseline paired by seed with both intervals, also before
        the onset; ``gap``, the mean shortfall from J* in the last ten episodes
        relative to ``|J*|``; and the minutes that a run took.
    """
    summaries = summarize(frame, baseline=baseline)
    rows = [
        _row(summary, method)
        for summary in summaries
        if summary.is_known
        for method in summary.methods
    ]
    if not rows:
        tasks = ", ".join(dict.fromkeys(summary.task for summary in summaries))
        raise InputError(
            f"J*(θ) of {tasks} is not known, so there is no regret. Load the runs with "
            "oracle=… (--oracle): a function of θ, 'module:function', or a CSV file "
            "with the columns theta and value. `driftrl.compare` and the report show "
            "returns."
        )
    table = polars.DataFrame(rows, infer_schema_length=None)
    # A column without a number, such as the differences of one method, has no type.
    table = table.cast({polars.Null: polars.Float64})
    return table.with_columns(polars.selectors.float().fill_nan(None))


def _row(summary: ProblemSummary, method: MethodSummary) -> dict[str, Any]:
    before = summary.onset - 1 if summary.onset else 0
    start = None
    if 0 < before < summary.episodes:
        start = float(mean(method.curves[:, before - 1]))
    paired, early = method.difference, method.difference_before_onset
    outside = method.late_outside_resets
    return {
        "problem": summary.problem,
        "method": method.method,
        "seeds": len(method.seeds),
        "episodes": summary.episodes,
        "regret": method.score.mean,
        "standard_error": method.score.stderr,
        **_interval("", method.score.student),
        **_interval("bootstrap_", method.score.bootstrap),
        "regret_before_onset": start,
        "regret_after_onset": None if start is None else method.score.mean - start,
        "baseline": summary.baseline,
        "paired_seeds": len(paired.values) if paired else 0,
        "difference": paired and paired.mean,
        **_interval("difference_", paired and paired.student),
        **_interval("difference_bootstrap_", paired and paired.bootstrap),
        "difference_before_onset": early and early.mean,
        **_interval("difference_before_onset_", early and early.student),
        "gap": method.late and method.late.mean,
        **_interval("gap_", method.late and method.late.student),
        "gap_outside_resets": outside and outside.mean,
        "minutes": method.minutes,
    }


def _interval(prefix: str, interval: Interval | None) -> dict[str, float | None]:
    low, high = interval or (None, None)
    return {f"{prefix}low": low, f"{prefix}high": high}


# Summaries: the arrays behind the table, also for figures and JSON.


def summarize(
    frame: polars.DataFrame, *, baseline: str | None = None
) -> list[ProblemSummary]:
    """Return the methods of every problem compared; also where J* is unknown."""
    require(len(frame) > 0, "The frame has no rows: no episode is recorded.")
    return [
        _summarize_problem(part, baseline)
        for part in frame.partition_by("problem", maintain_order=True)
    ]


def _summarize_problem(frame: polars.DataFrame, baseline: str | None) -> ProblemSummary:
    broken = frame.filter(polars.col("achieved_return").is_null())
    if len(broken):
        run, episodes = broken["run"][0], broken["episode"].to_list()[:5]
        raise InputError(f"{run} has no finite return in episodes {episodes}.")
    baseline = baseline or baseline_of(frame)
    is_known = frame["optimal_return"].null_count() == 0
    groups = runs_by_method(frame, first=baseline)
    runs = [run for group in groups.values() for run in group]
    episodes = min(len(run) for run in runs)
    onset = None
    if frame["theta"].null_count() == 0:
        starts = [s for run in runs for s in change_starts(run["theta"].to_numpy())]
        onset = min(starts, default=None)
    methods = {
        name: _summarize_method(group, episodes, is_known)
        for name, group in groups.items()
    }
    reference = methods.get(baseline)
    before = onset - 1 if onset and 1 < onset <= episodes else None
    methods = [
        replace(
            method,
            difference=_difference(method, reference, episodes, is_known),
            difference_before_onset=_difference(method, reference, before),
        )
        for method in methods.values()
    ]
    return ProblemSummary(
        problem=frame["problem"][0],
        task=frame["task"][0],
        baseline=baseline,
        episodes=episodes,
        onset=onset,
        is_known=is_known,
        frame=frame,
        methods=tuple(methods),
        warnings=tuple(oracle_warnings(frame)) if is_known else (),
    )


def runs_by_method(
    frame: polars.DataFrame, *, first: str | None = None
) -> dict[str, list[polars.DataFrame]]:
    """Return the runs of each method on one problem, seeds ascending."""
    require_distinct_seeds(frame)
    groups: dict[str, list[polars.DataFrame]] = {}
    for run in frame.sort("seed", maintain_order=True).partition_by("directory"):
        groups.setdefault(run["method"][0], []).append(run)
    names = sorted(groups, key=lambda name: (name != first, natural_key(name)))
    return {name: groups[name] for name in names}


def require_distinct_seeds(frame: polars.DataFrame) -> None:
    """Refuse two runs of a method with the same seed on the same problem."""
    runs = frame.unique("directory", maintain_order=True)
    twice = runs.filter(polars.struct("problem", "method", "seed").is_duplicated())
    if len(twice):
        method, seed = twice["method"][0], twice["seed"][0]
        both = twice.filter(method=method, seed=seed)["directory"]
        raise InputError(
            f"{' and '.join(both)} are both {method} with seed {seed}. Load one of "
            "them."
        )


def stack(runs: Sequence[polars.DataFrame], column: str) -> Float[np.ndarray, "K N"]:
    """Return a column of several runs up to their common length; null becomes NaN."""
    length = min(len(run) for run in runs)
    return np.array([run[column][:length].cast(polars.Float64) for run in runs], float)


def baseline_of(frame: polars.DataFrame) -> str:
    """Return the default baseline: of the first study, if the problem has several."""
    methods = frame["method"].unique(maintain_order=True).to_list()
    if frame["study"].n_unique() == 1:
        return default_baseline(methods)
    first = frame["study"][0]
    names = {
        name.replace(f" {first}, ", " ").removesuffix(f" {first}"): name
        for name in methods
        if name.endswith(f" {first}") or f" {first}, " in name
    }
    return names.get(default := default_baseline(names), default)


def methods_of(frame: polars.DataFrame) -> list[str]:
    """Return the methods of one or several problems, the baseline first."""
    baseline = baseline_of(frame)
    names = frame["method"].unique().to_list()
    return sorted(names, key=lambda name: (name != baseline, natural_key(name)))


def _summarize_method(
    runs: Sequence[polars.DataFrame], episodes: int, is_known: bool
) -> MethodSummary:
    returns = stack(runs, "achieved_return")
    optimal = stack(runs, "optimal_return") if is_known else np.zeros_like(returns)
    curves = np.cumsum(optimal - returns, axis=1)
    scale = np.where(optimal == 0, np.nan, np.abs(optimal))
    late = ((optimal - returns) / scale if is_known else returns)[:, :episodes]
    skipped = np.array(
        [_soon_after_reset(run["first_retained"].to_numpy()[:episodes]) for run in runs]
    )
    return MethodSummary(
        method=runs[0]["method"][0],
        seeds=tuple(run["seed"][0] for run in runs),
        curves=curves,
        score=estimate_mean(
            curves[:, episodes - 1] if is_known else returns[:, :episodes].mean(axis=1)
        ),
        late=_late_mean(late),
        late_outside_resets=_late_mean(np.where(skipped, np.nan, late)),
        minutes=sum(float(run["wall_s"].sum()) for run in runs) / len(runs) / 60,
    )


def _difference(
    method: MethodSummary,
    reference: MethodSummary | None,
    episode: int | None,
    is_known: bool = True,
) -> Estimate | None:
    """Return the paired difference in R_n; where J* is unknown, in the mean return.

    J* cancels there: (R_baseline − R_method) / n.
    """
    if reference is None or method is reference or episode is None:
        return None
    shared = sorted(set(method.seeds) & set(reference.seeds))
    if not shared:
        return None
    first, second = (
        one.curves[[one.seeds.index(seed) for seed in shared], episode - 1]
        for one in (method, reference)
    )
    return estimate_mean(first - second if is_known else (second - first) / episode)


def _late_mean(values: Float[np.ndarray, "K N"]) -> Estimate | None:
    """Mean over runs of the last episodes; runs without a number are left out."""
    late = values[:, -LAST_EPISODES:]
    means = [row[np.isfinite(row)].mean() for row in late if np.isfinite(row).any()]
    return estimate_mean(np.array(means)) if means else None


def change_starts(thetas: Float[np.ndarray, " N"]) -> list[int]:
    """Return the episodes with the first new θ after it was constant.

    A θ that changes from the first episode on was never constant: no start.
    """
    changed = np.diff(thetas) != 0
    begins = changed[1:] & ~changed[:-1]
    return [int(index) + 3 for index in np.flatnonzero(begins)]


def _soon_after_reset(first_retained: np.ndarray) -> np.ndarray:
    """Return whether each episode is one of the first after a reset.

    A sliding window moves m(n) up by one per episode; a larger jump is a reset.
    """
    marked = np.zeros(len(first_retained), dtype=bool)
    for last in np.flatnonzero(np.diff(first_retained) > 1):
        marked[last + 1 : last + 1 + AFTER_RESET] = True
    return marked


def oracle_warnings(frame: polars.DataFrame) -> list[str]:
    """Return a sentence for each sign that J* is not an optimum.

    No policy can beat the optimum by more than the stated error and, where returns are
    random, four standard deviations: neither in one episode (a sentence for each θ,
    about the run that exceeds it most) nor in sum (a sentence for each run).
    """
    optimal, std = polars.col("optimal_return"), polars.col("optimal_std")
    rows = frame.with_columns(
        excess=polars.col("achieved_return") - optimal,
        error=polars.col("optimal_error") + _ROUNDING * optimal.abs(),
    ).with_columns(
        total=polars.col("excess").cum_sum().over("directory"),
        allowed=polars.col("error").cum_sum().over("directory")
        + _DEVIATIONS * (std**2).cum_sum().over("directory").sqrt(),
    )
    beyond = polars.col("total") - polars.col("allowed")
    single = rows.filter(polars.col("excess") > polars.col("error") + _DEVIATIONS * std)
    single = single.sort("excess", descending=True, maintain_order=True).unique(
        ["problem", "theta"], keep="first", maintain_order=True
    )
    summed = rows.filter((beyond > 0) & (beyond == beyond.max().over("directory")))
    return [
        *(
            f"The oracle is not an optimum at θ = {row['theta']:g}: {row['run']} "
            f"achieved {row['achieved_return']:.6g} in episode {row['episode']}, "
            f"{row['excess']:.3g} more than J*(θ) = {row['optimal_return']:.6g}, whose "
            f"stated error is {row['error']:.3g}."
            for row in single.rows(named=True)
        ),
        *(
            f"The oracle is not an optimum up to θ = {row['theta']:g}: the regret of "
            f"{row['run']} sums to {-row['total']:.3g} by episode {row['episode']}, "
            f"below zero by more than the {row['allowed']:.3g} that errors and noise "
            "allow."
            for row in summed.rows(named=True)
        ),
    ]
