"""What Slurm says: states, partitions, ids, and an outage."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.engines import slurm_queue
from driftrl.engines.slurm_queue import (
    Partition,
    Phase,
    Queue,
    array_spec,
    chosen_minutes,
    minutes_of,
    one_line,
    parse_partitions,
    parse_queue,
    phase_of,
)
from driftrl.errors import InputError


def test_the_queue_is_read_by_id_state_and_name() -> None:
    text = "7_0 RUNNING driftrl-a-1\n7_1 PENDING driftrl-a-1\n9 COMPLETING my own job\n"
    found = parse_queue(text)
    assert [found[job].state for job in ("7_0", "7_1", "9")] == [
        "RUNNING",
        "PENDING",
        "COMPLETING",
    ]
    assert found["9"].name == "my own job"
    assert parse_queue("") == {}


@pytest.mark.parametrize(
    ("state", "phase"),
    [
        ("PENDING", Phase.WAITING),
        ("RUNNING", Phase.RUNNING),
        ("COMPLETING", Phase.RUNNING),
        ("COMPLETED", Phase.ENDED),
        ("FAILED", Phase.ENDED),
        ("TIMEOUT", Phase.LOST),
        ("PREEMPTED", Phase.LOST),
        ("NODE_FAIL", Phase.LOST),
        ("OUT_OF_MEMORY", Phase.STOPPED),
        ("CANCELLED", Phase.STOPPED),
        ("", Phase.LOST),
        ("INVENTED_LATER", Phase.WAITING),
    ],
)
def test_what_states_mean(state: str, phase: Phase) -> None:
    assert phase_of(state) is phase


@given(days=st.integers(0, 9), hours=st.integers(0, 23), minutes=st.integers(0, 59))
def test_minutes_are_read_as_slurm_prints_them(
    days: int, hours: int, minutes: int
) -> None:
    printed = f"{minutes:02}:00"
    if hours or days:
        printed = f"{hours:02}:{printed}" if days else f"{hours}:{printed}"
    printed = f"{days}-{printed}" if days else printed
    assert minutes_of(printed) == (days * 24 + hours) * 60 + minutes


def test_partitions_and_their_limits() -> None:
    known = parse_partitions("short*|10:00|1:00:00\nlong|n/a|infinite\n")
    assert known == {
        "short": Partition(True, 10, 60),
        "long": Partition(False, None, None),
    }
    assert chosen_minutes(known, "", 0) == 10
    assert chosen_minutes(known, "long", 0) is None
    assert chosen_minutes(known, "long,short", 0) == 10
    assert chosen_minutes(known, "short", 45) == 45
    with pytest.raises(InputError, match="minutes is 61, but .*'short' allows 60 at"):
        chosen_minutes(known, "long,short", 61)
    with pytest.raises(InputError, match="partition 'shor'. Did you mean 'short'"):
        chosen_minutes(known, "shor", 0)
    known["short"] = replace(known["short"], is_default=False)
    with pytest.raises(InputError, match="no default partition.*--partition.*long"):
        chosen_minutes(known, "", 0)


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(0, 30)), unique=True))
def test_ids_written_together_are_the_same_ids(pairs: list[tuple[int, int]]) -> None:
    words = array_spec([f"{array}_{index}" for array, index in pairs]).split()
    found = []
    for word in words:
        array, _, spans = word.strip("'").rstrip("]").partition("_[")
        for span in spans.split(","):
            first, _, last = span.partition("-")
            found += [
                (int(array), i) for i in range(int(first), int(last or first) + 1)
            ]
    assert sorted(found) == sorted(pairs)
    assert len(words) == len({array for array, _ in pairs})


def test_ids_as_a_person_reads_them() -> None:
    assert array_spec(["7_0", "7_1", "7_2", "7_5", "9"]) == "'7_[0-2,5]' 9"


def test_complaints_become_a_sentence() -> None:
    said = "sbatch: error: No such account\nsbatch: error: Submission failed: why.\n"
    assert one_line(said) == "No such account; Submission failed: why."
    assert one_line("") == "it does not say why."


def test_a_queue_that_never_answered_is_refused_and_one_that_did_is_kept(
    slurm: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    slurm.answer("squeue", "echo 'squeue: error: down' >&2; exit 1")
    with pytest.raises(InputError, match="Slurm does not answer: down."):
        Queue().jobs()
    slurm.answer("squeue", "echo '7_0 RUNNING n'")
    queue = Queue()
    assert queue.state("7_0") == "RUNNING" and queue.state("8") == ""
    slurm.answer("squeue", "echo 'squeue: error: down' >&2; exit 1")
    assert [queue.state("7_0"), queue.state("7_0")] == ["RUNNING"] * 2
    assert capsys.readouterr().err.count("asking again: down.") == 1


def test_a_command_that_can_not_be_run(
    slurm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (slurm.place / "squeue").chmod(0o644)
    monkeypatch.setenv("PATH", str(slurm.place))
    with pytest.raises(InputError, match="squeue can't be run: Permission denied"):
        Queue().jobs()


def test_one_question_serves_all_jobs_for_a_while(
    slurm: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm_queue, "_ASK_SECONDS", 60.0)
    queue = Queue()
    for _ in range(100):
        queue.state("1")
    queue.add(["5_0", "5_1"], "n")
    assert queue.state("5_1") == "PENDING"
    assert len(slurm.calls("squeue")) == 1
