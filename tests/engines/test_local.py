"""A worker that is started on this machine."""

import sys
from pathlib import Path

import pytest

from driftrl.engines.local import failure_of, start_worker

_MORE_THAN_A_PIPE_HOLDS = b"x" * 1_000_000


def test_a_worker_reads_all_that_it_is_told(tmp_path: Path) -> None:
    program = "import sys; print(len(sys.stdin.buffer.read()))"
    log = tmp_path / "log.txt"
    log.write_text("before\n")
    worker = start_worker([sys.executable, "-c", program], _MORE_THAN_A_PIPE_HOLDS, log)
    assert worker.wait(30) == 0
    assert log.read_text() == "before\n1000000\n"
    assert failure_of("a", 0, log) is None


@pytest.mark.parametrize("told", [b"", _MORE_THAN_A_PIPE_HOLDS])
def test_one_that_ends_before_it_is_told_is_a_failure_like_others(
    tmp_path: Path, told: bytes
) -> None:
    program = "import sys; print('no such thing', file=sys.stderr); sys.exit(3)"
    log = tmp_path / "log.txt"
    worker = start_worker([sys.executable, "-c", program], told, log)
    failure = failure_of("a", worker.wait(30), log)
    assert failure is not None
    assert (failure.name, failure.status) == ("a", 3)
    assert failure.reason == "no such thing"
