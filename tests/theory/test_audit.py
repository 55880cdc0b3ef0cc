"""The audit of a run's uncertainty, on records whose story is known."""

import json
import math
from collections.abc import Sequence
from typing import Any

import pytest
from tests.factories import record

from driftrl.errors import InputError
from driftrl.theory.audit import audit
from driftrl.types import EpisodeRecord


def row(episode: int, coverage: float | None, **changes: Any) -> EpisodeRecord:
    known = {"model_error": 0.01, "epistemic_std": 0.02} if coverage is not None else {}
    return record(episode, coverage=coverage, **{**known, **changes})


def weakened(firsts: Sequence[int], after: Sequence[float]) -> list[EpisodeRecord]:
    """Return ten calm episodes at θ = 2 and then some at θ = 1."""
    calm = [row(1, None), *(row(n, 0.96) for n in range(2, 11))]
    return calm + [
        row(
            n,
            coverage,
            first_retained=first,
            model_error=0.2 if coverage < 0.5 else 0.08,
            theta=1.0,
        )
        for n, (first, coverage) in enumerate(zip(firsts, after, strict=True), start=11)
    ]


def test_calibrated_run() -> None:
    found = audit([row(n, 0.95 + 0.01 * (n % 2)) for n in range(1, 21)], 4)
    assert found.coverage == pytest.approx(0.955)
    # Alternating values resemble their neighbours less than chance: no correction.
    half = 1.96 * math.sqrt(20 * 0.005**2 / 19 / 20)
    assert (found.low, found.high) == pytest.approx((0.955 - half, 0.955 + half))
    assert (len(found.breaks), found.broken) == (0, 0)
    assert found.sigma == pytest.approx(0.01)  # ‖σ‖ = 0.02 over four outputs
    assert found.ratio == pytest.approx(1.0)


def test_break_by_stale_data() -> None:
    found = audit(weakened([1] * 6, [0.2, 0.3, 0.4, 0.9, 0.95, 0.95]), 4)
    assert found.broken == 3
    (one,) = found.breaks.to_dicts()
    assert one == {
        **{"first": 11, "last": 13, "coverage": 0.2, "oldest": 1, "stale": True},
        **{"error_before": 0.01, "error": 0.2, "sigma_before": 0.01, "sigma": 0.01},
        "recovered": 14,
    }
    assert len(found.summary()) == 2
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert [one["broken"] for one in document["predicted"]].count(True) == 3


def test_break_at_the_end_and_break_without_a_change() -> None:
    assert audit(weakened([1], [0.2]), 4).breaks["recovered"].to_list() == [None]
    rows = [row(1, None), row(2, 0.5), *(row(n, 0.96) for n in range(3, 9))]
    (early,) = audit(rows, 4).breaks.to_dicts()
    assert (early["first"], early["recovered"], early["stale"]) == (2, 3, False)
    assert early["error_before"] is None


def test_unknown_theta_gives_no_cause() -> None:
    rows = [row(n, 0.96, theta=math.nan) for n in range(1, 9)]
    found = audit([*rows, row(9, 0.3, model_error=0.3, theta=math.nan)], 4)
    assert found.breaks["stale"].to_list() == [None]


def test_inflation_of_an_overconfident_run() -> None:
    found = audit([row(n, 0.5) for n in range(1, 9)], 4)
    assert found.broken == 8
    # Half of a Gaussian is within ±0.6745 σ: 2/0.6745.
    assert found.inflation == pytest.approx(2.9652, abs=1e-4)


def test_run_without_uncertainty_is_refused() -> None:
    with pytest.raises(InputError):
        audit([row(1, None), row(2, 0.9, epistemic_std=None)], 4)
