"""The rows of many runs as one table, for people who bring their own tools."""

import io
from collections.abc import Sequence
from pathlib import Path

import polars

from driftrl.errors import require
from driftrl.io import write_atomically
from driftrl.records import COLUMNS, Run

_POLARS_TYPE = {int: polars.Int64, bool: polars.Boolean}
_SCHEMA = {
    "task": polars.String,
    "method": polars.String,
    "seed": polars.Int64,
    **{name: _POLARS_TYPE.get(kind, polars.Float64) for name, kind in COLUMNS.items()},
}


def records_table(runs: Sequence[Run]) -> polars.DataFrame:
    """Return one line an episode of every run: task, method, seed, then the record."""
    rows = [
        (run.task, run.method, run.seed, *(getattr(record, name) for name in COLUMNS))
        for run in runs
        for record in run.records
    ]
    return polars.DataFrame(rows, schema=_SCHEMA, orient="row")


def csv_text(table: polars.DataFrame) -> str:
    """Return the table as comma-separated values with a header; null is empty."""
    return table.write_csv()


def write_table(table: polars.DataFrame, path: str | Path) -> Path:
    """Write the table atomically, as CSV or Parquet by the ending of ``path``."""
    path = Path(path)
    require(
        path.suffix in (".csv", ".parquet"),
        f"Cannot write a table to {path}: its name must end in .csv or .parquet.",
    )
    buffer = io.BytesIO()
    if path.suffix == ".csv":
        table.write_csv(buffer)
    else:
        table.write_parquet(buffer)
    write_atomically(path, buffer.getvalue())
    return path
