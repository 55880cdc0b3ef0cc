"""What is drawn over episodes: the curves of one problem, quantity by quantity.

The printed figures and the report draw the same panels.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import polars as pl
from jaxtyping import Float
from scipy import special

from driftrl.analysis.regret import baseline_of, change_starts, runs_by_method, stack
from driftrl.errors import require

_WIDE_RANGE = 30.0  # ratio of largest to smallest value that asks for a log axis

Curves = dict[str, Float[np.ndarray, "K N"]]
"""One row a seed for each method, NaN where nothing was recorded."""


@dataclass(frozen=True)
class Reference:
    """A curve that belongs to no method: θ, the optimum, a nominal value."""

    label: str
    values: Float[np.ndarray, " N"]


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
    first: int = 1
    """Episode of the first value."""
    starts_at_zero: bool = False
    """Whether the quantity is a sum or a count, whose axis starts at zero."""
    may_be_log: bool = False
    as_percent: bool = False

    @property
    def is_log(self) -> bool:
        """Whether a logarithmic axis helps."""
        if not self.may_be_log:
            return False
        values = np.concatenate([np.ravel(curves) for curves in self.curves.values()])
        low, high = np.nanmin(values), np.nanmax(values)
        return bool(low > 0 and high / low >= _WIDE_RANGE)


def require_one_problem(frame: pl.DataFrame) -> None:
    """Refuse a frame of several problems."""
    problems = frame["problem"].unique().sort().to_list()
    require(
        len(problems) == 1,
        f"This figure shows one problem, and the frame has {len(problems)}: "
        f"{', '.join(map(repr, problems))}. Filter the column 'problem', or use "
        "driftrl.plot.problems.",
    )


def method_runs(frame: pl.DataFrame) -> dict[str, list[pl.DataFrame]]:
    """Return the runs of each method on one problem, the baseline's first."""
    require_one_problem(frame)
    return runs_by_method(frame, first=baseline_of(frame))


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

    Where θ took different courses, that is the earliest alone.
    """
    before = first_episode(frame) - 1
    courses = theta_courses(frame)
    starts = [[start + before for start in change_starts(one)] for one in courses]
    return starts[0] if len(starts) == 1 else sorted(s[0] for s in starts if s)[:1]


def unit_of(frame: pl.DataFrame) -> str:
    """Return what a row is: an episode, or a segment of continuing operation."""
    units = frame["unit"].unique().to_list() if "unit" in frame.columns else []
    return "segment" if units == ["segment"] else "episode"


def first_episode(frame: pl.DataFrame) -> int:
    """Return the first episode of a frame, which may have been filtered.

    ``InputError`` if its runs begin at different episodes, or skip some.
    """
    runs = frame.group_by("directory").agg(
        pl.col("episode").min(), skips=pl.col("episode").diff().ne(1).any()
    )
    firsts = runs["episode"].unique()
    require(
        len(firsts) == 1 and not runs["skips"].any(),
        "To be drawn over episodes, all runs of a frame must begin at the same "
        "episode and skip none; filter a range of episodes, or whole runs.",
    )
    return int(firsts[0])


def longest_run(frame: pl.DataFrame) -> int:
    """Return the last episode of the longest run."""
    longest = frame["episode"].max()
    assert isinstance(longest, int)
    return longest


_PANELS = (
    Panel(
        "returns",
        "Return of an episode",
        "return",
        "Return of the policy of each episode; more is better.",
    ),
    Panel(
        "regret",
        "Cumulative dynamic regret",
        "cumulative regret",
        "Sum of J*(θ) − J(π) over all episodes so far. Flat: the agent has caught up.",
        starts_at_zero=True,
    ),
    Panel(
        "span",
        "Buffer span",
        "episodes retained",
        "Number n − m(n) of past episodes that the policy of episode n learned from.",
        starts_at_zero=True,
    ),
    Panel(
        "model_error",
        "Model error",
        "RMS one-step error",
        "Root mean square error of the model’s one-step predictions on the newest "
        "episode before learning from it, in units of the standard deviation of the "
        "true changes.",
        may_be_log=True,
    ),
    Panel(
        "coverage",
        "Coverage of μ ± 2σ",
        "share within μ ± 2σ",
        "Share of the newest episode’s one-step outcomes within two predicted standard "
        "deviations, before learning from it. Far below the black line the model is "
        "overconfident.",
        as_percent=True,
    ),
    Panel(
        "epistemic_std",
        "Epistemic uncertainty",
        "mean of ‖σ‖",
        "Epistemic standard deviation of the model along the newest episode before "
        "learning from it, in the units of the model error.",
        may_be_log=True,
    ),
    Panel(
        "optimism",
        "Optimism λ",
        "λ",
        "Weight of the epistemic uncertainty in the policy’s objective.",
        may_be_log=True,
    ),
    Panel(
        "temperature",
        "Temperature α",
        "α of SAC",
        "Weight of the policy’s entropy in soft actor-critic’s objective.",
        may_be_log=True,
    ),
    Panel(
        "violations",
        "Violations of limits",
        "steps outside",
        "Steps of an episode that ended outside of a limit of states.",
        starts_at_zero=True,
    ),
    Panel(
        "reach",
        "Reach around the initial controller",
        "reach",
        "How far from the initial controller the policy could act; at 2 it is free.",
        starts_at_zero=True,
    ),
)
_COLUMNS = {"returns": "achieved_return", "regret": "cumulative_regret"}


def panels_of(frame: pl.DataFrame) -> dict[str, Panel]:
    """Return every panel of one problem by its key, in reading order.

    What is not known of any run is left out.
    """
    span = (pl.col("episode") - pl.col("first_retained")).alias("span")
    # Summed again: the frame may begin later than the runs.
    total = pl.col("regret").cum_sum().over("directory").alias("cumulative_regret")
    groups = method_runs(frame.with_columns(span, total))
    first, unit = first_episode(frame), unit_of(frame)
    article = "a" if unit == "segment" else "an"
    named = lambda text: text.replace("an episode", f"{article} {unit}").replace(
        "episode", unit
    )
    theta = _theta_panel(frame, groups)
    panels = {} if theta is None else {"theta": theta}
    for empty in _PANELS:
        if empty.key == "regret" and not has_optimum(frame):
            continue
        curves = _curves(groups, _COLUMNS.get(empty.key, empty.key))
        values = np.concatenate([np.ravel(rows) for rows in curves.values()])
        is_known = bool(np.isfinite(values).any())
        if is_known and (empty.key != "optimism" or np.ptp(values) != 0):
            panels[empty.key] = replace(
                empty,
                title=named(empty.title),
                axis=named(empty.axis),
                caption=named(empty.caption),
                curves=curves,
                reference=_reference(frame, empty.key),
                first=first,
                starts_at_zero=empty.starts_at_zero and bool(values.min() >= 0),
            )
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
        first=first_episode(frame),
        reference=Reference("θ", courses[0]) if shared else None,
    )


def _reference(frame: pl.DataFrame, key: str) -> Reference | None:
    if key == "coverage":
        nominal = float(special.erf(2 / np.sqrt(2)))
        label = f"calibrated ({100 * nominal:.0f} %)"
        count = longest_run(frame) - first_episode(frame) + 1
        return Reference(label, np.full(count, nominal))
    if key != "returns" or not has_optimum(frame):
        return None
    # Runs that share θ_n share J*(θ_n), which is then their median.
    by_episode = frame.group_by("episode").agg(pl.col("optimal_return").median())
    values = by_episode.sort("episode")["optimal_return"].to_numpy()
    return Reference("J*(θ), optimum", values)
