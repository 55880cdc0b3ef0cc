"""Was a run's uncertainty calibrated?  An audit from its records alone.

Before the model learned from episode n it predicted that episode; the record has the
share of predictions within μ ± 2σ, the error, and σ.
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
_SCHEMA: dict[str, type[polars.DataType]] = {
    **dict.fromkeys(("episode", "steps"), polars.Int64),
    **dict.fromkeys(("coverage", "model_error", "epistemic_std"), polars.Float64),
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
    one output in the same unit: ‖σ‖₂/√S) and ``ratio`` of the two."""
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

    @property
    def broken(self) -> int:
        """Number of broken episodes."""
        return int(self.predicted["broken"].sum())

    def summary(self) -> list[str]:
        """Return a sentence on the coverage."""
        return [
            f"± 2σ covered {self.coverage:.0%} ({self.low:.0%} to {self.high:.0%}; "
            f"{NOMINAL:.0%} if calibrated) over {len(self.predicted)} predicted "
            f"episodes, {self.broken} of them broken; σ should be "
            f"{self.inflation:.1f} times as wide."
        ]

    def document(self) -> dict[str, Any]:
        """Return everything as JSON types."""
        document = {one.name: getattr(self, one.name) for one in fields(self)}
        return document | {
            "predicted": self.predicted.to_dicts(),
            "broken": self.broken,
            "summary": self.summary(),
        }


def audit(records: Sequence[EpisodeRecord], outputs: int) -> Audit:
    """Audit the uncertainty of a run with S ``outputs`` from its records."""
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
        predicted=predicted,
        coverage=float(coverages.mean()),
        low=low,
        high=high,
        inflation=2.0 / float(norm.ppf(0.5 + 0.5 * inside)),
        sigma=float(np.median(predicted["sigma"])),
        ratio=predicted.select(col("ratio").median()).item(),
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
