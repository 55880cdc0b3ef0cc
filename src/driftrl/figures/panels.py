"""What is drawn over episodes: the curves of each method, named and explained.

The printed overview and the interactive page draw the same panels.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float
from scipy import special

from driftrl.records import Run
from driftrl.results.curves import (
    Measure,
    buffer_span,
    first_changes,
    running,
    stack_curves,
    theta_is_known,
    theta_sequences,
)
from driftrl.results.regret import StudyRegret, achieved_return

_NO_MODEL = "No model was learned."
_TICK_SHARE = 0.05  # height of the mark of a soft reset, as a share of the panel's
_ALL_TICKS_SHARE = 0.15  # most that all rows of such marks may take
_MOST_UNSMOOTHED = 150  # episodes whose single returns can be told apart in a panel
_SMOOTHED_POINTS = 30  # means that a longer course is worth
_WIDE_RANGE = 30.0
"""Ratio of largest to smallest value from which a logarithmic axis reads better."""


@dataclass(frozen=True)
class Reference:
    """A curve that belongs to no method: the drift, the optimum, a nominal value."""

    label: str
    values: Float[np.ndarray, " N"]
    spread: Float[np.ndarray, "2 N"] | None = None
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
    """What is drawn and how to read it, in a sentence or two."""
    curves: Mapping[str, Float[np.ndarray, "K N"]]
    """One row a seed for each method, NaN where nothing was recorded."""
    references: tuple[Reference, ...] = ()
    is_amount: bool = False
    """Whether the quantity grows from zero, so that the axis should start there."""
    is_scale: bool = False
    """Whether ratios matter more than differences, so that a log axis may be used."""
    is_noisy: bool = False
    """Whether it is measured in each episode anew, so that many hide its course."""
    as_percent: bool = False
    missing: str = "Not recorded."
    """What is said if there is nothing to draw."""

    def over(self, width: int) -> "Panel":
        """Return the panel with noise smoothed over ``width`` episodes, and named so.

        Where ratios matter it is the median, lest a single episode hide its neighbours.
        """
        if not self.is_noisy or width <= 1:
            return self
        kind = "median" if self.is_scale else "mean"
        curves = {
            method: running(values, width, by_median=self.is_scale)
            for method, values in self.curves.items()
        }
        title = f"{self.title}, {kind} of {width}"
        return replace(self, title=title, curves=curves)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to draw."""
        drawn = [*self.curves.values(), *(one.values for one in self.references)]
        return not any(np.isfinite(values).any() for values in drawn)

    @property
    def starts_at_zero(self) -> bool:
        """Whether zero is the natural lower end: the quantity is a sum or a count."""
        drawn = [values[np.isfinite(values)] for values in self.curves.values()]
        return self.is_amount and all((values >= 0).all() for values in drawn)

    @property
    def log_ticks(self) -> list[float]:
        """1, 2 and 5 times powers of ten around the values, for a logarithmic axis.

        Empty unless the panel allows such an axis, and the values are positive and so
        far apart that it helps.
        """
        if not self.is_scale or self.is_empty:
            return []
        values = np.concatenate([np.ravel(curve) for curve in self.curves.values()])
        values = values[np.isfinite(values)]
        if values.min() <= 0:
            return []
        if values.max() / values.min() < _WIDE_RANGE:
            return []
        low, high = np.floor(np.log10(values.min())), np.ceil(np.log10(values.max()))
        powers = 10.0 ** np.arange(low, high + 1)
        ticks = np.outer(powers, [1.0, 2.0, 5.0]).ravel()
        inside = (ticks >= values.min() / 2) & (ticks <= values.max() * 2)
        return ticks[inside].tolist()


def smoothing_width(study: StudyRegret) -> int:
    """Return over how many episodes a printed panel averages what is noisy; odd."""
    episodes = max(len(run.records) for run in study.runs)
    reach = 0 if episodes <= _MOST_UNSMOOTHED else episodes // (2 * _SMOOTHED_POINTS)
    return 2 * reach + 1


