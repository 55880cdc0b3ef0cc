"""The audit of a run's uncertainty, on records whose story is known."""

import math
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.errors import InputError
from driftrl.results.audit import BROKEN, PROMISED, audit
from driftrl.results.audit_wording import explain
from driftrl.results.statistics import wilson_interval
from driftrl.types import EpisodeRecord


def row(
    episode: int,
    coverage: float | None,
    *,
    first: int = 1,
    error: float | None = 0.01,
    sigma: float | None = 0.02,
    theta: float = 2.0,
) -> EpisodeRecord:
    return EpisodeRecord(
        episode=episode,
        theta=theta,
        steps=40,
        return_executed=-1.0,
        return_eval=None,
        terminated=False,
        first_retained=first,
        transitions=40 * (episode - first),
        optimism=1.0,
        model_error=error,
        coverage=coverage,
        epistemic_std=sigma,
        wall_s=1.0,
    )


def weakened(firsts: Sequence[int], after: Sequence[float]) -> list[EpisodeRecord]:
    """Return ten calm episodes at θ = 2 and then some at θ = 1."""
    calm = [row(1, None, error=None, sigma=None)]
    calm += [row(n, 0.96) for n in range(2, 11)]
    broken = zip(firsts, after, strict=True)
    return calm + [
        row(n, coverage, first=first, error=0.2 if coverage < 0.5 else 0.08, theta=1.0)
        for n, (first, coverage) in enumerate(broken, start=11)
    ]


def test_promise_and_limit_of_two_sigma() -> None:
    assert pytest.approx(0.9545, abs=1e-4) == PROMISED
    assert pytest.approx(0.8180, abs=1e-4) == BROKEN


def test_calibrated_run_is_calibrated() -> None:
    found = audit([row(n, 0.95 + 0.01 * (n % 2)) for n in range(1, 21)], 4)
    assert found.coverage == pytest.approx(0.955)
    # Alternating values resemble their neighbours less than chance: no correction.
    half = 1.96 * math.sqrt(20 * 0.005**2 / 19 / 20)
    assert (found.low, found.high) == pytest.approx((0.955 - half, 0.955 + half))
    assert (found.breaks, found.broken, found.staleness) == ((), 0, None)
    assert found.sharpness == pytest.approx(0.01)  # ‖σ‖ = 0.02 over four outputs
    assert found.ratio == pytest.approx(1.0)
    assert found.judged[0].low < 0.96 < found.judged[0].high
    assert explain(found)[0].endswith("It was calibrated, and never broke.")


def test_break_that_is_never_forgotten() -> None:
    found = audit(weakened([1] * 6, [0.2, 0.3, 0.4, 0.9, 0.95, 0.95]), 4)
    (one,) = found.breaks
    assert (one.first, one.last, one.lowest, one.span) == (11, 13, 0.2, 10)
    assert (one.error_before, one.error, one.sigma) == (0.01, 0.2, 0.01)
    assert (one.theta_oldest, one.theta, one.follows_change) == (2.0, 1.0, True)
    assert (one.recovered, one.oldest_then) == (14, 1)
    assert one.error_grew and not one.sigma_grew
    assert found.staleness is not None
    assert (found.staleness.stale_episodes, found.staleness.fresh_episodes) == (6, 9)
    verdict, told, stale = explain(found)
    assert "It broke in 3 of 15 episodes." in verdict
    assert told == (
        "Episodes 11 to 13: coverage fell to 20%, the error rose from 0.01 to 0.2, "
        "while σ stayed at 0.01. The memory reached back to episode 1, at θ = 2; this "
        "one ran at 1: the data were stale. From episode 14 on σ was wide enough "
        "again, but with an error 8 times that of before and data from episode 1 on "
        "still in memory: the contradiction passes for noise."
    )
    assert stale.endswith("Stale data cost calibration: forgetting sooner would help.")


def test_break_that_ends_when_old_data_are_forgotten() -> None:
    found = audit(weakened([9, 10, 11], [0.2, 0.3, 0.95]), 4)
    assert found.breaks[0].oldest_then == 11
    assert explain(found)[1].endswith(
        "It was right again at episode 13, when everything from before the break had "
        "been forgotten."
    )


def test_break_at_the_end_and_one_without_a_change() -> None:
    found = audit(weakened([1], [0.2]), 4)
    assert explain(found)[1].endswith("It had not recovered when the records end.")
    early = audit([row(1, None), row(2, 0.5), *(row(n, 0.96) for n in range(3, 9))], 4)
    assert explain(early)[1] == (
        "Episode 2: coverage fell to 50%. The memory held one episode and θ had not "
        "changed: too little data. It was right again at episode 3."
    )
    again = audit([*(row(n, 0.96) for n in range(1, 6)), row(6, 0.6, error=0.05)], 4)
    assert "The memory held 5 episodes and θ had not changed" in explain(again)[1]


def test_unknown_theta_claims_nothing() -> None:
    rows = [row(n, 0.96, theta=math.nan) for n in range(1, 9)]
    rows.append(row(9, 0.3, error=0.3, theta=math.nan))
    found = audit(rows, 4)
    assert found.staleness is None and found.breaks[0].follows_change is None
    assert "reached back to episode 1; θ is not known." in explain(found)[1]


def test_overconfident_throughout() -> None:
    found = audit([row(n, 0.5) for n in range(1, 9)], 4)
    assert found.always_broken and found.broken == 8
    # Half of a Gaussian is within ±0.6745 σ: 2/0.6745.
    assert found.inflation == pytest.approx(2.9652, abs=1e-4)
    sentences = explain(found)
    assert len(sentences) == 1
    assert "σ would have to be about 3.0 times as wide." in sentences[0]


def test_many_breaks_are_counted() -> None:
    rows = [row(n, 0.3 if n % 3 == 0 else 0.96) for n in range(1, 31)]
    sentences = explain(audit(rows, 4))
    assert len(sentences) == 8 and sentences[-1] == "It broke 4 more times."


def test_without_uncertainty_there_is_nothing_to_audit() -> None:
    rows = [row(1, None, error=None, sigma=None), row(2, 0.9, sigma=None)]
    with pytest.raises(InputError, match="None of the 2 recorded episodes has a cov"):
        audit(rows, 4)


@given(
    share=st.floats(0.0, 1.0), count=st.integers(1, 1000), level=st.floats(0.5, 0.99)
)
def test_wilson_interval_solves_its_equation(
    share: float, count: int, level: float
) -> None:
    """Its ends are the shares q for which |share - q| = z·√(q(1 - q)/n)."""
    low, high = wilson_interval(share, count, level)
    assert 0 <= low <= share + 1e-12 and share - 1e-12 <= high <= 1
    z = 2**0.5 * _inverse_error_function(level)
    for end in (low, high):
        if 1e-9 < end < 1 - 1e-9:
            limit = z * math.sqrt(end * (1 - end) / count)
            assert abs(share - end) == pytest.approx(limit, rel=1e-6, abs=1e-9)


def _inverse_error_function(value: float) -> float:
    from scipy.special import erfinv

    return float(erfinv(value))
