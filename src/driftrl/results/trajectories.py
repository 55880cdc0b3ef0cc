"""What a run's machine went through in an episode, from the run's own files."""

import io
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from driftrl.errors import CorruptFile
from driftrl.records import Run


@dataclass(frozen=True)
class Trajectory:
    """What was observed in one episode of a run, and what the episode returned."""

    seed: int
    obs: Float[np.ndarray, "T S"]
    """Every state, the last one included."""
    total: float
    """Return of this very episode, in which the policy may have explored."""


def trajectories(runs: list[Run], episode: int) -> list[Trajectory]:
    """Return the episode of each run whose file is there, in the order of the runs.

    Published records come without these files.

    Raises:
        CorruptFile: A file is there and cannot be read.
    """
    found = []
    for run in runs:
        states = _observed(run, episode)
        if states is not None:
            total = run.records[episode - 1].return_executed
            found.append(Trajectory(run.seed, states, total))
    return found


def median_trajectory(found: list[Trajectory]) -> Trajectory:
    """Return the one with the median return; of two in the middle, the lower."""
    ranked = sorted(found, key=lambda one: (one.total, one.seed))
    return ranked[(len(ranked) - 1) // 2]


def _observed(run: Run, episode: int) -> Float[np.ndarray, "T S"] | None:
    path = run.directory / "memory" / f"{episode:06d}.npz"
    if not path.is_file():
        return None
    try:
        # From bytes: NumPy would leave a damaged file open.
        with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as stored:
            return np.concatenate([stored["obs"], stored["next_obs"][-1:]])
    except Exception as error:
        # A damaged archive makes its readers stumble in many ways.
        raise CorruptFile(
            f"The file {str(path)!r} of episode {episode} is damaged "
            f"({type(error).__name__}). Restore it from a copy, or remove the "
            "directory to report on the records alone."
        ) from error
