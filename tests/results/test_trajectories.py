"""Episodes read back from a run's files, and the one with the median return."""

import statistics
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from driftrl.errors import CorruptFile
from driftrl.memory.episodes import save_episode
from driftrl.records import Run
from driftrl.results.trajectories import Trajectory, median_trajectory, trajectories
from driftrl.types import Episode, EpisodeRecord


def make_run(directory: Path, seed: int, returns: list[float]) -> Run:
    rows = [
        EpisodeRecord(
            episode=n,
            theta=1.0,
            steps=2,
            return_executed=value,
            return_eval=-value,
            terminated=False,
            first_retained=1,
            transitions=0,
            optimism=1.0,
            model_error=None,
            coverage=None,
            epistemic_std=None,
            wall_s=0.5,
        )
        for n, value in enumerate(returns, start=1)
    ]
    return Run(directory / f"s{seed}", {"seed": seed}, tuple(rows))


def keep_episode(run: Run, number: int) -> None:
    states = np.arange(6.0).reshape(3, 2) + 100 * number + 10 * run.seed
    episode = Episode(states[:2], np.zeros((2, 1)), np.zeros(2), states[1:], False)
    save_episode(run.directory / "memory", number, episode)


def test_observations_have_the_last_state_and_the_return_of_the_episode(
    tmp_path: Path,
) -> None:
    runs = [make_run(tmp_path, seed, [3.0, 5.0 + seed]) for seed in (0, 4, 7)]
    for run in (runs[0], runs[2]):
        keep_episode(run, 2)
    first, second = trajectories(runs, 2)
    assert [first.seed, second.seed] == [0, 7]
    # The executed return, for that is the episode in the file.
    assert [first.total, second.total] == [5.0, 12.0]
    assert first.obs.tolist() == [[200, 201], [202, 203], [204, 205]]
    assert second.obs.tolist() == [[270, 271], [272, 273], [274, 275]]
    assert trajectories(runs, 1) == []


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 half of a file"])
def test_a_damaged_file_is_named(tmp_path: Path, content: bytes) -> None:
    run = make_run(tmp_path, 0, [3.0])
    keep_episode(run, 1)
    (run.directory / "memory" / "000001.npz").write_bytes(content)
    with pytest.raises(CorruptFile, match=r"000001.npz' of episode 1 is damaged"):
        trajectories([run], 1)


def with_return(seed: int, total: float) -> Trajectory:
    return Trajectory(seed, np.zeros((1, 2)), total)


@pytest.mark.parametrize(
    ("totals", "seed"),
    [([5.0], 0), ([5.0, 1.0, 3.0], 2), ([5.0, 1.0, 3.0, 4.0], 2), ([2.0, 2.0], 0)],
)
def test_the_median_is_the_lower_of_two(totals: list[float], seed: int) -> None:
    found = [with_return(place, total) for place, total in enumerate(totals)]
    assert median_trajectory(found).seed == seed


@given(st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=9), st.data())
def test_the_median_is_that_of_the_standard_library_in_any_order(
    totals: list[float], data: st.DataObject
) -> None:
    found = [with_return(place, total) for place, total in enumerate(totals)]
    chosen = median_trajectory(found)
    assert chosen.total == statistics.median_low(totals)
    assert median_trajectory(data.draw(st.permutations(found))) is chosen
