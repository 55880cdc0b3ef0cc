"""Rows survive the trip to disk, torn files are repaired, damage is named."""

import dataclasses
import json
import math
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl import records
from driftrl.errors import CorruptFile, InputError
from driftrl.records import (
    COLUMNS,
    RecordWriter,
    Run,
    encode_record,
    group_by_method,
    load_runs,
    read_records,
    truncate_records,
)
from driftrl.types import EpisodeRecord

finite = st.floats(allow_nan=False, allow_infinity=False)
optional = st.none() | finite


def row(episode: int, **changes: Any) -> EpisodeRecord:
    record = EpisodeRecord(
        episode=episode,
        theta=0.1 + 0.2,
        steps=40,
        return_executed=-123.456,
        return_eval=None,
        terminated=False,
        first_retained=1,
        transitions=40 * (episode - 1),
        optimism=1.0,
        model_error=1 / 3,
        coverage=0.95,
        epistemic_std=None,
        wall_s=1.5,
    )
    return dataclasses.replace(record, **changes)


def write(path: Path, rows: list[EpisodeRecord]) -> Path:
    with RecordWriter(path) as writer:
        for record in rows:
            writer.append(record)
    return path


def make_run(directory: Path, method: str = "sombrl", seed: int = 0) -> Path:
    directory.mkdir(parents=True)
    (directory / "config.toml").write_text(
        f'task = "pendulum"\nmethod = "{method}"\nseed = {seed}\nepisodes = 3\n'
        "[model]\nnoise_std = 0.01\n"
    )
    return directory


@given(
    theta=finite,
    executed=finite,
    evaluated=optional,
    error=optional,
    coverage=optional,
    terminated=st.booleans(),
)
def test_every_finite_record_reads_back_equal(
    tmp_path_factory: pytest.TempPathFactory,
    theta: float,
    executed: float,
    evaluated: float | None,
    error: float | None,
    coverage: float | None,
    terminated: bool,
) -> None:
    record = row(
        1,
        theta=theta,
        return_executed=executed,
        return_eval=evaluated,
        model_error=error,
        coverage=coverage,
        terminated=terminated,
    )
    path = write(tmp_path_factory.mktemp("run") / "episodes.jsonl", [record])
    assert read_records(path) == [record]


def test_a_row_is_one_line_with_every_column_in_order(tmp_path: Path) -> None:
    path = write(tmp_path / "episodes.jsonl", [row(1), row(2)])
    lines = path.read_text().splitlines()
    assert len(lines) == 2
    assert list(json.loads(lines[0])) == list(COLUMNS)
    assert '"theta": 0.30000000000000004' in lines[0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_json_cannot_say_is_written_as_null(tmp_path: Path, value: float) -> None:
    record = row(1, model_error=value, return_executed=value)
    assert json.loads(encode_record(record))["model_error"] is None
    read = read_records(write(tmp_path / "episodes.jsonl", [record]))[0]
    assert read.model_error is None
    assert math.isnan(read.return_executed)


def test_numpy_scalars_are_written_as_plain_numbers() -> None:
    text = encode_record(
        row(
            1,
            theta=np.float64(0.1),
            steps=int(np.int64(7)),
            terminated=bool(np.bool_(True)),
        )
    )
    decoded = json.loads(text)
    assert (decoded["theta"], decoded["steps"], decoded["terminated"]) == (0.1, 7, True)


def test_an_unterminated_last_line_is_dropped_by_the_reader(tmp_path: Path) -> None:
    path = write(tmp_path / "episodes.jsonl", [row(1), row(2)])
    whole = path.read_bytes()
    second = whole.index(b"\n") + 1
    for cut in range(second, len(whole)):
        path.write_bytes(whole[:cut])
        assert read_records(path) == [row(1)]


def test_a_writer_removes_the_torn_line_before_it_appends(tmp_path: Path) -> None:
    path = write(tmp_path / "episodes.jsonl", [row(1)])
    with path.open("ab") as file:
        file.write(encode_record(row(2)).encode()[:17])
    write(path, [row(2), row(3)])
    assert read_records(path) == [row(1), row(2), row(3)]


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

    with RecordWriter(path) as writer:
        writer.append(row(1))
        before = path.read_bytes()
        with monkeypatch.context() as patch:
            patch.setattr(records.os, "write", write_a_little)
            with pytest.raises(OSError, match="No space left"):
                writer.append(row(2))
        assert path.read_bytes() == before
        writer.append(row(2))
    assert read_records(path) == [row(1), row(2)]


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b"{oops", "is not strict JSON"),
        (b"\xff\xfe", "is not strict JSON"),
        (b"", "is not strict JSON"),
        (b"[1, 2]", "is not a row"),
        (b'{"episode": 2}', "has no column 'theta'"),
        (encode_record(row(2)).replace("-123.456", "NaN").encode(), "NaN is not"),
        (encode_record(row(2)).replace("-123.456", '"x"').encode(), "is no float"),
        (encode_record(row(2)).replace("40,", "40.5,").encode(), "is no int"),
        (encode_record(row(2)).replace("40,", "true,").encode(), "is no int"),
        (encode_record(row(2)).replace("false", "0").encode(), "is no bool"),
        (encode_record(row(2)).replace("0.95", "true").encode(), "is no float"),
        (encode_record(row(7)).encode(), "holds episode 7 where episode 2 belongs"),
    ],
)
def test_damage_is_reported_with_file_and_line(
    tmp_path: Path, damage: bytes, message: str
) -> None:
    path = tmp_path / "episodes.jsonl"
    lines = [encode_record(row(1)).encode(), damage, encode_record(row(3)).encode()]
    path.write_bytes(b"\n".join(lines) + b"\n")
    with pytest.raises(CorruptFile, match=message) as caught:
        read_records(path)
    assert f"Line 2 of {path}" in str(caught.value)


