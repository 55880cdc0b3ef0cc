"""The verdict on a controller: by hand, in simulation, and as an exit status."""

from math import comb
from pathlib import Path

import numpy as np
import pytest
from tests.factories import record, write_run

from driftrl.cli.main import main
from driftrl.training.health import NEWEST, health
from driftrl.types import EpisodeRecord

PAST = [10.0 + 0.1 * n for n in range(20)]


def rows(returns: list[float], **changes: object) -> list[EpisodeRecord]:
    """Return rows of these returns; changes are those of the newest five."""
    usual = {"model_error": 1.0, "coverage": 0.95}
    first = len(returns) - NEWEST
    return [
        record(n + 1, return_eval=r, **(usual | (changes if n >= first else {})))
        for n, r in enumerate(returns)
    ]


def test_a_drop_by_hand() -> None:
    found = health(rows([*PAST, 9.0, 8.0, 7.0, 6.0, 5.0]))
    assert found.verdict == "degraded" and not found.works
    # The newest five are the five smallest of twenty-five.
    assert found.p_value == pytest.approx(1 / comb(25, 5))
    assert found.newest_return == 7.0
    assert found.past_return == pytest.approx(10.95)
    assert health(rows([*PAST, 13.0, 8.0, 7.0, 6.0, 5.0])).works


def test_ties_hide_no_drop() -> None:
    """A dead controller returns the same each time; at a tie the newest are better."""
    for past in (PAST, [10.0] * 20):
        found = health(rows([*past, *[-9.0] * 5]))
        assert found.p_value == pytest.approx(1 / comb(25, 5)) and not found.works
    same = health(rows([10.0] * 25))
    assert same.p_value == pytest.approx(1.0) and same.works
    # With the fewest episodes too, the worst returns are found.
    assert not health(rows([*PAST[:14], *[-9.0] * 5])).works


def test_a_change_is_no_failure() -> None:
    same = [*PAST, *PAST[:NEWEST]]
    assert health(rows(same, coverage=0.95)).verdict == "healthy"
    assert health(rows(same, coverage=0.7)).verdict == "changed"
    assert health(rows(same, model_error=9.0)).verdict == "changed"
    found = health(rows(same, last_change=23))
    assert (found.verdict, found.since_change) == ("changed", 3)
    assert health(rows(same, model_error=None)).verdict == "changed"
    assert health(rows(PAST[:18])).verdict == "too early"


def test_false_alarms_are_rare() -> None:
    """Of heavy tails too: the test is of ranks."""
    draw = np.random.default_rng(0).standard_cauchy
    checks = [health(rows(draw(size=25).tolist())) for _ in range(500)]
    assert sum(not check.works for check in checks) <= 1  # of 0.05 expected
    values = np.array([check.p_value for check in checks])
    shares = [(values < 0.1).mean(), values.mean()]
    np.testing.assert_allclose(shares, [0.1, 0.5], atol=0.05)


def test_the_exit_status_is_the_verdict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_run(tmp_path / "good", rows([*PAST, *PAST[:NEWEST]]))
    write_run(tmp_path / "bad", rows([*PAST, 1.0, 2.0, 3.0, 4.0, 5.0]))
    assert main(["health", str(tmp_path / "good")]) == 0
    assert main(["health", str(tmp_path / "bad"), "--json"]) == 1
    assert '"verdict": "degraded"' in capsys.readouterr().out
    assert main(["health", str(tmp_path / "nowhere")]) == 2
