"""What is drawn over episodes: the curves of one problem, quantity by quantity.

The printed figures and the report draw the same panels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy import special

from driftrl.analysis.names import natural_key
from driftrl.analysis.regret import (
    MethodSummary,
    ProblemSummary,
    baseline_of,
    change_starts,
    runs_by_method,
    stack,
)
from driftrl.analysis.statistics import Estimate, estimate_mean
from driftrl.errors import require

_NO_MODEL = "No model was learned."
_MOST_UNSMOOTHED = 150  # episodes whose single returns can be told apart in a panel
_SMOOTHED_POINTS = 30  # running means that a longer run is drawn with
_WIDE_RANGE = 30.0  # ratio of largest to smallest value that asks for a log axis
_TICK_SHARE = 0.05  # height of the mark of a soft reset, as a share of the panel's
_ALL_TICKS_SHARE = 0.15  # most that all rows of such marks may take

Curves = dict[str, Float[np.ndarray, "K N"]]
"""One row a seed for each method, NaN where nothing was recorded."""


@dataclass(frozen=True)
class Reference:
    """A curve that belongs to no method: θ, the optimum, a nominal value."""

    label: str
    values: Float[np.ndarray, " N"]
    range: Float[np.ndarray, "2 N"] | None = None
    """Lowest and highest over the runs, where they do not share it; ``values`` is then
    the mean."""


@dataclass(frozen=True)
class Panel:
    """One quantity over episodes, for every method."""

    key: str
    title: str
    axis: str
    """Label of the vertical axis."""
    caption: str
    curves: Curves = field(default_factory=dict)
    reference: Reference | None = None
    starts_at_zero: bool = False
    """Whether the quantity is a sum or a count, whose axis starts at zero."""
    may_be_log: bool = False
    is_noisy: bool = False
    """Whether each episode is measured anew, so that long runs are smoothed."""
    as_percent: bool = False
    missing: str = "Not recorded."
    """Shown if there is nothing to draw."""

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        references = [] if self.reference is None else [self.reference.values]
        drawn = [*self.curves.values(), *references]
        return not any(np.isfinite(values).any() for values in drawn)

    @property
    def log_ticks(self) -> list[float]:
        """Ticks at 1, 2 and 5 times powers of ten; empty unless a log axis helps."""
        if not self.may_be_log or self.is_empty:
            return []
        values = np.concatenate([np.ravel(curves) for curves in self.curves.values()])
        values = values[np.isfinite(values)]
        low, high = values.min(), values.max()
        if low <= 0 or high / low < _WIDE_RANGE:
            return []
        powers = 10.0 ** np.arange(np.floor(np.log10(low)), np.ceil(np.log10(high)) + 1)
        ticks = np.outer(powers, [1.0, 2.0, 5.0]).ravel()
        return ticks[(ticks >= low / 2) & (ticks <= high * 2)].tolist()

    def smoothed(self, width: int) -> "Panel":
        """Return the panel with noise smoothed over ``width`` episodes.

        By the median where the axis may be logarithmic, else by the mean.
        """
        if not self.is_noisy or width <= 1:
            return self
        kind = "median" if self.may_be_log else "mean"
        curves = {
            name: _running(rows, width, kind) for name, rows in self.curves.items()
        }
        return replace(self, title=f"{self.title}, {kind} of {width}", curves=curves)


def _running(rows: Float[np.ndarray, "K N"], width: int, kind: str) -> np.ndarray:
    """Return the mean or median of the ``width`` episodes around each, without NaN."""
    rolling = [pl.Series(row).fill_nan(None) for row in rows]
    options = {"window_size": width, "min_samples": 1, "center": True}
    smooth = [getattr(row, f"rolling_{kind}")(**options).to_numpy() for row in rolling]
    return np.array(smooth)


def problem_frames(frame: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of each problem, in the natural order of their labels."""
    labels = sorted(frame["problem"].unique(), key=natural_key)
    return {label: frame.filter(pl.col("problem") == label) for label in labels}


def method_runs(frame: pl.DataFrame) -> dict[str, list[pl.DataFrame]]:
    """Return the runs of each method on one problem, the baseline's first."""
    problems = frame["problem"].unique().sort().to_list()
    require(
        len(problems) == 1,
        f"This figure shows one problem, and the frame has {len(problems)}: "
        f"{', '.join(map(repr, problems))}. Filter the column 'problem', or use "
        "driftrl.plot.problems.",
    )
    return runs_by_method(frame, first=baseline_of(frame))


