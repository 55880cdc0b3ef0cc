"""Was a run's uncertainty calibrated?  An audit from its records alone.

Before the model learned from episode n it predicted that episode; the record has the
share of predictions within μ ± 2σ, the error, and σ.  Stale data show as a pattern: the
error grows, σ does not, and the retained data reach back to before a change of θ.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import polars
from polars import col
from scipy.stats import binomtest, norm

from driftrl.errors import InputError
from driftrl.types import EpisodeRecord

NOMINAL = math.erf(math.sqrt(2.0))
"""Share of a Gaussian within ± 2σ, 95.4 %."""
BROKEN = 1.0 - 4.0 * (1.0 - NOMINAL)
"""Coverage below which an episode counts as broken: four times the nominal misses."""
_CALM_EPISODES = 5  # before a break that it is compared with
_SCHEMA: dict[str, type[polars.DataType]] = {
    **dict.fromkeys(("episode", "steps", "first_retained"), polars.Int64),
    **dict.fromkeys(("theta", "coverage"), polars.Float64),
    **dict.fromkeys(("model_error", "epistemic_std"), polars.Float64),
}


@dataclass(frozen=True)
class Audit:
    """Calibration of a run's uncertainty; what is unknown is null in its frames."""

    episodes: int
    """Recorded episodes."""
    predicted: polars.DataFrame
    """The episodes that a model had predicted: ``coverage``, ``broken`` (whether ± 2σ
    missed at least four times as often as it should, beyond chance), ``error`` (root
    mean square, in standard deviations of the true changes), ``sigma`` (epistemic, of
    one output in the same unit: ‖σ‖₂/√S), ``ratio`` of the two, ``span`` n − m(n) and
    ``theta``."""
    coverage: float
    """Mean over the predicted episodes."""
    low: float
    """95 % interval of the mean, with neighbouring episodes taken as dependent."""
    high: float
    inflation: float
    """Factor on σ that would give ± 2σ its 95 % for Gaussian errors (median)."""
    sigma: float
    """Median σ of one output, in standard deviations of the true changes."""
    ratio: float | None
    """Median error in units of σ; None if σ was always 0."""
    breaks: polars.DataFrame
    """Consecutive broken episodes: ``first`` to ``last``, their lowest ``coverage`` and
    largest ``error``, ``sigma`` and m (``oldest``) of the first, the medians
    ``error_before`` and ``sigma_before`` of the unbroken episodes just before (at most
    five), whether θ had moved since the oldest retained data (``stale``), and the first
    unbroken episode after it (``recovered``)."""

    @property
    def broken(self) -> int:
        """Number of broken episodes."""
        return int(self.predicted["broken"].sum())

    def summary(self) -> list[str]:
        """Return a sentence on the coverage, and one on the deepest break."""
        lines = [
            f"± 2σ covered {self.coverage:.0%} ({self.low:.0%} to {self.high:.0%}; "
            f"{NOMINAL:.0%} if calibrated) over {len(self.predicted)} predicted "
            f"episodes, {self.broken} of them broken; σ should be "
            f"{self.inflation:.1f} times as wide."
        ]
        if len(self.breaks):
            row = self.breaks.sort("coverage", maintain_order=True).row(0, named=True)
            cause = {True: "stale data", False: "too little data", None: "θ unknown"}
            before = [row["error_before"], row["sigma_before"]]
            error, sigma = ("" if x is None else f"{x:.2g} → " for x in before)
            lines.append(
                f"The deepest of {len(self.breaks)} breaks was at episodes "
                f"{row['first']} to {row['last']}: coverage {row['coverage']:.0%}, "
                f"error {error}{row['error']:.2g}, σ {sigma}{row['sigma']:.2g}, with "
                f"data from episode {row['oldest']} on ({cause[row['stale']]})."
            )
        return lines

    def document(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        document = {one.name: getattr(self, one.name) for one in fields(self)}
        return document | {
            "predicted": self.predicted.to_dicts(),
            "breaks": self.breaks.to_dicts(),
            "broken": self.broken,
            "summary": self.summary(),
        }


def audit(records: Sequence[EpisodeRecord], outputs: int) -> Audit:
    """Audit the uncertainty of a run with S ``outputs`` from its records.

    Raises:
        InputError: No episode was predicted with an uncertainty.
    """
    predicted = _predicted(records, outputs)
    if predicted.is_empty():
        raise InputError(
            f"None of the {len(records)} recorded episodes has a coverage and an "
            "epistemic σ: there is no uncertainty to audit."
        )
    coverages = predicted["coverage"].to_numpy()
    low, high = _mean_interval(coverages)
    inside = min(max(float(np.median(coverages)), 0.001), 0.999)
    return Audit(
        episodes=len(records),
        predicted=predicted.drop("theta_of_oldest"),
        coverage=float(coverages.mean()),
        low=low,
        high=high,
        inflation=2.0 / float(norm.ppf(0.5 + 0.5 * inside)),
        sigma=float(np.median(predicted["sigma"])),
        ratio=predicted.select(col("ratio").median()).item(),
        breaks=_breaks(predicted),
    )


def _predicted(records: Sequence[EpisodeRecord], outputs: int) -> polars.DataFrame:
    rows = [[getattr(record, name) for name in _SCHEMA] for record in records]
    frame = polars.DataFrame(rows, schema=_SCHEMA, orient="row")
    sigma = col("epistemic_std") / math.sqrt(outputs)
    predicted = frame.select(
        "episode",
        "steps",
        "coverage",
        error="model_error",
        sigma=sigma,
        ratio=polars.when(sigma > 0).then(col("model_error") / sigma),
        span=col("episode") - col("first_retained"),
        theta="theta",
        theta_of_oldest=col("theta").gather(col("first_retained") - 1),
    ).filter(polars.all_horizontal(col("coverage", "error", "sigma").is_finite()))
    # Each transition is counted once.
    ceilings = [
        binomtest(round(coverage * steps), steps).proportion_ci(method="wilson").high
        for coverage, steps in predicted.select("coverage", "steps").iter_rows()
    ]
    certain = polars.Series(ceilings, dtype=polars.Float64) < NOMINAL
    return predicted.with_columns(
        polars.selectors.float().fill_nan(None),
        broken=(col("coverage") < BROKEN) & certain,
    ).drop("steps")


def _breaks(predicted: polars.DataFrame) -> polars.DataFrame:
    calm = col("error", "sigma").tail(_CALM_EPISODES).median().name.suffix("_before")
    number = col("broken").rle_id().alias("group")
    before = col("error_before", "sigma_before").shift(1)
    stale = col("theta") != col("theta_of_oldest")
    return (
        predicted.group_by(number, maintain_order=True)
        .agg(
            calm,
            col("broken", "sigma").first(),
            first=col("episode").first(),
            last=col("episode").last(),
            coverage=col("coverage").min(),
            error=col("error").max(),
            oldest=(col("episode") - col("span")).first(),
            stale=stale.first(),
        )
        .with_columns(before, recovered=col("first").shift(-1))
        .filter("broken")
        .drop("group", "broken")
    )


def _mean_interval(values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % interval of a mean of neighbours that resemble each other.

    With lag-one correlation ρ, K values are worth K·(1 − ρ)/(1 + ρ) independent ones.
    """
    if len(values) < 3:
        return 0.0, 1.0
    count, centre = len(values), float(values.mean())
    residuals = values - centre
    total = float(residuals @ residuals)
    if total == 0:
        return centre, centre
    correlation = min(0.95, max(0.0, float(residuals[1:] @ residuals[:-1]) / total))
    worth = max(2.0, count * (1 - correlation) / (1 + correlation))
    half = 1.96 * math.sqrt(total / (count - 1) / worth)
    return max(0.0, centre - half), min(1.0, centre + half)
