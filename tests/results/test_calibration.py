"""Coverage from verdicts, with Wilson's interval against numbers from elsewhere."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from driftrl.errors import CorruptFile, InputError
from driftrl.results.calibration import (
    Verdict,
    coverage_lines,
    coverage_table,
    is_calibration,
    rate_interval,
    read_calibration,
)


def verdict(draw: int, covered: bool, **changes: Any) -> Verdict:
    settings: dict[str, Any] = {
        "drifting": True,
        "scheme": "window",
        "bound": "two_sigma",
        "share": 1.0 if covered else 0.5,
        "half_width": 0.25,
        "first_failure": None if covered else 3,
        **changes,
    }
    return Verdict(draw=draw, covered=covered, **settings)


@given(st.integers(1, 400), st.data())
def test_wilson_against_scipy(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    found = rate_interval(successes, trials)
    other = binomtest(successes, trials).proportion_ci(method="wilson")
    assert float(found.low) == pytest.approx(other.low, abs=1e-9)
    assert float(found.high) == pytest.approx(other.high, abs=1e-9)


def test_wilson_refuses_impossible_counts() -> None:
    with pytest.raises(InputError, match="received 3 of 2"):
        rate_interval(3, 2)
    with pytest.raises(InputError, match="received 0 of 0"):
        rate_interval(0, 0)


def test_table_counts_and_orders() -> None:
    rows = [
        verdict(0, True, drifting=False),
        verdict(0, True),
        verdict(1, False),
        verdict(0, False, scheme="keep_all"),
    ]
    table = coverage_table(rows)
    assert [(c.drifting, c.scheme, c.draws, c.covered) for c in table] == [
        (True, "keep_all", 1, 0),
        (True, "window", 2, 1),
        (False, "window", 1, 1),
    ]
    assert (table[1].rate, table[1].share, table[1].half_width) == (0.5, 0.75, 0.25)
    assert coverage_lines(table)[1] == [
        *("drift", "window", "two_sigma"),
        *("0.500", "0.095 to 0.905", "0.7500", "0.25"),
    ]


def write(directory: Path, name: str, rows: list[Verdict]) -> None:
    (directory / "draws").mkdir(exist_ok=True)
    text = json.dumps([asdict(row) for row in rows])
    (directory / "draws" / name).write_text(text)


def test_records_are_read_and_repeated_draws_count_once(tmp_path: Path) -> None:
    assert not is_calibration(tmp_path)
    with pytest.raises(InputError, match="no calibration records in"):
        read_calibration(tmp_path)
    (tmp_path / "settings.json").write_text('{"seed": 1}')
    (tmp_path / "draws").mkdir()
    with pytest.raises(InputError, match="No draw is finished in"):
        read_calibration(tmp_path)
    write(tmp_path, "0-1.json", [verdict(0, True), verdict(1, False)])
    write(tmp_path, "0-2.json", [verdict(0, True), verdict(1, False), verdict(2, True)])
    records = read_calibration(tmp_path)
    assert [one.draw for one in records.verdicts] == [0, 1, 2]
    assert records.settings == {"seed": 1} and records.example is None
    (tmp_path / "draws" / "3.json").write_text("[{")
    with pytest.raises(CorruptFile, match="3.json is not valid JSON"):
        read_calibration(tmp_path)
