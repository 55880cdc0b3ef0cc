"""How runs do at the end: the mean of a number over their last episodes."""

from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float

from driftrl.results.curves import soon_after_reset
from driftrl.results.statistics import Estimate, estimate_mean
from driftrl.types import EpisodeRecord

LAST_EPISODES = 10
"""Episodes at the end over which policies are judged."""
AFTER_RESET = 2
"""Episodes after a reset that may be left out of that judgement."""


def late_mean(
    runs: Sequence[Sequence[EpisodeRecord]],
    values: Callable[[Sequence[EpisodeRecord]], Float[np.ndarray, " N"]],
    *,
    last: int = LAST_EPISODES,
    after_reset: int = 0,
) -> Estimate | None:
    """Return the mean over runs of a number an episode, over their last episodes.

    The ``after_reset`` episodes that follow a reset are left out, and a run with none
    left is left out with them; None if no run is left.
    """
    means = []
    for records in runs:
        numbers = values(records)
        counts = ~soon_after_reset(records, after_reset) & np.isfinite(numbers)
        kept = numbers[-last:][counts[-last:]]
        if len(kept):
            means.append(kept.mean())
    return estimate_mean(np.array(means)) if means else None
