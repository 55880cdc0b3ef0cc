"""Columns: how much is copied, how much room is kept, what is given back."""

import numpy as np
import pytest

from driftrl.memory.episodes import Columns


def columns() -> Columns:
    return Columns({"x": np.zeros((0, 2), np.float32), "y": np.zeros(0, bool)})


def rows(first: int, end: int) -> dict[str, np.ndarray]:
    numbers = np.arange(first, end)
    return {"x": np.stack([numbers, -numbers], axis=1), "y": numbers % 2 == 0}


class Moves:
    """Counts the rows that were copied to new arrays."""

    def __init__(self, watched: Columns, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.rows = 0, 0
        move = watched._move

        def counted(needed: int) -> None:
            self.count += 1
            self.rows += watched.end - watched.first
            move(needed)

        monkeypatch.setattr(watched, "_move", counted)


def test_growing_copies_no_row_often(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    grown = columns()
    moves = Moves(grown, monkeypatch)
    for first in range(0, 100_000, 100):
        grown.append(rows(first, first + 100))
    # Room for 1024, then for twice what is needed: 2200, 4600, 9400, … rows.
    assert moves.count == 8 and moves.rows < 2 * 100_000
    np.testing.assert_array_equal(grown.rows(0, 100_000)["x"][:, 0], np.arange(100_000))
    assert grown.rows(5, 6)["x"].dtype == np.float32


def test_a_window_keeps_its_room(monkeypatch: pytest.MonkeyPatch) -> None:
    window = columns()
    moves = Moves(window, monkeypatch)
    for first in range(0, 100_000, 100):
        window.append(rows(first, first + 100))
        window.release(before=first - 1900)
        assert window.room <= 2 * 2100
        found = window.rows(window.first, window.end)
        np.testing.assert_array_equal(
            found["x"][:, 0], np.arange(window.first, window.end)
        )
    assert window.end - window.first == 2000
    # Once in about 2000 rows, 2000 rows are moved.
    assert moves.rows <= 1.1 * 100_000


def test_room_is_given_back() -> None:
    emptied = columns()
    emptied.append(rows(0, 50_000))
    newest = emptied.rows(49_990, 50_000)
    emptied.release(before=49_990)
    assert emptied.room <= 1024
    np.testing.assert_array_equal(emptied.rows(49_990, 50_000)["x"], newest["x"])
    assert not np.shares_memory(emptied.rows(49_990, 50_000)["x"], newest["x"])


def test_rows_that_were_never_here_are_counted() -> None:
    resumed = columns()
    resumed.skip(30)
    resumed.append(rows(30, 40))
    assert (resumed.first, resumed.end) == (30, 40)
    np.testing.assert_array_equal(resumed.rows(35, 40)["x"][:, 0], np.arange(35, 40))
