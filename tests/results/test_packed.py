"""Records in little space: exact if they fit, else rounded, else thinned."""

import gzip
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.oracles.values import NO_ORACLE, OracleTable, OracleValue
from driftrl.records import Run
from driftrl.results.packed import (
    DIGITS,
    LOOKED_AT,
    PackedRecords,
    pack_records,
)
from driftrl.results.packed import _rounded as rounded
from driftrl.types import EpisodeRecord

ROW = EpisodeRecord(1, 2.0, 40, -5.0, None, False, 1, 0, 1.0, None, None, None, 1.5)


def make_run(seed: int, episodes: int) -> Run:
    rng = np.random.default_rng(seed)
    rows = [
        replace(
            ROW,
            episode=n,
            return_executed=float(rng.normal(-100.0, 10.0)),
            model_error=float(rng.lognormal()) if n > 1 else None,
            first_retained=max(1, n - 5),
            soft_reset=n == 3,
        )
        for n in range(1, episodes + 1)
    ]
    config = {"task": "pendulum", "method": "sombrl", "seed": seed, "episodes": 9}
    return Run(Path(f"s{seed}"), config, tuple(rows))


def unpacked(packed: PackedRecords) -> dict[str, list[np.ndarray]]:
    """The numbers of each column, run by run, as the page reads them."""
    numbers = np.frombuffer(gzip.decompress(packed.data), f"<f{packed.width}")
    ends = np.cumsum(packed.rows)[:-1]
    columns = numbers.reshape(len(packed.columns), sum(packed.rows))
    pairs = zip(packed.columns, columns, strict=True)
    return {name: np.split(column, ends) for name, column in pairs}


def test_what_fits_is_exact_and_empty_columns_are_left_out() -> None:
    runs = [make_run(0, 7), make_run(1, 4)]
    packed = pack_records(runs, NO_ORACLE, 10_000)
    assert packed.is_exact and packed.rows == (7, 4)
    found = unpacked(packed)
    for index, run in enumerate(runs):
        for name, columns in found.items():
            recorded = [getattr(row, name) for row in run.records]
            np.testing.assert_array_equal(columns[index], np.array(recorded, float))
    assert "wall_s" in found
    assert {"return_eval", "coverage", "temperature", "episode"}.isdisjoint(found)


def test_the_optimum_is_added_where_it_is_known() -> None:
    table = OracleTable((OracleValue(2.0, -3.5, 0.1),), "by hand")
    (column,) = unpacked(pack_records([make_run(0, 3)], table, 10_000))["optimum"]
    assert column.tolist() == [-3.5] * 3


def test_what_is_too_large_is_rounded_then_thinned() -> None:
    runs = [make_run(0, 400), make_run(1, 399)]
    exact = pack_records(runs, NO_ORACLE, 100_000)
    rounded = pack_records(runs, NO_ORACLE, len(exact.data) - 1)
    assert (exact.width, exact.every) == (8, 1)
    assert (rounded.width, rounded.every) == (4, 1)
    assert set(rounded.columns) < set(LOOKED_AT)
    thinned = pack_records(runs, NO_ORACLE, len(rounded.data) // 3)
    assert thinned.every in (3, 4)
    assert len(thinned.data) <= len(rounded.data) // 3
    every, whole = thinned.every, unpacked(exact)
    for name, columns in unpacked(thinned).items():
        for index, kept in enumerate(columns):
            recorded = whole[name][index][::-1][::every][::-1]  # the last is kept
            np.testing.assert_allclose(kept, recorded, rtol=0.5 * 10.0 ** -(DIGITS - 1))
            assert thinned.rows[index] == len(recorded)


def test_a_run_keeps_an_episode_however_little_room_there_is() -> None:
    packed = pack_records([make_run(0, 50), make_run(1, 1)], NO_ORACLE, 1)
    assert packed.rows == (1, 1)
    last = unpacked(packed)["first_retained"]
    assert [column.tolist() for column in last] == [[45.0], [1.0]]


def test_the_same_records_give_the_same_bytes() -> None:
    runs = [make_run(0, 30)]
    first, second = (pack_records(runs, NO_ORACLE, 10_000).data for _ in range(2))
    assert first == second


@given(st.floats(-1e30, 1e30).filter(lambda value: value == 0 or abs(value) > 1e-30))
def test_rounding_leaves_four_digits(value: float) -> None:
    # Of fourteen bits, the nearest: half of the last one, as a share of the first.
    nearest = 1.001 * 2.0**-14
    assert nearest < 0.5 * 10.0 ** -(DIGITS - 1)
    (found,) = rounded(np.array([value]))
    assert found == pytest.approx(value, rel=nearest, abs=0.0)


@pytest.mark.parametrize("value", [0.0, 1.0, 999.0, 16_383.0, -5.0, 0.5])
def test_whole_numbers_survive_rounding(value: float) -> None:
    assert rounded(np.array([value]))[0] == value


def test_nothing_is_rounded_to_something() -> None:
    assert np.isnan(rounded(np.array([np.nan]))[0])
