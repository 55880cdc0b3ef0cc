"""Rows survive the trip to disk, torn files are repaired, damage is named."""

import json
import math
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl import records
from driftrl.errors import CorruptFile, InputError
from driftrl.types import EpisodeRecord
from factories import record, run_of, write_run

finite = st.floats(allow_nan=False, allow_infinity=False)
LINE = records.encode_record(record(2, return_executed=-123.456, coverage=0.95))


def write(path: Path, rows: list[EpisodeRecord]) -> Path:
    with records.RecordWriter(path) as writer:
        for row in rows:
            writer.append(row)
    return path


def unsummed(line: str) -> dict[str, Any]:
    """Return a row as version 0.1.0 wrote it, without a checksum."""
    row = json.loads(line)
    del row["sum"]
    return row


VALUES = {
    bool: st.booleans(),
    int: st.integers(1, 2**53),
    int | None: st.none() | st.integers(1, 2**53),
    float: finite,
    float | None: st.none() | finite,
    tuple[float, ...] | None: st.none() | st.lists(finite).map(tuple),
}


@given(
    st.fixed_dictionaries(
        {
            name: VALUES[kind]
            for name, kind in records.COLUMNS.items()
            if name != "episode"
        }
    )
)
def test_every_finite_record_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory, columns: dict[str, Any]
) -> None:
    row = record(1, **columns)
    path = write(tmp_path_factory.mktemp("run") / "episodes.jsonl", [row])
    assert records.read_records(path) == [row]


def test_a_row_is_one_line_with_every_column_in_order(tmp_path: Path) -> None:
    rows = [record(1, theta=0.1 + 0.2), record(2)]
    path = write(tmp_path / "episodes.jsonl", rows)
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    usual = [name for name in records.COLUMNS if name not in records.OPTIONAL]
    assert list(json.loads(lines[0])) == [*usual, "sum"]
    full = json.loads(records.encode_record(record(1, violations=0, reach=0.0)))
    assert list(full) == [*records.COLUMNS, "sum"]
    assert '"theta": 0.30000000000000004' in lines[0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say_is_written_as_null(tmp_path: Path, value: float) -> None:
    row = record(1, model_error=value, return_executed=value)
    assert json.loads(records.encode_record(row))["model_error"] is None
    read = records.read_records(write(tmp_path / "episodes.jsonl", [row]))[0]
    assert read.model_error is None
    assert math.isnan(read.return_executed)


def test_an_unterminated_last_line_is_dropped_by_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path / "episodes.jsonl", [record(1), record(2)])
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for cut in range(second, len(whole), 7):
        path.write_bytes(whole[:cut])
        assert records.read_records(path) == [record(1)]


def test_a_writer_removes_the_torn_line_before_it_appends(tmp_path: Path) -> None:
    path = write(tmp_path / "episodes.jsonl", [record(1)])
    with path.open("ab") as file:
        file.write(LINE.encode()[:17])
    write(path, [record(2), record(3)])
    assert records.read_records(path) == [record(1), record(2), record(3)]


def test_a_full_disk_leaves_no_part_of_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "episodes.jsonl"
    real_write = os.write
    calls = []

    def write_a_little(file: int, data: memoryview) -> int:
        calls.append(file)
        if len(calls) > 1:
            raise OSError(28, "No space left on device")
        return real_write(file, data[:10])

    with records.RecordWriter(path) as writer:
        writer.append(record(1))
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_a_little)
            with pytest.raises(OSError, match="No space left"):
                writer.append(record(2))
        assert path.read_bytes() == before
        writer.append(record(2))
    assert records.read_records(path) == [record(1), record(2)]


def changed(**columns: Any) -> bytes:
    return json.dumps({**unsummed(LINE), **columns}).encode()