def study_changes(study: StudyRegret) -> list[int]:
    """Return the episodes at which θ begins to change, if θ is known.

    Where θ took different courses, it is the run in which it changes first.
    """
    return first_changes(study.runs) if theta_is_known(study.runs) else []


def study_panels(study: StudyRegret) -> list[Panel]:
    """Return every panel, in reading order; details only where they were recorded.

    There is none of θ and none of regret where they are not known.
    """
    builders: list[Callable[[StudyRegret], Panel]] = [
        *([theta_panel] if theta_is_known(study.runs) else []),
        return_panel,
        *([regret_panel] if study.table.known else []),
        *(span_panel, error_panel, coverage_panel),
    ]
    details = [epistemic_panel(study), optimism_panel(study), temperature_panel(study)]
    return [
        *(build(study) for build in builders),
        *(panel for panel in details if not panel.is_empty),
    ]


def soft_resets(study: StudyRegret) -> dict[str, list[int]]:
    """Return the episodes before which runs of each method were softly reset.

    Methods without a soft reset have no entry: at rates of zero nothing is reset.
    """
    found = {
        one.method: sorted(
            {
                record.episode
                for run in study.runs_of(one.method)
                for record in run.records
                if record.soft_reset and _resets_softly(run)
            }
        )
        for one in study.methods
    }
    return {method: episodes for method, episodes in found.items() if episodes}


def _resets_softly(run: Run) -> bool:
    rates = run.config.get("agent", {}).get("soft_reset", {})
    return rates.get("model") != 0 or rates.get("policy") != 0


@dataclass(frozen=True)
class TickRow:
    """Marks along the lower edge of a panel, for methods that are reset together."""

    methods: tuple[str, ...]
    episodes: tuple[int, ...]
    low: float
    high: float
    """Where the ticks begin and end, as shares of the panel's height."""


def soft_reset_rows(study: StudyRegret) -> list[TickRow]:
    """Return a row of ticks for each different course of soft resets.

    Most studies have one or two, however many methods they compare.
    """
    rows: dict[tuple[int, ...], list[str]] = {}
    for method, episodes in soft_resets(study).items():
        rows.setdefault(tuple(episodes), []).append(method)
    height = min(_TICK_SHARE, _ALL_TICKS_SHARE / max(1, len(rows)))
    return [
        TickRow(tuple(methods), episodes, place * height, (place + 0.85) * height)
        for place, (episodes, methods) in enumerate(rows.items())
    ]


def theta_panel(study: StudyRegret) -> Panel:
    """θ_n, the parameter that drifts: one course, or a mean for each method."""
    courses = theta_sequences(study.runs)
    is_shared = len(courses) == 1
    caption = (
        "The parameter θ of the dynamics, constant within an episode. The agents never "
        "see it."
    )
    apart = " It took another course in every run: lines are means over seeds."
    return Panel(
        key="theta",
        title="Drifting parameter θ",
        axis="θ",
        caption=caption + ("" if is_shared else apart),
        curves={} if is_shared else _measured(study, lambda record: record.theta),
        references=(Reference("θ", courses[0]),) if is_shared else (),
    )


def return_panel(study: StudyRegret) -> Panel:
    """J(π_n) of every method, beside J*(θ_n) where that is known."""
    optima = (_optimum(study),) if study.table.known else ()
    beside = "; more is better."
    if optima:
        beside = ", and the best possible return J*(θ) at that episode’s θ."
    if any(one.spread is not None for one in optima):
        beside += " As θ differs between runs, it is a mean over them with their range."
    return Panel(
        key="returns",
        title="Return of an episode",
        axis="return",
        caption=f"Return of the policy of each episode{beside}",
        curves=_measured(study, achieved_return),
        references=optima,
        is_noisy=True,
    )


def _optimum(study: StudyRegret) -> Reference:
    """J*(θ_n); where runs had different θ_n, its mean over them, and its range."""
    label = "J*(θ), optimum"
    courses = theta_sequences(study.runs)
    if len(courses) == 1:
        return Reference(label, study.table.column("value", courses[0]))
    thetas = stack_curves(study.runs, lambda record: record.theta)
    optima = np.array([study.table.column("value", course) for course in thetas])
    spread = np.stack([optima.min(axis=0), optima.max(axis=0)])
    return Reference(label, optima.mean(axis=0), spread)


