"""The table of all rows, and its way through CSV and Parquet."""

import os
from pathlib import Path

import polars
import pytest

from driftrl.errors import InputError
from driftrl.records import COLUMNS, Run
from driftrl.results.table import csv_text, records_table, write_table
from driftrl.types import EpisodeRecord


def make_run(seed: int, episodes: int) -> Run:
    rows = [
        EpisodeRecord(
            episode=n,
            theta=2.0 / n,
            steps=40,
            return_executed=-0.1 * n,
            return_eval=None,
            terminated=n == 2,
            first_retained=1,
            transitions=0,
            optimism=1.0,
            model_error=None if n == 1 else 0.3,
            coverage=None,
            epistemic_std=None,
            wall_s=0.5,
        )
        for n in range(1, episodes + 1)
    ]
    config = {"task": "pendulum", "method": "sombrl", "seed": seed, "episodes": 3}
    return Run(Path(f"s{seed}"), config, tuple(rows))


@pytest.fixture
def table() -> polars.DataFrame:
    return records_table([make_run(0, 3), make_run(7, 2), make_run(8, 0)])


def test_one_line_an_episode_with_all_columns(table: polars.DataFrame) -> None:
    assert table.columns == ["task", "method", "seed", *COLUMNS]
    assert table["seed"].to_list() == [0, 0, 0, 7, 7]
    assert table["episode"].to_list() == [1, 2, 3, 1, 2]
    assert table["theta"].to_list() == [2.0, 1.0, 2.0 / 3, 2.0, 1.0]
    assert table["model_error"].to_list() == [None, 0.3, 0.3, None, 0.3]
    assert table["terminated"].to_list() == [False, True, False, False, True]


def test_types_do_not_depend_on_the_rows(table: polars.DataFrame) -> None:
    assert records_table([]).schema == table.schema
    assert table.schema["coverage"] == polars.Float64


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet"])
def test_files_read_back_equal(
    tmp_path: Path, table: polars.DataFrame, name: str
) -> None:
    path = write_table(table, tmp_path / name)
    read = polars.read_csv if path.suffix == ".csv" else polars.read_parquet
    back = read(path)
    assert back.cast(dict(table.schema)).equals(table)  # type: ignore[arg-type]
    assert os.listdir(tmp_path) == [name]


def test_csv_has_a_header_and_empty_cells_for_null(table: polars.DataFrame) -> None:
    lines = csv_text(table).splitlines()
    assert lines[0].startswith("task,method,seed,episode,theta,steps,return_executed")
    assert lines[1] == (
        "pendulum,sombrl,0,1,2.0,40,-0.1,,false,1,0,1.0,,,,0.5,false,,,,,,"
    )


def test_other_endings_are_refused(tmp_path: Path, table: polars.DataFrame) -> None:
    with pytest.raises(InputError, match=r"must end in \.csv or \.parquet"):
        write_table(table, tmp_path / "rows.xlsx")