@pytest.mark.parametrize(
    "damage",
    [
        b"{oops",
        b"\xff\xfe",
        b"",
        b"[1, 2]",
        b'{"episode": 2}',
        b"[" * 100_000,
        b'{"episode": 2, "extra": ' + b"[" * 500 + b"]" * 500 + b', "sum": "0"}',
        changed(episode=7),
        changed(episode=True),
        changed(return_executed="x"),
        changed(return_executed=10**400),
        changed(return_executed=1.5).replace(b"1.5", b"NaN"),
        changed(return_executed=1.5).replace(b"1.5", b"1e400"),
        changed(steps=40.5),
        changed(steps=0),
        changed(transitions=-1),
        changed(first_retained=0),
        changed(terminated=0),
        changed(soft_reset=None),
        changed(coverage=[0.5]),
        LINE.replace("-123.456", "-123.457").encode(),
        LINE.replace("0.95", "null").encode(),
    ],
)
def test_damage_is_reported_with_file_and_line(tmp_path: Path, damage: bytes) -> None:
    path = tmp_path / "episodes.jsonl"
    first, third = records.encode_record(record(1)), records.encode_record(record(3))
    path.write_bytes(first.encode() + b"\n" + damage + b"\n" + third.encode() + b"\n")
    with pytest.raises(CorruptFile, match="Line 2") as caught:
        records.read_records(path)
    assert len(str(caught.value)) < 500
    readable, error = records.readable_records(path)
    assert readable == [record(1)]
    assert isinstance(error, CorruptFile)


def test_records_of_other_versions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    later = ("predictive_loss", "soft_reset", "temperature", "entropy", "q")
    old = {k: v for k, v in unsummed(LINE).items() if k not in (*later, "coverage")}
    path.write_text(json.dumps({**old, "episode": 1, "alpha": 0.2}) + "\n")
    expected = record(1, return_executed=-123.456, transitions=40)
    assert records.read_records(path) == [expected]


@given(total=st.integers(0, 6), data=st.data())
def test_truncation_keeps_the_first_rows_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, total: int, data: st.DataObject
) -> None:
    kept = data.draw(st.integers(0, total))
    path = tmp_path_factory.mktemp("run") / "episodes.jsonl"
    write(path, [record(n) for n in range(1, total + 1)])
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("ab") as file:
        file.write(b'{"episode": 9')
    records.truncate_records(path, kept)
    assert path.read_bytes() == b"".join(lines[:kept])
    assert os.listdir(path.parent) == [path.name]
    inode = path.stat().st_ino
    records.truncate_records(path, kept)  # nothing to do: not rewritten
    assert path.stat().st_ino == inode


def test_truncation_refuses_to_invent_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "episodes.jsonl", [record(1)])
    with pytest.raises(CorruptFile):
        records.truncate_records(path, 2)


def test_a_run_knows_what_it_is(tmp_path: Path) -> None:
    rows = [record(1), record(2)]
    model = {"noise_std": 0.01}
    settings = {"method": "sw-ombrl", "seed": 4, "episodes": 3, "model": model}
    (run,) = records.load_runs(write_run(tmp_path / "anything", rows, **settings))
    assert (run.task, run.method, run.seed) == ("pendulum", "sw-ombrl", 4)
    assert (run.variant, run.label) == ("", "pendulum-sw-ombrl-s4")
    assert run.records == tuple(rows)
    assert run.config["model"] == model
    assert (run.planned_episodes, run.is_finished) == (3, False)
    assert replace(run, records=(record(1),) * 3).is_finished


def test_a_variant_is_part_of_the_method() -> None:
    run = run_of(variant="a=1", seed=2)
    assert (run.method, run.label) == ("sombrl a=1", "pendulum-sombrl-a=1-s2")


def test_a_study_is_every_run_in_it_sorted_by_method_and_seed(tmp_path: Path) -> None:
    for method, seed in [("sw", 10), ("sw", 2), ("keep", 1)]:
        write_run(tmp_path / f"{method}-s{seed}", method=method, seed=seed)
    (tmp_path / "study.toml").write_text("")
    (tmp_path / "report").mkdir()
    runs = records.load_runs(tmp_path)
    assert [(run.method, run.seed) for run in runs] == [
        ("keep", 1),
        ("sw", 2),
        ("sw", 10),
    ]
    assert runs[0].records == ()


def test_directories_without_runs_are_refused(tmp_path: Path) -> None:
    for directory in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(InputError):
            records.load_runs(directory)
    (tmp_path / "file").write_text("")
    for directory in (tmp_path / "file", tmp_path):
        with pytest.raises(InputError):
            records.load_runs(directory)


@pytest.mark.parametrize(
    "text",
    [
        "task = ",
        "a = " + "[" * 100_000,
        'task = "p"\nmethod = "m"\nseed = 0\n',
        'task = "p"\nmethod = "m"\nseed = true\nepisodes = 1\n',
    ],
)
def test_a_damaged_configuration_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(CorruptFile, match="config.toml"):
        records.load_runs(tmp_path)