def test_records_of_other_versions_are_read(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    columns = json.loads(encode_record(row(1)))
    del columns["coverage"]
    path.write_text(json.dumps({**columns, "alpha": 0.2}) + "\n")
    assert read_records(path) == [row(1, coverage=None)]


DEEP = {
    "temperature": 0.2,
    "entropy": -1.5,
    "q": -80.0,
    "critic_loss": 2.5,
    "model_loss": 0.01,
    "bonus": 0.03,
}


def test_columns_of_deep_agents_are_written_and_read(tmp_path: Path) -> None:
    record = row(1, soft_reset=True, **DEEP)
    assert json.loads(encode_record(record))["soft_reset"] is True
    path = write(tmp_path / "episodes.jsonl", [record])
    assert read_records(path) == [record]


def test_a_record_from_before_deep_agents_has_their_defaults(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    columns = json.loads(encode_record(row(1, soft_reset=True, **DEEP)))
    old = {
        key: columns[key]
        for key in columns
        if key not in {*DEEP, "soft_reset", "predictive_loss"}
    }
    assert list(old)[-1] == "wall_s"
    path.write_text(json.dumps(old) + "\n")
    (record,) = read_records(path)
    assert record == row(1)
    assert record.soft_reset is False
    assert record.temperature is None


def test_a_default_does_not_excuse_what_is_there_and_wrong(tmp_path: Path) -> None:
    path = tmp_path / "episodes.jsonl"
    columns = json.loads(encode_record(row(1)))
    for value in (None, 0, "no"):
        path.write_text(json.dumps({**columns, "soft_reset": value}) + "\n")
        with pytest.raises(CorruptFile, match="'soft_reset' is .*, which is no bool"):
            read_records(path)


def test_a_missing_record_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"There is no record .*episodes\.jsonl"):
        read_records(tmp_path / "episodes.jsonl")


@given(total=st.integers(0, 6), data=st.data())
def test_truncation_keeps_the_first_rows_byte_for_byte(
    tmp_path_factory: pytest.TempPathFactory, total: int, data: st.DataObject
) -> None:
    kept = data.draw(st.integers(0, total))
    path = tmp_path_factory.mktemp("run") / "episodes.jsonl"
    write(path, [row(n) for n in range(1, total + 1)])
    lines = path.read_bytes().splitlines(keepends=True)
    with path.open("ab") as file:
        file.write(b'{"episode": 9')
    truncate_records(path, kept)
    assert path.read_bytes() == b"".join(lines[:kept])
    assert os.listdir(path.parent) == [path.name]


def test_truncation_does_not_touch_a_file_that_is_right(tmp_path: Path) -> None:
    path = write(tmp_path / "episodes.jsonl", [row(1), row(2)])
    before = path.stat().st_ino
    truncate_records(path, 2)
    assert path.stat().st_ino == before


def test_truncation_refuses_to_invent_rows(tmp_path: Path) -> None:
    path = write(tmp_path / "episodes.jsonl", [row(1)])
    with pytest.raises(CorruptFile, match="1 complete rows where 2 were expected"):
        truncate_records(path, 2)
    with pytest.raises(InputError, match="Cannot keep -1 rows"):
        truncate_records(path, -1)


def test_a_run_knows_what_it_is(tmp_path: Path) -> None:
    directory = make_run(tmp_path / "anything", "sw-ombrl", 4)
    write(directory / "episodes.jsonl", [row(1), row(2)])
    (run,) = load_runs(directory)
    assert (run.task, run.method, run.seed) == ("pendulum", "sw-ombrl", 4)
    assert run.variant == ""
    assert run.label == "pendulum-sw-ombrl-s4"
    assert run.records == (row(1), row(2))
    assert run.config["model"] == {"noise_std": 0.01}
    assert (run.planned_episodes, run.is_finished) == (3, False)
    assert dataclasses.replace(run, records=(row(1),) * 3).is_finished


def test_a_variant_is_part_of_the_method_unless_it_names_the_problem() -> None:
    config = {"task": "p", "method": "sombrl", "variant": "a=1", "seed": 2}
    run = Run(Path("run"), config, ())
    assert (run.method, run.label) == ("sombrl a=1", "p-sombrl-a=1-s2")
    named = dataclasses.replace(run, variant_is_problem=True)
    assert (named.method, named.label) == ("sombrl", "p-sombrl-a=1-s2")


def test_a_study_is_every_run_in_it_sorted_by_method_and_seed(tmp_path: Path) -> None:
    for method, seed in [("sw", 10), ("sw", 2), ("keep", 1)]:
        make_run(tmp_path / f"pendulum-{method}-s{seed}", method, seed)
    (tmp_path / "study.toml").write_text("")
    (tmp_path / "report").mkdir()
    runs = load_runs(tmp_path)
    assert [(run.method, run.seed) for run in runs] == [
        ("keep", 1),
        ("sw", 2),
        ("sw", 10),
    ]
    assert runs[0].records == ()
    assert {name: len(group) for name, group in group_by_method(runs).items()} == {
        "keep": 1,
        "sw": 2,
    }


def test_directories_without_runs_are_refused_with_a_reason(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="There is no directory"):
        load_runs(tmp_path / "nowhere")
    with pytest.raises(InputError, match="is empty"):
        load_runs(tmp_path)
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match="is a file, not a directory"):
        load_runs(tmp_path / "file")
    with pytest.raises(InputError, match="There are no runs in"):
        load_runs(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("task = ", "is not valid TOML"),
        ('task = "p"\nmethod = "m"\nseed = 0\n', "must have 'episodes' of type int"),
        (
            'task = "p"\nmethod = "m"\nseed = true\nepisodes = 1\n',
            "must have 'seed' of type int, found True",
        ),
    ],
)
def test_a_damaged_configuration_is_named(
    tmp_path: Path, text: str, message: str
) -> None:
    (tmp_path / "config.toml").write_text(text)
    with pytest.raises(CorruptFile, match=message):
        load_runs(tmp_path)


def test_two_runs_of_one_method_and_seed_are_refused() -> None:
    config = {"task": "pendulum", "method": "sombrl", "seed": 1, "episodes": 3}
    runs = [Run(Path(name), config, ()) for name in ("a", "b")]
    with pytest.raises(InputError, match="a and b are both sombrl with seed 1"):
        group_by_method(runs)