def regret_panel(study: StudyRegret) -> Panel:
    """R_n of every method."""
    return Panel(
        key="regret",
        title="Cumulative dynamic regret",
        axis="cumulative regret",
        caption="Sum of J*(θ) − J(π) over all episodes so far. A flat curve is an "
        "agent that has caught up; a straight rising one never does.",
        curves={one.method: one.curves for one in study.methods},
        is_amount=True,
    )


def span_panel(study: StudyRegret) -> Panel:
    """Span n − m(n) of every method’s buffer."""
    return Panel(
        key="span",
        title="Buffer span",
        axis="episodes retained",
        caption="Number n − m(n) of past episodes that the policy of episode n was "
        "learned from.",
        curves=_measured(study, buffer_span),
        is_amount=True,
    )


def error_panel(study: StudyRegret) -> Panel:
    """One-step error of the model before it learned from the episode."""
    return Panel(
        key="model_error",
        title="Model error",
        axis="RMS one-step error",
        caption="Root mean square error of the model’s one-step predictions on the "
        "newest episode before it was learned, in units of the spread of the true "
        "changes.",
        curves=_measured(study, lambda record: record.model_error),
        is_scale=True,
        is_noisy=True,
        missing=_NO_MODEL,
    )


def coverage_panel(study: StudyRegret) -> Panel:
    """Share of one-step outcomes within μ ± 2σ, beside that of a normal variable."""
    longest = max(len(run.records) for run in study.runs)
    nominal = float(special.erf(2 / np.sqrt(2)))
    curves = _measured(study, lambda record: record.coverage)
    is_recorded = any(np.isfinite(values).any() for values in curves.values())
    reference = Reference(
        f"calibrated ({100 * nominal:.0f} %)", np.full(longest, nominal)
    )
    return Panel(
        key="coverage",
        title="Coverage of μ ± 2σ",
        axis="share within μ ± 2σ",
        caption="Share of the newest episode’s one-step outcomes that lie within two "
        "predicted standard deviations, before it was learned. Far below the line the "
        "model is surer than it should be.",
        curves=curves,
        references=(reference,) if is_recorded else (),
        is_noisy=True,
        as_percent=True,
        missing=_NO_MODEL,
    )


def epistemic_panel(study: StudyRegret) -> Panel:
    """Mean of ‖σ‖₂ along the episode."""
    return Panel(
        key="epistemic_std",
        title="Epistemic uncertainty",
        axis="mean of ‖σ‖",
        caption="How unsure the model was along the newest episode before it was "
        "learned, in the units of the model error.",
        curves=_measured(study, lambda record: record.epistemic_std),
        is_scale=True,
        is_noisy=True,
    )


def optimism_panel(study: StudyRegret) -> Panel:
    """λ_n of every method; empty where no run changes it, for then it is a setting."""
    curves = _measured(study, lambda record: record.optimism)
    changes = any((values != values[:, :1]).any() for values in curves.values())
    return Panel(
        key="optimism",
        title="Optimism λ",
        axis="λ",
        caption="Weight of the epistemic uncertainty in the objective that the policy "
        "of the episode was learned or planned with.",
        curves=curves if changes else {},
        is_scale=True,
    )


def temperature_panel(study: StudyRegret) -> Panel:
    """α_n, SAC’s temperature, of every method."""
    return Panel(
        key="temperature",
        title="Temperature α",
        axis="α of SAC",
        caption="Weight of the policy’s entropy in the objective of soft actor-critic, "
        "tuned to a target entropy.",
        curves=_measured(study, lambda record: record.temperature),
        is_scale=True,
    )


def _measured(
    study: StudyRegret, measure: Measure
) -> dict[str, Float[np.ndarray, "K N"]]:
    return {
        one.method: stack_curves(study.runs_of(one.method), measure)
        for one in study.methods
    }