def methods_of(frame: pl.DataFrame) -> list[str]:
    """Return the methods of one or several problems, the baseline first."""
    baseline = baseline_of(frame)
    names = frame["method"].unique().to_list()
    return sorted(names, key=lambda name: (name != baseline, natural_key(name)))


def has_optimum(frame: pl.DataFrame) -> bool:
    """Return whether J*(θ_n) is known for every episode."""
    return frame["optimal_return"].null_count() == 0


def theta_courses(frame: pl.DataFrame) -> list[Float[np.ndarray, " N"]]:
    """Return the different courses of θ_n, longest first; none if θ is not known.

    Runs of one problem share one where θ follows the episodes.  An unfinished run's
    course is the beginning of another's and is left out.
    """
    if frame["theta"].null_count():
        return []
    courses = [run["theta"].to_numpy() for run in frame.partition_by("directory")]
    distinct: list[np.ndarray] = []
    for course in sorted(courses, key=len, reverse=True):
        if not any(np.array_equal(known[: len(course)], course) for known in distinct):
            distinct.append(course)
    return distinct


def theta_changes(frame: pl.DataFrame) -> list[int]:
    """Return the episodes at which θ begins to change after it was constant.

    Where θ took different courses, the k-th entry is the earliest k-th change.
    """
    starts = [change_starts(course) for course in theta_courses(frame)]
    longest = max(map(len, starts), default=0)
    earliest = [min(s[k] for s in starts if len(s) > k) for k in range(longest)]
    return sorted(set(earliest))


def smoothing_width(frame: pl.DataFrame) -> int:
    """Return over how many episodes a printed panel smooths noise; odd."""
    episodes = longest_run(frame)
    reach = 0 if episodes <= _MOST_UNSMOOTHED else episodes // (2 * _SMOOTHED_POINTS)
    return 2 * reach + 1


def longest_run(frame: pl.DataFrame) -> int:
    """Return the number of episodes of the longest run."""
    longest = frame["episode"].max()
    assert isinstance(longest, int)
    return longest


@dataclass(frozen=True)
class ResetTicks:
    """Marks along the lower edge of a panel, for methods that reset together."""

    methods: tuple[str, ...]
    episodes: tuple[int, ...]
    low: float
    high: float
    """Lower and upper end of the ticks, as shares of the panel's height."""


def soft_reset_ticks(frame: pl.DataFrame) -> list[ResetTicks]:
    """Return a row of ticks for each different sequence of soft resets."""
    resets = frame.filter(pl.col("soft_reset").fill_null(value=False))
    rows: dict[tuple[int, ...], list[str]] = {}
    for method in methods_of(frame):
        episodes = resets.filter(pl.col("method") == method)["episode"].unique().sort()
        if len(episodes):
            rows.setdefault(tuple(episodes), []).append(method)
    height = min(_TICK_SHARE, _ALL_TICKS_SHARE / max(1, len(rows)))
    return [
        ResetTicks(tuple(methods), episodes, index * height, (index + 0.85) * height)
        for index, (episodes, methods) in enumerate(rows.items())
    ]


_COLUMNS: Mapping[str, Panel] = {
    "achieved_return": Panel(
        "returns",
        "Return of an episode",
        "return",
        "Return of the policy of each episode; more is better.",
        is_noisy=True,
    ),
    "cumulative_regret": Panel(
        "regret",
        "Cumulative dynamic regret",
        "cumulative regret",
        "Sum of J*(θ) − J(π) over all episodes so far. Flat: the agent has caught up.",
        starts_at_zero=True,
    ),
    "span": Panel(
        "span",
        "Buffer span",
        "episodes retained",
        "Number n − m(n) of past episodes that the policy of episode n learned from.",
        starts_at_zero=True,
    ),
    "model_error": Panel(
        "model_error",
        "Model error",
        "RMS one-step error",
        "Root mean square error of the model’s one-step predictions on the newest "
        "episode before learning from it, in units of the standard deviation of the "
        "true changes.",
        may_be_log=True,
        is_noisy=True,
        missing=_NO_MODEL,
    ),
    "coverage": Panel(
        "coverage",
        "Coverage of μ ± 2σ",
        "share within μ ± 2σ",
        "Share of the newest episode’s one-step outcomes within two predicted standard "
        "deviations, before learning from it. Far below the black line the model is "
        "overconfident.",
        is_noisy=True,
        as_percent=True,
        missing=_NO_MODEL,
    ),
    "epistemic_std": Panel(
        "epistemic_std",
        "Epistemic uncertainty",
        "mean of ‖σ‖",
        "Epistemic standard deviation of the model along the newest episode before "
        "learning from it, in the units of the model error.",
        may_be_log=True,
        is_noisy=True,
    ),
    "optimism": Panel(
        "optimism",
        "Optimism λ",
        "λ",
        "Weight of the epistemic uncertainty in the policy’s objective.",
        may_be_log=True,
    ),
    "temperature": Panel(
        "temperature",
        "Temperature α",
        "α of SAC",
        "Weight of the policy’s entropy in soft actor-critic’s objective.",
        may_be_log=True,
    ),
}
_ALWAYS = ("achieved_return", "span", "model_error", "coverage")


