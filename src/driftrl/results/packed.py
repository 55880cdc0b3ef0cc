"""The records of many runs in little space, so that one page can carry them all.

Numbers are kept column by column, run after run, and compressed.  A small study is
kept exactly.  A large one is cut down until it fits: first to the columns that are
looked at run by run, rounded, then to every second, third, … episode.
"""

import gzip
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from driftrl.oracles.values import OracleTable
from driftrl.records import COLUMNS, Run

OPTIMUM = "optimum"
"""Column of J*(θ_n), which is no part of a record and is added where it is known."""
LOOKED_AT = (
    *("theta", "return_executed", "return_eval", "first_retained", "optimism"),
    *("temperature", "model_error", "coverage", "soft_reset"),
)
"""Columns of a record that a page draws of every run."""
DIGITS = 4
"""Significant digits that rounding leaves, at the least."""
# Its place tells the episode.
_RECORDED = tuple(name for name in COLUMNS if name != "episode")
_ROUNDED_BITS = 10  # of the 23 that follow a single-precision number's first
_MOST_RATIO = 3  # by which compression is hoped to shrink numbers; it is tried below
_SAMPLED_RUNS = 16
_LEVEL = 6


@dataclass(frozen=True)
class PackedRecords:
    """Columns of numbers of several runs, compressed, NaN where there is none."""

    data: bytes
    """All rows of the first column, run after run, then those of the next, …: floats,
    the lowest byte first, compressed by gzip."""
    columns: tuple[str, ...]
    rows: tuple[int, ...]
    """Number of rows that are kept of each run."""
    width: int
    """Bytes of a number: 8 if it is exact, 4 if it is rounded."""
    every: int
    """Of how many episodes one is kept; the last of a run always is."""

    @property
    def is_exact(self) -> bool:
        """Whether every recorded number is here as it was recorded."""
        return self.width == 8 and self.every == 1


def pack_records(runs: Sequence[Run], table: OracleTable, limit: int) -> PackedRecords:
    """Return the records of runs, and J*(θ_n) if it is known, in ``limit`` bytes.

    The limit may be exceeded by a little, for a run keeps an episode at the least.
    """
    total = sum(len(run.records) for run in runs)
    if 8 * len(_RECORDED) * total <= _MOST_RATIO * limit:
        exact = _pack(runs, table, _RECORDED, 8, 1)
        if len(exact.data) <= limit:
            return exact
    # Noise does not compress, so that a few runs tell the size of all.
    some = runs[:: max(1, len(runs) // _SAMPLED_RUNS)]
    sampled = sum(len(run.records) for run in some)
    size = len(_pack(some, table, LOOKED_AT, 4, 1).data) * total / max(1, sampled)
    every = max(1, math.ceil(size / limit))
    while True:
        packed = _pack(runs, table, LOOKED_AT, 4, every)
        longest = max(packed.rows, default=0)
        if len(packed.data) <= limit or longest <= 1:
            return packed
        every += 1


def _pack(
    runs: Sequence[Run],
    table: OracleTable,
    names: tuple[str, ...],
    width: int,
    every: int,
) -> PackedRecords:
    kept = [run.records[(len(run.records) - 1) % every :: every] for run in runs]
    records = [record for rows in kept for record in rows]
    columns = {
        # NumPy reads None as NaN when it is told to make floats.
        name: np.array([getattr(record, name) for record in records], dtype=float)
        for name in names
    }
    if table.known:
        columns[OPTIMUM] = table.column("value", columns["theta"])
    columns = {
        name: values for name, values in columns.items() if np.isfinite(values).any()
    }
    numbers = np.concatenate([np.empty(0), *columns.values()])
    stored = numbers.astype("<f8") if width == 8 else _rounded(numbers)
    return PackedRecords(
        data=gzip.compress(stored.tobytes(), _LEVEL, mtime=0),
        columns=tuple(columns),
        rows=tuple(len(rows) for rows in kept),
        width=width,
        every=every,
    )


def _rounded(numbers: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
    """Return single-precision numbers of which only the first bits are not zero.

    Whole numbers to 16,384 stay what they are; zeros at the end compress well.
    """
    bits = numbers.astype("<f4").view("<u4")
    half = np.uint32(1 << (_ROUNDED_BITS - 1))
    # A bit pattern that is all ones in the exponent is NaN: it has no digits to round.
    whole = np.where(np.isfinite(numbers), bits + half, bits)
    return (whole & ~np.uint32((1 << _ROUNDED_BITS) - 1)).view("<f4")
