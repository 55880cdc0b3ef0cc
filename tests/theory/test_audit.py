"""The audit of a run's uncertainty, on records whose story is known."""

import json
import math
from typing import Any

import pytest
from tests.factories import record

from driftrl.errors import InputError
from driftrl.theory.audit import audit
from driftrl.types import EpisodeRecord


def row(episode: int, coverage: float | None, **changes: Any) -> EpisodeRecord:
    known = {"model_error": 0.01, "epistemic_std": 0.02} if coverage is not None else {}
    return record(episode, coverage=coverage, **{**known, **changes})


def test_calibrated_run() -> None:
    found = audit([row(n, 0.95 + 0.01 * (n % 2)) for n in range(1, 21)], 4)
    assert found.coverage == pytest.approx(0.955)
    # Alternating values resemble their neighbours less than chance: no correction.
    half = 1.96 * math.sqrt(20 * 0.005**2 / 19 / 20)
    assert (found.low, found.high) == pytest.approx((0.955 - half, 0.955 + half))
    assert found.broken == 0
    assert found.sigma == pytest.approx(0.01)  # ‖σ‖ = 0.02 over four outputs
    assert found.ratio == pytest.approx(1.0)


def test_broken_episodes() -> None:
    found = audit([row(1, None), row(2, 0.5), row(3, 0.96)], 4)
    assert found.predicted["broken"].to_list() == [True, False]
    document = json.loads(json.dumps(found.document(), allow_nan=False))
    assert [one["broken"] for one in document["predicted"]] == [True, False]


def test_inflation_of_an_overconfident_run() -> None:
    found = audit([row(n, 0.5) for n in range(1, 9)], 4)
    assert found.broken == 8
    # Half of a Gaussian is within ±0.6745 σ: 2/0.6745.
    assert found.inflation == pytest.approx(2.9652, abs=1e-4)


def test_run_without_uncertainty_is_refused() -> None:
    with pytest.raises(InputError):
        audit([row(1, None), row(2, 0.9, epistemic_std=None)], 4)