def panels_of(frame: pl.DataFrame) -> dict[str, Panel]:
    """Return every panel of one problem by its key, in reading order.

    θ and regret are left out where they are not known, details where no run has them.
    """
    span = (pl.col("episode") - pl.col("first_retained")).alias("span")
    groups = method_runs(frame.with_columns(span))
    theta = _theta_panel(frame, groups)
    panels = {} if theta is None else {"theta": theta}
    for column, empty in _COLUMNS.items():
        if column == "cumulative_regret" and not has_optimum(frame):
            continue
        panel = replace(empty, curves=_curves(groups, column))
        panel = replace(panel, reference=_reference(frame, panel))
        if column == "optimism" and _is_constant(panel.curves):
            continue
        if panel.starts_at_zero:
            lowest = min(rows.min() for rows in panel.curves.values())
            panel = replace(panel, starts_at_zero=bool(lowest >= 0))
        if column in _ALWAYS or not panel.is_empty:
            panels[panel.key] = panel
    return panels


def _curves(groups: Mapping[str, list[pl.DataFrame]], column: str) -> Curves:
    return {method: stack(runs, column) for method, runs in groups.items()}


def _theta_panel(
    frame: pl.DataFrame, groups: Mapping[str, list[pl.DataFrame]]
) -> Panel | None:
    courses = theta_courses(frame)
    if not courses:
        return None
    shared = len(courses) == 1
    apart = "" if shared else " It differs between runs: lines are means over seeds."
    return Panel(
        "theta",
        "Drifting parameter θ",
        "θ",
        f"Parameter of the dynamics, unknown to the agents.{apart}",
        curves={} if shared else _curves(groups, "theta"),
        reference=Reference("θ", courses[0]) if shared else None,
    )


def _reference(frame: pl.DataFrame, panel: Panel) -> Reference | None:
    if panel.key == "coverage" and not panel.is_empty:
        nominal = float(special.erf(2 / np.sqrt(2)))
        label = f"calibrated ({100 * nominal:.0f} %)"
        return Reference(label, np.full(longest_run(frame), nominal))
    if panel.key == "returns" and has_optimum(frame):
        return _optimum(frame)
    return None


def _optimum(frame: pl.DataFrame) -> Reference:
    """Return J*(θ_n); where runs met different θ_n, its mean and range over them."""
    by_episode = frame.group_by("episode").agg(
        pl.len(),
        pl.col("optimal_return").mean().alias("mean"),
        pl.col("optimal_return").min().alias("low"),
        pl.col("optimal_return").max().alias("high"),
    )
    rows = by_episode.sort("episode")
    label = "J*(θ), optimum"
    if len(theta_courses(frame)) == 1:
        return Reference(label, rows["low"].to_numpy())
    rows = rows.filter(pl.col("len") == frame["directory"].n_unique())
    edges = np.stack([rows["low"].to_numpy(), rows["high"].to_numpy()])
    return Reference(label, rows["mean"].to_numpy(), edges)


def _is_constant(rows: Curves) -> bool:
    return all((values == values[:, :1]).all() for values in rows.values())


def score_of(summary: ProblemSummary, method: MethodSummary) -> Estimate:
    """Return what a method is judged by: R_N, or the mean return if J* is unknown."""
    return method.final if summary.is_known else method.mean_return


def score_difference(summary: ProblemSummary, method: MethodSummary) -> Estimate | None:
    """Return the paired difference of the score to the baseline's.

    J* cancels in it: (R_baseline − R_method) / N is the difference in mean return.
    """
    if method.difference is None or summary.is_known:
        return method.difference and method.difference.estimate
    values = method.difference.estimate.values
    return estimate_mean(-values / method.difference.episode)
