"""The comparisons of a study as one JSON document, for programs that ask."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from driftrl.results.comparison import Comparison
from driftrl.results.regret import PairedDifference, StudyRegret
from driftrl.results.statistics import Estimate


def comparison_document(comparison: Comparison) -> dict[str, Any]:
    """Return the comparison on every problem as plain data for JSON."""
    return {
        "problems": [regret_document(study) for study in comparison.studies],
        "not_started": list(comparison.waiting),
        "notes": list(comparison.notes),
    }


def regret_document(study: StudyRegret) -> dict[str, Any]:
    """Return the comparison on a problem as plain data; what is unknown is None."""
    differences = {one.method: one for one in study.differences}
    before = {one.method: one for one in study.differences_before_change}
    return {
        "problem": study.problem,
        "task": study.task,
        "episodes": study.episodes,
        "baseline": study.baseline,
        "oracle": study.table.provenance,
        "gap_episodes": study.gaps[0].last,
        "methods": {
            one.method: {
                "seeds": list(one.seeds),
                "mean": _numbers(one.mean),
                "standard_error": _numbers(one.stderr),
                "final_regret": _estimate(one.final),
                "minus_baseline": _difference(differences.get(one.method)),
                "minus_baseline_before_change": _difference(before.get(one.method)),
                "gap": _estimate(gap.estimate),
                "gap_outside_resets": _estimate(outside.estimate),
            }
            for one, gap, outside in zip(
                study.methods, study.gaps, study.gaps_outside_resets, strict=True
            )
        },
        "warnings": list(study.warnings),
    }


def _difference(difference: PairedDifference | None) -> dict[str, Any] | None:
    if difference is None:
        return None
    return {
        "episode": difference.episode,
        "seeds": list(difference.seeds),
        **_known_estimate(difference.estimate),
    }


def _estimate(estimate: Estimate | None) -> dict[str, Any] | None:
    return None if estimate is None else _known_estimate(estimate)


def _known_estimate(estimate: Estimate) -> dict[str, Any]:
    return {
        "values": _numbers(estimate.values),
        "mean": estimate.mean,
        "standard_error": _numbers(estimate.stderr),
        "t_interval": _numbers([estimate.student.low, estimate.student.high]),
        "bootstrap_interval": _numbers(
            [estimate.bootstrap.low, estimate.bootstrap.high]
        ),
    }


def _numbers(values: ArrayLike) -> Any:
    """Return floats, nested as in ``values``, with None for NaN."""
    array = np.asarray(values, dtype=float).astype(object)
    array[array != array] = None
    return array.tolist()
