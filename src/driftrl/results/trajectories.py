"""What a run's machine went through in an episode, from the run's own files."""

import numpy as np
from jaxtyping import Float

from driftrl.results.records import Run


def observed(run: Run, episode: int) -> Float[np.ndarray, "T S"] | None:
    """Return the observations of an episode, its last state included.

    None where the file of the episode is not there, as in published records.
    """
    path = run.directory / "memory" / f"{episode:06d}.npz"
    if not path.is_file():
        return None
    with np.load(path, allow_pickle=False) as stored:
        return np.concatenate([stored["obs"], stored["next_obs"][-1:]])
